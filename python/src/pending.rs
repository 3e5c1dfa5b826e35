//! Work that was asked for.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;

use crate::engine::Engine;

/// Makes what a call returns, or raises; with the interpreter.
pub type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What is done without the interpreter.
pub type Work = Pin<Box<dyn Future<Output = Finish> + Send>>;

/// How long signals wait: Ctrl-C does not come through before.
const TICK: Duration = Duration::from_millis(100);

/// Work to be done once, that is not begun or has to be waited for.
#[pyclass(frozen, module = "kurma._native")]
pub struct Pending {
    engine: Arc<Engine>,
    state: Arc<Mutex<State>>,
}

enum State {
    New(Work),
    Begun,
    Done(Finish),
}

impl Pending {
    /// This work.
    pub fn new(engine: &Arc<Engine>, work: impl Future<Output = Finish> + Send + 'static) -> Pending {
        Pending { engine: engine.clone(), state: Arc::new(Mutex::new(State::New(Box::pin(work)))) }
    }

    /// Work that is begun at once, in the order of the calls, and done if that takes no waiting.
    pub fn begun(
        py: Python<'_>,
        engine: &Arc<Engine>,
        work: impl Future<Output = Finish> + Send + 'static,
    ) -> PyResult<Pending> {
        engine.check()?;
        let mut work: Work = Box::pin(work);
        let state = match py.detach(|| (&mut work).now_or_never()) {
            Some(finish) => State::Done(finish),
            None => State::New(work),
        };
        Ok(Pending { engine: engine.clone(), state: Arc::new(Mutex::new(state)) })
    }

    fn begin(&self) -> PyResult<Work> {
        self.engine.check()?;
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Begun) {
            State::New(work) => Ok(work),
            other => {
                *state = other;
                Err(PyRuntimeError::new_err("this was begun already"))
            }
        }
    }
}

#[pymethods]
impl Pending {
    /// Does the work; its result. What cannot be waited for any longer goes on all the same: the work is never left half done.
    #[pyo3(signature = (seconds=None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<Py<PyAny>> {
        if self.is_done() {
            return self.result(py);
        }
        let mut work = self.begin()?;
        let mut left = seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        loop {
            let time = left.map_or(TICK, |left| left.min(TICK));
            work = match py.detach(|| self.engine.work(work, time)) {
                Ok(finish) => return finish(py),
                Err(work) => work,
            };
            left = left.map(|left| left.saturating_sub(time));
            let late = match left {
                Some(left) if left.is_zero() => Err(PyTimeoutError::new_err("no answer yet")),
                _ => Ok(()),
            };
            if let Err(error) = py.check_signals().and(late) {
                self.engine.spawn(async move { drop(work.await) });
                return Err(error);
            }
        }
    }

    /// Has the work done by other threads, and `function` called by one of them when `result` has something.
    fn then(&self, function: Py<PyAny>) -> PyResult<()> {
        let work = self.begin()?;
        let (engine, state) = (self.engine.clone(), self.state.clone());
        self.engine.spawn(async move {
            let told = Told { engine, function: Some(function), state };
            let finish = work.await;
            *told.state.lock() = State::Done(finish);
        });
        Ok(())
    }

    /// Whether there is a result, so that nobody needs to wait.
    #[getter]
    fn is_done(&self) -> bool {
        matches!(*self.state.lock(), State::Done(_))
    }

    /// The result, once.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = std::mem::replace(&mut *self.state.lock(), State::Begun);
        match state {
            State::Done(finish) => finish(py),
            _ => Err(PyRuntimeError::new_err("the work ended without a result")),
        }
    }
}

/// Tells, whatever becomes of the work.
struct Told {
    engine: Arc<Engine>,
    function: Option<Py<PyAny>>,
    state: Arc<Mutex<State>>,
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(function) = self.function.take() {
            self.engine.call(function);
        }
    }
}
