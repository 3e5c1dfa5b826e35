//! The elements of vectors.

use bytes::Bytes;
use pyo3::PyClass;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView};
use vector_client as vc;
use vector_client::{Creation, TO_END};

use crate::attributes::{attribute_set, new_attributes};
use crate::target::{self, Descriptor, target, text};

/// What is done with bytes that were read.
pub enum Into {
    /// They are the result.
    Bytes,
    /// They are the result, with whether the file ends after them.
    BytesAndEnd,
    /// They are put into this buffer, and their number is the result.
    Buffer(Py<PyAny>),
}

impl Into {
    fn clone_ref(&self, py: Python<'_>) -> Into {
        match self {
            Into::Bytes => Into::Bytes,
            Into::BytesAndEnd => Into::BytesAndEnd,
            Into::Buffer(buffer) => Into::Buffer(buffer.clone_ref(py)),
        }
    }
}

/// One element of a vector; each of its subclasses is a kind.
#[pyclass(frozen, subclass, module = "kurma")]
pub struct Step {
    step: vc::Step,
    into: Into,
}

#[pymethods]
impl Step {
    /// What it is mainly about.
    #[getter]
    fn target(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        target::shown(py, &self.step.target())
    }

    /// Whether nothing is another for it.
    #[getter]
    fn only_reads(&self) -> bool {
        self.step.only_reads()
    }

    fn __repr__(&self) -> String {
        match &self.step {
            vc::Step::Write(write) => format!("<Write of {} bytes to {}>", write.data.len(), write.target),
            step => format!("<{step:?}>"),
        }
    }
}

/// The steps in a list, for a client whose relative paths begin at `base`, and what is done with what they read.
pub fn steps(list: &Bound<'_, PyAny>, base: &[u8]) -> PyResult<(Vec<vc::Step>, Vec<Into>)> {
    let (mut steps, mut into) = (Vec::new(), Vec::new());
    for item in list.try_iter()? {
        let item = item?;
        let step = item.cast::<Step>()?.get();
        let mut own = step.step.clone();
        rooted(&mut own, base);
        steps.push(own);
        into.push(step.into.clone_ref(item.py()));
    }
    Ok((steps, into))
}

/// The copies in a list of [`Copy`].
pub fn copies(list: &Bound<'_, PyAny>, base: &[u8], base_there: &[u8]) -> PyResult<Vec<vc::Copy>> {
    let mut copies = Vec::new();
    for item in list.try_iter()? {
        let item = item?;
        let vc::Step::Copy(mut copy) = item.cast::<Copy>()?.as_super().get().step.clone() else {
            return Err(PyTypeError::new_err("a Copy is wanted"));
        };
        target::from(base, &mut copy.source);
        target::from(base_there, &mut copy.destination);
        copies.push(copy);
    }
    Ok(copies)
}

/// Lets relative paths begin at `base`.
fn rooted(step: &mut vc::Step, base: &[u8]) {
    use vc::Step;
    match step {
        Step::Open(vc::Open { target, .. })
        | Step::Read(vc::Read { target, .. })
        | Step::Write(vc::Write { target, .. })
        | Step::GetAttributes { target, .. }
        | Step::SetAttributes { target, .. }
        | Step::MakeDirectory { target, .. }
        | Step::MakeSymbolicLink { target, .. }
        | Step::ReadLink(target)
        | Step::Remove(target) => target::from(base, target),
        Step::Copy(copy) => {
            target::from(base, &mut copy.source);
            target::from(base, &mut copy.destination);
        }
        Step::HardLink { existing: one, new: other } | Step::Rename { from: one, to: other } => {
            target::from(base, one);
            target::from(base, other);
        }
        _ => {}
    }
}

/// The content of a buffer: that of `bytes` itself, which nobody can change, and a copy of any other.
pub fn data(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let bytes = match object.cast::<PyBytes>() {
        Ok(bytes) => bytes.clone(),
        Err(_) => PyMemoryView::from(object)?.call_method0("tobytes")?.cast_into::<PyBytes>()?,
    };
    Ok(Bytes::from_owner(PyBackedBytes::from(bytes)))
}

