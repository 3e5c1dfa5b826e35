use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::contract::length_of;
use crate::health::Health;
use crate::{Cloud, CloudError, ObjectName, Operation, PutMode};

/// Tells [`Health`] how every try went: how long it took, what it moved, how it failed, or that it was given up.
pub struct Observed {
    inner: Arc<dyn Cloud>,
    health: Arc<Health>,
}

impl Observed {
    /// Watches `inner` on behalf of `health`.
    pub fn new(inner: Arc<dyn Cloud>, health: Arc<Health>) -> Observed {
        Observed { inner, health }
    }

    async fn watch<T>(
        &self,
        operation: Operation,
        bytes: impl FnOnce(&T) -> u64,
        work: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let running = self.health.begin(operation);
        let result = work.await;
        running.end(result.as_ref().map(bytes));
        result
    }
}

#[async_trait]
impl Cloud for Observed {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let bytes = length_of(&parts);
        self.watch(Operation::Put, |()| bytes, self.inner.put(name, parts, mode)).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        self.watch(Operation::Get, |bytes: &Bytes| bytes.len() as u64, self.inner.get(name, range)).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        self.watch(Operation::Head, |_| 0, self.inner.head(name)).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        self.watch(Operation::Delete, |()| 0, self.inner.delete(name)).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        self.watch(Operation::List, |_| 0, self.inner.list(prefix, after, limit)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, ErrorKind, Fault, Faulty, Memory, Side, TestClock};
    use environment::Clock;
    use std::time::Duration;

    fn name() -> ObjectName {
        ObjectName::new("name").unwrap()
    }

    type FaultyMemory = Arc<Faulty<Arc<Memory>>>;

    fn observed() -> (FaultyMemory, Observed, Arc<Health>, Arc<TestClock>) {
        let clock = TestClock::new();
        let faulty = Faulty::new(Memory::new("m"), "m", clock.clone());
        let health = Health::new(&"m".into(), clock.clone());
        (faulty.clone(), Observed::new(faulty, health.clone()), health, clock)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_cloud_ranks_behind_and_is_tried_again_after_a_while() {
        let (fast, fast_cloud, fast_health, clock) = observed();
        let (slow, slow_cloud, slow_health, _) = observed();
        fast.inner().poke(&name(), Some("x".into()));
        slow.inner().poke(&name(), Some("x".into()));
        fast.set(Side::Reads, Fault::Delay(Duration::from_millis(20)));
        slow.set(Side::Reads, Fault::Delay(Duration::from_secs(1)));
        fast_cloud.get(&name(), None).await.unwrap();
        slow_cloud.get(&name(), None).await.unwrap();
        let cost = |health: &Health| health.forecast(Direction::Read, 1 << 20).expected;
        assert!(cost(&fast_health) < cost(&slow_health));
        assert_eq!(slow_health.p95(Direction::Read, 1), Some(Duration::from_secs(1)));

        clock.sleep(Duration::from_secs(600)).await;
        fast_cloud.get(&name(), None).await.unwrap();
        assert!(cost(&fast_health) > cost(&slow_health), "old news");
    }

    #[tokio::test(start_paused = true)]
    async fn giving_up_on_a_hanging_cloud_makes_it_rank_worse() {
        let (faulty, cloud, health, clock) = observed();
        faulty.inner().poke(&name(), Some("x".into()));
        cloud.get(&name(), None).await.unwrap();
        let before = health.forecast(Direction::Read, 1).expected;
        faulty.set(Side::Reads, Fault::Hang);
        let object = name();
        tokio::select! {
            _ = cloud.get(&object, None) => unreachable!("hangs"),
            () = clock.sleep(Duration::from_secs(2)) => {}
        }
        assert!(health.forecast(Direction::Read, 1).expected > before + 0.3);
        let snapshot = health.snapshot();
        let get = &snapshot.operations[1];
        assert_eq!((get.0, get.1.answered, get.1.cancelled), ("get", 1, 1));
        assert_eq!(snapshot.read.in_flight, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_writes_make_the_cloud_sick_for_writes_only() {
        let (faulty, cloud, health, _) = observed();
        faulty.set(Side::Writes, Fault::Fail(ErrorKind::Refused));
        for _ in 0..5 {
            cloud.put(&name(), vec![], PutMode::Overwrite).await.unwrap_err();
        }
        assert!(health.is_sick(Direction::Write) && !health.admits(Direction::Write));
        assert!(!health.is_sick(Direction::Read));
        assert_eq!(cloud.get(&name(), None).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(health.snapshot().read.failures_in_a_row, 0, "an answer is no failure");
    }
}
