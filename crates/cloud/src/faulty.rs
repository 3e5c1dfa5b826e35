use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Clock;
use parking_lot::Mutex;

use crate::{Cloud, CloudError, ErrorKind, ObjectName, Operation, PutMode};

/// What a corrupting cloud makes of an object.
type Change = dyn Fn(&ObjectName, Bytes) -> Bytes + Send + Sync;

/// How one side of a [`Faulty`] cloud behaves.
#[derive(Clone, Default)]
pub enum Fault {
    /// As the cloud behind it.
    #[default]
    None,
    /// Answers with an error of this kind and does nothing.
    Fail(ErrorKind),
    /// Does it and answers with an error of this kind, as after a lost reply.
    FailAfter(ErrorKind),
    /// Answers with an error of this kind; a put is carried out later, with [`Faulty::carry_out`].
    Late(ErrorKind),
    /// Never answers and does nothing.
    Hang,
    /// Waits, then behaves.
    Delay(Duration),
    /// Changes what `get` returns or what `put` stores.
    Corrupt(Arc<Change>),
}

/// The operations that a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `get`, `head` and `list`.
    Reads,
    /// `put` and `delete`.
    Writes,
}

/// A wrapper that misbehaves on command, for tests.
pub struct Faulty<C> {
    inner: C,
    cloud: Arc<str>,
    clock: Arc<dyn Clock>,
    faults: Mutex<[Fault; 2]>,
    calls: Mutex<Vec<(Operation, String)>>,
    late: Mutex<Vec<(ObjectName, Vec<Bytes>)>>,
}

impl<C: Cloud> Faulty<C> {
    /// Behaves like `inner` until told otherwise.
    pub fn new(inner: C, cloud: &str, clock: Arc<dyn Clock>) -> Arc<Faulty<C>> {
        Arc::new(Faulty {
            inner,
            cloud: cloud.into(),
            clock,
            faults: Mutex::default(),
            calls: Mutex::default(),
            late: Mutex::default(),
        })
    }

    /// From now on `side` behaves like this.
    pub fn set(&self, side: Side, fault: Fault) {
        self.faults.lock()[side as usize] = fault;
    }

    /// The operations that were begun, with their objects.
    pub fn calls(&self) -> Vec<(Operation, String)> {
        self.calls.lock().clone()
    }

    /// Puts that are late arrive, over whatever is there.
    pub async fn carry_out(&self) -> Result<(), CloudError> {
        let late = std::mem::take(&mut *self.late.lock());
        for (name, parts) in late {
            self.inner.put(&name, parts, PutMode::Overwrite).await?;
        }
        Ok(())
    }

    /// What is late at `other` arrives when it is carried out here.
    pub fn take_late(&self, other: &Faulty<C>) {
        let late = std::mem::take(&mut *other.late.lock());
        self.late.lock().extend(late);
    }

    /// The cloud behind.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    /// What is to happen to this call; returns when the operation itself is due.
    async fn pass(&self, side: Side, operation: Operation, object: &str) -> Result<Fault, CloudError> {
        self.calls.lock().push((operation, object.to_owned()));
        let fault = self.faults.lock()[side as usize].clone();
        match fault {
            Fault::Late(_) if operation == Operation::Put => Ok(fault),
            Fault::Fail(kind) | Fault::Late(kind) => Err(self.error(kind, operation, object)),
            Fault::Hang => std::future::pending().await,
            Fault::Delay(delay) => {
                self.clock.sleep(delay).await;
                Ok(Fault::None)
            }
            other => Ok(other),
        }
    }

    fn error(&self, kind: ErrorKind, operation: Operation, object: &str) -> CloudError {
        CloudError::new(kind, &self.cloud, operation, object, "injected")
    }
}

#[async_trait]
impl<C: Cloud> Cloud for Faulty<C> {
    async fn put(&self, name: &ObjectName, mut parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let fault = self.pass(Side::Writes, Operation::Put, name.as_str()).await?;
        match &fault {
            Fault::Corrupt(change) => parts = vec![change(name, parts.concat().into())],
            Fault::Late(kind) => {
                self.late.lock().push((name.clone(), parts));
                return Err(self.error(*kind, Operation::Put, name.as_str()));
            }
            _ => {}
        }
        self.inner.put(name, parts, mode).await?;
        match fault {
            Fault::FailAfter(kind) => Err(self.error(kind, Operation::Put, name.as_str())),
            _ => Ok(()),
        }
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        let fault = self.pass(Side::Reads, Operation::Get, name.as_str()).await?;
        let bytes = self.inner.get(name, range).await?;
        match fault {
            Fault::Corrupt(change) => Ok(change(name, bytes)),
            Fault::FailAfter(kind) => Err(self.error(kind, Operation::Get, name.as_str())),
            _ => Ok(bytes),
        }
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        self.pass(Side::Reads, Operation::Head, name.as_str()).await?;
        self.inner.head(name).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        let fault = self.pass(Side::Writes, Operation::Delete, name.as_str()).await?;
        self.inner.delete(name).await?;
        match fault {
            Fault::FailAfter(kind) => Err(self.error(kind, Operation::Delete, name.as_str())),
            _ => Ok(()),
        }
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        self.pass(Side::Reads, Operation::List, prefix).await?;
        self.inner.list(prefix, after, limit).await
    }
}
