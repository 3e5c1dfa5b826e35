//! Content of files. Data travels as attachments of the transaction and becomes dirty data of the cache at the commit; the
//! block map says what lies below it.

use bytes::Bytes;
use cache::{BlockLoader, DataOp, ReadRequest, Sealing, Stored};
use file_system::permission::{may_read, may_write, require_regular};
use file_system::{Authority, FileId, FsError, FsResult, ReadData, attribute_rules};
use ids::{BlockIndex, BlockShift, ObjectId};
use meta::{Attachment, Scan};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::VolumeTransaction;
use crate::VolumeError;
use crate::error::meta_error;
use crate::garbage::Discarded;
use crate::keys::{Keys, ObjectRow};
use crate::row::{BlockEntry, CHUNK_BLOCKS, ChunkView, Inode, Origin, Special};
use crate::shares::{Released, ShareBook};
use crate::unsaved::{Taken, Unsaved};
use crate::volume::{Inner, Loader, Volume, is_superseded};

/// How long an exclusive transaction waits for content that is not cached.
const EXCLUSIVE_READ: Duration = Duration::from_millis(250);

/// Rows of the block map read at once.
pub(super) const CHUNKS: usize = 256;

pub(super) fn block_shift(inode: &Inode) -> FsResult<BlockShift> {
    match inode.special {
        Special::File { shift, .. } => Ok(shift),
        _ => Err(FsError::WrongKind),
    }
}

impl VolumeTransaction {
    pub(super) async fn write_data(
        &mut self,
        file: FileId,
        offset: u64,
        data: Bytes,
        authority: Authority,
    ) -> FsResult<()> {
        let (now, caller) = (self.now(), self.caller.clone());
        let inode = self.inode(file).await?;
        let (old, shift) = (inode.attributes.clone(), block_shift(inode));
        require_regular(&old)?;
        may_write(&old, &caller, authority)?;
        if data.is_empty() {
            return Ok(());
        }
        let mut new = attribute_rules::written(&old, &caller, offset, data.len() as u64, now)?;
        // Exact while there are no holes; a write into a hole counts in full, one over older data does, too, but
        // never more than the size.
        new.space_used = (old.space_used + data.len() as u64).min(new.size);
        if offset + data.len() as u64 <= old.size && old.space_used == old.size {
            new.space_used = old.space_used;
        }
        self.admit(data.len() as u64).await?;
        let op = DataOp::Write { file: self.volume.file_key(file.object), shift: shift?, offset };
        self.set(file.object, new)?;
        self.meta.attach(Attachment { descriptor: op.encode(), payload: data.clone() });
        self.unsaved.entry(file.object).or_default().write(offset, data);
        self.written.insert(file.object);
        Ok(())
    }

    /// Takes leave to make so many bytes dirty.
    pub(super) async fn admit(&mut self, bytes: u64) -> FsResult<()> {
        let (cache, volume) = (&self.volume.node.cache, self.volume.id);
        match &mut self.admission {
            Some(admission) => admission.grow(bytes),
            // Whoever keeps all others from committing must not wait for them.
            none if self.exclusive => {
                *none = cache.try_admit(volume, bytes);
                if none.is_none() {
                    return Err(FsError::Unavailable("the volume's share of the journal is full".into()));
                }
            }
            none => *none = Some(cache.admit(volume, bytes).await),
        }
        Ok(())
    }

    pub(super) async fn read_data(
        &mut self,
        file: FileId,
        offset: u64,
        length: u32,
        authority: Authority,
    ) -> FsResult<ReadData> {
        let caller = self.caller.clone();
        let inode = self.inode(file).await?;
        let (size, shift) = (inode.attributes.size, block_shift(inode));
        require_regular(&inode.attributes)?;
        may_read(&inode.attributes, &caller, authority)?;
        let end = offset.saturating_add(u64::from(length)).min(size);
        let shift = shift?;
        if offset >= end {
            return Ok(ReadData { segments: Vec::new(), end_of_file: offset >= size });
        }
        let covered = self.unsaved.get(&file.object).is_some_and(|unsaved| unsaved.covers(offset, end));
        let base = match covered {
            true => Vec::new(),
            false => {
                let request = ReadRequest {
                    file: self.volume.file_key(file.object),
                    shift,
                    size,
                    offset,
                    length: end - offset,
                    readahead: true,
                };
                let volume = self.volume.clone();
                if self.exclusive {
                    read_briefly(&volume, file.object, request).await?
                } else {
                    read_committed(&volume, file.object, request).await?
                }
            }
        };
        let segments = match self.unsaved.get(&file.object) {
            Some(unsaved) => {
                let taken = unsaved.taken(offset..end);
                let base = self.read_taken(taken, offset..end, base, shift).await?;
                match self.unsaved.get(&file.object) {
                    Some(unsaved) => unsaved.over(offset, end, base),
                    None => base,
                }
            }
            None => base,
        };
        Ok(ReadData { segments, end_of_file: end == size })
    }

