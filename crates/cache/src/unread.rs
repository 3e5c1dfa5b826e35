use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use environment::Clock;
use parking_lot::Mutex;

use crate::block_key::BlockKey;

/// A block that nobody has come for after this long makes room for others.
const PATIENCE: Duration = Duration::from_secs(5);

/// Blocks that were loaded ahead of a reader who has not come yet. Apart from the other clean blocks, whose policy
/// would drop what was never read first, and with it all readahead.
pub(crate) struct Unread {
    blocks: Mutex<Blocks>,
    bytes: AtomicU64,
    limit: u64,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Blocks {
    content: HashMap<BlockKey, Bytes>,
    /// With the time of loading; some have been taken already.
    order: VecDeque<(Duration, BlockKey)>,
}

impl Unread {
    pub fn new(limit: u64, clock: Arc<dyn Clock>) -> Unread {
        Unread { blocks: Mutex::default(), bytes: AtomicU64::new(0), limit, clock }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that still fit; below `wanted`, at the expense of blocks that nobody came for.
    pub fn room(&self, wanted: u64) -> u64 {
        let room = || self.limit.saturating_sub(self.bytes());
        if room() >= wanted {
            return room();
        }
        let mut blocks = self.blocks.lock();
        let now = self.clock.monotonic();
        while let Some((loaded, block)) = blocks.order.front().copied() {
            let waiting = blocks.content.contains_key(&block);
            if waiting && now.saturating_sub(loaded) < PATIENCE {
                break;
            }
            blocks.order.pop_front();
            self.remove(&mut blocks, block);
        }
        room()
    }

    /// Keeps a block, whether it fits or not: it was loaded already.
    pub fn put(&self, block: BlockKey, content: Bytes) {
        let mut blocks = self.blocks.lock();
        self.bytes.fetch_add(content.len() as u64, Ordering::Relaxed);
        if let Some(before) = blocks.content.insert(block, content) {
            self.bytes.fetch_sub(before.len() as u64, Ordering::Relaxed);
        } else {
            blocks.order.push_back((self.clock.monotonic(), block));
        }
        if blocks.order.len() > 64 + 2 * blocks.content.len() {
            let Blocks { content, order } = &mut *blocks;
            order.retain(|(_, block)| content.contains_key(block));
        }
    }

    pub fn contains(&self, block: BlockKey) -> bool {
        self.bytes() > 0 && self.blocks.lock().content.contains_key(&block)
    }

    /// The reader has come.
    pub fn take(&self, block: BlockKey) -> Option<Bytes> {
        if self.bytes() == 0 {
            return None;
        }
        self.remove(&mut self.blocks.lock(), block)
    }

    /// Looks at every block.
    pub fn retain(&self, stays: impl Fn(&BlockKey) -> bool) {
        let mut blocks = self.blocks.lock();
        let mut dropped = 0;
        blocks.content.retain(|block, content| {
            let stays = stays(block);
            dropped += if stays { 0 } else { content.len() as u64 };
            stays
        });
        self.bytes.fetch_sub(dropped, Ordering::Relaxed);
    }

    pub fn clear(&self) {
        let mut blocks = self.blocks.lock();
        *blocks = Blocks::default();
        self.bytes.store(0, Ordering::Relaxed);
    }

    fn remove(&self, blocks: &mut Blocks, block: BlockKey) -> Option<Bytes> {
        let content = blocks.content.remove(&block)?;
        self.bytes.fetch_sub(content.len() as u64, Ordering::Relaxed);
        Some(content)
    }
}
