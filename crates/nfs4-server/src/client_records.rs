//! Which clients may reclaim after a restart.

use std::collections::BTreeSet;

use async_trait::async_trait;
use parking_lot::Mutex;

/// Why client records could not be read or changed; the text says what and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client records: {0}")]
pub struct RecordsError(pub String);

/// Durable list of the clients that may hold state, by their owner ids (RFC 8881 §8.4.2.1).
///
/// A client is put there before it gets anything that it could reclaim, and removed before somebody else gets what it held,
/// or when it has held nothing for some seconds. After a restart exactly the listed clients may reclaim. Both changes may be
/// repeated; there is one at a time for an owner id.
#[async_trait]
pub trait ClientRecords: Send + Sync {
    /// All owner ids, in any order; each at most 1,031 bytes: those of clients of 4.0 have `nfs4.0:` before them.
    async fn load(&self) -> Result<Vec<Vec<u8>>, RecordsError>;

    /// Adds one. Durable when it returns.
    async fn put(&self, owner_id: &[u8]) -> Result<(), RecordsError>;

    /// Removes one; also succeeds if it is not there. Durable when it returns.
    async fn remove(&self, owner_id: &[u8]) -> Result<(), RecordsError>;
}

/// Records that last as long as the process; a server that shares them with its predecessor in the same process
/// behaves as after a restart.
#[derive(Debug, Default)]
pub struct MemoryClientRecords {
    owners: Mutex<BTreeSet<Vec<u8>>>,
}

#[async_trait]
impl ClientRecords for MemoryClientRecords {
    async fn load(&self) -> Result<Vec<Vec<u8>>, RecordsError> {
        Ok(self.owners.lock().iter().cloned().collect())
    }

    async fn put(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        self.owners.lock().insert(owner_id.to_vec());
        Ok(())
    }

    async fn remove(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        self.owners.lock().remove(owner_id);
        Ok(())
    }
}
