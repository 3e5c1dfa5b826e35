use std::sync::Arc;

use cache::{BlockLoader, Sealing};
use futures::stream::{StreamExt, iter};
use ids::{BlockIndex, BlockShift, ObjectId};

use crate::VolumeError;
use crate::node::consistent_read;
use crate::row::{Origin, Sealed, Special};
use crate::volume::{Inner, Loader, Volume, is_superseded};

/// Blocks fetched at the same time.
const PARALLEL: usize = 8;

/// What was brought into the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Blocks that the clouds were asked for.
    pub fetched: u64,
    /// Blocks that the file has.
    pub blocks: u64,
    /// Where to go on; `None` at the end of the file.
    pub next: Option<BlockIndex>,
}

/// Blocks of a file, up to `end`, that are not in the cache.
struct Cold {
    shift: BlockShift,
    /// Blocks that the file has.
    blocks: u64,
    end: u64,
    cold: Vec<(Origin, Sealing)>,
}

impl Volume {
    /// Brings up to `limit` blocks of a file, from `first` on, into the cache unless they are there (`kurma cache warm`).
    /// `None`: there is no such regular file.
    pub async fn warm(
        &self,
        object: ObjectId,
        first: BlockIndex,
        limit: u64,
    ) -> Result<Option<Warmed>, VolumeError> {
        let inner = &self.inner;
        let found: Result<Option<Cold>, VolumeError> = consistent_read!(inner.node, |transaction| {
            inner.cold_blocks(transaction, object, first, limit).await
        });
        let Some(Cold { shift, blocks, end, cold }) = found? else { return Ok(None) };
        let fetched = cold.len() as u64;
        let loader: Arc<dyn BlockLoader> = Arc::new(Loader { volume: self.clone() });
        let fetch = |(Origin { object, block, .. }, sealing)| {
            let loader = loader.clone();
            async move { inner.node.cache.warm(inner.file_key(object), shift, block, sealing, &loader).await }
        };
        let mut fetches = iter(cold).map(fetch).buffer_unordered(PARALLEL);
        while let Some(done) = fetches.next().await {
            match done {
                // Overwritten meanwhile: what is there now was written here, and is as warm as it gets.
                Err(cache::CacheError::Load { cause, .. }) if is_superseded(&cause) => {}
                done => done.map_err(VolumeError::Cache)?,
            }
        }
        Ok(Some(Warmed { fetched, blocks, next: (end < blocks).then_some(BlockIndex(end)) }))
    }

    /// Forgets the clean blocks of a file (`kurma cache evict`); those that it shares are kept with the file that they were
    /// stored for.
    pub fn evict(&self, object: ObjectId) {
        self.inner.node.cache.evict(self.inner.file_key(object));
    }
}

impl Inner {
    async fn cold_blocks(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        first: BlockIndex,
        limit: u64,
    ) -> Result<Option<Cold>, VolumeError> {
        let Some(file) = self.file_rows(transaction, object).await? else { return Ok(None) };
        let Special::File { shift, .. } = file.inode.special else { return Ok(None) };
        let blocks = shift.blocks_in(file.inode.attributes.size);
        let end = blocks.min(first.0.saturating_add(limit));
        let mut cold = Vec::new();
        for block in (first.0..end).map(BlockIndex) {
            let Some(entry) = self.block_entry(transaction, object, block).await? else { continue };
            if entry.is_stored() && !self.is_cached(object, block, entry) {
                let Sealed { origin, seal, .. } = entry.sealed(object, block);
                cold.push((origin, Sealing { version: origin.version, seal }));
            }
        }
        Ok(Some(Cold { shift, blocks, end, cold }))
    }
}
