//! Drivers that speak a protocol themselves: their failures are made errors of the contract in one place.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Cloud, CloudError, MAX_LIST, ObjectName, Operation, PutMode};

/// As [`Cloud`], with failures as the protocol has them.
#[async_trait]
pub(crate) trait Driver: Send + Sync {
    /// What can go wrong.
    type Failure: Send;

    /// The failure of an operation with an object, or with the prefix of a listing, as the contract has it.
    fn error(&self, operation: Operation, object: &str, failure: Self::Failure) -> CloudError;

    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), Self::Failure>;

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, Self::Failure>;

    async fn head(&self, name: &ObjectName) -> Result<u64, Self::Failure>;

    async fn delete(&self, name: &ObjectName) -> Result<(), Self::Failure>;

    /// At most [`MAX_LIST`]; `after` is empty for all.
    async fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, Self::Failure>;
}

/// A driver as a cloud.
pub(crate) struct Driven<D>(pub D);

#[async_trait]
impl<D: Driver> Cloud for Driven<D> {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let put = self.0.put(name, parts, mode).await;
        put.map_err(|failure| self.0.error(Operation::Put, name.as_str(), failure))
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        let got = self.0.get(name, range).await;
        got.map_err(|failure| self.0.error(Operation::Get, name.as_str(), failure))
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        let size = self.0.head(name).await;
        size.map_err(|failure| self.0.error(Operation::Head, name.as_str(), failure))
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        let deleted = self.0.delete(name).await;
        deleted.map_err(|failure| self.0.error(Operation::Delete, name.as_str(), failure))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        let listed = self.0.list(prefix, after.map_or("", ObjectName::as_str), limit.min(MAX_LIST)).await;
        listed.map_err(|failure| self.0.error(Operation::List, prefix, failure))
    }
}
