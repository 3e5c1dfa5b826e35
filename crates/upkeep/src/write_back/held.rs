use std::collections::HashMap;
use std::time::Duration;

use cache::{DirtyBlock, FileKey};
use ids::BlockIndex;

/// Blocks remembered; beyond it a failing block goes back to the queue at once.
const MOST: usize = 65_536;

/// Blocks that could not be written back, held out of the queue until their pause is over, so that one bad block
/// does not keep the others waiting.
#[derive(Default)]
pub(super) struct Held {
    blocks: HashMap<(FileKey, BlockIndex), HeldBlock>,
}

struct HeldBlock {
    failures: u32,
    until: Duration,
    /// `None` while it is tried again.
    dirty: Option<DirtyBlock>,
}

impl Held {
    /// Holds a block after one more failure, until the instant that `until` gives for their number.
    pub fn hold(&mut self, dirty: DirtyBlock, until: impl FnOnce(u32) -> Duration) {
        let key = (dirty.file, dirty.block);
        if self.blocks.len() >= MOST && !self.blocks.contains_key(&key) {
            return;
        }
        let held =
            self.blocks.entry(key).or_insert(HeldBlock { failures: 0, until: Duration::ZERO, dirty: None });
        held.failures = held.failures.saturating_add(1);
        held.until = until(held.failures);
        held.dirty = Some(dirty);
    }

    /// Gives blocks whose pause is over back to the queue. Of one that has not failed again for `long` after that nothing is dirty any more.
    pub fn release_due(&mut self, now: Duration, long: Duration) {
        self.blocks.retain(|_, held| now <= held.until + long);
        for held in self.blocks.values_mut().filter(|held| held.until <= now) {
            held.dirty = None;
        }
    }

    /// Gives all back to the queue.
    pub fn release_all(&mut self) {
        self.blocks.values_mut().for_each(|held| held.dirty = None);
    }

    /// The block was written back, or is of no use any more.
    pub fn forget(&mut self, dirty: &DirtyBlock) {
        self.blocks.remove(&(dirty.file, dirty.block));
    }
}
