use std::sync::{Arc, Weak};
use std::time::Duration;

use super::BlockStore;

/// How often it is looked whether writes have ended.
const LOOK: Duration = Duration::from_millis(20);

/// Held by whoever puts fragments, or is about to; see [`BlockStore::writes_ended`].
#[derive(Clone, Debug)]
#[must_use = "a write has ended when it is dropped"]
pub struct Writing {
    _begun: Arc<()>,
}

/// The writes that have begun.
#[derive(Default)]
pub(super) struct Writes {
    /// Held by those that begin now.
    current: Arc<()>,
    /// Held by those that began before somebody waited; only such that are still held.
    earlier: Vec<Weak<()>>,
}

impl BlockStore {
    /// A write begins. Writers take it before they ask the metadata what to write, and drop it when the last fragment has
    /// been put.
    pub fn writing(&self) -> Writing {
        Writing { _begun: self.writes.lock().current.clone() }
    }

    /// Returns when every write that began before has ended: those with the clouds as they were, and those of versions that
    /// have become garbage since.
    pub async fn writes_ended(&self) {
        let before = {
            let mut writes = self.writes.lock();
            let last = Arc::downgrade(&std::mem::take(&mut writes.current));
            writes.earlier.push(last);
            writes.earlier.retain(|begun| begun.strong_count() > 0);
            writes.earlier.clone()
        };
        while before.iter().any(|begun| begun.strong_count() > 0) {
            self.env.clock.sleep(LOOK).await;
        }
    }
}
