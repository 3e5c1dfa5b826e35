use std::sync::Arc;

use ids::VolumeId;

use crate::dirty::{Dirty, EXTENT_BYTES};

/// Leave to make data of a volume dirty. Kept from before the transaction until after its commit, so that the space it
/// counts is counted without a gap.
#[must_use = "dropping an admission before the commit lets others have its space"]
pub struct Admission {
    dirty: Arc<Dirty>,
    volume: VolumeId,
    bytes: u64,
    /// Bytes of the books.
    books: u64,
}

impl Admission {
    pub(crate) fn take(dirty: &Arc<Dirty>, volume: VolumeId, bytes: u64) -> Option<Admission> {
        // Only looked at first: what was taken and given back again could have kept another one from growing, whom
        // nobody would wake.
        if !dirty.books.may_grow(volume) || !dirty.shares.take(volume, bytes) {
            return None;
        }
        dirty.books.add(volume, EXTENT_BYTES);
        Some(Admission { dirty: Arc::clone(dirty), volume, bytes, books: EXTENT_BYTES })
    }

    /// More of the same transaction. Never waits: transactions that wait for each other's second part would wait
    /// for ever.
    pub fn grow(&mut self, bytes: u64) {
        self.dirty.shares.add(self.volume, bytes);
        self.bytes += bytes;
        self.dirty.books.add(self.volume, EXTENT_BYTES);
        self.books += EXTENT_BYTES;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.dirty.shares.give_back(self.volume, self.bytes);
        self.dirty.books.give_back(self.volume, self.books);
        self.dirty.tick();
    }
}
