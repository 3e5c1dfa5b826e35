use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ids::{BlockIndex, BlockShift, ObjectId, VolumeId};
use journal::Lsn;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::FileKey;
use crate::dirty::Dirty;

/// Which dirty blocks to claim.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Stop when the claimed blocks have this many dirty bytes (at least one block is given).
    pub bytes: u64,
    /// Stop at this many blocks.
    pub blocks: usize,
    /// Writers will soon wait for space: take the oldest blocks, rested or not.
    pub hurry: bool,
}

/// A dirty block that the holder is writing back; nobody else gets it meanwhile. Dropping it puts the block
/// back into the queue, with whatever is still dirty.
#[must_use = "dropping a claim gives the block back unwritten"]
pub struct DirtyBlock {
    /// Its file.
    pub file: FileKey,
    /// The file's block size.
    pub shift: BlockShift,
    /// Which block.
    pub block: BlockIndex,
    pub(crate) dirty: Arc<Dirty>,
    /// Of one that was clean; dropped with the claim.
    pub(crate) ticket: Option<Ticket>,
}

impl DirtyBlock {
    /// Whether nothing of it was dirty when it was claimed: somebody wants it stored once more.
    pub fn is_rewrite(&self) -> bool {
        self.ticket.is_some()
    }
}

/// What is kept as long as a claim, for those who wait for its end.
pub type Ticket = Box<dyn std::any::Any + Send + Sync>;

impl Drop for DirtyBlock {
    fn drop(&mut self) {
        self.dirty.release(self.file, self.block);
    }
}

impl std::fmt::Debug for DirtyBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DirtyBlock({}, block {})", self.file, self.block)
    }
}

/// A block's place in the queue of its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub oldest: Lsn,
    pub lane: Lane,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Somebody waits for it.
    Urgent,
    /// All of it is dirty: what follows will hardly change it.
    Full,
    /// Waits for more changes.
    Resting,
    /// Being written back.
    Claimed,
    /// Of a file that is kept from write-back until it is let through.
    Waiting,
    /// Of a file that stays here.
    Kept,
}

/// Lanes of a volume.
const LANES: usize = 6;

type Entry = (Lsn, ObjectId, BlockIndex);

/// The dirty blocks of each volume, oldest first.
pub(crate) struct Queue {
    volumes: Mutex<HashMap<VolumeId, [BTreeSet<Entry>; LANES]>>,
    /// Ticks when an urgent or full block appears.
    work: watch::Sender<u64>,
}

impl Queue {
    pub fn new() -> Queue {
        Queue { volumes: Mutex::default(), work: watch::Sender::new(0) }
    }

    /// Moves a block from one place to another.
    pub fn move_block(&self, file: FileKey, block: BlockIndex, from: Option<Place>, to: Option<Place>) {
        if from == to {
            return;
        }
        let mut volumes = self.volumes.lock();
        if let Some(from) = from
            && let Some(lanes) = volumes.get_mut(&file.volume)
        {
            lanes[from.lane as usize].remove(&(from.oldest, file.object, block));
            if to.is_none() && lanes.iter().all(BTreeSet::is_empty) {
                volumes.remove(&file.volume);
            }
        }
        if let Some(to) = to {
            let lanes = volumes.entry(file.volume).or_default();
            lanes[to.lane as usize].insert((to.oldest, file.object, block));
            drop(volumes);
            if matches!(to.lane, Lane::Urgent | Lane::Full) {
                self.work.send_modify(|tick| *tick += 1);
            }
        }
    }

    pub fn work(&self) -> watch::Receiver<u64> {
        self.work.subscribe()
    }

    pub fn volumes(&self) -> Vec<VolumeId> {
        self.volumes.lock().keys().copied().collect()
    }

    /// The oldest record with dirty data of a volume, but for what stays here.
    pub fn oldest(&self, volume: VolumeId) -> Option<Lsn> {
        let volumes = self.volumes.lock();
        let lanes = &volumes.get(&volume)?[..Lane::Kept as usize];
        lanes.iter().filter_map(|lane| lane.first()).map(|entry| entry.0).min()
    }

    /// Up to `most` entries of a lane from `after` on, oldest first.
    pub fn entries(
        &self,
        volume: VolumeId,
        lane: Lane,
        after: Option<Entry>,
        most: usize,
    ) -> Vec<(Lsn, ObjectId, BlockIndex)> {
        use std::ops::Bound::{Excluded, Unbounded};

        let volumes = self.volumes.lock();
        let Some(lanes) = volumes.get(&volume) else { return Vec::new() };
        let from = after.map_or(Unbounded, Excluded);
        lanes[lane as usize].range((from, Unbounded)).take(most).copied().collect()
    }
}
