//! Files that are written from front to back.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::poll_immediate;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tokio::sync::Mutex;

use crate::engine::Engine;
use crate::pending::{Finish, Pending};
use crate::session::{nothing, single};
use crate::step;

/// Gathers what is written to one open file, and sends it while the program goes on. Calls are done in their order.
#[pyclass(frozen, module = "kurma._native")]
pub struct Writer {
    engine: Arc<Engine>,
    /// `None` once it is closed. Held by a call that waits; those after it queue up.
    writer: Arc<Mutex<Option<vector_client::Writer>>>,
    /// As that of the writer, for those who do not want to wait.
    position: Arc<AtomicU64>,
}

impl Writer {
    /// This one.
    pub fn new(engine: &Arc<Engine>, writer: vector_client::Writer) -> Writer {
        let position = Arc::new(AtomicU64::new(writer.position()));
        Writer { engine: engine.clone(), writer: Arc::new(Mutex::new(Some(writer))), position }
    }
}

fn closed() -> Finish {
    Box::new(|_| Err(PyValueError::new_err("this writer is closed")))
}

#[pymethods]
impl Writer {
    /// Takes bytes; how many, which are all.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let data = step::data(data)?;
        let (writer, position) = (self.writer.clone(), self.position.clone());
        Pending::begun(py, &self.engine, async move {
            let mut writer = writer.lock().await;
            let Some(writer) = &mut *writer else { return closed() };
            let length = data.len();
            // Takes all of it, though there may be no room yet to send it.
            let taken = poll_immediate(pin!(writer.write(data))).await;
            position.store(writer.position(), Ordering::Relaxed);
            let written = match taken {
                Some(written) => written,
                None => writer.write(Bytes::new()).await,
            };
            single(written, move |py, ()| length.into_py_any(py))
        })
    }

    /// Where the next byte belongs.
    #[getter]
    fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Waits until all that was written is on stable storage.
    fn sync(&self, py: Python<'_>) -> PyResult<Pending> {
        let writer = self.writer.clone();
        Pending::begun(py, &self.engine, async move {
            match &mut *writer.lock().await {
                Some(writer) => single(writer.sync().await, nothing),
                None => closed(),
            }
        })
    }

    /// The same, and closes the file; the second time it does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<Pending> {
        let writer = self.writer.clone();
        Pending::begun(py, &self.engine, async move {
            let writer = writer.lock().await.take();
            match writer {
                Some(writer) => single(writer.close().await, nothing),
                None => Box::new(|py: Python<'_>| nothing(py, ())),
            }
        })
    }
}
