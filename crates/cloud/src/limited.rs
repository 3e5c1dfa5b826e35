use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use crate::{Cloud, CloudError, ErrorKind, ObjectName, Operation, PutMode};

/// Runs at most so many operations at a time; a bounded number of others waits in line, the rest is turned away
/// with [`ErrorKind::Transient`] (D11).
pub struct Limited {
    inner: Arc<dyn Cloud>,
    cloud: Arc<str>,
    running: Semaphore,
    admitted: Semaphore,
}

impl Limited {
    /// Lets `running` operations through to `inner` while `waiting` others wait.
    pub fn new(inner: Arc<dyn Cloud>, cloud: &Arc<str>, running: usize, waiting: usize) -> Limited {
        let running = running.clamp(1, Semaphore::MAX_PERMITS / 2);
        let admitted = Semaphore::new(running + waiting.min(Semaphore::MAX_PERMITS / 2));
        Limited { inner, cloud: cloud.clone(), running: Semaphore::new(running), admitted }
    }

    async fn admit(
        &self,
        operation: Operation,
        object: &str,
    ) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>), CloudError> {
        let refused = |cause| CloudError::new(ErrorKind::Transient, &self.cloud, operation, object, cause);
        let place = self.admitted.try_acquire().map_err(|error| match error {
            TryAcquireError::NoPermits => refused("too many operations are waiting for this cloud already"),
            TryAcquireError::Closed => refused("the cloud is closed"),
        })?;
        let turn = self.running.acquire().await.map_err(|_| refused("the cloud is closed"))?;
        Ok((turn, place))
    }
}

#[async_trait]
impl Cloud for Limited {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let _turn = self.admit(Operation::Put, name.as_str()).await?;
        self.inner.put(name, parts, mode).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        let _turn = self.admit(Operation::Get, name.as_str()).await?;
        self.inner.get(name, range).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        let _turn = self.admit(Operation::Head, name.as_str()).await?;
        self.inner.head(name).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        let _turn = self.admit(Operation::Delete, name.as_str()).await?;
        self.inner.delete(name).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        let _turn = self.admit(Operation::List, prefix).await?;
        self.inner.list(prefix, after, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Faulty, Memory, Side, TestClock};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_operation_beyond_the_queue_is_turned_away_and_the_queued_one_runs_later() {
        let clock = TestClock::new();
        let faulty = Faulty::new(Memory::new("m"), "m", clock.clone());
        faulty.set(Side::Writes, Fault::Delay(Duration::from_secs(1)));
        let cloud = Limited::new(faulty, &"m".into(), 1, 1);
        let name = ObjectName::new("name").unwrap();
        let put = || cloud.put(&name, vec![], PutMode::Overwrite);
        let (first, second, third) = tokio::join!(put(), put(), put());
        first.unwrap();
        second.unwrap();
        assert_eq!(third.unwrap_err().kind(), ErrorKind::Transient);
        assert_eq!(environment::Clock::monotonic(&*clock).as_secs(), 2);
    }
}
