//! Errors, as Python has them.

use pyo3::prelude::*;
use vector_client::{Aborted, CopyAct, CopyItem, Error, Failure, Target};

use crate::target;

/// All that an exception says but what was done before; made without the interpreter.
pub struct Told {
    errno: i32,
    message: String,
    target: Option<Target>,
    /// The element that failed; `None` if the whole was refused.
    index: Option<usize>,
    /// How many elements from it on may have been done, nobody knows.
    unknown: usize,
}

impl Told {
    /// Of this element.
    pub fn new(error: &Error, index: Option<usize>, unknown: usize) -> Told {
        let target = match error {
            Error::Refused { target, .. }
            | Error::Local { target, .. }
            | Error::TooManyLinks(target)
            | Error::Invalid { target, .. }
            | Error::DataLost(target) => Some(target.clone()),
            _ => None,
        };
        let text = error.to_string();
        let prefix = target.as_ref().map(|target| format!("{target}: "));
        let message = prefix.and_then(|prefix| text.strip_prefix(&prefix)).unwrap_or(&text);
        let message = message.split(" (os error").next().unwrap_or_default().to_owned();
        Told { errno: error.errno(), message, target, index, unknown }
    }

    /// Of an object that was not copied.
    pub fn of_copy(item: &CopyItem, act: &CopyAct, error: Option<&Error>) -> Told {
        if let Some(error) = error {
            return Told::new(error, Some(item.argument), 0);
        }
        let (errno, what, target) = match act {
            CopyAct::OmitDirectory => (21, "a directory, and recursive is not wanted", &item.source),
            CopyAct::SameFile => (22, "the copy would be the same file", &item.destination),
            CopyAct::IntoItself => (22, "a directory cannot be copied into itself", &item.destination),
            CopyAct::Cycle => (40, "a link to a directory that it is in", &item.source),
            CopyAct::OverDirectory => {
                (21, "a directory is not replaced by something else", &item.destination)
            }
            CopyAct::OverFile => (20, "not a directory, and not replaced by one", &item.destination),
            CopyAct::MakeSpecial => (95, "neither a file nor a directory nor a link", &item.source),
            _ => (5, "not copied", &item.source),
        };
        let (message, target) = (what.to_owned(), Some(target.clone()));
        Told { errno, message, target, index: Some(item.argument), unknown: 0 }
    }

    /// The exception, not raised yet; `results` are those of the elements before.
    pub fn exception(self, py: Python<'_>, results: Vec<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let path = self.target.map(|target| target::shown(py, &target)).transpose()?;
        let parts = (self.errno, self.message, path, self.index, results, self.unknown);
        Ok(py.import("kurma._errors")?.getattr("make")?.call1(parts)?.unbind())
    }

    /// The same, raised.
    pub fn raised(self, py: Python<'_>, results: Vec<Py<PyAny>>) -> PyErr {
        let exception = self.exception(py, results);
        exception.map_or_else(|error| error, |exception| PyErr::from_value(exception.into_bound(py)))
    }
}

/// Of a call that is no vector. If there was no answer, nobody knows what was done.
pub fn single(py: Python<'_>, error: &Error) -> PyErr {
    let unknown = usize::from(error.is_unknown());
    Told::new(error, None, unknown).raised(py, Vec::new())
}

/// Of a vector, of which these were done.
pub fn failure<T>(py: Python<'_>, failure: &Failure<T>, results: Vec<Py<PyAny>>) -> PyErr {
    Told::new(&failure.error, Some(failure.index()), failure.unknown).raised(py, results)
}

/// Of a transaction.
pub fn aborted(py: Python<'_>, aborted: &Aborted) -> PyErr {
    Told::new(&aborted.error, aborted.step, usize::from(aborted.unknown)).raised(py, Vec::new())
}
