//! Blocks that take over what is stored for others.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use cache::{DataOp, Scope};
use file_system::permission::{may_read, may_write, require_regular};
use file_system::{Authority, FileId, FsError, FsResult, Position, attribute_rules, cloned_length};
use ids::{BlockIndex, BlockShift, ObjectId};
use meta::{Attachment, Scan};

use super::VolumeTransaction;
use super::data::{CHUNKS, block_shift};
use crate::VolumeError;
use crate::byte_ranges::ByteRanges;
use crate::error::meta_error;
use crate::keys::{KeyRange, Keys, ObjectRow};
use crate::row::{BlockEntry, CHUNK_BLOCKS, Chunk, Inode, KeyRow, Special};
use crate::shares::{Owner, ShareBook};
use crate::spread::are_siblings;
use crate::unsaved::Taken;

/// Bytes of blocks with dirty data that are copied; for more the clone waits until they are stored.
const COPIED: u64 = 4 << 20;
/// How long it waits.
const STORED: Duration = Duration::from_secs(10);

/// What is taken over: `blocks` of `source`, by `target` from its block `to` on.
struct Cloned {
    source: ObjectId,
    blocks: Range<u64>,
    target: ObjectId,
    to: u64,
    shift: BlockShift,
    /// Of the blocks of the source whose entries name none.
    base: u32,
}

impl Cloned {
    /// Bytes of the source.
    fn range(&self) -> Range<u64> {
        let start = |block| self.shift.start_of(BlockIndex(block));
        start(self.blocks.start)..start(self.blocks.end)
    }

    /// The blocks of a chunk of the source that are stored as they are now.
    fn stored_in(&self, number: u64, chunk: &Chunk, unstored: &[Range<u64>]) -> Vec<(u64, BlockEntry)> {
        let blocks = chunk.iter().filter(|(_, entry)| entry.is_stored());
        let blocks = blocks.map(|(index, entry)| (number * CHUNK_BLOCKS + index, entry));
        let is_unstored = |block| {
            let at = unstored.partition_point(|part| part.end <= block);
            unstored.get(at).is_some_and(|part| part.start <= block)
        };
        blocks.filter(|(block, _)| self.blocks.contains(block) && !is_unstored(*block)).collect()
    }
}

/// The policy of a file, and that of its blocks whose entries name none.
fn file_policies(inode: &Inode) -> FsResult<(u32, u32)> {
    match inode.special {
        Special::File { policy, base, .. } => Ok((policy, base)),
        _ => Err(FsError::WrongKind),
    }
}

impl VolumeTransaction {
    pub(super) async fn unit_of_clones(&mut self, file: FileId) -> FsResult<u64> {
        let inode = self.inode(file).await?;
        require_regular(&inode.attributes)?;
        Ok(block_shift(inode)?.bytes())
    }

    pub(super) async fn take_over(
        &mut self,
        from: Position,
        to: Position,
        length: u64,
        wait: bool,
    ) -> FsResult<()> {
        let (now, caller) = (self.now(), self.caller.clone());
        let inode = self.inode(from.file).await?;
        let (source, policy, shift) = (inode.attributes.clone(), file_policies(inode), block_shift(inode));
        require_regular(&source)?;
        may_read(&source, &caller, from.authority)?;
        let inode = self.inode(to.file).await?;
        let (old, other_policy, other_shift) =
            (inode.attributes.clone(), file_policies(inode), block_shift(inode));
        require_regular(&old)?;
        may_write(&old, &caller, to.authority)?;
        let ((policy, base), shift) = (policy?, shift?);
        let (other_policy, _) = other_policy?;
        // Files of one directory may be on other clouds: one that is empty goes where the other is.
        let adopts = policy != other_policy && old.size == 0 && self.are_siblings(policy, other_policy)?;
        if shift != other_shift? || (policy != other_policy && !adopts) {
            return Err(FsError::InvalidArgument);
        }
        let length = cloned_length(shift.bytes(), (&from, &source), (&to, &old), length)?;
        if length == 0 {
            return Ok(());
        }
        let mut new = attribute_rules::written(&old, &caller, to.offset, length, now)?;
        let first = shift.index_of(from.offset).0;
        let clone = Cloned {
            source: from.file.object,
            blocks: first..first + shift.blocks_in(length),
            target: to.file.object,
            to: shift.index_of(to.offset).0,
            shift,
            base,
        };
        let unstored = self.few_unstored(&clone, wait).await?;
        let copies = self.read_unstored(&clone, &unstored, from, to, source.size).await?;
        if !copies.is_empty() {
            self.admit(copies.iter().map(|(_, data)| data.len() as u64).sum()).await?;
        }
        let added = self.data_bytes(clone.source, shift, from.offset..from.offset + length).await?;
        let replaced = to.offset.min(old.size)..(to.offset + length).min(old.size);
        let freed = self.data_bytes(clone.target, shift, replaced.clone()).await?;
        // As for holes: about right, and never nothing while there may be something.
        let kept = old.space_used.saturating_sub(freed).max(match replaced == (0..old.size) {
            true => 0,
            false => old.space_used.min(1),
        });
        new.space_used = (kept + added).min(new.size);
        self.check_room(&clone, &unstored).await?;

        self.punch_map(clone.target, BlockIndex(clone.to)..BlockIndex(clone.to + clone.blocks.end - first))
            .await?;
        let shared = self.share_blocks(&clone, &unstored).await;
        self.broken |= shared.is_err();
        shared?;
        let file = self.volume.file_key(clone.target);
        self.meta.touch(&self.volume.keys.cut(clone.target));
        let whole = clone.range();
        self.attach(DataOp::Discard { file, offset: to.offset, length: whole.end - whole.start });
        let unsaved = self.unsaved.entry(clone.target).or_default();
        let range = to.offset..to.offset + length;
        unsaved.take(Taken { range, object: clone.source, offset: from.offset });
        for (offset, payload) in copies {
            unsaved.write(offset, payload.clone());
            let op = DataOp::Write { file, shift, offset };
            self.meta.attach(Attachment { descriptor: op.encode(), payload });
        }
        if adopts && let Special::File { policy: own, base, .. } = &mut self.edit(clone.target)?.special {
            (*own, *base) = (policy, policy);
        }
        let (volume, bytes) = (self.volume.clone(), new.space_used);
        let noted = volume.migrate_clone(&mut *self.meta, clone.source, clone.target, bytes).await;
        self.broken |= noted.is_err();
        noted?;
        self.set(clone.target, new)?;
        self.written.insert(clone.target);
        Ok(())
    }

