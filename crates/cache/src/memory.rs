use std::ops::Range;

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use smallvec::SmallVec;

use crate::block_key::BlockKey;

/// Blocks are kept and sealed on disk in pieces of this many bytes, so that a small read of a large block on disk
/// touches little of it.
pub(crate) const PIECE: u64 = 16 << 10;

/// What an entry costs beside its bytes.
const ENTRY_BYTES: u64 = 192;
/// A shard below this could not hold a few blocks of the largest size.
const SHARD_BYTES: u64 = 64 << 20;

/// The part of the memory that blocks can win by being read again. The rest is for new ones: a sequential reader takes a
/// block in many small reads, and it should last that long.
const HOT: f64 = 0.75;

/// Consecutive bytes of a block.
pub(crate) type Parts = SmallVec<[Bytes; 1]>;

/// Clean blocks in memory, under a policy that one-time scans do not wash out.
pub(crate) struct Memory {
    entries: Cache<Key, Bytes, Weight>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    block: BlockKey,
    part: Part,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Part {
    /// As it came from the clouds or was written back.
    Whole,
    /// As it came from the disk tier: the piece of this index.
    Piece(u32),
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Bytes> for Weight {
    fn weight(&self, _key: &Key, bytes: &Bytes) -> u64 {
        bytes.len() as u64 + ENTRY_BYTES
    }
}

impl Memory {
    pub fn new(bytes: u64) -> Memory {
        let shards = (bytes / SHARD_BYTES).clamp(1, 16) as usize;
        let options = OptionsBuilder::new()
            .estimated_items_capacity((bytes / PIECE).max(16) as usize)
            .weight_capacity(bytes)
            .shards(shards)
            .hot_allocation(HOT)
            .build();
        let entries = match options {
            Ok(options) => Cache::with_options(
                options,
                Weight,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            Err(_) => Cache::with_weighter(16, bytes, Weight),
        };
        Memory { entries }
    }

    /// The bytes of `range` of a block, or fewer where the block is shorter; `None` when any is missing here.
    pub fn get(&self, block: BlockKey, range: Range<u64>) -> Option<Parts> {
        if let Some(whole) = self.entries.get(&Key { block, part: Part::Whole }) {
            return Some(SmallVec::from_buf([cut(&whole, range)]));
        }
        let mut parts = Parts::new();
        for piece in pieces_of(&range) {
            let bytes = self.entries.get(&Key { block, part: Part::Piece(piece) })?;
            let start = u64::from(piece) * PIECE;
            parts.push(cut(&bytes, range.start.saturating_sub(start)..range.end - start));
            if (bytes.len() as u64) < PIECE {
                break;
            }
        }
        Some(parts)
    }

    pub fn insert_whole(&self, block: BlockKey, bytes: Bytes) {
        self.entries.insert(Key { block, part: Part::Whole }, bytes);
    }

    pub fn remove_whole(&self, block: BlockKey) {
        self.entries.remove(&Key { block, part: Part::Whole });
    }

    pub fn insert_piece(&self, block: BlockKey, piece: u32, bytes: Bytes) {
        self.entries.insert(Key { block, part: Part::Piece(piece) }, bytes);
    }

    pub fn remove_piece(&self, block: BlockKey, piece: u32) {
        self.entries.remove(&Key { block, part: Part::Piece(piece) });
    }

    pub fn has_whole(&self, block: BlockKey) -> bool {
        self.entries.contains_key(&Key { block, part: Part::Whole })
    }

    pub fn bytes(&self) -> u64 {
        self.entries.weight()
    }

    pub fn clear(&self) {
        self.entries.clear();
    }

    /// Entries, of whole blocks and of pieces.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Looks at every entry.
    pub fn retain(&self, stays: impl Fn(&BlockKey) -> bool) {
        self.entries.retain(|key, _| stays(&key.block));
    }
}

/// The part of `range` that `bytes` has.
pub(crate) fn cut(bytes: &Bytes, range: Range<u64>) -> Bytes {
    let length = bytes.len() as u64;
    bytes.slice(range.start.min(length) as usize..range.end.min(length) as usize)
}

/// The pieces that a range of a block touches.
pub(crate) fn pieces_of(range: &Range<u64>) -> Range<u32> {
    (range.start / PIECE) as u32..range.end.div_ceil(PIECE) as u32
}
