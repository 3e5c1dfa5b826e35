use std::sync::Arc;

use ids::VolumeId;

use crate::dirty::Dirty;

/// Leave to make data of a volume dirty. Kept from before the transaction until after its commit, so that the space it
/// counts is counted without a gap.
#[must_use = "dropping an admission before the commit lets others have its space"]
pub struct Admission {
    dirty: Arc<Dirty>,
    volume: VolumeId,
    bytes: u64,
}

impl Admission {
    pub(crate) fn take(dirty: &Arc<Dirty>, volume: VolumeId, bytes: u64) -> Option<Admission> {
        if dirty.bookkeeping() > dirty.bookkeeping_limit() || !dirty.shares.take(volume, bytes) {
            return None;
        }
        Some(Admission { dirty: Arc::clone(dirty), volume, bytes })
    }

    /// More of the same transaction. Never waits: transactions that wait for each other's second part would wait
    /// for ever.
    pub fn grow(&mut self, bytes: u64) {
        self.dirty.shares.add(self.volume, bytes);
        self.bytes += bytes;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.dirty.shares.give_back(self.volume, self.bytes);
        self.dirty.tick();
    }
}