    fn are_siblings(&self, one: u32, other: u32) -> FsResult<bool> {
        Ok(are_siblings(&*self.volume.policy(one)?, &*self.volume.policy(other)?))
    }

    /// The blocks of the source that are not stored as they are now, ascending. When they are many, asks for them to
    /// be stored, and waits for that if it may.
    ///
    /// The inode of the source was read before: whoever makes something dirty later meets this transaction there, and
    /// whoever stores it, in the map.
    async fn few_unstored(&mut self, clone: &Cloned, wait: bool) -> FsResult<Vec<Range<u64>>> {
        let cache = self.volume.node.cache.clone();
        let file = self.volume.file_key(clone.source);
        let before = cache.dirty_bytes(Scope::File(file));
        // Whoever keeps all others from committing must not wait for them.
        for is_last in [self.exclusive || !wait, true] {
            let mut unstored = ByteRanges::default();
            let mut insert = |part: Range<u64>| {
                let (shift, last) = (clone.shift, BlockIndex(clone.shift.blocks_in(part.end)));
                unstored.insert(shift.start_of(shift.index_of(part.start))..shift.start_of(last));
            };
            cache.dirty_ranges(file, clone.range()).into_iter().for_each(&mut insert);
            if let Some(unsaved) = self.unsaved.get(&clone.source) {
                unsaved.pieces(clone.range()).for_each(|(part, _)| insert(part));
            }
            let bytes: u64 = unstored.iter().map(|part| part.end - part.start).sum();
            let room = self.volume.node.store.attachable().saturating_sub(self.meta.attached_bytes());
            if bytes <= COPIED.min(room) {
                let block = |at| clone.shift.index_of(at).0;
                return Ok(unstored.iter().map(|part| block(part.start)..block(part.end)).collect());
            }
            let flush = cache.flush(Scope::File(file));
            if is_last {
                break;
            }
            tokio::select! {
                () = flush.done() => {}
                () = self.volume.node.environment.clock.sleep(STORED) => {}
            }
        }
        if wait && !self.exclusive && cache.dirty_bytes(Scope::File(file)) >= before {
            // The clouds take nothing: who wants a copy had better make one than wait for them.
            return Err(FsError::InvalidArgument);
        }
        Err(FsError::Unavailable(format!("much of object {} is on its way to the clouds", clone.source)))
    }

    /// The content of what is not stored, and where it goes.
    async fn read_unstored(
        &mut self,
        clone: &Cloned,
        unstored: &[Range<u64>],
        from: Position,
        to: Position,
        size: u64,
    ) -> FsResult<Vec<(u64, Bytes)>> {
        let mut copies = Vec::new();
        for part in unstored {
            let start = |block| clone.shift.start_of(BlockIndex(block));
            let part = start(part.start)..start(part.end).min(size);
            let length = (part.end - part.start) as u32;
            let data = self.read_data(from.file, part.start, length, Authority::Opened).await?;
            copies.push((to.offset + (part.start - from.offset), data.segments.concat().into()));
        }
        Ok(copies)
    }

