use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use ids::{BlockIndex, BlockShift};

use crate::block_key::BlockKey;
use crate::cache::Inner;
use crate::memory::{Parts, cut};
use crate::overlay::Overlay;
use crate::payload::Reading;
use crate::zeros::zeros;
use crate::{BlockLoader, CacheError, FileKey, Sealing};

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// Of which file.
    pub file: FileKey,
    /// The file's block size.
    pub shift: BlockShift,
    /// The file's size; nothing is read beyond it.
    pub size: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u64,
    /// Whether to look out for sequential readers. Off for reads that nobody continues, such as write-back's.
    pub readahead: bool,
}

/// What the block map says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing is stored; the block reads as zeros.
    Hole,
    /// This content.
    Version(Sealing),
    /// Content that was stored for another block, of a file with blocks of the same size: it is cached once for all that share
    /// it.
    Shared {
        /// Whose content it was at first.
        file: FileKey,
        /// Of which block there.
        block: BlockIndex,
        /// Which content.
        sealing: Sealing,
    },
}

impl Stored {
    /// Where the content of a block of `file` is cached.
    fn key(&self, file: FileKey, block: BlockIndex) -> Option<BlockKey> {
        match *self {
            Stored::Hole => None,
            Stored::Version(sealing) => Some(BlockKey { file, block, sealing }),
            Stored::Shared { file, block, sealing } => Some(BlockKey { file, block, sealing }),
        }
    }
}

/// A read that has seen the dirty data and waits for the versions of the other blocks.
pub struct ReadPlan {
    pub(crate) file: FileKey,
    pub(crate) shift: BlockShift,
    pub(crate) range: Range<u64>,
    pub(crate) overlay: Overlay,
    pub(crate) blocks: Vec<BlockIndex>,
    pub(crate) needed: usize,
}

impl ReadPlan {
    /// The blocks to look up in the block map, ascending: first [`ReadPlan::needed`] blocks that this read must have, then
    /// those to load ahead. Look them up *after* the plan was made, never before (see the crate's front page).
    pub fn blocks(&self) -> &[BlockIndex] {
        &self.blocks
    }

    /// How many of [`ReadPlan::blocks`] must be looked up; the others are worth it when that is cheap.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// How many bytes the read will give: what was asked for, up to the end of the file.
    pub fn length(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// A block's part of a read.
enum Base {
    Zeros(u64),
    Here(Parts, u64),
    Missing(BlockKey, Range<u64>),
}

impl Inner {
    pub fn plan_read(&self, request: &ReadRequest) -> ReadPlan {
        let start = request.offset.min(request.size);
        let range = start..request.offset.saturating_add(request.length).min(request.size).max(start);
        let overlay = self.dirty.overlay(request.file, range.clone());
        let mut blocks: Vec<_> = split(request.shift, &range)
            .filter(|(_, part)| !overlay.covers(part.clone()))
            .map(|p| p.0)
            .collect();
        let needed = blocks.len();
        if request.readahead {
            let ahead = self.readahead.observe(request.file, request.shift, request.size, &range, |wanted| {
                self.fetches.room_ahead(wanted)
            });
            blocks.extend((ahead.start.0..ahead.end.0).map(BlockIndex));
        }
        ReadPlan { file: request.file, shift: request.shift, range, overlay, blocks, needed }
    }

    pub async fn read(
        &self,
        plan: ReadPlan,
        stored: &[Stored],
        loader: &Arc<dyn BlockLoader>,
    ) -> Result<Vec<Bytes>, CacheError> {
        if stored.len() < plan.needed {
            return Err(CacheError::Unresolved { needed: plan.needed, given: stored.len() });
        }
        let bytes = plan.shift.bytes();

        let mut known = plan.blocks.iter().zip(stored).take(plan.needed).peekable();
        let mut bases = Vec::new();
        for (block, part) in split(plan.shift, &plan.range) {
            let length = part.end - part.start;
            let stored = known.next_if(|(known, _)| **known == block);
            bases.push(match stored.and_then(|(_, stored)| stored.key(plan.file, block)) {
                Some(key) => {
                    let start = plan.shift.start_of(block);
                    let (block, inside) = (key, part.start - start..part.end - start);
                    match self.clean.in_memory(block, inside.clone()) {
                        Some(parts) => Base::Here(parts, length),
                        None => Base::Missing(block, inside),
                    }
                }
                None => Base::Zeros(length),
            });
        }
        let missing = bases.iter().filter_map(|base| match base {
            Base::Missing(block, inside) => Some(self.find(*block, inside.clone(), bytes, loader)),
            _ => None,
        });
        let missing: Vec<_> = missing.collect();
        let ahead = || {
            for (block, stored) in plan.blocks.iter().zip(stored).skip(plan.needed) {
                if let Some(key) = stored.key(plan.file, *block) {
                    self.fetches.ahead(key, bytes, loader);
                }
            }
        };
        let found = if missing.is_empty() {
            ahead();
            Vec::new()
        } else {
            // In this order: the blocks that somebody waits for set out first.
            futures::join!(try_join_all(missing), async { ahead() }).0?
        };

        let mut found = found.into_iter();
        let mut rope = Vec::with_capacity(bases.len());
        for base in bases {
            let (parts, length) = match base {
                Base::Zeros(length) => (Parts::new(), length),
                Base::Here(parts, length) => (parts, length),
                Base::Missing(_, inside) => (found.next().unwrap_or_default(), inside.end - inside.start),
            };
            let mut left = length;
            for part in parts {
                left -= part.len() as u64;
                rope.push(part);
            }
            zeros(left, &mut rope);
        }
        let over = plan.overlay.over(plan.range, rope, self.payloads.get(), Reading::Maybe);
        over.await.map_err(|failure| failure.of(plan.file))
    }

    /// A part of a block that is not in memory.
    async fn find(
        &self,
        block: BlockKey,
        inside: Range<u64>,
        bytes: u64,
        loader: &Arc<dyn BlockLoader>,
    ) -> Result<Parts, CacheError> {
        if let Some(parts) = self.clean.on_disk(block, inside.clone()).await {
            return Ok(parts);
        }
        let whole = self.fetches.get(block, bytes, loader).await?;
        Ok(Parts::from_buf([cut(&whole, inside)]))
    }
}

/// The blocks that `range` touches, and which part of the range lies in each.
fn split(shift: BlockShift, range: &Range<u64>) -> impl Iterator<Item = (BlockIndex, Range<u64>)> + use<> {
    let range = range.clone();
    let first = range.start >> shift.get();
    let end = if range.is_empty() { first } else { shift.blocks_in(range.end) };
    (first..end).map(move |block| {
        let block = BlockIndex(block);
        let start = shift.start_of(block);
        (block, start.max(range.start)..start.saturating_add(shift.bytes()).min(range.end))
    })
}