    /// `base`, which is what others see of `range`, with what this transaction has taken over for it from elsewhere.
    async fn read_taken(
        &mut self,
        taken: Vec<Taken>,
        range: Range<u64>,
        mut base: Vec<Bytes>,
        shift: BlockShift,
    ) -> FsResult<Vec<Bytes>> {
        for Taken { range: part, object, offset } in taken {
            let length = part.end - part.start;
            let (file, size) = (self.volume.file_key(object), offset + length);
            let request = ReadRequest { file, shift, size, offset, length, readahead: false };
            let content = match self.exclusive {
                true => read_briefly(&self.volume, object, request).await?,
                false => read_committed(&self.volume, object, request).await?,
            };
            let mut over = Unsaved::default();
            over.write(part.start, content.concat().into());
            base = over.over(range.start, range.end, base);
        }
        Ok(base)
    }

    /// Takes the content from `new` on out of the map, the cache and the clouds (later). The size is the caller's
    /// to set.
    pub(super) async fn cut(&mut self, object: ObjectId, new: u64) -> FsResult<()> {
        let shift = match self.objects.get(&object) {
            Some(loaded) => block_shift(&loaded.inode)?,
            None => return Err(FsError::Stale),
        };
        let block_end = shift.start_of(BlockIndex(shift.blocks_in(new)));
        if new < block_end {
            // Of the zeros below books must be kept. A cut at the start of a block, also one to nothing, never waits.
            self.admit(0).await?;
        }
        self.punch_map(object, BlockIndex(shift.blocks_in(new))..BlockIndex(u64::MAX)).await?;
        let file = self.volume.file_key(object);
        self.meta.touch(&self.volume.keys.cut(object));
        self.attach(DataOp::truncate(file, new));
        if new < block_end {
            // Also when nothing of the block is stored: an older state of it may be on its way to the clouds. And up
            // to the end of the block, not of the file: what is stored may be longer than the file has been since
            // an earlier cut, whose zeros were just discarded.
            self.attach(DataOp::Zero { file, shift, offset: new, length: block_end - new });
        }
        self.unsaved.entry(object).or_default().cut(new);
        Ok(())
    }

    pub(super) fn attach(&mut self, op: DataOp) {
        self.meta.attach(Attachment { descriptor: op.encode(), payload: Bytes::new() });
    }

    /// Makes holes of `blocks`. Their versions stay (`K14`); what is stored becomes garbage.
    pub(super) async fn punch_map(&mut self, object: ObjectId, blocks: Range<BlockIndex>) -> FsResult<()> {
        let punched = self.let_go(object, blocks).await;
        // Books may be written that the map does not follow.
        self.broken |= punched.is_err();
        punched
    }