fn creation(create: Option<u32>, exclusive: bool) -> PyResult<Option<Creation>> {
    match create {
        Some(mode) => Ok(Some(Creation { mode, exclusive })),
        None if exclusive => {
            Err(PyValueError::new_err("only what is created can be exclusive: give create a mode"))
        }
        None => Ok(None),
    }
}

fn new<T: PyClass<BaseType = Step>>(kind: T, step: vc::Step) -> PyClassInitializer<T> {
    PyClassInitializer::from(Step { step, into: Into::Bytes }).add_subclass(kind)
}

/// Opens a file; its descriptor is the result.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct Open;

#[pymethods]
impl Open {
    #[new]
    #[pyo3(signature = (target, *, read=true, write=false, create=None, exclusive=false, truncate=false, follow=true))]
    fn new(
        target: &Bound<'_, PyAny>,
        read: bool,
        write: bool,
        create: Option<u32>,
        exclusive: bool,
        truncate: bool,
        follow: bool,
    ) -> PyResult<PyClassInitializer<Open>> {
        let (target, create) = (self::target(target)?, creation(create, exclusive)?);
        Ok(new(Open, vc::Step::Open(vc::Open { target, read, write, create, truncate, follow })))
    }
}

/// Closes a file.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct Close;

#[pymethods]
impl Close {
    #[new]
    fn new(descriptor: &Bound<'_, Descriptor>) -> PyClassInitializer<Close> {
        new(Close, vc::Step::Close(descriptor.get().0))
    }
}

/// Makes safe what was written through a descriptor.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct Commit;

#[pymethods]
impl Commit {
    #[new]
    fn new(descriptor: &Bound<'_, Descriptor>) -> PyClassInitializer<Commit> {
        new(Commit, vc::Step::Commit(descriptor.get().0))
    }
}

/// Reads an extent.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct Read;

#[pymethods]
impl Read {
    #[new]
    #[pyo3(signature = (target, offset=0, length=None, *, follow=true, into=None, with_end=false))]
    fn new(
        target: &Bound<'_, PyAny>,
        offset: u64,
        length: Option<u64>,
        follow: bool,
        into: Option<Bound<'_, PyAny>>,
        with_end: bool,
    ) -> PyResult<PyClassInitializer<Read>> {
        let target = self::target(target)?;
        let mut length = length.unwrap_or(TO_END);
        let into = match into {
            Some(_) if with_end => return Err(PyValueError::new_err("into and with_end exclude each other")),
            Some(buffer) => {
                let view = PyMemoryView::from(&buffer)?;
                if view.getattr("readonly")?.extract()? {
                    return Err(PyTypeError::new_err("into cannot be written to"));
                }
                length = length.min(view.getattr("nbytes")?.extract()?);
                Into::Buffer(buffer.unbind())
            }
            None if with_end => Into::BytesAndEnd,
            None => Into::Bytes,
        };
        let step = vc::Step::Read(vc::Read { target, offset, length, follow });
        Ok(PyClassInitializer::from(Step { step, into }).add_subclass(Read))
    }
}

/// Writes an extent; how many bytes is the result.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct Write;

#[pymethods]
impl Write {
    #[new]
    #[pyo3(signature = (target, data, offset=0, *, create=None, exclusive=false, truncate=false, stable=false, follow=true))]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    fn new(
        target: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        create: Option<u32>,
        exclusive: bool,
        truncate: bool,
        stable: bool,
        follow: bool,
    ) -> PyResult<PyClassInitializer<Write>> {
        let (target, data, create) = (self::target(target)?, self::data(data)?, creation(create, exclusive)?);
        let write = vc::Write { target, offset, data, create, truncate, stable, follow };
        Ok(new(Write, vc::Step::Write(write)))
    }
}

/// Copies an extent within the server; how many bytes is the result.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct Copy;

#[pymethods]
impl Copy {
    #[new]
    #[pyo3(signature = (
        source, destination, *, source_offset=0, destination_offset=0, length=None,
        create=Some(0o644), exclusive=false, truncate=true
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    fn new(
        source: &Bound<'_, PyAny>,
        destination: &Bound<'_, PyAny>,
        source_offset: u64,
        destination_offset: u64,
        length: Option<u64>,
        create: Option<u32>,
        exclusive: bool,
        truncate: bool,
    ) -> PyResult<PyClassInitializer<Copy>> {
        let copy = vc::Copy {
            source: target(source)?,
            source_offset,
            destination: target(destination)?,
            destination_offset,
            length: length.unwrap_or(TO_END),
            create: creation(create, exclusive)?,
            truncate,
        };
        Ok(new(Copy, vc::Step::Copy(copy)))
    }
}

