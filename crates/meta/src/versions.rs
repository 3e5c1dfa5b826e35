use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use journal::Lsn;

/// Entries of the table. Two keys that share one look like one key to conflict detection, no more.
const SLOTS: usize = 1 << 18;

/// A place in the [`VersionTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u32);

/// When each key was last written, by hash. Changed only under the overlay's write lock *and* the commit lock;
/// whoever holds either of them (the overlay's for reading will do) sees a steady table.
pub(crate) struct VersionTable {
    slots: Box<[AtomicU64]>,
    seed: u64,
}

impl VersionTable {
    /// The seed keeps clients from choosing names that collide.
    pub(crate) fn new(seed: u64) -> VersionTable {
        VersionTable { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), seed }
    }

    pub(crate) fn slot(&self, key: &[u8]) -> Slot {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write(key);
        Slot((hasher.finish() as usize & (SLOTS - 1)) as u32)
    }

    pub(crate) fn get(&self, slot: Slot) -> Lsn {
        Lsn(self.slots[slot.0 as usize].load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, slot: Slot, lsn: Lsn) {
        self.slots[slot.0 as usize].store(lsn.0, Ordering::Relaxed);
    }
}
