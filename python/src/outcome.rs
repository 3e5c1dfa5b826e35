//! What comes of steps, as Python has it.

use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};
use vector_client::{Data, Done, Error, Failure, VectorResult};

use crate::attributes::Attributes;
use crate::error::Told;
use crate::step::Into;
use crate::target::{self, Descriptor};

/// Results of all steps as a list; `into` has the buffers that reads fill.
pub fn vector(py: Python<'_>, result: VectorResult<Done>, into: Vec<Into>) -> PyResult<Py<PyAny>> {
    match result {
        Ok(done) => all(py, done, into)?.into_py_any(py),
        Err(Failure { done, error, unknown }) => {
            let index = done.len();
            let results = all(py, done, into)?;
            Err(Told::new(&error, Some(index), unknown).raised(py, results))
        }
    }
}

/// The result of each step, or why it failed.
pub fn each(py: Python<'_>, results: Vec<Result<Done, Error>>, into: Vec<Into>) -> PyResult<Py<PyAny>> {
    let one = |(index, (result, into))| match result {
        Ok(done) => value(py, done, into),
        Err(error) => Told::new(&error, Some(index), 0).exception(py, Vec::new()),
    };
    let list: PyResult<Vec<_>> = results.into_iter().zip(into).enumerate().map(one).collect();
    list?.into_py_any(py)
}

/// Results of these steps.
pub fn all(py: Python<'_>, done: Vec<Done>, into: Vec<Into>) -> PyResult<Vec<Py<PyAny>>> {
    done.into_iter().zip(into).map(|(done, into)| value(py, done, into)).collect()
}

fn value(py: Python<'_>, done: Done, into: Into) -> PyResult<Py<PyAny>> {
    match done {
        Done::Opened(descriptor) => Descriptor(descriptor).into_py_any(py),
        Done::Read(data) => read(py, data, into),
        Done::Written(bytes) | Done::Copied(bytes) => bytes.into_py_any(py),
        Done::Attributes(attributes) => Attributes(*attributes).into_py_any(py),
        Done::Link(text) => target::name(py, &text),
        _ => Ok(py.None()),
    }
}

fn read(py: Python<'_>, data: Data, into: Into) -> PyResult<Py<PyAny>> {
    match into {
        Into::Bytes => content(py, data)?.into_py_any(py),
        Into::BytesAndEnd => {
            let end = data.end_of_file;
            (content(py, data)?, end).into_py_any(py)
        }
        Into::Buffer(buffer) => fill(py, &data.pieces, buffer.bind(py))?.into_py_any(py),
    }
}

/// In one piece.
pub fn content(py: Python<'_>, data: Data) -> PyResult<Bound<'_, PyBytes>> {
    if let [piece] = &data.pieces[..] {
        return Ok(PyBytes::new(py, piece));
    }
    let length = data.pieces.iter().map(Bytes::len).sum();
    PyBytes::new_with(py, length, |mut rest| {
        for piece in &data.pieces {
            let (here, after) = std::mem::take(&mut rest).split_at_mut(piece.len());
            here.copy_from_slice(piece);
            rest = after;
        }
        Ok(())
    })
}

/// How many bytes were put into the buffer.
fn fill(py: Python<'_>, pieces: &[Bytes], buffer: &Bound<'_, PyAny>) -> PyResult<u64> {
    let view = PyMemoryView::from(buffer)?.call_method1("cast", ("B",))?;
    let mut filled = 0;
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        let (start, end) = (filled as isize, (filled + piece.len()) as isize);
        let part = view.get_item(PySlice::new(py, start, end, 1))?;
        PyBuffer::<u8>::get(&part)?.copy_from_slice(py, piece)?;
        filled += piece.len();
    }
    Ok(filled as u64)
}