/// Asks for attributes.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct GetAttributes;

#[pymethods]
impl GetAttributes {
    #[new]
    #[pyo3(signature = (target, wanted=(1 << 13) - 1, *, follow=true))]
    fn new(
        target: &Bound<'_, PyAny>,
        wanted: u32,
        follow: bool,
    ) -> PyResult<PyClassInitializer<GetAttributes>> {
        let (target, wanted) = (self::target(target)?, attribute_set(wanted));
        Ok(new(GetAttributes, vc::Step::GetAttributes { target, wanted, follow }))
    }
}

/// Sets attributes, those that are given.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct SetAttributes;

#[pymethods]
impl SetAttributes {
    #[new]
    #[pyo3(signature = (
        target, *, mode=None, owner=None, group=None, size=None, accessed_ns=None, modified_ns=None, follow=true
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    fn new(
        target: &Bound<'_, PyAny>,
        mode: Option<u32>,
        owner: Option<&Bound<'_, PyAny>>,
        group: Option<&Bound<'_, PyAny>>,
        size: Option<u64>,
        accessed_ns: Option<&Bound<'_, PyAny>>,
        modified_ns: Option<&Bound<'_, PyAny>>,
        follow: bool,
    ) -> PyResult<PyClassInitializer<SetAttributes>> {
        let attributes = new_attributes(mode, [owner, group], size, [accessed_ns, modified_ns])?;
        let target = self::target(target)?;
        Ok(new(SetAttributes, vc::Step::SetAttributes { target, attributes, follow }))
    }
}

/// Makes a directory.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct MakeDirectory;

#[pymethods]
impl MakeDirectory {
    #[new]
    #[pyo3(signature = (target, mode=0o755))]
    fn new(target: &Bound<'_, PyAny>, mode: u32) -> PyResult<PyClassInitializer<MakeDirectory>> {
        Ok(new(MakeDirectory, vc::Step::MakeDirectory { target: self::target(target)?, mode }))
    }
}

/// Makes a symbolic link.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct MakeSymbolicLink;

#[pymethods]
impl MakeSymbolicLink {
    #[new]
    fn new(
        target: &Bound<'_, PyAny>,
        text: &Bound<'_, PyAny>,
    ) -> PyResult<PyClassInitializer<MakeSymbolicLink>> {
        let (target, text) = (self::target(target)?, self::text(text)?);
        Ok(new(MakeSymbolicLink, vc::Step::MakeSymbolicLink { target, text }))
    }
}

/// Asks where a symbolic link leads.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct ReadLink;

#[pymethods]
impl ReadLink {
    #[new]
    fn new(target: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<ReadLink>> {
        Ok(new(ReadLink, vc::Step::ReadLink(self::target(target)?)))
    }
}

/// Gives a file a further name.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct HardLink;

#[pymethods]
impl HardLink {
    #[new]
    fn new(existing: &Bound<'_, PyAny>, new: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<HardLink>> {
        let (existing, new) = (target(existing)?, target(new)?);
        Ok(self::new(HardLink, vc::Step::HardLink { existing, new }))
    }
}

/// Removes a file or an empty directory.
#[pyclass(frozen, extends = Step, module = "kurma")]
pub struct Remove;

#[pymethods]
impl Remove {
    #[new]
    fn new(target: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Remove>> {
        Ok(new(Remove, vc::Step::Remove(self::target(target)?)))
    }
}

/// Gives an object another name.
#[pyclass(frozen, extends = Step, module = "kurma", name = "Rename")]
pub struct Rename;

#[pymethods]
impl Rename {
    #[new]
    #[pyo3(signature = (source, destination))]
    fn new(
        source: &Bound<'_, PyAny>,
        destination: &Bound<'_, PyAny>,
    ) -> PyResult<PyClassInitializer<Rename>> {
        let (from, to) = (target(source)?, target(destination)?);
        Ok(self::new(Rename, vc::Step::Rename { from, to }))
    }
}
