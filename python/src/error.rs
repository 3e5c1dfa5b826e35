//! Errors, as Python has them.

use pyo3::prelude::*;
use vector_client::{Aborted, Error, Failure, Target};

use crate::target;

/// What an error is about.
fn subject(error: &Error) -> Option<&Target> {
    match error {
        Error::Refused { target, .. }
        | Error::Local { target, .. }
        | Error::TooManyLinks(target)
        | Error::Invalid { target, .. }
        | Error::DataLost(target) => Some(target),
        _ => None,
    }
}

/// What more there is to say than its number.
#[derive(Default)]
pub struct Place {
    /// The element that failed; `None` if the whole was refused.
    pub index: Option<usize>,
    /// How many elements from it on may have been done, nobody knows.
    pub unknown: usize,
}

/// An exception, which is not raised yet. `results` are those of the elements before.
pub fn exception(
    py: Python<'_>,
    error: &Error,
    results: Vec<Py<PyAny>>,
    place: &Place,
) -> PyResult<Py<PyAny>> {
    let target = subject(error);
    let text = error.to_string();
    let prefix = target.map(|target| format!("{target}: "));
    let message = prefix.and_then(|prefix| text.strip_prefix(&prefix)).unwrap_or(&text);
    let message = message.split(" (os error").next().unwrap_or_default().to_owned();
    let path = target.map(|target| target::shown(py, target)).transpose()?;
    build(py, (error.errno(), message, path, place.index, results, place.unknown))
}

/// An exception that the vector client has no word for.
pub fn told(py: Python<'_>, errno: i32, what: &str, target: &Target, index: usize) -> PyResult<Py<PyAny>> {
    let path = target::shown(py, target)?;
    build(py, (errno, what.to_owned(), Some(path), Some(index), Vec::new(), 0))
}

type Parts = (i32, String, Option<Py<PyAny>>, Option<usize>, Vec<Py<PyAny>>, usize);

fn build(py: Python<'_>, parts: Parts) -> PyResult<Py<PyAny>> {
    Ok(py.import("kurma._errors")?.getattr("make")?.call1(parts)?.unbind())
}

/// What is raised for this.
pub fn raised(py: Python<'_>, exception: PyResult<Py<PyAny>>) -> PyErr {
    exception.map_or_else(|error| error, |exception| PyErr::from_value(exception.into_bound(py)))
}

/// Of a call that is no vector. If there was no answer, nobody knows what was done.
pub fn single(py: Python<'_>, error: &Error) -> PyErr {
    let unknown = usize::from(matches!(error, Error::Connection(_)));
    raised(py, exception(py, error, Vec::new(), &Place { index: None, unknown }))
}

/// Of a vector, of which these were done.
pub fn failure<T>(py: Python<'_>, failure: &Failure<T>, results: Vec<Py<PyAny>>) -> PyErr {
    let place = Place { index: Some(failure.index()), unknown: failure.unknown };
    raised(py, exception(py, &failure.error, results, &place))
}

/// Of a transaction.
pub fn aborted(py: Python<'_>, aborted: &Aborted) -> PyErr {
    let place = Place { index: aborted.step, unknown: usize::from(aborted.unknown) };
    raised(py, exception(py, &aborted.error, Vec::new(), &place))
}
