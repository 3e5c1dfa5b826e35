//! The threads of this process that wait for the network, and the one that tells Python of it.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use environment::Clock;
use environment::Environment;
use futures::future::{Either, select};
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::pending::{Finish, Work};

/// Threads that wait for the network and for timers.
const THREADS: usize = 2;

/// The one of this process. After a fork the threads are gone, and the child makes another one.
static ENGINE: Mutex<Option<Arc<Engine>>> = Mutex::new(None);

/// Threads, and where the calls are left that they make in Python.
pub struct Engine {
    process: u32,
    /// Never dropped: the threads end with the process.
    runtime: ManuallyDrop<Runtime>,
    clock: Arc<dyn Clock>,
    calls: Sender<Py<PyAny>>,
    /// Held by the thread that calls Python; `true` once Python must not be called any more.
    ended: Arc<Mutex<bool>>,
}

impl Engine {
    /// The one of this process.
    pub fn get() -> PyResult<Arc<Engine>> {
        let mut engine = ENGINE.lock();
        match &*engine {
            Some(engine) if engine.is_of_this_process() => Ok(engine.clone()),
            _ => {
                let new =
                    Arc::new(Engine::new().map_err(|error| {
                        PyRuntimeError::new_err(format!("threads cannot be had: {error}"))
                    })?);
                *engine = Some(new.clone());
                Ok(new)
            }
        }
    }

    fn new() -> std::io::Result<Engine> {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("kurma").enable_all().build()?;
        let (calls, receiver) = channel();
        let ended = Arc::new(Mutex::new(false));
        let own = ended.clone();
        thread::Builder::new().name("kurma-python".into()).spawn(move || call_all(&receiver, &own))?;
        let (runtime, clock) = (ManuallyDrop::new(runtime), Environment::real().clock);
        Ok(Engine { process: std::process::id(), runtime, clock, calls, ended })
    }

    /// Whether its threads are here: not so after a fork.
    pub fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// That what belongs to it can be used.
    pub fn check(&self) -> PyResult<()> {
        if !self.is_of_this_process() {
            return Err(PyRuntimeError::new_err(
                "this client is of the process before the fork; connect again",
            ));
        }
        if Handle::try_current().is_ok() {
            return Err(PyRuntimeError::new_err("a thread of the client itself cannot wait for it"));
        }
        Ok(())
    }

    /// Works on this thread, for some time; what is left is not done yet.
    pub fn work(&self, work: Work, time: Duration) -> Result<Finish, Work> {
        let alarm = self.clock.sleep(time);
        match self.runtime.block_on(select(work, alarm)) {
            Either::Left((finish, _)) => Ok(finish),
            Either::Right(((), work)) => Err(work),
        }
    }

    /// Works on threads of the engine.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Enters the runtime, for what has to be made in it.
    pub fn enter<T>(&self, make: impl FnOnce() -> T) -> T {
        let _in = self.runtime.enter();
        make()
    }

    /// Calls a Python function without arguments, soon, on a thread of its own, so that nothing else waits for the interpreter.
    pub fn call(&self, function: Py<PyAny>) {
        // Its other end is there as long as the process.
        let _ = self.calls.send(function);
    }
}

fn call_all(calls: &Receiver<Py<PyAny>>, ended: &Mutex<bool>) {
    while let Ok(first) = calls.recv() {
        let ended = ended.lock();
        if *ended {
            // Nothing of the interpreter may be touched, and nobody will miss it.
            std::mem::forget(first);
            continue;
        }
        Python::try_attach(|py| {
            for function in std::iter::once(first).chain(calls.try_iter()) {
                // An event loop that was closed meanwhile says so; nobody waits any more.
                let _ = function.call0(py);
            }
        });
    }
}

/// The interpreter ends: from now on no thread of ours calls it.
#[pyfunction]
pub fn end(py: Python<'_>) {
    let engine = ENGINE.lock().clone();
    if let Some(engine) = engine.filter(|engine| engine.is_of_this_process()) {
        py.detach(|| *engine.ended.lock() = true);
    }
}