    /// Whether books can be kept of all that is to be shared, and are right. Looked at before anything is changed.
    async fn check_room(&mut self, clone: &Cloned, unstored: &[Range<u64>]) -> FsResult<()> {
        let volume = self.volume.clone();
        let mut book = ShareBook::new(&volume);
        let mut next = Some(self.first_chunks(clone));
        while let Some(range) = next {
            let (rows, more) = self.chunks_of(clone, range).await?;
            for (key, row) in rows {
                let Some((_, ObjectRow::Chunk(number))) = Keys::object_row(&key) else { continue };
                let chunk = volume.chunk(clone.source, Some(&row))?;
                let stored = clone.stored_in(number, &chunk, unstored);
                if stored.iter().any(|(_, entry)| entry.origin.is_none()) {
                    book.reserve(&mut *self.meta, clone.source, number).await?;
                }
                for origin in stored.iter().filter_map(|(_, entry)| entry.origin) {
                    book.require(&mut *self.meta, origin).await?;
                }
            }
            next = more;
        }
        Ok(())
    }

    /// Puts what is stored of the source into the map of the target, which has holes there.
    async fn share_blocks(&mut self, clone: &Cloned, unstored: &[Range<u64>]) -> FsResult<()> {
        let volume = self.volume.clone();
        let missing = || VolumeError::Missing { what: format!("the key of object {}", clone.source) };
        let key: KeyRow = volume.key_row(&mut *self.meta, clone.source).await?.ok_or_else(missing)?;
        let mut book = ShareBook::new(&volume);
        let mut target: Option<(u64, Chunk)> = None;
        let mut next = Some(self.first_chunks(clone));
        while let Some(range) = next {
            let (rows, more) = self.chunks_of(clone, range).await?;
            for (key_of_row, row) in rows {
                let Some((_, ObjectRow::Chunk(number))) = Keys::object_row(&key_of_row) else { continue };
                let chunk = volume.chunk(clone.source, Some(&row))?;
                for (block, entry) in clone.stored_in(number, &chunk, unstored) {
                    let sealed = entry.sealed(clone.source, BlockIndex(block));
                    let owner = Owner { policy: entry.policy.unwrap_or(clone.base), key: &key };
                    book.take(&mut *self.meta, sealed, entry.origin.is_none().then_some(owner)).await?;
                    let to = BlockIndex(block - clone.blocks.start + clone.to);
                    let number = to.0 / CHUNK_BLOCKS;
                    if target.as_ref().is_none_or(|(known, _)| *known != number) {
                        self.put_chunk(clone.target, target.take());
                        let row = self.meta.get(&volume.keys.chunk(clone.target, to)).await;
                        let row = row.map_err(meta_error)?;
                        target = Some((number, volume.chunk(clone.target, row.as_deref())?));
                    }
                    if let Some((_, chunk)) = &mut target {
                        let place = to.0 % CHUNK_BLOCKS;
                        let (creator, seal) = (sealed.creator, sealed.seal);
                        let origin = Some(sealed.origin);
                        let old = chunk.get(place);
                        chunk.set(place, BlockEntry { hole: false, creator, seal, origin, ..old });
                    }
                }
            }
            next = more;
        }
        self.put_chunk(clone.target, target);
        book.finish(&mut *self.meta).await?;
        Ok(())
    }

    fn put_chunk(&mut self, object: ObjectId, chunk: Option<(u64, Chunk)>) {
        if let Some((number, chunk)) = chunk {
            let key = self.volume.keys.chunk(object, BlockIndex(number * CHUNK_BLOCKS));
            self.meta.put(key, chunk.encode());
        }
    }

    fn first_chunks(&self, clone: &Cloned) -> KeyRange {
        let blocks = BlockIndex(clone.blocks.start)..BlockIndex(clone.blocks.end);
        self.volume.keys.chunks(clone.source, blocks)
    }

    /// Some chunks of the source's map, and where to go on.
    async fn chunks_of(
        &mut self,
        clone: &Cloned,
        (start, end): KeyRange,
    ) -> FsResult<(Vec<(Bytes, Bytes)>, Option<KeyRange>)> {
        let guard = self.volume.keys.cut(clone.source);
        let scan = Scan { start: &start, end: &end, guard: Some(&guard), limit: CHUNKS };
        let rows = self.meta.scan(scan).await.map_err(meta_error)?;
        let more = match rows.last() {
            Some((last, _)) if rows.len() == CHUNKS => Some(([&last[..], &[0]].concat().into(), end)),
            _ => None,
        };
        Ok((rows, more))
    }
}
