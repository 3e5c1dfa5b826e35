//! Attributes of files.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use vector_client::{AttributeSet, NewAttributes, Owner, SetTime, Time};

use crate::target::Handle;

const NANOSECONDS: i128 = 1_000_000_000;

/// What kind of object.
#[pyclass(frozen, eq, hash, rename_all = "SCREAMING_SNAKE_CASE", module = "kurma")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    SymbolicLink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl From<vector_client::Kind> for Kind {
    fn from(kind: vector_client::Kind) -> Kind {
        match kind {
            vector_client::Kind::File => Kind::File,
            vector_client::Kind::Directory => Kind::Directory,
            vector_client::Kind::SymbolicLink => Kind::SymbolicLink,
            vector_client::Kind::BlockDevice => Kind::BlockDevice,
            vector_client::Kind::CharacterDevice => Kind::CharacterDevice,
            vector_client::Kind::Fifo => Kind::Fifo,
            vector_client::Kind::Socket => Kind::Socket,
        }
    }
}

/// Attributes of an object; `None` where they were not asked for, or cannot be had. Times are nanoseconds since 1970.
#[pyclass(frozen, eq, module = "kurma")]
#[derive(PartialEq)]
pub struct Attributes(pub vector_client::Attributes);

#[pymethods]
impl Attributes {
    #[getter]
    fn kind(&self) -> Option<Kind> {
        self.0.kind.map(Kind::from)
    }

    #[getter]
    fn mode(&self) -> Option<u32> {
        self.0.mode
    }

    #[getter]
    fn owner(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.0.owner.as_ref().map(|owner| person(py, owner)).transpose()
    }

    #[getter]
    fn group(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.0.group.as_ref().map(|group| person(py, group)).transpose()
    }

    #[getter]
    fn size(&self) -> Option<u64> {
        self.0.size
    }

    #[getter]
    fn space_used(&self) -> Option<u64> {
        self.0.space_used
    }

    #[getter]
    fn links(&self) -> Option<u32> {
        self.0.links
    }

    #[getter]
    fn file_id(&self) -> Option<u64> {
        self.0.file_id
    }

    #[getter]
    fn file_system(&self) -> Option<(u64, u64)> {
        self.0.file_system
    }

    #[getter]
    fn device(&self) -> Option<(u32, u32)> {
        self.0.device
    }

    #[getter]
    fn accessed_ns(&self) -> Option<i128> {
        self.0.accessed.map(nanoseconds)
    }

    #[getter]
    fn modified_ns(&self) -> Option<i128> {
        self.0.modified.map(nanoseconds)
    }

    #[getter]
    fn changed_ns(&self) -> Option<i128> {
        self.0.changed.map(nanoseconds)
    }

    #[getter]
    fn change(&self) -> Option<u64> {
        self.0.change
    }

    #[getter]
    fn handle(&self) -> Option<Handle> {
        self.0.handle.clone().map(Handle)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

fn nanoseconds(time: Time) -> i128 {
    i128::from(time.seconds) * NANOSECONDS + i128::from(time.nanoseconds)
}

fn person(py: Python<'_>, owner: &Owner) -> PyResult<Py<PyAny>> {
    Ok(match owner {
        Owner::Id(id) => id.into_pyobject(py)?.into_any().unbind(),
        Owner::Name(name) => name.into_pyobject(py)?.into_any().unbind(),
    })
}

/// A number, or `name@domain`.
fn owner(object: &Bound<'_, PyAny>) -> PyResult<Owner> {
    match object.cast::<PyInt>() {
        Ok(_) => Ok(Owner::Id(object.extract()?)),
        Err(_) => Ok(Owner::Name(object.extract()?)),
    }
}

/// Nanoseconds since 1970, or `"now"`.
fn time(object: &Bound<'_, PyAny>) -> PyResult<SetTime> {
    if let Ok(text) = object.cast::<PyString>() {
        return match text.to_str()? {
            "now" => Ok(SetTime::Now),
            _ => Err(PyValueError::new_err("a time is a number of nanoseconds since 1970, or \"now\"")),
        };
    }
    let all =
        object.cast::<PyInt>().map_err(|_| PyTypeError::new_err("a time is a number of nanoseconds"))?;
    let all: i128 = all.extract()?;
    let seconds = i64::try_from(all.div_euclid(NANOSECONDS))
        .map_err(|_| PyValueError::new_err("a time further away than there are numbers for"))?;
    Ok(SetTime::To(Time { seconds, nanoseconds: all.rem_euclid(NANOSECONDS) as u32 }))
}

/// Attributes to set.
pub fn new_attributes(
    mode: Option<u32>,
    owner_and_group: [Option<&Bound<'_, PyAny>>; 2],
    size: Option<u64>,
    times: [Option<&Bound<'_, PyAny>>; 2],
) -> PyResult<NewAttributes> {
    let [new_owner, group] = owner_and_group.map(|object| object.map(owner).transpose());
    let [accessed, modified] = times.map(|object| object.map(time).transpose());
    let (owner, group, accessed, modified) = (new_owner?, group?, accessed?, modified?);
    Ok(NewAttributes { mode, owner, group, size, accessed, modified })
}

/// A choice of attributes, as the numbers of `kurma.AttributeSet` have it.
pub fn attribute_set(bits: u32) -> AttributeSet {
    const ALL: [AttributeSet; 15] = [
        AttributeSet::KIND,
        AttributeSet::MODE,
        AttributeSet::OWNER,
        AttributeSet::GROUP,
        AttributeSet::SIZE,
        AttributeSet::SPACE_USED,
        AttributeSet::LINKS,
        AttributeSet::FILE_ID,
        AttributeSet::FILE_SYSTEM,
        AttributeSet::DEVICE,
        AttributeSet::ACCESSED,
        AttributeSet::MODIFIED,
        AttributeSet::CHANGED,
        AttributeSet::CHANGE,
        AttributeSet::HANDLE,
    ];
    let chosen = ALL.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
    chosen.fold(AttributeSet::NONE, |all, (_, one)| all.with(*one))
}
