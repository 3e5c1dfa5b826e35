//! What to store of dirty blocks, and the commit of what was stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cache::DataOp;
use ids::{BlockIndex, BlockShift, ObjectId, Version};
use meta::Attachment;
use seal::BlockIdentity;
use upkeep::{Base, BlockVersion, NewBlock, Plan, Written, WrittenAs};

use crate::VolumeError;
use crate::node::upkeep_transaction;
use crate::repair::{fragment_mask, repair_row};
use crate::row::{BlockEntry, CHUNK_BLOCKS, Chunk, GarbageVersion, Special};
use crate::volume::{FileRows, Inner, Volume};

impl Volume {
    /// What to store of `blocks`, in their order. To be asked after the snapshots of the blocks were taken: then
    /// the length covers all that is in them. Every call gives new version numbers; those of attempts that
    /// fail are skipped.
    pub async fn plan_write_back(&self, blocks: &[(ObjectId, BlockIndex)]) -> Result<Vec<Plan>, VolumeError> {
        let inner = &self.inner;
        let found: Result<Vec<_>, VolumeError> = upkeep_transaction!(inner.node, |transaction| {
            let mut found = Vec::with_capacity(blocks.len());
            let mut last: Option<(ObjectId, Option<Arc<FileRows>>)> = None;
            for &(object, block) in blocks {
                let file = match last.take() {
                    Some((known, file)) if known == object => file,
                    _ => inner.file_rows(transaction, object).await?.map(Arc::new),
                };
                let entry = inner.block_entry(transaction, object, block).await?.unwrap_or(BlockEntry::NONE);
                found.push((file.clone(), entry));
                last = Some((object, file));
            }
            Ok(found)
        });
        let plans = blocks.iter().zip(found?).map(|(&(object, block), (file, entry))| match file {
            Some(file) => inner.plan(object, block, entry, &file),
            None => Ok(Plan::Nothing),
        });
        plans.collect()
    }

    /// Makes stored versions current, in one transaction: the block map, what they supersede and what is stale
    /// into the garbage, missing fragments into the repair queue, and the dirty data clean. Waits until that is
    /// durable. Tells of each whether it is current; the others were overtaken by a cut or a removal.
    pub async fn commit_written(&self, written: &[Written]) -> Result<Vec<bool>, VolumeError> {
        let inner = &self.inner;
        let current: Result<Vec<bool>, VolumeError> =
            upkeep_transaction!(inner.node, |transaction| inner.put_written(transaction, written).await);
        let current = current?;
        let mut attempts = inner.attempts.lock();
        for Written { content, .. } in written {
            if let WrittenAs::Version { identity: BlockIdentity { object, block, version, .. }, .. } = content
                && attempts.get(&(*object, *block)) == Some(version)
            {
                attempts.remove(&(*object, *block));
            }
        }
        Ok(current)
    }
}

/// What has been done to one file in a commit.
struct FileChange {
    shift: BlockShift,
    chunks: BTreeMap<u64, Chunk>,
    garbage: Vec<GarbageVersion>,
}

impl Inner {
    fn plan(
        &self,
        object: ObjectId,
        block: BlockIndex,
        entry: BlockEntry,
        file: &FileRows,
    ) -> Result<Plan, VolumeError> {
        let Special::File { shift, .. } = file.inode.special else { return Ok(Plan::Nothing) };
        let length = file.inode.attributes.size.saturating_sub(shift.start_of(block)).min(shift.bytes());
        if length == 0 {
            return Ok(Plan::Nothing);
        }
        let version = {
            let mut attempts = self.attempts.lock();
            let attempt = attempts.entry((object, block)).or_insert(Version::NONE);
            *attempt = entry.next().max(attempt.next());
            *attempt
        };
        let base = match entry.is_stored() {
            true => Base::Stored(self.block_version(object, block, entry, file)?),
            false => Base::Hole,
        };
        let new = BlockEntry { version, creator: self.node.gateway, ..BlockEntry::NONE };
        let BlockVersion { identity, key, placement, .. } = self.block_version(object, block, new, file)?;
        let protection = file.policy.protection;
        let seal = self.node.seal;
        Ok(Plan::Store(NewBlock { identity, key, placement, seal, protection, length, base }))
    }

