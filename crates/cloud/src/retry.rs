use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Environment;

use crate::{Cloud, CloudError, ErrorKind, ObjectName, PutMode};

/// How often and after what waits a failed operation is tried again.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// All tries together, the first included; default 4.
    pub tries: u32,
    /// Wait after the first failure; doubles with every further one; default 100 ms.
    pub first_wait: Duration,
    /// The longest wait; default 5 s.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { tries: 4, first_wait: Duration::from_millis(100), longest_wait: Duration::from_secs(5) }
    }
}

/// Repeats operations whose error says that it may help. Waits are between half and all of their nominal
/// length, at random, so that many callers do not come back at once.
///
/// A repeated `Create` may meet the object that an earlier try made although its answer was lost: when the
/// existing object equals the new one, the repetition succeeded.
pub struct Retry {
    inner: Arc<dyn Cloud>,
    env: Environment,
    policy: RetryPolicy,
}

impl Retry {
    /// Repeats what fails in `inner`.
    pub fn new(inner: Arc<dyn Cloud>, env: &Environment, policy: RetryPolicy) -> Retry {
        Retry { inner, env: env.clone(), policy }
    }

    async fn repeat<T, F>(&self, mut attempt: impl FnMut() -> F + Send) -> Result<T, CloudError>
    where
        F: Future<Output = Result<T, CloudError>> + Send,
    {
        let mut failures = 0;
        loop {
            match attempt().await {
                Err(error) if error.kind().is_retryable() && failures + 1 < self.policy.tries => {
                    tracing::debug!(%error, failures, "retrying");
                    self.wait(failures).await;
                    failures += 1;
                }
                result => return result,
            }
        }
    }

    async fn wait(&self, failures: u32) {
        let nominal =
            self.policy.first_wait.saturating_mul(1 << failures.min(20)).min(self.policy.longest_wait);
        let share = 0.5 + (self.env.entropy.next_u64() >> 11) as f64 / (1u64 << 54) as f64;
        self.env.clock.sleep(nominal.mul_f64(share)).await;
    }

    async fn holds(&self, name: &ObjectName, parts: &[Bytes]) -> Result<bool, CloudError> {
        let found = self.inner.get(name, None).await?;
        Ok(parts.concat() == found)
    }
}

#[async_trait]
impl Cloud for Retry {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let mut unknown = false;
        let mut failures = 0;
        loop {
            let error = match self.inner.put(name, parts.clone(), mode).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if unknown && error.kind() == ErrorKind::AlreadyExists && self.holds(name, &parts).await? {
                return Ok(());
            }
            if !error.kind().is_retryable() || failures + 1 >= self.policy.tries {
                return Err(error);
            }
            tracing::debug!(%error, failures, "retrying");
            unknown = true;
            self.wait(failures).await;
            failures += 1;
        }
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        self.repeat(|| self.inner.get(name, range.clone())).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        self.repeat(|| self.inner.head(name)).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        self.repeat(|| self.inner.delete(name)).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        self.repeat(|| self.inner.list(prefix, after, limit)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Faulty, Memory, Side, test_environment};

    fn name() -> ObjectName {
        ObjectName::new("name").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn transient_errors_are_tried_a_bounded_number_of_times_with_growing_waits() {
        let env = test_environment();
        let faulty = Faulty::new(Memory::new("m"), "m", env.clock.clone());
        faulty.set(Side::Reads, Fault::Fail(ErrorKind::Transient));
        let cloud = Retry::new(faulty.clone(), &env, RetryPolicy::default());
        assert_eq!(cloud.get(&name(), None).await.unwrap_err().kind(), ErrorKind::Transient);
        assert_eq!(faulty.calls().len(), 4);
        let waited = env.clock.monotonic();
        assert!(waited >= Duration::from_millis(350) && waited <= Duration::from_millis(710), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_errors_are_not_tried_again() {
        let env = test_environment();
        let faulty = Faulty::new(Memory::new("m"), "m", env.clock.clone());
        faulty.set(Side::Writes, Fault::Fail(ErrorKind::Refused));
        let cloud = Retry::new(faulty.clone(), &env, RetryPolicy::default());
        assert!(cloud.put(&name(), vec![], PutMode::Overwrite).await.is_err());
        assert_eq!(faulty.calls().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_whose_answer_was_lost_succeeds_once_and_a_foreign_object_still_blocks_it() {
        let env = test_environment();
        let faulty = Faulty::new(Memory::new("m"), "m", env.clock.clone());
        faulty.set(Side::Writes, Fault::FailAfter(ErrorKind::Transient));
        let cloud = Retry::new(faulty.clone(), &env, RetryPolicy::default());
        cloud.put(&name(), vec!["ours".into()], PutMode::Create).await.unwrap();

        faulty.set(Side::Writes, Fault::None);
        let taken = cloud.put(&name(), vec!["ours".into()], PutMode::Create).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "no try of this call can have made it");
        assert_eq!(faulty.inner().peek(&name()).unwrap(), "ours");
    }
}
