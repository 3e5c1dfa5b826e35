//! Which file: what Python passes for it, and what it gets.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use nfs4::FileHandle;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use vector_client::Base;

/// An open file of one client, until it is closed.
#[pyclass(frozen, eq, ord, hash, module = "kurma")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Descriptor(pub vector_client::Descriptor);

#[pymethods]
impl Descriptor {
    /// A number that no other open file of the client has.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number()
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.0)
    }
}

/// A server's name for a file, whatever its path is.
#[pyclass(frozen, eq, hash, module = "kurma")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Handle(pub FileHandle);

#[pymethods]
impl Handle {
    /// The one that has these bytes.
    #[new]
    fn new(bytes: &[u8]) -> PyResult<Handle> {
        let handle = FileHandle::new(bytes.to_vec());
        handle.map(Handle).map_err(|_| PyValueError::new_err("a filehandle has 128 bytes at most"))
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.as_bytes())
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A path from an open directory or a handle.
#[pyclass(frozen, eq, hash, module = "kurma")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Target(pub vector_client::Target);

#[pymethods]
impl Target {
    /// This path from there; empty for the very thing.
    #[new]
    #[pyo3(signature = (base, path=None))]
    fn new(base: &Bound<'_, PyAny>, path: Option<&Bound<'_, PyAny>>) -> PyResult<Target> {
        let path = path.map(text).transpose()?.unwrap_or_default();
        let base = match base.cast::<Descriptor>() {
            Ok(descriptor) => Base::Descriptor(descriptor.get().0),
            Err(_) => Base::Handle(base.cast::<Handle>()?.get().0.clone()),
        };
        Ok(Target(vector_client::Target::at(base, path)))
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.0)
    }
}

/// What a call is told: a path (`str`, `bytes`, `os.PathLike`), a [`Descriptor`], a [`Handle`] or a [`Target`].
pub fn target(object: &Bound<'_, PyAny>) -> PyResult<vector_client::Target> {
    if let Ok(descriptor) = object.cast::<Descriptor>() {
        return Ok(descriptor.get().0.into());
    }
    if let Ok(target) = object.cast::<Target>() {
        return Ok(target.get().0.clone());
    }
    if let Ok(handle) = object.cast::<Handle>() {
        return Ok(vector_client::Target::at(handle.get().0.clone(), Bytes::new()));
    }
    Ok(text(object)?.into())
}

/// All of these.
pub fn targets(objects: &Bound<'_, PyAny>) -> PyResult<Vec<vector_client::Target>> {
    objects.try_iter()?.map(|object| target(&object?)).collect()
}

/// What goes there: a relative path begins at `base`, which is where the URL of a client leads.
pub fn from(base: &[u8], target: &mut vector_client::Target) {
    if !base.is_empty() && *target.base() == Base::Root && target.path().first() != Some(&b'/') {
        *target = vector_client::Target::from(base).join(target.path());
    }
}

/// Bytes of a path, or of what a symbolic link says.
pub fn text(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Bytes::copy_from_slice(bytes.as_bytes()));
    }
    if let Ok(string) = object.cast::<PyString>() {
        // What the file system's encoding made of other bytes becomes those again.
        let text = string.extract::<std::ffi::OsString>()?;
        return Ok(text.into_encoded_bytes().into());
    }
    let path = object.py().import("os")?.getattr("fspath")?.call1((object,))?;
    text(&path)
}

/// A path, or the object itself if it is something else.
pub fn shown(py: Python<'_>, target: &vector_client::Target) -> PyResult<Py<PyAny>> {
    match target.base() {
        Base::Root => name(py, target.path()),
        _ => Ok(Py::new(py, Target(target.clone()))?.into_any()),
    }
}

/// As `os.fsdecode`.
pub fn name(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    Ok(OsStr::from_bytes(bytes).into_pyobject(py)?.into_any().unbind())
}
