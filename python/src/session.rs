//! A client: each call as pending work.

use std::io::SeekFrom;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vector_client::{Client, Error, Failure};

use crate::attributes::attribute_set;
use crate::engine::Engine;
use crate::pending::{Finish, Pending};
use crate::target::{self, Descriptor, target, targets};
use crate::tree::{Report, Watch, copy_options};
use crate::walk::Walk;
use crate::writer::Writer;
use crate::{connect, error, outcome, step};

/// Files of a server or of a local directory.
#[pyclass(frozen, module = "kurma._native")]
pub struct Session {
    client: Client,
    engine: Arc<Engine>,
    /// Where relative paths begin.
    base: Bytes,
}

/// What a call returns that is no vector.
pub fn single<T: Send + 'static>(
    result: Result<T, Error>,
    value: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> Finish {
    Box::new(move |py| match result {
        Ok(result) => value(py, result),
        Err(error) => Err(error::single(py, &error)),
    })
}

pub fn nothing(py: Python<'_>, _: ()) -> PyResult<Py<PyAny>> {
    Ok(py.None())
}

impl Session {
    /// A target, from where relative paths begin.
    fn target(&self, object: &Bound<'_, PyAny>) -> PyResult<vector_client::Target> {
        let mut target = target(object)?;
        target::from(&self.base, &mut target);
        Ok(target)
    }

    fn targets(&self, objects: &Bound<'_, PyAny>) -> PyResult<Vec<vector_client::Target>> {
        let mut targets = targets(objects)?;
        targets.iter_mut().for_each(|target| target::from(&self.base, target));
        Ok(targets)
    }

    fn pending(&self, work: impl Future<Output = Finish> + Send + 'static) -> Pending {
        Pending::new(&self.engine, work)
    }
}

#[pymethods]
impl Session {
    /// Connects to a server; pending.
    #[staticmethod]
    fn connect(host: &str, port: u16, base: &[u8], options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let engine = Engine::get()?;
        let options = connect::options(host, options)?;
        let server = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let (own, base) = (engine.clone(), Bytes::copy_from_slice(base));
        Ok(Pending::new(&engine, async move {
            let connected = Client::connect(server, options).await;
            single(connected, |py, client| Session { client, engine: own, base }.into_py_any(py))
        }))
    }

    /// Files of this machine below a directory.
    #[staticmethod]
    fn local(py: Python<'_>, directory: PathBuf) -> PyResult<Session> {
        let engine = Engine::get()?;
        let client = engine.enter(|| Client::local(directory)).map_err(|error| error::single(py, &error))?;
        Ok(Session { client, engine, base: Bytes::new() })
    }

    /// All steps, up to the first that fails.
    fn execute(&self, steps: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (steps, into) = step::steps(steps, &self.base)?;
        let client = self.client.clone();
        Ok(self.pending(async move {
            let result = client.execute(steps).await;
            Box::new(move |py: Python<'_>| outcome::vector(py, result, into)) as Finish
        }))
    }

    /// All steps, also those after one that fails: results and exceptions.
    fn execute_each(&self, steps: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (steps, into) = step::steps(steps, &self.base)?;
        let client = self.client.clone();
        Ok(self.pending(async move {
            let result = client.execute_each(steps).await;
            single(result, move |py, results| outcome::each(py, results, into))
        }))
    }

    /// All steps or none.
    fn transact(&self, steps: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (steps, into) = step::steps(steps, &self.base)?;
        let client = self.client.clone();
        Ok(self.pending(async move {
            let build = |transaction: &mut vector_client::Transaction| {
                for step in steps {
                    // All results are taken at once.
                    let _ = transaction.step::<()>(step);
                }
            };
            let result = client.transaction(build).await;
            Box::new(move |py: Python<'_>| match result {
                Ok(committed) => outcome::all(py, committed.all(), into)?.into_py_any(py),
                Err(aborted) => Err(error::aborted(py, &aborted)),
            }) as Finish
        }))
    }

    /// Operations and bytes that a transaction may have; `None` if there are none here.
    fn transaction_limits(&self) -> Option<(u32, u64)> {
        self.client.transaction_limits().map(|limits| (limits.operations, limits.bytes))
    }

