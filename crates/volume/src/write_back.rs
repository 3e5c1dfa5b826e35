//! What to store of dirty blocks, and the commit of what was stored.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use blocks::SealId;
use bytes::Bytes;
use cache::DataOp;
use ids::{BlockIndex, BlockShift, ObjectId, Version};
use meta::{Attachment, MetaError};
use seal::WrappedFileKey;
use upkeep::{Base, BlockVersion, NewBlock, Plan, Written, WrittenAs};

use crate::VolumeError;
use crate::attempts::{Candidate, Ended};
use crate::garbage::Discarded;
use crate::node::upkeep_transaction;
use crate::repair::{fragment_mask, repair_row};
use crate::row::{BlockEntry, CHUNK_BLOCKS, Chunk, Content, Origin, Sealed, Special};
use crate::shares::{Released, ShareBook};
use crate::volume::{FileRows, Inner, Volume};

impl Volume {
    /// What to store of `blocks`, in their order. To be asked after the snapshots of the blocks were taken: then
    /// the length covers all that is in them. Every call gives new version numbers, which are noted durably when it
    /// returns; those of attempts that fail are skipped. A damaged row is the error of those blocks alone that it belongs to.
    pub async fn plan_write_back(
        &self,
        blocks: &[(ObjectId, BlockIndex)],
    ) -> Result<Vec<Result<Plan, VolumeError>>, VolumeError> {
        let inner = &self.inner;
        let found: Result<Vec<_>, VolumeError> = upkeep_transaction!(inner.node, |transaction| {
            let mut found = Vec::with_capacity(blocks.len());
            let mut rows = BlockRows::default();
            for &(object, block) in blocks {
                let seen = inner.block_rows(transaction, object, block, &mut rows).await;
                if let Err(error @ VolumeError::Meta(_)) = seen {
                    return Err(error);
                }
                found.push(seen);
            }
            Ok(found)
        });
        let (mut plans, mut wanted, mut bases) = (Vec::with_capacity(blocks.len()), Vec::new(), Vec::new());
        for (at, (&(object, block), found)) in blocks.iter().zip(found?).enumerate() {
            plans.push(match found {
                Ok(Some(BlockRow { file, entry, base })) if file.length_of(block) > 0 => {
                    wanted.push(Candidate { object, block, file, next: entry.next() });
                    bases.push((at, base));
                    Ok(Plan::Nothing)
                }
                other => other.map(|_| Plan::Nothing),
            });
        }
        let sealing = inner.epochs.sealing();
        let begun = inner.begin_attempts(&wanted, sealing.seal).await?;
        for ((candidate, (at, base)), begun) in wanted.into_iter().zip(bases).zip(begun) {
            plans[at] = match begun {
                Ok(Some(version)) => inner.plan(candidate, version, base, sealing.seal),
                Ok(None) => Ok(Plan::Nothing),
                Err(error) => Err(error),
            };
        }
        Ok(plans)
    }