    async fn let_go(&mut self, object: ObjectId, blocks: Range<BlockIndex>) -> FsResult<()> {
        let (mut start, end) = self.volume.keys.chunks(object, blocks.clone());
        let guard = self.volume.keys.cut(object);
        let mut changed = Vec::new();
        let mut garbage = Discarded::default();
        let base = match self.objects.get(&object).map(|loaded| &loaded.inode.special) {
            Some(Special::File { base, .. }) => *base,
            _ => return Err(FsError::WrongKind),
        };
        let volume = self.volume.clone();
        let mut book = ShareBook::new(&volume);
        loop {
            let scan = Scan { start: &start, end: &end, guard: Some(&guard), limit: CHUNKS };
            let rows = self.meta.scan(scan).await.map_err(meta_error)?;
            for (key, row) in &rows {
                let Some((_, ObjectRow::Chunk(number))) = Keys::object_row(key) else { continue };
                let mut chunk = self.volume.chunk(object, Some(row))?;
                let cut: Vec<(u64, BlockEntry)> = chunk
                    .iter()
                    .filter(|(index, entry)| {
                        blocks.contains(&BlockIndex(number * CHUNK_BLOCKS + index)) && entry.is_stored()
                    })
                    .collect();
                if cut.is_empty() {
                    continue;
                }
                for (index, entry) in cut {
                    let block = BlockIndex(number * CHUNK_BLOCKS + index);
                    if let Released::Own(version) =
                        book.release(&mut *self.meta, object, block, entry).await?
                    {
                        garbage.push(entry.policy.unwrap_or(base), version);
                    }
                    chunk.set(index, entry.punched());
                }
                changed.push((key.clone(), chunk.encode()));
            }
            match rows.last() {
                Some((last, _)) if rows.len() == CHUNKS => start = [&last[..], &[0]].concat().into(),
                _ => break,
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let missing = || VolumeError::Missing { what: format!("the key of object {object}") };
        let key = self.volume.key_row(&mut *self.meta, object).await?.ok_or_else(missing)?;
        for (key, row) in changed {
            self.meta.put(key, row);
        }
        // Repairs of what was cut stay in their queue, which there may be more of than a transaction can hold; the next
        // pass over it drops those of versions that are not current.
        volume.put_discarded(&mut *self.meta, object, &key, garbage).await?;
        book.finish(&mut *self.meta).await?;
        Ok(())
    }
}

/// As [`read_committed`], in a transaction while which nobody else commits: the clouds get a moment, and no more. The
/// load goes on, and whoever comes again finds the blocks in the cache.
async fn read_briefly(volume: &Arc<Inner>, object: ObjectId, request: ReadRequest) -> FsResult<Vec<Bytes>> {
    tokio::select! {
        biased;
        read = read_committed(volume, object, request) => read,
        () = volume.node.environment.clock.sleep(EXCLUSIVE_READ) => {
            Err(FsError::Unavailable("the content is on its way from the clouds".into()))
        }
    }
}

/// What others see of a file now. The block map is read beside the transaction: a block that was written back
/// meanwhile is not a conflict. Whoever changed the content has changed the inode, which the transaction
/// has read.
pub(crate) async fn read_committed(
    volume: &Arc<Inner>,
    object: ObjectId,
    request: ReadRequest,
) -> FsResult<Vec<Bytes>> {
    let loader: Arc<dyn BlockLoader> = Arc::new(Loader { volume: Volume { inner: volume.clone() } });
    let mut attempts = 3;
    loop {
        let plan = volume.node.cache.plan_read(&request);
        let mut stored = Vec::with_capacity(plan.blocks().len());
        if !plan.blocks().is_empty() {
            let mut map = volume.node.store.begin(meta::Mode::Optimistic).await.map_err(meta_error)?;
            let mut chunk: Option<(u64, Option<Bytes>)> = None;
            for &block in plan.blocks() {
                let number = block.0 / CHUNK_BLOCKS;
                let row = match &chunk {
                    Some((known, row)) if *known == number => row.clone(),
                    _ => match map.get(&volume.keys.chunk(object, block)).await {
                        Ok(row) => row,
                        // The map alone changed between two of its chunks; the first stays right.
                        Err(meta::MetaError::Conflict) => {
                            map =
                                volume.node.store.begin(meta::Mode::Optimistic).await.map_err(meta_error)?;
                            map.get(&volume.keys.chunk(object, block)).await.map_err(meta_error)?
                        }
                        Err(error) => return Err(meta_error(error)),
                    },
                };
                stored.push(match &row {
                    Some(row) => {
                        let entry = ChunkView::new(row).and_then(|c| c.entry(block.0 % CHUNK_BLOCKS));
                        let entry = entry.map_err(volume.damaged("the block map of object", object))?;
                        match entry {
                            BlockEntry { hole: true, .. } => Stored::Hole,
                            BlockEntry { origin: None, version, seal, .. } => {
                                Stored::Version(Sealing { version, seal })
                            }
                            BlockEntry { origin: Some(Origin { object, block, version }), seal, .. } => {
                                let (file, sealing) = (volume.file_key(object), Sealing { version, seal });
                                Stored::Shared { file, block, sealing }
                            }
                        }
                    }
                    None => Stored::Hole,
                });
                chunk = Some((number, row));
            }
        }
        match volume.node.cache.read(plan, &stored, &loader).await {
            Ok(parts) => return Ok(parts),
            // Usually a version that was replaced on the way; the map knows the new one.
            Err(cache::CacheError::Load { cause, .. }) if is_superseded(&cause) && attempts > 1 => {
                attempts -= 1;
            }
            Err(error) => return Err(VolumeError::Cache(error).into()),
        }
    }
}
