//! Directories, page by page.

use std::sync::Arc;

use bytes::Bytes;
use futures::lock::Mutex;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use tokio::sync::mpsc::{Receiver, channel};
use vector_client::{AttributeSet, Client, Found};

use crate::attributes::Attributes;
use crate::engine::Engine;
use crate::error::Told;
use crate::pending::{Finish, Pending};
use crate::target;

/// One name in a directory.
#[pyclass(frozen, module = "kurma")]
pub struct Entry {
    directory: Arc<vector_client::Target>,
    name: Bytes,
    attributes: Py<Attributes>,
}

#[pymethods]
impl Entry {
    /// The directory it is in.
    #[getter]
    fn directory(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        target::shown(py, &self.directory)
    }

    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        target::name(py, &self.name)
    }

    /// Directory and name.
    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        target::shown(py, &self.directory.join(&self.name))
    }

    /// Those that were wanted; of a symbolic link its own.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> Py<Attributes> {
        self.attributes.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("<Entry {}>", self.directory.join(&self.name))
    }
}

/// A walk through directories, begun with the first `next`; one page is read ahead.
#[pyclass(frozen, module = "kurma._native")]
pub struct Walk {
    engine: Arc<Engine>,
    state: Arc<Mutex<State>>,
}

enum State {
    New { client: Client, directories: Vec<vector_client::Target>, wanted: AttributeSet, recursive: bool },
    Begun(Receiver<Found>),
}

impl Walk {
    pub fn new(
        engine: &Arc<Engine>,
        client: &Client,
        directories: Vec<vector_client::Target>,
        wanted: AttributeSet,
        recursive: bool,
    ) -> Walk {
        let state = State::New { client: client.clone(), directories, wanted, recursive };
        Walk { engine: engine.clone(), state: Arc::new(Mutex::new(state)) }
    }
}

#[pymethods]
impl Walk {
    /// Pending: the directory, its entries or the exception, whether it was the last page of it; `None` at the end.
    fn next(&self) -> Pending {
        let state = self.state.clone();
        Pending::new(&self.engine, async move {
            let mut state = state.lock().await;
            let found = receiver(&mut state).recv().await;
            let finish: Finish = Box::new(move |py| match found {
                Some(found) => page(py, found),
                None => Ok(py.None()),
            });
            finish
        })
    }
}

/// Where the pages come from. Whoever reads them ends when nobody wants more.
fn receiver(state: &mut State) -> &mut Receiver<Found> {
    if let State::New { client, directories, wanted, recursive } = state {
        let (sender, receiver) = channel(1);
        let (client, directories) = (client.clone(), std::mem::take(directories));
        let (wanted, recursive) = (*wanted, *recursive);
        tokio::spawn(async move {
            let mut walk = client.walk(directories, wanted, recursive);
            while let Some(found) = walk.next().await {
                if sender.send(found).await.is_err() {
                    return;
                }
            }
        });
        *state = State::Begun(receiver);
    }
    match state {
        State::Begun(receiver) => receiver,
        State::New { .. } => unreachable!("it was begun just now"),
    }
}

fn page(py: Python<'_>, found: Found) -> PyResult<Py<PyAny>> {
    let directory = Arc::new(found.directory);
    let entries = match found.entries {
        Ok(entries) => {
            let entry = |entry: vector_client::Entry| {
                let attributes = Py::new(py, Attributes(entry.attributes))?;
                Py::new(py, Entry { directory: directory.clone(), name: entry.name, attributes })
            };
            let list: PyResult<Vec<_>> = entries.into_iter().map(entry).collect();
            list?.into_py_any(py)?
        }
        Err(error) => Told::new(&error, None, 0).exception(py, Vec::new())?,
    };
    (target::shown(py, &directory)?, entries, found.last).into_py_any(py)
}
