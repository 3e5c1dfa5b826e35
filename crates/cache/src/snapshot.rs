use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ids::{BlockIndex, BlockShift};
use journal::Lsn;

use crate::cache::Inner;
use crate::memory::cut;
use crate::overlay::Overlay;
use crate::payload::Reading;
use crate::zeros::zeros;
use crate::{CacheError, FileKey};

/// The dirty data of one block at one instant: what a write-back stores. While it lives, the journal keeps the bytes.
pub struct BlockSnapshot {
    pub(crate) file: FileKey,
    pub(crate) shift: BlockShift,
    pub(crate) block: BlockIndex,
    pub(crate) overlay: Overlay,
    pub(crate) up_to: Lsn,
    pub(crate) cut: Lsn,
    pub(crate) cache: Arc<Inner>,
}

impl BlockSnapshot {
    /// Its file.
    pub fn file(&self) -> FileKey {
        self.file
    }

    /// The file's block size.
    pub fn shift(&self) -> BlockShift {
        self.shift
    }

    /// Which block.
    pub fn block(&self) -> BlockIndex {
        self.block
    }

    /// The newest record in it: what [`DataOp::Cleaned`](crate::DataOp::Cleaned) of this snapshot says.
    pub fn up_to(&self) -> Lsn {
        self.up_to
    }

    /// Whether all of it was [let through](crate::Cache::let_through).
    pub fn may_pass(&self) -> bool {
        self.up_to <= self.cache.dirty.passes_up_to(self.file)
    }

    /// Whether nothing of the block was dirty: what is stored of it is to be stored once more.
    pub fn is_clean(&self) -> bool {
        self.overlay.pieces().is_empty()
    }

    /// Whether the first `length` bytes of the block are all dirty, so that no stored content is needed. `length` is the
    /// block size, or less for the last block of a file.
    pub fn covers(&self, length: u64) -> bool {
        self.overlay.covers(self.range(length))
    }

    /// The first `length` bytes of the block: the dirty data over `base`. `base` is the stored content (padded with
    /// zeros when shorter), or empty for a hole; `None` is refused unless the snapshot covers the length.
    ///
    /// Zero-copy; reads back from the journal what is not in memory.
    pub async fn assemble(&self, length: u64, base: Option<&Bytes>) -> Result<Vec<Bytes>, CacheError> {
        let mut rope = Vec::new();
        match base {
            Some(base) => {
                let base = cut(base, 0..length);
                let missing = length - base.len() as u64;
                if !base.is_empty() {
                    rope.push(base);
                }
                zeros(missing, &mut rope);
            }
            None if self.covers(length) => zeros(length, &mut rope),
            None => return Err(CacheError::BaseNeeded { file: self.file, block: self.block }),
        }
        let over = self.overlay.over(self.range(length), rope, self.cache.payloads.get(), Reading::Once);
        over.await.map_err(|failure| failure.of(self.file))
    }

    /// Whether nothing was cut off the file since the snapshot was taken, by truncation, hole or removal. To be
    /// asked inside the transaction that commits the block, *after* it has read a row that every truncation writes:
    /// then no cut can slip in between. A snapshot that is not current must not be committed; write the block back anew.
    ///
    /// Valid while the [`DirtyBlock`](crate::DirtyBlock) it was taken from is held.
    pub fn is_current(&self) -> bool {
        self.cache.dirty.cut(self.file) == self.cut
    }

    fn range(&self, length: u64) -> Range<u64> {
        let start = self.shift.start_of(self.block);
        start..start + length.min(self.shift.bytes())
    }
}
