use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Clock;
use futures::future::{Either, select};

use crate::contract::length_of;
use crate::{Cloud, CloudError, ErrorKind, MAX_OBJECT, ObjectName, Operation, PutMode};

/// How long one try may take.
#[derive(Clone, Debug)]
pub struct TimeoutPolicy {
    /// For an operation that moves nothing; default 15 s.
    pub base: Duration,
    /// The slowest rate in bytes per second at which a transfer is still called alive; default 128 KiB/s. Every
    /// byte that is to move adds its share to `base`.
    pub slowest_rate: u64,
}

impl Default for TimeoutPolicy {
    fn default() -> TimeoutPolicy {
        TimeoutPolicy { base: Duration::from_secs(15), slowest_rate: 128 << 10 }
    }
}

/// Ends operations that take too long with [`ErrorKind::Timeout`], by dropping them.
pub struct Timeouts {
    inner: Arc<dyn Cloud>,
    cloud: Arc<str>,
    clock: Arc<dyn Clock>,
    policy: TimeoutPolicy,
}

impl Timeouts {
    /// Watches over `inner`.
    pub fn new(
        inner: Arc<dyn Cloud>,
        cloud: &Arc<str>,
        clock: Arc<dyn Clock>,
        policy: TimeoutPolicy,
    ) -> Timeouts {
        Timeouts { inner, cloud: cloud.clone(), clock, policy }
    }

    async fn within<T>(
        &self,
        operation: Operation,
        object: &str,
        bytes: u64,
        work: impl Future<Output = Result<T, CloudError>> + Send,
    ) -> Result<T, CloudError> {
        let limit = self.policy.base + Duration::from_secs(bytes / self.policy.slowest_rate.max(1));
        match select(std::pin::pin!(work), self.clock.sleep(limit)).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                let cause = format!("no answer after {limit:?}");
                Err(CloudError::new(ErrorKind::Timeout, &self.cloud, operation, object, cause))
            }
        }
    }
}

#[async_trait]
impl Cloud for Timeouts {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let bytes = length_of(&parts);
        self.within(Operation::Put, name.as_str(), bytes, self.inner.put(name, parts, mode)).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        let bytes =
            range.as_ref().map_or(MAX_OBJECT, |range| range.end.saturating_sub(range.start).min(MAX_OBJECT));
        self.within(Operation::Get, name.as_str(), bytes, self.inner.get(name, range)).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        self.within(Operation::Head, name.as_str(), 0, self.inner.head(name)).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        self.within(Operation::Delete, name.as_str(), 0, self.inner.delete(name)).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        // A listing may take many requests or walk many directories: as if every name moved a kilobyte.
        let bytes = (limit as u64).min(crate::MAX_LIST as u64) << 10;
        self.within(Operation::List, prefix, bytes, self.inner.list(prefix, after, limit)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Faulty, Memory, Side, TestClock};

    #[tokio::test(start_paused = true)]
    async fn a_hanging_cloud_ends_in_a_timeout_that_grows_with_the_payload() {
        let clock = TestClock::new();
        let faulty = Faulty::new(Memory::new("m"), "m", clock.clone());
        faulty.set(Side::Writes, Fault::Hang);
        let policy = TimeoutPolicy { base: Duration::from_secs(3), slowest_rate: 10 };
        let cloud = Timeouts::new(faulty, &"m".into(), clock.clone(), policy);
        let name = ObjectName::new("name").unwrap();
        let error = cloud.put(&name, vec![vec![0; 70].into()], PutMode::Overwrite).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(clock.monotonic().as_secs(), 10);
    }
}
