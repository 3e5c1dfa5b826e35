use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::FileKey;
use crate::block_key::BlockKey;
use crate::disk::{DiskTier, enters_memory};
use crate::memory::{Memory, PIECE, Parts, cut, pieces_of};
use crate::stats::Stats;
use crate::unread::Unread;

/// Pieces of a block of the usual size.
const PIECES_OF_MOST: usize = 64;

/// The clean blocks of the node: memory in front of the disk tier.
pub(crate) struct Clean {
    memory: Memory,
    unread: Unread,
    disk: Option<Arc<DiskTier>>,
    stats: Arc<Stats>,
    /// Moves on before something is forgotten: what was on its way is not to come back.
    forgotten: AtomicU64,
}

impl Clean {
    pub fn new(memory: u64, unread: Unread, disk: Option<Arc<DiskTier>>, stats: Arc<Stats>) -> Clean {
        Clean { memory: Memory::new(memory), unread, disk, stats, forgotten: AtomicU64::new(0) }
    }

    pub fn in_memory(&self, block: BlockKey, range: Range<u64>) -> Option<Parts> {
        let parts = self.memory.get(block, range.clone()).or_else(|| {
            let content = self.unread.take(block)?;
            self.memory.insert_whole(block, content.clone());
            Some(Parts::from_buf([cut(&content, range)]))
        })?;
        Stats::add(&self.stats.memory_hits);
        Some(parts)
    }

    /// Bytes of blocks that nobody asked for yet which are welcome; `wanted` says how many there might be.
    pub fn room_ahead(&self, wanted: u64) -> u64 {
        self.unread.room(wanted)
    }

    /// Takes a block that was loaded ahead of its reader.
    pub fn insert_ahead(&self, block: BlockKey, bytes: Bytes) {
        self.insert_on_disk(block, bytes.clone());
        self.unread.put(block, bytes);
    }

    /// The bytes of `range` that the disk tier has; a few come into memory too.
    pub async fn on_disk(&self, block: BlockKey, range: Range<u64>) -> Option<Parts> {
        let forgotten = self.forgotten();
        let pieces = self.disk.as_ref()?.read(block, range.clone()).await?;
        Stats::add(&self.stats.disk_hits);
        let mut parts = Parts::new();
        let enter = enters_memory(pieces.len());
        for (piece, bytes) in pieces {
            let start = u64::from(piece) * PIECE;
            parts.push(cut(&bytes, range.start.saturating_sub(start)..range.end - start));
            if enter {
                self.memory.insert_piece(block, piece, bytes);
            }
        }
        self.forget_if_since(forgotten, block);
        Some(parts)
    }

    /// Whether the block can be had without a cloud.
    pub fn has(&self, block: BlockKey) -> bool {
        self.memory.has_whole(block)
            || self.unread.contains(block)
            || self.disk.as_ref().is_some_and(|disk| disk.contains(block))
    }

    pub fn insert(&self, block: BlockKey, bytes: Bytes) {
        self.insert_on_disk(block, bytes.clone());
        self.memory.insert_whole(block, bytes);
    }

    pub fn insert_in_memory(&self, block: BlockKey, bytes: Bytes) {
        self.memory.insert_whole(block, bytes);
    }

    pub fn insert_on_disk(&self, block: BlockKey, bytes: Bytes) {
        if let Some(disk) = &self.disk {
            disk.insert(block, bytes);
        }
    }

    pub fn remove_from_memory(&self, block: BlockKey) {
        self.memory.remove_whole(block);
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory.bytes() + self.unread.bytes()
    }

    pub fn disk(&self) -> Option<&Arc<DiskTier>> {
        self.disk.as_ref()
    }

    /// How often something was forgotten.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::SeqCst)
    }

    /// Forgets a block that may have come in although it was forgotten on its way, if anything was since then.
    pub fn forget_if_since(&self, forgotten: u64, block: BlockKey) {
        if self.forgotten() != forgotten {
            self.drop_all(|other| *other == block);
        }
    }

    /// Forgets the blocks of one file.
    pub fn forget(&self, file: FileKey) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.drop_all(|block| block.file == file);
    }

    fn drop_all(&self, is_gone: impl Fn(&BlockKey) -> bool) {
        if let Some(disk) = &self.disk {
            disk.forget(&is_gone);
        }
        self.memory.retain(|block| !is_gone(block));
        self.unread.retain(|block| !is_gone(block));
    }

    /// Forgets everything.
    pub async fn clear(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        if let Some(disk) = &self.disk {
            disk.clear().await;
        }
        // Last, as what is on the disk comes into memory.
        self.clear_memory();
    }

    /// Takes blocks out of the memory. What is on the disk goes with its region, and pieces of blocks that have left the disk already
    /// when others need their place.
    pub fn discard(&self, blocks: &[BlockKey]) {
        blocks.iter().for_each(|&block| drop(self.unread.take(block)));
        // Whatever is less: to look for each of them, or at all that there is.
        if blocks.len() > self.memory.len() / PIECES_OF_MOST {
            let blocks: HashSet<_> = blocks.iter().collect();
            return self.memory.retain(|block| !blocks.contains(block));
        }
        for &block in blocks {
            self.memory.remove_whole(block);
            let length = self.disk.as_ref().and_then(|disk| disk.length_of(block));
            for piece in length.iter().flat_map(|&length| pieces_of(&(0..length))) {
                self.memory.remove_piece(block, piece);
            }
        }
    }

    /// Forgets everything in memory.
    pub fn clear_memory(&self) {
        self.memory.clear();
        self.unread.clear();
    }
}
