use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{CloudError, ObjectName};

/// The largest object: 64 MiB. A larger one is refused by `put`, and an answer of `get` that would be larger is
/// refused before it is read into memory.
pub const MAX_OBJECT: u64 = 64 << 20;

/// The most names that one `list` returns.
pub const MAX_LIST: usize = 10_000;

/// What `put` does when the name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// Fails with [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) and changes nothing. Atomic: of
    /// several creators one wins. Refused where the store cannot decide that: by [`swift`](crate::swift), and by
    /// servers of [`webdav`](crate::webdav) without locks and of [`sftp`](crate::sftp) without hard links.
    Create,
    /// Replaces the object.
    Overwrite,
}

/// One untrusted object store.
///
/// # What every implementation promises, and no more
///
/// * **Who retries:** drivers never do; [`Retry`](crate::Retry) does, and only errors whose kind
///   [says that it may help](crate::ErrorKind::is_retryable).
/// * **What may be called twice:** everything. An operation that failed with
///   [`Transient`](crate::ErrorKind::Transient) or [`Timeout`](crate::ErrorKind::Timeout) *may have happened*.
/// * **Cancelling:** dropping a future stops the wait, at most finishes the operation in the background, and
///   never leaves half of an object under its name.
/// * **Durability:** when `put` and `delete` return `Ok`, the change survives a power loss of the store as far as
///   the store itself promises.
/// * **Atomicity:** a reader sees a whole object or none, old or new.
/// * **Trust:** none. An object may come back changed, swapped, old or not at all.
/// * **Permanent errors:** [`Refused`](crate::ErrorKind::Refused) needs a human (credentials, missing bucket,
///   full disk) and is not worth repeating before that.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Stores the concatenation of `parts` (at most [`MAX_OBJECT`] bytes) under `name`.
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError>;

    /// The object's bytes, or those of `range`, clipped to the object's end (so a range that starts beyond it is
    /// empty). [`NotFound`](crate::ErrorKind::NotFound) when there is no such object.
    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError>;

    /// The object's size in bytes, or [`NotFound`](crate::ErrorKind::NotFound).
    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError>;

    /// Removes the object; `Ok` also when there is none.
    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError>;

    /// Names that start with `prefix` (any characters of a name; empty for all) and sort after `after`, in byte
    /// order, with their sizes: the first `limit` of them, at most [`MAX_LIST`]. Fewer than asked for means that
    /// there are no more. Foreign objects whose names are no [`ObjectName`] are left out.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError>;
}

#[async_trait]
impl<C: Cloud + ?Sized> Cloud for Arc<C> {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        (**self).put(name, parts, mode).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        (**self).get(name, range).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        (**self).head(name).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        (**self).delete(name).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        (**self).list(prefix, after, limit).await
    }
}

/// The total length of `parts`.
pub(crate) fn length_of(parts: &[Bytes]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// `range` clipped to an object of `size` bytes; empty when it lies beyond the end or is reversed.
pub(crate) fn clip(range: Option<Range<u64>>, size: u64) -> Range<u64> {
    match range {
        None => 0..size,
        Some(range) => {
            let end = range.end.min(size);
            range.start.min(end)..end
        }
    }
}
