use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use crate::health::Pending;
use crate::{Cloud, CloudError, Direction, ErrorKind, Health, ObjectName, Operation, PutMode};

/// Runs at most so many operations at a time; a bounded number of others waits in line, the rest is turned away
/// with [`ErrorKind::Transient`] (D11). Some places are kept for reads, so that none waits for a line of writes; and writes
/// (deletions, too) stay few, since the more of them share a slow line the longer each takes, up to its time limit.
pub struct Limited {
    inner: Arc<dyn Cloud>,
    cloud: Arc<str>,
    running: Semaphore,
    writing: Semaphore,
    admitted: Semaphore,
    places: usize,
    health: Option<Arc<Health>>,
}

/// How many of the operations that may run at a time may be writes: sixteen, or a quarter if that is more; three quarters where
/// there are few.
pub(crate) fn of_writes(places: usize) -> usize {
    (places / 4).max(16).min(places - places.div_ceil(4)).max(1)
}

/// An operation's right to run.
struct Turn<'a> {
    _place: SemaphorePermit<'a>,
    _turn: SemaphorePermit<'a>,
    _writes: Option<SemaphorePermit<'a>>,
    _pending: Option<Pending<'a>>,
}

impl Limited {
    /// Lets `running` operations through to `inner` while `waiting` others wait.
    pub fn new(inner: Arc<dyn Cloud>, cloud: &Arc<str>, running: usize, waiting: usize) -> Limited {
        let running = running.clamp(1, Semaphore::MAX_PERMITS / 2);
        let admitted = Semaphore::new(running + waiting.min(Semaphore::MAX_PERMITS / 2));
        let writing = Semaphore::new(of_writes(running));
        let (cloud, places) = (cloud.clone(), running);
        Limited { inner, cloud, running: Semaphore::new(running), writing, admitted, places, health: None }
    }

    /// Tells `health` how many run and wait.
    #[must_use]
    pub fn telling(self, health: Arc<Health>) -> Limited {
        health.has_places(self.places);
        Limited { health: Some(health), ..self }
    }

    async fn admit(&self, operation: Operation, object: &str) -> Result<Turn<'_>, CloudError> {
        let refused = |cause| CloudError::new(ErrorKind::Transient, &self.cloud, operation, object, cause);
        let place = self.admitted.try_acquire().map_err(|error| match error {
            TryAcquireError::NoPermits => refused("too many operations are waiting for this cloud already"),
            TryAcquireError::Closed => refused("the cloud is closed"),
        })?;
        let pending = self.health.as_ref().map(|health| health.arrive(operation));
        let closed = |_| refused("the cloud is closed");
        let writes = match Direction::of(operation) {
            Direction::Read => None,
            Direction::Write => Some(self.writing.acquire().await.map_err(closed)?),
        };
        let turn = self.running.acquire().await.map_err(closed)?;
        Ok(Turn { _place: place, _turn: turn, _writes: writes, _pending: pending })
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
    use futures::future::join_all;
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

    #[tokio::test(start_paused = true)]
    async fn reads_do_not_wait_for_writes() {
        let clock = TestClock::new();
        let faulty = Faulty::new(Memory::new("m"), "m", clock.clone());
        faulty.set(Side::Writes, Fault::Delay(Duration::from_secs(1)));
        let cloud = Limited::new(faulty, &"m".into(), 4, 100);
        let names: Vec<ObjectName> =
            (0..9).map(|number| ObjectName::new(&format!("name{number}")).unwrap()).collect();
        let puts = join_all(names.iter().map(|name| cloud.put(name, vec![], PutMode::Overwrite)));
        let reads = async {
            let found = join_all(names.iter().map(|name| cloud.get(name, None))).await;
            assert!(found.iter().all(|found| found.as_ref().unwrap_err().kind() == ErrorKind::NotFound));
            environment::Clock::monotonic(&*clock)
        };
        let (put, read) = tokio::join!(puts, reads);
        assert!(put.iter().all(Result::is_ok));
        assert_eq!(read.as_secs(), 0);
        // Three at a time.
        assert_eq!(environment::Clock::monotonic(&*clock).as_secs(), 3);
    }

    #[test]
    fn writes_get_most_of_few_places_and_a_quarter_of_many() {
        let shares = [1, 2, 3, 4, 5, 8, 16, 32, 64, 100].map(|places| (places, of_writes(places)));
        let expected =
            [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (8, 6), (16, 12), (32, 16), (64, 16), (100, 25)];
        assert_eq!(shares, expected);
    }
}
