use bytes::Bytes;
use ids::{BlockIndex, ObjectId, Version};
use meta::Scan;
use seal::BlockIdentity;
use upkeep::BlockVersion;

use crate::VolumeError;
use crate::keys::{Keys, ObjectRow};
use crate::row::{BadRow, CHUNK_BLOCKS, Chunk, Origin, ShareRow};
use crate::volume::Volume;

/// Rows looked at in one transaction.
const ROWS: usize = 1024;

/// The order in which versions are listed.
type Place = (ObjectId, BlockIndex, Version);

fn place(id: &BlockIdentity) -> Place {
    (id.object, id.block, id.version)
}

impl Volume {
    /// Up to `limit` block versions with fragments of their own that some block holds, behind `after`, in the order of the objects, blocks and
    /// versions that they were stored for: also packs, and not what lies in them. Each is listed once, however many blocks share it. Empty at the end.
    pub async fn stored_blocks(
        &self,
        after: Option<BlockIdentity>,
        limit: usize,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        let after = after.map(|id| place(&id));
        let mut found = self.own_blocks(after, limit).await?;
        // What lies behind a full page is looked for with the next one.
        let last = found.last().filter(|_| found.len() >= limit).map(|version| place(&version.identity));
        found.extend(self.left_blocks(after, last, limit).await?);
        found.sort_by_key(|version| place(&version.identity));
        // Between the two looks a version may have passed from its block to those that share it.
        found.dedup_by_key(|version| place(&version.identity));
        found.truncate(limit);
        Ok(found)
    }

    /// Those that are held by the blocks that they were stored for.
    async fn own_blocks(&self, after: Option<Place>, limit: usize) -> Result<Vec<BlockVersion>, VolumeError> {
        let inner = &self.inner;
        let (mut start, end) = inner.keys.objects();
        if let Some((object, block, _)) = after {
            start = inner.keys.chunk(object, block);
        }
        let is_behind = |object, block, version| after.is_none_or(|after| (object, block, version) > after);
        let mut found = Vec::new();
        loop {
            let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
            let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: ROWS }).await?;
            for (key, row) in &rows {
                let Some((object, ObjectRow::Chunk(number))) = Keys::object_row(key) else { continue };
                let chunk = Chunk::decode(row).map_err(inner.damaged("the block map of object", object))?;
                let blocks = chunk.iter().filter(|(_, entry)| entry.is_own(entry.version));
                let blocks = blocks.map(|(index, entry)| (BlockIndex(number * CHUNK_BLOCKS + index), entry));
                let mut blocks =
                    blocks.filter(|(block, entry)| is_behind(object, *block, entry.version)).peekable();
                if blocks.peek().is_none() {
                    continue;
                }
                let Some(file) = inner.file_rows(&mut *transaction, object).await? else { continue };
                for (block, entry) in blocks {
                    let origin = entry.sealed(object, block).origin;
                    if inner.packed_row(&mut *transaction, origin).await?.is_some() {
                        continue;
                    }
                    match inner.block_version(object, block, entry, &file) {
                        // Nothing of it can be proved or moved any more; it goes when it is closed.
                        Err(VolumeError::Shredded { .. }) => continue,
                        version => found.push(version?),
                    }
                    if found.len() >= limit {
                        return Ok(found);
                    }
                }
            }
            match rows.last() {
                Some((last, _)) if rows.len() == ROWS => start = Bytes::from([&last[..], &[0]].concat()),
                _ => return Ok(found),
            }
        }
    }

    /// Those that are held only by blocks that have taken them over; up to `last`.
    async fn left_blocks(
        &self,
        after: Option<Place>,
        last: Option<Place>,
        limit: usize,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        let inner = &self.inner;
        let (mut start, mut end) = inner.keys.all_shares();
        if let Some((object, block, _)) = after {
            start = inner.keys.shares(object, block);
        }
        if let Some((object, block, _)) = last {
            end = [&inner.keys.shares(object, block)[..], &[0]].concat().into();
        }
        let mut found = Vec::new();
        loop {
            let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
            let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: ROWS }).await?;
            for (key, row) in &rows {
                let damaged = |cause| VolumeError::Damaged { what: "a row of shared blocks".into(), cause };
                let key = Keys::shares_of(key).ok_or(BadRow("a key of the wrong length"));
                let (object, number) = key.map_err(damaged)?;
                let row = ShareRow::decode(row).map_err(damaged)?;
                for (&(index, version), share) in row.shares.iter().filter(|(_, share)| !share.own) {
                    let block = BlockIndex(number * CHUNK_BLOCKS + index);
                    if after.is_some_and(|after| (object, block, version) <= after) {
                        continue;
                    }
                    let origin = Origin { object, block, version };
                    if inner.packed_row(&mut *transaction, origin).await?.is_some() {
                        continue;
                    }
                    match inner.version_of_share(&row, origin, share) {
                        Err(VolumeError::Shredded { .. }) => continue,
                        version => found.push(version?),
                    }
                    if found.len() >= limit {
                        return Ok(found);
                    }
                }
            }
            match rows.last() {
                Some((last, _)) if rows.len() == ROWS => start = Bytes::from([&last[..], &[0]].concat()),
                _ => return Ok(found),
            }
        }
    }
}
