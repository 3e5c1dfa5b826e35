//! Blocks that share a version go on to share what it was stored as by another policy.
//!
//! As with contents (decision 23), the rows here say where to look and nothing else.

use ids::{BlockIndex, ObjectId};
use meta::Scan;

use crate::VolumeError;
use crate::contents::HeldContent;
use crate::garbage::Discarded;
use crate::node::upkeep_transaction;
use crate::row::{
    BlockEntry, CHUNK_BLOCKS, GarbageRow, GarbageVersion, Origin, Sealed, decode_stored_as, encode_stored_as,
};
use crate::shares::{Released, ShareBook};
use crate::volume::Inner;

/// Versions that are forgotten in one transaction.
const VERSIONS: usize = 256;

impl Inner {
    /// What is stored as `from` is also stored as `to`, by this policy.
    pub fn put_moved(&self, transaction: &mut dyn meta::Transaction, from: Origin, policy: u32, to: Sealed) {
        transaction.put(self.keys.moved(from, policy), encode_stored_as(to));
    }

    /// The version by this policy that holds the same as `from`, if some block holds it and one more may.
    pub async fn has_moved(
        &self,
        transaction: &mut dyn meta::Transaction,
        book: &mut ShareBook<'_>,
        from: Origin,
        policy: u32,
    ) -> Result<Option<HeldContent>, VolumeError> {
        let Some(row) = transaction.get(&self.keys.moved(from, policy)).await? else { return Ok(None) };
        let to =
            decode_stored_as(&row).map_err(self.damaged("a block that was moved of object", from.object))?;
        self.held_version(transaction, book, to, policy).await
    }

    /// Makes blocks of one chunk, which are still what they are said to be, share what others were moved to that held the same. How many.
    pub async fn share_moved(
        &self,
        object: ObjectId,
        number: u64,
        blocks: &[(u64, BlockEntry)],
    ) -> Result<usize, VolumeError> {
        if blocks.is_empty() {
            return Ok(0);
        }
        let first = BlockIndex(number * CHUNK_BLOCKS);
        upkeep_transaction!(self.node, |transaction| {
            // As for every commit of blocks.
            transaction.get(&self.keys.cut(object)).await?;
            let mut beside = self.node.store.begin(meta::Mode::Optimistic).await?;
            let file = self.file_rows(&mut *beside, object).await?;
            let (Some(key), Some(file)) = (self.key_row(transaction, object).await?, file) else {
                return Ok(0);
            };
            let mut shared = 0;
            let row = transaction.get(&self.keys.chunk(object, first)).await?;
            let mut chunk = self.chunk(object, row.as_deref())?;
            let (mut book, mut garbage) = (ShareBook::new(self), Discarded::default());
            for &(index, old) in blocks {
                if chunk.get(index) != old {
                    continue;
                }
                let block = BlockIndex(first.0 + index);
                let from = old.sealed(object, block).origin;
                let to = self.has_moved(transaction, &mut book, from, file.policy_id).await?;
                let Some(to) = to else { continue };
                book.take(transaction, to.sealed, to.owner()).await?;
                if let Released::Own(version) = book.release(transaction, object, block, old).await? {
                    garbage.push(file.policy_of(old), version);
                }
                let Sealed { origin, creator, seal } = to.sealed;
                let origin = Some(origin);
                shared += 1;
                chunk.set(index, BlockEntry { creator, seal, origin, policy: None, ..old });
            }
            transaction.put(self.keys.chunk(object, first), chunk.encode());
            self.put_discarded(transaction, object, &key, garbage).await?;
            book.finish(transaction).await?;
            Ok(shared)
        })
    }

    /// Forgets what the versions of a row of garbage were moved to: nobody shares them any more.
    pub async fn forget_moved(&self, garbage: &GarbageRow) -> Result<(), VolumeError> {
        let (start, end) = self.keys.all_moved();
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        let scan = Scan { start: &start, end: &end, guard: None, limit: 1 };
        if transaction.scan(scan).await?.is_empty() {
            return Ok(());
        }
        for part in garbage.versions.chunks(VERSIONS) {
            let forgotten: Result<(), VolumeError> = upkeep_transaction!(self.node, |transaction| {
                for &GarbageVersion { block, version, .. } in part {
                    let origin = Origin { object: garbage.object, block, version };
                    let (start, end) = self.keys.all_moved_of(origin);
                    let scan = Scan { start: &start, end: &end, guard: None, limit: VERSIONS };
                    for (key, _) in transaction.scan(scan).await? {
                        transaction.delete(key);
                    }
                }
                Ok(())
            });
            forgotten?;
        }
        Ok(())
    }
}