    /// Closes files and forgets where they were read.
    fn vclose(&self, descriptors: Vec<Bound<'_, Descriptor>>) -> Pending {
        let descriptors: Vec<_> = descriptors.iter().map(|descriptor| descriptor.get().0).collect();
        let client = self.client.clone();
        self.pending(async move {
            let result = client.vclose(descriptors).await;
            Box::new(move |py: Python<'_>| match result {
                Ok(_) => Ok(py.None()),
                Err(failure) => Err(error::failure(py, &failure, nones(py, failure.index()))),
            }) as Finish
        })
    }

    /// Reads directories.
    fn walk(&self, directories: &Bound<'_, PyAny>, wanted: u32, recursive: bool) -> PyResult<Walk> {
        let directories = self.targets(directories)?;
        Ok(Walk::new(&self.engine, &self.client, directories, attribute_set(wanted), recursive))
    }

    /// Copies through memory, perhaps to another client.
    fn vcopy(&self, copies: &Bound<'_, PyAny>, to: &Bound<'_, Session>) -> PyResult<Pending> {
        let to = to.get();
        let copies = step::copies(copies, &self.base, &to.base)?;
        let (client, to) = (self.client.clone(), to.client.clone());
        Ok(self.pending(async move {
            let result = client.vcopy(copies, &to).await;
            Box::new(move |py: Python<'_>| match result {
                Ok(bytes) => bytes.into_py_any(py),
                Err(Failure { done, error, unknown }) => {
                    let results = done.iter().map(|bytes| bytes.into_py_any(py)).collect::<PyResult<_>>()?;
                    Err(error::failure(py, &Failure { done, error, unknown }, results))
                }
            }) as Finish
        }))
    }

    /// Makes a directory and those above it; which were made.
    fn ensure_directory(&self, target: &Bound<'_, PyAny>, mode: u32) -> PyResult<Pending> {
        let (client, target) = (self.client.clone(), self.target(target)?);
        Ok(self.pending(async move {
            let result = client.ensure_directory(target, mode).await;
            single(result, |py, made| {
                let made = made.iter().map(|target| target::shown(py, target));
                made.collect::<PyResult<Vec<_>>>()?.into_py_any(py)
            })
        }))
    }

    /// Removes trees: how many objects are gone, how many are not, and why.
    fn rm_recursive(&self, targets: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, targets) = (self.client.clone(), self.targets(targets)?);
        Ok(self.pending(async move {
            let mut report = Report::default();
            let result = client.rm_recursive(targets, |removal| report.removed(&removal)).await;
            single(result, |py, _| report.finish(py))
        }))
    }

    /// Copies trees: how many objects were copied, how many were not, and why.
    fn cp_recursive(
        &self,
        copies: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        to: &Bound<'_, Session>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Pending> {
        let there = to.get();
        let pair =
            |(from, to): &(Bound<'_, PyAny>, Bound<'_, PyAny>)| Ok((self.target(from)?, there.target(to)?));
        let copies = copies.iter().map(pair).collect::<PyResult<Vec<_>>>()?;
        let (options, replace) = copy_options(options)?;
        let (client, to) = (self.client.clone(), there.client.clone());
        Ok(self.pending(async move {
            let mut watch = Watch { replace, ..Watch::default() };
            let result = client.cp_recursive(copies, &to, &options, &mut watch).await;
            single(result, |py, _| watch.report.finish(py))
        }))
    }

    /// Reads where the descriptor is, and moves on.
    fn read(&self, descriptor: &Bound<'_, Descriptor>, length: u64) -> Pending {
        let (client, descriptor) = (self.client.clone(), descriptor.get().0);
        self.pending(async move {
            let result = client.read(descriptor, length).await;
            single(result, |py, data| outcome::content(py, data)?.into_py_any(py))
        })
    }

    /// Writes where the descriptor is, and moves on.
    fn write(&self, descriptor: &Bound<'_, Descriptor>, data: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, descriptor, data) = (self.client.clone(), descriptor.get().0, step::data(data)?);
        Ok(self.pending(async move {
            let result = client.write(descriptor, data).await;
            single(result, |py, bytes| bytes.into_py_any(py))
        }))
    }

    /// Writes from `offset` on, while the program goes on.
    fn writer(&self, descriptor: &Bound<'_, Descriptor>, offset: u64) -> PyResult<Writer> {
        self.engine.check()?;
        let writer = self.engine.enter(|| self.client.writer(descriptor.get().0, offset));
        Ok(Writer::new(&self.engine, writer))
    }

    /// Moves the place of a descriptor; where it is then.
    fn lseek(&self, descriptor: &Bound<'_, Descriptor>, offset: i64, whence: u32) -> PyResult<Pending> {
        let (client, descriptor) = (self.client.clone(), descriptor.get().0);
        let to = match (whence, u64::try_from(offset)) {
            (0, Ok(offset)) => SeekFrom::Start(offset),
            (1, _) => SeekFrom::Current(offset),
            (2, _) => SeekFrom::End(offset),
            _ => {
                return Err(PyValueError::new_err(
                    "a place is counted from 0 (the start), 1 (here) or 2 (the end)",
                ));
            }
        };
        Ok(self.pending(async move {
            let result = client.lseek(descriptor, to).await;
            single(result, |py, place| place.into_py_any(py))
        }))
    }

    /// Removes a name that is no directory.
    fn unlink(&self, target: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, target) = (self.client.clone(), self.target(target)?);
        Ok(self.pending(async move { single(client.unlink(target).await, nothing) }))
    }

    /// Removes an empty directory.
    fn rmdir(&self, target: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, target) = (self.client.clone(), self.target(target)?);
        Ok(self.pending(async move { single(client.rmdir(target).await, nothing) }))
    }

    /// Round trips, operations, bytes out and in.
    fn statistics(&self) -> (u64, u64, u64, u64) {
        let sent = self.client.statistics();
        (sent.round_trips, sent.operations, sent.bytes_out, sent.bytes_in)
    }

    /// Closes all files and ends the connection.
    fn close(&self) -> Pending {
        let client = self.client.clone();
        self.pending(async move { single(client.close().await, nothing) })
    }
}

fn nones(py: Python<'_>, count: usize) -> Vec<Py<PyAny>> {
    (0..count).map(|_| py.None()).collect()
}