    /// Makes stored versions current, in one transaction: the block map, what they supersede and what is stale
    /// into the garbage, missing fragments into the repair queue, of which its repairer is told, and the dirty data clean. Waits until that is
    /// durable. Tells of each whether it is current; the others were overtaken by a cut or a removal.
    ///
    /// What does not fit one record of the journal is committed in several; after an error some of it may be current.
    pub async fn commit_written(&self, written: &[Written]) -> Result<Vec<bool>, VolumeError> {
        let mut current = Vec::with_capacity(written.len());
        let mut parts = vec![written];
        while let Some(part) = parts.pop() {
            match self.commit_part(part).await {
                Ok(part) => current.extend(part),
                Err(VolumeError::Meta(MetaError::TooLarge { .. })) if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(current)
    }

    async fn commit_part(&self, written: &[Written]) -> Result<Vec<bool>, VolumeError> {
        let inner = &self.inner;
        let current: Vec<bool> =
            upkeep_transaction!(inner.node, |transaction| inner.put_written(transaction, written).await)?;
        if written.iter().zip(&current).any(|(written, is_current)| *is_current && written.is_degraded()) {
            inner.repair_queued.notify_one();
        }
        Ok(current)
    }
}

/// The rows that were read last: blocks of one file and one chunk come together.
#[derive(Default)]
struct BlockRows {
    file: Option<(ObjectId, Option<Arc<FileRows>>)>,
    chunk: Option<(ObjectId, u64, Chunk)>,
}

/// What is known of a block.
struct BlockRow {
    file: Arc<FileRows>,
    entry: BlockEntry,
    base: Base,
}

/// What has been done to one file in a commit.
struct FileChange {
    rows: FileRows,
    shift: BlockShift,
    chunks: BTreeMap<u64, Chunk>,
    garbage: Discarded,
}

impl Inner {
    /// A block's file, if it is there, its entry, and what is stored of it. The whole chunk is decoded: what is damaged in it
    /// would stop the commit.
    async fn block_rows(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        block: BlockIndex,
        rows: &mut BlockRows,
    ) -> Result<Option<BlockRow>, VolumeError> {
        let file = match &rows.file {
            Some((known, file)) if *known == object => file.clone(),
            _ => {
                let file = self.file_rows(transaction, object).await?.map(Arc::new);
                rows.file = Some((object, file.clone()));
                file
            }
        };
        let number = block.0 / CHUNK_BLOCKS;
        if rows.chunk.as_ref().is_none_or(|(of, known, _)| (*of, *known) != (object, number)) {
            let row = transaction.get(&self.keys.chunk(object, block)).await?;
            rows.chunk = Some((object, number, self.chunk(object, row.as_deref())?));
        }
        let entry = rows.chunk.as_ref().map(|(.., chunk)| chunk.get(block.0 % CHUNK_BLOCKS));
        let (Some(file), entry) = (file, entry.unwrap_or(BlockEntry::NONE)) else { return Ok(None) };
        if WrappedFileKey::is_of_shredded(&file.key.wrapped) {
            return Ok(None); // whatever is written to it goes with it
        }
        let base = match entry.is_stored() {
            true => Base::Stored(self.stored_version(transaction, object, block, entry, &file).await?),
            false => Base::Hole,
        };
        Ok(Some(BlockRow { file, entry, base }))
    }

    fn plan(
        &self,
        Candidate { object, block, file, .. }: Candidate,
        version: Version,
        base: Base,
        seal: SealId,
    ) -> Result<Plan, VolumeError> {
        let (creator, policy) = (self.node.gateway, file.mark());
        let new = BlockEntry { version, creator, seal, policy, ..BlockEntry::NONE };
        let BlockVersion { identity, key, placement, .. } = self.block_version(object, block, new, &file)?;
        let protection = file.policy.protection;
        let length = file.length_of(block);
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
        let mut book = ShareBook::new(self);
        for (object, blocks) in files {
            // Every cut touches this row, and so does who sends the file to another policy: one that comes between here and
            // the commit is a conflict.
            transaction.get(&self.keys.cut(object)).await?;
            // Nothing else that is needed ever changes. Read beside the transaction, it makes no conflict with those who
            // write to the file.
            let mut beside = self.node.store.begin(meta::Mode::Optimistic).await?;
            let rows = self.file_rows(&mut *beside, object).await?;
            let (Some(key), Some(rows)) = (self.key_row(transaction, object).await?, rows) else {
                // Removed meanwhile; the reaper has put what was stored into the garbage.
                let forget = DataOp::Forget { file: self.file_key(object) };
                transaction.attach(Attachment { descriptor: forget.encode(), payload: Bytes::new() });
                continue;
            };
            let Special::File { shift, .. } = rows.inode.special else { continue };
            let key = self.rewrap_touched(transaction, object, key)?;
            let (chunks, garbage) = (BTreeMap::new(), Discarded::default());
            let mut change = FileChange { rows, shift, chunks, garbage };
            for index in blocks {
                current[index] =
                    self.put_block(transaction, object, &written[index], &mut change, &mut book).await?;
            }
            self.put_chunks(transaction, object, &change);
            self.put_discarded(transaction, object, &key, change.garbage).await?;
        }
        book.finish(transaction).await?;
        Ok(current)
    }

    /// One stored block of a file that is there. Whether it is current now.
    async fn put_block(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        Written { snapshot, content }: &Written,
        change: &mut FileChange,
        book: &mut ShareBook<'_>,
    ) -> Result<bool, VolumeError> {
        let block = snapshot.block();
        let cleaned = DataOp::Cleaned {
            file: self.file_key(object),
            shift: change.shift,
            block,
            up_to: snapshot.up_to(),
        };
        let cleaned = Attachment { descriptor: cleaned.encode(), payload: Bytes::new() };
        let (identity, seal, missing, packed, content) = match content {
            WrittenAs::Version { identity, seal, missing, packed, content, .. } => {
                (identity, seal, Some(missing), packed.as_ref(), *content)
            }
            WrittenAs::Content { identity, seal, content, .. } => {
                (identity, seal, None, None, Some(*content))
            }
            // Dirty data beyond the end of the file: nobody will read it.
            WrittenAs::Nothing => {
                if snapshot.is_current() {
                    let all = Version(u64::MAX);
                    let base = change.rows.base;
                    let ended = self.settle_attempts(transaction, object, block, all, base).await?;
                    if let Some(last) = ended.versions.last() {
                        // Their numbers are not given again: as garbage they would be taken for what is stored next.
                        let last = last.version;
                        let (chunk, place) = self.change_chunk(transaction, object, block, change).await?;
                        let old = chunk.get(place);
                        if last >= old.next() {
                            chunk.set(place, BlockEntry { burnt: last.0 - old.version.0, ..old });
                        }
                    }
                    change.garbage.extend(ended.policy, ended.versions);
                    transaction.attach(cleaned);
                }
                return Ok(snapshot.is_current());
            }
        };
        let (chunk, place) = self.change_chunk(transaction, object, block, change).await?;
        let old = chunk.get(place);
        let is_used_up = identity.version < old.next(); // only a claim that was not exclusive can lead here
        // Attempts that failed may have left fragments behind.
        let (last, base) = (identity.version, change.rows.base);
        let Ended { policy, versions: mut ended } =
            self.settle_attempts(transaction, object, block, last, base).await?;
        let is_noted =
            ended.last().is_some_and(|last| (last.version, last.seal) == (identity.version, *seal));
        // Otherwise the file was sent to another policy meanwhile; the block is stored once more, by that one.
        let is_by_policy = policy == change.rows.policy_id;
        let is_there = match packed {
            Some(packed) => self.is_noted_pack(transaction, &packed.pack).await?,
            None => true,
        };
        let is_in_time = is_noted && is_by_policy && !is_used_up && is_there && snapshot.is_current();
        let content = content.map(|id| Content { policy: change.rows.policy_id, id });
        let held = match content.filter(|_| is_in_time) {
            Some(content) => {
                // What this transaction has done shows in what it reads.
                self.put_chunks(transaction, object, change);
                self.held_content(transaction, book, content).await?
            }
            None => None,
        };
        let becomes_current = is_in_time && (missing.is_some() || held.is_some());
        if becomes_current && (missing.is_none() || held.is_none()) {
            // Current, or never stored. What was stored although others hold the same is garbage.
            ended.pop();
        }
        change.garbage.extend(policy, ended);
        if is_used_up || !is_noted {
            // What is not noted is garbage already.
            return Ok(false);
        }
        let (creator, seal, version) = (identity.creator, *seal, identity.version);
        let is_same =
            held.as_ref().is_some_and(|held| old.is_stored() && held.sealed == old.sealed(object, block));
        if !becomes_current || is_same {
            let (chunk, _) = self.change_chunk(transaction, object, block, change).await?;
            chunk.set(place, BlockEntry { burnt: version.0 - old.version.0, ..old });
            if is_same {
                transaction.attach(cleaned);
            }
            return Ok(is_same);
        }
        let entry = match &held {
            Some(held) => {
                // Before the old version goes: it may be the last that keeps the same books.
                book.take(transaction, held.sealed, held.owner()).await?;
                let Sealed { origin, creator, seal } = held.sealed;
                let origin = Some(origin);
                BlockEntry { version, hole: false, creator, seal, burnt: 0, origin, policy: None }
            }
            None => {
                let policy = change.rows.mark();
                BlockEntry { version, hole: false, creator, seal, burnt: 0, origin: None, policy }
            }
        };
        if old.is_stored() {
            match book.release(transaction, object, block, old).await? {
                // Those who share the old version may share this one when they are moved.
                Released::Kept if snapshot.is_clean() => {
                    let from = old.sealed(object, block).origin;
                    self.put_moved(transaction, from, change.rows.policy_id, entry.sealed(object, block));
                }
                Released::Kept => {}
                Released::Own(version) => {
                    change.garbage.push(change.rows.policy_of(old), version);
                    transaction.delete(self.keys.repair(object, block, old.version));
                }
                Released::Last(Origin { object, block, version }) => {
                    transaction.delete(self.keys.repair(object, block, version));
                }
            }
        }
        let (chunk, _) = self.change_chunk(transaction, object, block, change).await?;
        chunk.set(place, entry);
        if held.is_none() {
            if let Some(packed) = packed {
                self.put_packed(transaction, book, entry.sealed(object, block), packed).await?;
            } else if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
                let key = self.keys.repair(object, block, version);
                transaction.put(key, repair_row(fragment_mask(missing)));
            }
            if let Some(content) = content {
                self.put_content(transaction, content, entry.sealed(object, block));
            }
        }
        transaction.attach(cleaned);
        Ok(true)
    }

    /// The part of the block map that a block is in, and its place there.
    async fn change_chunk<'a>(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        block: BlockIndex,
        change: &'a mut FileChange,
    ) -> Result<(&'a mut Chunk, u64), VolumeError> {
        let chunk = match change.chunks.entry(block.0 / CHUNK_BLOCKS) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                let row = transaction.get(&self.keys.chunk(object, block)).await?;
                if row.is_none() {
                    // A cut that is under way has looked for chunks and not found this one.
                    transaction.touch(&self.keys.cut(object));
                }
                vacant.insert(self.chunk(object, row.as_deref())?)
            }
        };
        Ok((chunk, block.0 % CHUNK_BLOCKS))
    }

    fn put_chunks(&self, transaction: &mut dyn meta::Transaction, object: ObjectId, change: &FileChange) {
        for (number, chunk) in &change.chunks {
            let first = BlockIndex(number * CHUNK_BLOCKS);
            transaction.put(self.keys.chunk(object, first), chunk.encode());
        }
    }
}
