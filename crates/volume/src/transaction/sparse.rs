//! Data and holes (`K13`).

use std::ops::Range;

use cache::{DataOp, MAX_ZERO};
use file_system::permission::{may_read, may_write, require_regular};
use file_system::{Authority, Extent, Extents, FileId, FsError, FsResult, attribute_rules};
use ids::{BlockIndex, BlockShift, ObjectId};
use meta::Scan;

use super::VolumeTransaction;
use super::data::{CHUNKS, block_shift};
use crate::byte_ranges::ByteRanges;
use crate::error::meta_error;
use crate::keys::{Keys, ObjectRow};
use crate::row::CHUNK_BLOCKS;

/// How far the first look for extents goes; every further look goes twice as far.
const FIRST_LOOK: u64 = 16 << 20;

impl VolumeTransaction {
    pub(super) async fn find_extents(
        &mut self,
        file: FileId,
        range: Range<u64>,
        limit: usize,
        authority: Authority,
    ) -> FsResult<Vec<Extent>> {
        let caller = self.caller.clone();
        let inode = self.inode(file).await?;
        let (size, shift) = (inode.attributes.size, block_shift(inode));
        require_regular(&inode.attributes)?;
        may_read(&inode.attributes, &caller, authority)?;
        let (end, shift) = (range.end.min(size), shift?);
        let mut extents = Extents::new(range.start, limit);
        let mut step = FIRST_LOOK;
        while extents.at() < end {
            let look = extents.at()..extents.at().saturating_add(step).min(end);
            let data = self.data_in(file.object, shift, look.clone()).await?;
            if !(data.iter().all(|data| extents.push_data(data)) && extents.push(look.end, true)) {
                break;
            }
            step = step.saturating_mul(2);
        }
        Ok(extents.finish())
    }

    /// Where something is stored, dirty, or written by this transaction. Of a block that is stored, all of it; zeros that are
    /// dirty are data, too.
    async fn data_in(
        &mut self,
        object: ObjectId,
        shift: BlockShift,
        range: Range<u64>,
    ) -> FsResult<ByteRanges> {
        let mut data = ByteRanges::default();
        if range.is_empty() {
            return Ok(data);
        }
        // In this order, and beside the transaction, as for every read: what write-back cleans in between is in the
        // newer map, and a block that was written back meanwhile is no conflict.
        let dirty = self.volume.node.cache.dirty_ranges(self.volume.file_key(object), range.clone());
        dirty.into_iter().for_each(|dirty| data.insert(dirty));
        let blocks = shift.index_of(range.start)..BlockIndex(shift.blocks_in(range.end));
        let (mut start, end) = self.volume.keys.chunks(object, blocks);
        loop {
            let mut map = self.volume.node.store.begin(meta::Mode::Optimistic).await.map_err(meta_error)?;
            let scan = Scan { start: &start, end: &end, guard: None, limit: CHUNKS };
            let rows = map.scan(scan).await.map_err(meta_error)?;
            for (key, row) in &rows {
                let Some((_, ObjectRow::Chunk(number))) = Keys::object_row(key) else { continue };
                let chunk = self.volume.chunk(object, Some(row))?;
                for (index, _) in chunk.iter().filter(|(_, entry)| entry.is_stored()) {
                    let first = shift.start_of(BlockIndex(number * CHUNK_BLOCKS + index));
                    let last = first.saturating_add(shift.bytes());
                    data.insert(first.max(range.start)..last.min(range.end).max(range.start));
                }
            }
            match rows.last() {
                Some((last, _)) if rows.len() == CHUNKS => start = [&last[..], &[0]].concat().into(),
                _ => break,
            }
        }
        if let Some(unsaved) = self.unsaved.get(&object) {
            for (part, is_data) in unsaved.pieces(range) {
                match is_data {
                    true => data.insert(part),
                    false => data.remove(part),
                }
            }
        }
        Ok(data)
    }

    pub(super) async fn reserve(
        &mut self,
        file: FileId,
        offset: u64,
        length: u64,
        authority: Authority,
    ) -> FsResult<()> {
        let (now, caller) = (self.now(), self.caller.clone());
        let old = self.inode(file).await?.attributes.clone();
        require_regular(&old)?;
        may_write(&old, &caller, authority)?;
        if length == 0 {
            return Err(FsError::InvalidArgument);
        }
        // Clouds have no size, and the journal makes writers wait, not fail: there is nothing to set aside.
        let new = attribute_rules::written(&old, &caller, offset, length, now)?;
        self.set(file.object, new)?;
        self.written.insert(file.object);
        Ok(())
    }

    pub(super) async fn punch(
        &mut self,
        file: FileId,
        offset: u64,
        length: u64,
        authority: Authority,
    ) -> FsResult<()> {
        let (now, caller, object) = (self.now(), self.caller.clone(), file.object);
        let inode = self.inode(file).await?;
        let (old, shift) = (inode.attributes.clone(), block_shift(inode));
        require_regular(&old)?;
        may_write(&old, &caller, authority)?;
        if length == 0 {
            return Err(FsError::InvalidArgument);
        }
        let (range, shift) = (offset..offset.saturating_add(length).min(old.size), shift?);
        if range.is_empty() {
            return Ok(());
        }
        // Beyond the end of the file nothing of a block counts.
        let last =
            if range.end == old.size { shift.blocks_in(range.end) } else { shift.index_of(range.end).0 };
        let whole = BlockIndex(shift.blocks_in(range.start))..BlockIndex(last);
        let inside = shift.start_of(whole.start)..shift.start_of(whole.end);
        let edges = match whole.start < whole.end {
            true => [range.start..inside.start, inside.end.min(range.end)..range.end],
            false => [range.clone(), 0..0],
        };
        if edges.iter().any(|edge| !edge.is_empty()) {
            // Zeros take no room in the journal worth speaking of, but books must be kept of them.
            self.admit(0).await?;
        }
        let mut new = attribute_rules::punched(&old, &caller, now);
        new.space_used = match range == (0..old.size) {
            true => 0,
            // At most what was there, and never nothing while there may be something: there are programs that take
            // a file without storage for empty.
            false => {
                let freed = self.data_bytes(object, shift, range.clone()).await?;
                old.space_used.saturating_sub(freed).max(old.space_used.min(1))
            }
        };
        let mut blank = Vec::new();
        for edge in edges {
            blank.extend(self.data_in(object, shift, edge).await?.iter());
        }
        if whole.start < whole.end {
            self.punch_map(object, whole).await?;
            self.meta.touch(&self.volume.keys.cut(object));
            let file = self.volume.file_key(object);
            let (offset, length) = (inside.start, inside.end - inside.start);
            self.attach(DataOp::Discard { file, offset, length });
        }
        blank.into_iter().for_each(|part| self.blank(object, shift, part));
        self.unsaved.entry(object).or_default().blank(range);
        self.set(object, new)?;
        self.written.insert(object);
        Ok(())
    }

    /// Writes zeros.
    fn blank(&mut self, object: ObjectId, shift: BlockShift, range: Range<u64>) {
        let file = self.volume.file_key(object);
        let mut offset = range.start;
        while offset < range.end {
            let length = (range.end - offset).min(MAX_ZERO);
            self.attach(DataOp::Zero { file, shift, offset, length });
            offset += length;
        }
    }

    pub(super) async fn data_bytes(
        &mut self,
        object: ObjectId,
        shift: BlockShift,
        range: Range<u64>,
    ) -> FsResult<u64> {
        let data = self.data_in(object, shift, range).await?;
        Ok(data.iter().map(|part| part.end - part.start).sum())
    }
}
