use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Clock;

use crate::contract::length_of;
use crate::costs::Class;
use crate::{Cloud, CloudError, Costs, ObjectName, Operation, PutMode};

/// Counts in [`Costs`] every try, unless the driver counts its requests itself, and logs what each asked for and how it ended: on
/// level `debug`, target `cloud`, with the fields `cloud`, `operation`, `object`, `bytes`, `micros` and, when it failed, `error`.
/// Names of objects say nothing about files; credentials are known to no one but drivers.
pub struct Accounted {
    inner: Arc<dyn Cloud>,
    cloud: Arc<str>,
    clock: Arc<dyn Clock>,
    /// `None`: the driver counts.
    costs: Option<Arc<Costs>>,
}

impl Accounted {
    /// Keeps account of `inner`, in `costs` if there are any.
    pub fn new(
        inner: Arc<dyn Cloud>,
        cloud: &Arc<str>,
        clock: Arc<dyn Clock>,
        costs: Option<Arc<Costs>>,
    ) -> Accounted {
        Accounted { inner, cloud: cloud.clone(), clock, costs }
    }

    async fn account<T>(
        &self,
        operation: Operation,
        object: &str,
        upload: u64,
        moved: impl FnOnce(&T) -> u64,
        work: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let began = self.clock.monotonic();
        let sent = self.costs.as_ref().map(|costs| costs.begin(Class::of(operation), upload));
        let result = work.await;
        if let Some(sent) = sent {
            sent.ended();
        }
        let micros = self.clock.monotonic().saturating_sub(began).as_micros() as u64;
        match &result {
            Ok(value) => {
                let bytes = moved(value);
                tracing::debug!(target: "cloud", cloud = %self.cloud, %operation, object, bytes, micros, "done");
            }
            Err(error) => {
                let kind = error.kind();
                tracing::debug!(target: "cloud", cloud = %self.cloud, %operation, object, micros, ?kind, error = %error.cause, "failed");
            }
        }
        result
    }
}

#[async_trait]
impl Cloud for Accounted {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let bytes = length_of(&parts);
        let put = self.inner.put(name, parts, mode);
        self.account(Operation::Put, name.as_str(), bytes, |()| bytes, put).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        let came = |bytes: &Bytes| {
            let length = bytes.len() as u64;
            self.costs.iter().for_each(|costs| costs.came(length));
            length
        };
        self.account(Operation::Get, name.as_str(), 0, came, self.inner.get(name, range)).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        self.account(Operation::Head, name.as_str(), 0, |_| 0, self.inner.head(name)).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        self.account(Operation::Delete, name.as_str(), 0, |()| 0, self.inner.delete(name)).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        let list = self.inner.list(prefix, after, limit);
        self.account(Operation::List, prefix, 0, |_| 0, list).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CostCounts, ErrorKind, Fault, Faulty, Memory, Side, TestClock};

    #[tokio::test(start_paused = true)]
    async fn every_try_is_counted_in_its_class_and_bytes_in_their_direction() {
        let clock = TestClock::new();
        let faulty = Faulty::new(Memory::new("m"), "m", clock.clone());
        let costs = Arc::new(Costs::default());
        let cloud = Accounted::new(faulty.clone(), &"m".into(), clock.clone(), Some(costs.clone()));
        let name = ObjectName::new("name").unwrap();
        cloud.put(&name, vec![vec![0; 10].into()], PutMode::Overwrite).await.unwrap();
        cloud.get(&name, Some(0..4)).await.unwrap();
        cloud.head(&name).await.unwrap();
        cloud.list("", None, 9).await.unwrap();
        cloud.delete(&name).await.unwrap();
        faulty.set(Side::Writes, Fault::Fail(ErrorKind::Transient));
        cloud.put(&name, vec![vec![0; 10].into()], PutMode::Overwrite).await.unwrap_err();
        faulty.set(Side::Reads, Fault::Hang);
        tokio::select! {
            _ = cloud.head(&name) => unreachable!("hangs"),
            () = clock.sleep(std::time::Duration::from_secs(1)) => {}
        }
        let expected = CostCounts {
            put: 2,
            get: 3,
            list: 1,
            delete: 1,
            given_up: 1,
            uploaded_bytes: 20,
            downloaded_bytes: 4,
        };
        assert_eq!(costs.counts(), expected);
    }
}