    async fn put_written(
        &self,
        transaction: &mut dyn meta::Transaction,
        written: &[Written],
    ) -> Result<Vec<bool>, VolumeError> {
        let mut files: BTreeMap<ObjectId, Vec<usize>> = BTreeMap::new();
        for (index, block) in written.iter().enumerate() {
            files.entry(block.snapshot.file().object).or_default().push(index);
        }
        let mut current = vec![false; written.len()];
        for (object, blocks) in files {
            // Every cut touches this row: one that comes between here and the commit is a conflict.
            transaction.get(&self.keys.cut(object)).await?;
            // Policy and block size never change. Read beside the transaction, they make no conflict with those who
            // write to the file.
            let mut beside = self.node.store.begin(meta::Mode::Optimistic).await?;
            let rows = self.file_rows(&mut *beside, object).await?;
            let (Some(key), Some(rows)) = (self.key_row(transaction, object).await?, rows) else {
                // Removed meanwhile; the reaper has put the attempts into the garbage.
                let forget = DataOp::Forget { file: self.file_key(object) };
                transaction.attach(Attachment { descriptor: forget.encode(), payload: Bytes::new() });
                continue;
            };
            let Special::File { shift, .. } = rows.inode.special else { continue };
            let mut change = FileChange { shift, chunks: BTreeMap::new(), garbage: Vec::new() };
            for index in blocks {
                current[index] = self.put_block(transaction, object, &written[index], &mut change).await?;
            }
            for (number, chunk) in change.chunks {
                let first = BlockIndex(number * CHUNK_BLOCKS);
                transaction.put(self.keys.chunk(object, first), chunk.encode());
            }
            self.put_garbage(transaction, object, rows.policy_id, &key, change.garbage);
        }
        Ok(current)
    }

    /// One stored block of a file that is there. Whether it is current now.
    async fn put_block(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        Written { snapshot, content }: &Written,
        change: &mut FileChange,
    ) -> Result<bool, VolumeError> {
        let block = snapshot.block();
        let cleaned = DataOp::Cleaned {
            file: self.file_key(object),
            shift: change.shift,
            block,
            up_to: snapshot.up_to(),
        };
        let cleaned = Attachment { descriptor: cleaned.encode(), payload: Bytes::new() };
        let WrittenAs::Version { identity, seal, missing, .. } = content else {
            // Dirty data beyond the end of the file: nobody will read it.
            if snapshot.is_current() {
                transaction.attach(cleaned);
            }
            return Ok(snapshot.is_current());
        };
        let number = block.0 / CHUNK_BLOCKS;
        if let std::collections::btree_map::Entry::Vacant(vacant) = change.chunks.entry(number) {
            let row = transaction.get(&self.keys.chunk(object, block)).await?;
            vacant.insert(self.chunk(object, row.as_deref())?);
        }
        let Some(chunk) = change.chunks.get_mut(&number) else { return Ok(false) };
        let place = block.0 % CHUNK_BLOCKS;
        let old = chunk.get(place);
        if identity.version < old.next() {
            // The number is used up; only a claim that was not exclusive can lead here.
            return Ok(false);
        }
        let version = GarbageVersion { block, version: identity.version, creator: identity.creator };
        // Attempts that failed may have left fragments behind.
        let failed = old.next().0..identity.version.0;
        change.garbage.extend(failed.map(|failed| GarbageVersion { version: Version(failed), ..version }));
        if !snapshot.is_current() {
            change.garbage.push(version);
            chunk.set(place, BlockEntry { burnt: identity.version.0 - old.version.0, ..old });
            return Ok(false);
        }
        if old.is_stored() {
            change.garbage.push(GarbageVersion { block, version: old.version, creator: old.creator });
            transaction.delete(self.keys.repair(object, block, old.version));
        }
        let entry = BlockEntry {
            version: identity.version,
            hole: false,
            creator: identity.creator,
            seal: *seal,
            burnt: 0,
        };
        chunk.set(place, entry);
        if !missing.is_empty() {
            let key = self.keys.repair(object, block, identity.version);
            transaction.put(key, repair_row(fragment_mask(missing)));
        }
        transaction.attach(cleaned);
        Ok(true)
    }
}
