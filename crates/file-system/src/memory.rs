//! A file system in memory: the reference model that others are compared with, and the stand-in for tests of
//! servers.
//!
//! The whole tree is one persistent value. A transaction works on its own copy of it, made by sharing, and
//! commits by putting its copy in the place of the common one. If another transaction that changed something
//! did so in between, the commit ends in [`FsError::Conflict`]. Nothing is durable.

mod content;
mod transaction;
mod tree;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use environment::{Clock, SystemClock};
use ids::{ObjectId, VolumeId};
use parking_lot::Mutex;
use tokio::sync::RwLock;

use crate::{Caller, FileId, FileSystem, FsError, FsResult, Mode, OpenReference, Transaction};
use transaction::MemoryTransaction;
use tree::Tree;

/// See the [module](self).
pub struct MemoryFileSystem {
    shared: Arc<Shared>,
}

/// What transactions and references share.
struct Shared {
    volume: VolumeId,
    clock: Arc<dyn Clock>,
    verifier: AtomicU64,
    committed: Mutex<Committed>,
    references: Mutex<HashMap<ObjectId, u64>>,
    /// Files without a name that were let go of: they cannot be referenced again, though a transaction may still see them.
    let_go: Mutex<HashSet<ObjectId>>,
    /// For content, in bytes.
    room: u64,
    /// Held for writing by an exclusive transaction, for reading by every other commit.
    turn: Arc<RwLock<()>>,
}

struct Committed {
    version: u64,
    tree: Tree,
}

impl MemoryFileSystem {
    /// An empty file system on the machine's clock; its root belongs to user and group 0, mode 0755.
    #[allow(clippy::new_without_default)]
    pub fn new() -> MemoryFileSystem {
        Self::with(VolumeId(1), Arc::new(SystemClock::new()))
    }

    /// An empty file system with this identity and clock.
    pub fn with(volume: VolumeId, clock: Arc<dyn Clock>) -> MemoryFileSystem {
        Self::with_room(volume, clock, 1 << 50)
    }

    /// The same, which has room for so many bytes of content: what is more is [`FsError::NoSpace`].
    pub fn with_room(volume: VolumeId, clock: Arc<dyn Clock>, room: u64) -> MemoryFileSystem {
        let now = clock.wall();
        let verifier = (now.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(u64::from(now.nanos));
        MemoryFileSystem {
            shared: Arc::new(Shared {
                volume,
                committed: Mutex::new(Committed { version: 0, tree: Tree::new(volume, now) }),
                clock,
                verifier: AtomicU64::new(verifier),
                references: Mutex::default(),
                let_go: Mutex::default(),
                room,
                turn: Arc::default(),
            }),
        }
    }

    /// The same with a root that everybody may write to: mode 0777.
    pub fn writable_by_all(self) -> MemoryFileSystem {
        self.shared.committed.lock().tree.set_root_mode(0o777);
        self
    }

    /// Says from now on, as after a crash, that what was written and not synced may be lost. Nothing is.
    pub fn change_write_verifier(&self) {
        self.shared.verifier.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl FileSystem for MemoryFileSystem {
    fn volume(&self) -> VolumeId {
        self.shared.volume
    }

    async fn begin(&self, caller: &Caller, mode: Mode) -> FsResult<Box<dyn Transaction>> {
        let turn = match mode {
            Mode::Optimistic => None,
            Mode::Exclusive => Some(self.shared.turn.clone().write_owned().await),
        };
        let (version, tree) = {
            let committed = self.shared.committed.lock();
            (committed.version, committed.tree.clone())
        };
        Ok(Box::new(MemoryTransaction::new(self.shared.clone(), caller.clone(), version, tree, turn)))
    }

    fn reference(&self, file: FileId) -> OpenReference {
        // Else the last reference could be dropped in between.
        let _committed = self.shared.committed.lock();
        if self.shared.let_go.lock().contains(&file.object) {
            return OpenReference::new(());
        }
        *self.shared.references.lock().entry(file.object).or_default() += 1;
        OpenReference::new(Reference { shared: self.shared.clone(), object: file.object })
    }

    async fn sync(&self, _file: FileId) -> FsResult<()> {
        Ok(())
    }

    fn write_verifier(&self) -> [u8; 8] {
        self.shared.verifier.load(Ordering::Relaxed).to_be_bytes()
    }
}

impl Shared {
    fn is_referenced(&self, object: ObjectId) -> bool {
        self.references.lock().contains_key(&object)
    }

    /// Puts `tree` in the place of the committed one, unless that has changed since `version`.
    fn replace(&self, version: u64, mut tree: Tree) -> FsResult<()> {
        let mut committed = self.committed.lock();
        if committed.version != version {
            return Err(FsError::Conflict);
        }
        tree.drop_orphans(|object| self.is_referenced(object));
        *committed = Committed { version: version + 1, tree };
        Ok(())
    }
}

/// One [`OpenReference`].
struct Reference {
    shared: Arc<Shared>,
    object: ObjectId,
}

impl Drop for Reference {
    fn drop(&mut self) {
        let mut committed = self.shared.committed.lock();
        {
            let mut references = self.shared.references.lock();
            if let Some(count) = references.get_mut(&self.object) {
                *count -= 1;
                if *count == 0 {
                    references.remove(&self.object);
                }
            }
        }
        // Not a new version: transactions that still see the orphan commit trees from which it is dropped again.
        let gone = committed.tree.drop_orphans(|object| self.shared.is_referenced(object));
        self.shared.let_go.lock().extend(gone);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conformance::model::{ManualClock, Subject, compare};

    async fn make() -> (Arc<dyn FileSystem>, ()) {
        (Arc::new(MemoryFileSystem::new()), ())
    }

    crate::conformance_tests!(make);

    struct Itself(Arc<dyn FileSystem>);

    #[async_trait]
    impl Subject for Itself {
        fn file_system(&self) -> Arc<dyn FileSystem> {
            self.0.clone()
        }

        async fn disturb(&mut self, _how: u16) {}
    }

    proptest! {
        /// Shows that the comparison itself is sound: no step depends on ids or on chance.
        #[test]
        fn the_model_equals_itself(steps in prop::collection::vec(any::<[u16; 6]>(), 0..150)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let clock = ManualClock::new();
                let mut subject = Itself(Arc::new(MemoryFileSystem::with(VolumeId(9), clock.clone())));
                compare(&mut subject, &clock, &steps).await;
            });
        }
    }
}
