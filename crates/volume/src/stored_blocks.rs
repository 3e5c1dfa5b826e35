use bytes::Bytes;
use ids::{BlockIndex, ObjectId, Version};
use meta::Scan;
use seal::BlockIdentity;
use upkeep::BlockVersion;

use crate::VolumeError;
use crate::keys::{Keys, ObjectRow};
use crate::node::consistent_read;
use crate::row::{BadRow, CHUNK_BLOCKS, Origin, ShareRow};
use crate::volume::{Inner, Volume};

/// Rows looked at at a time.
const ROWS: usize = 256;

/// What is looked for: what lies behind a place, up to so many, and whether of shredded files, too.
#[derive(Clone, Copy)]
struct Wanted {
    after: Option<Place>,
    limit: usize,
    shredded: bool,
}

/// The order in which versions are listed.
type Place = (ObjectId, BlockIndex, Version);

fn place(id: &BlockIdentity) -> Place {
    (id.object, id.block, id.version)
}

impl Volume {
    /// Up to `limit` block versions with fragments of their own that some block holds, behind `after`, in the order of the objects, blocks and
    /// versions that they were stored for: also packs, and not what lies in them. Each is listed once, however many blocks share it. Empty at the end.
    ///
    /// Without those of shredded files: nothing of them can be proved or moved any more.
    pub async fn stored_blocks(
        &self,
        after: Option<BlockIdentity>,
        limit: usize,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        self.list_blocks(after, limit, false).await
    }

    /// As [`Volume::stored_blocks`], also those of shredded files that are not taken apart yet. Their keys tell what their fragments are called, and
    /// open none.
    pub async fn named_blocks(
        &self,
        after: Option<BlockIdentity>,
        limit: usize,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        self.list_blocks(after, limit, true).await
    }

    async fn list_blocks(
        &self,
        after: Option<BlockIdentity>,
        limit: usize,
        shredded: bool,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        let wanted = Wanted { after: after.map(|id| place(&id)), limit, shredded };
        let mut found = self.own_blocks(wanted).await?;
        // What lies behind a full page is looked for with the next one.
        let last = found.last().filter(|_| found.len() >= limit).map(|version| place(&version.identity));
        found.extend(self.left_blocks(wanted, last).await?);
        found.sort_by_key(|version| place(&version.identity));
        // Between the two looks a version may have passed from its block to those that share it.
        found.dedup_by_key(|version| place(&version.identity));
        found.truncate(limit);
        Ok(found)
    }

    /// Those that are held by the blocks that they were stored for.
    async fn own_blocks(&self, wanted: Wanted) -> Result<Vec<BlockVersion>, VolumeError> {
        let inner = &self.inner;
        let (first, end) = inner.keys.objects();
        let behind = wanted.after.map(|(object, block, _)| inner.keys.chunk(object, block));
        let (mut found, mut next) = (Vec::new(), Some(behind.unwrap_or(first)));
        while let Some(start) = next {
            let rows = inner.rows_behind(&start, &end).await?;
            for (key, row) in &rows {
                let Some((object, ObjectRow::Chunk(number))) = Keys::object_row(key) else { continue };
                if !inner.chunk(object, Some(row))?.iter().any(|(_, entry)| entry.is_own(entry.version)) {
                    continue;
                }
                // Each row for itself: all of them would never stand still where much is written.
                let versions: Result<Vec<_>, VolumeError> = consistent_read!(inner.node, |transaction| {
                    inner.own_of_chunk(transaction, object, number, wanted).await
                });
                found.extend(versions?);
                if found.len() >= wanted.limit {
                    found.truncate(wanted.limit);
                    return Ok(found);
                }
            }
            next = behind_page(&rows);
        }
        Ok(found)
    }

    /// Those that are held only by blocks that have taken them over; up to `last`.
    async fn left_blocks(
        &self,
        wanted: Wanted,
        last: Option<Place>,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        let inner = &self.inner;
        let (first, mut end) = inner.keys.all_shares();
        let behind = wanted.after.map(|(object, block, _)| inner.keys.shares(object, block));
        if let Some((object, block, _)) = last {
            end = [&inner.keys.shares(object, block)[..], &[0]].concat().into();
        }
        let (mut found, mut next) = (Vec::new(), Some(behind.unwrap_or(first)));
        while let Some(start) = next {
            let rows = inner.rows_behind(&start, &end).await?;
            for (key, _) in &rows {
                let versions: Result<Vec<_>, VolumeError> = consistent_read!(inner.node, |transaction| {
                    inner.left_of_row(transaction, key, wanted).await
                });
                found.extend(versions?);
                if found.len() >= wanted.limit {
                    found.truncate(wanted.limit);
                    return Ok(found);
                }
            }
            next = behind_page(&rows);
        }
        Ok(found)
    }
}

impl Inner {
    /// A page of rows, as they were at one instant.
    async fn rows_behind(&self, start: &[u8], end: &[u8]) -> Result<Vec<(Bytes, Bytes)>, VolumeError> {
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        Ok(transaction.scan(Scan { start, end, guard: None, limit: ROWS }).await?)
    }

    async fn own_of_chunk(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        number: u64,
        wanted: Wanted,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        let first = BlockIndex(number * CHUNK_BLOCKS);
        let row = transaction.get(&self.keys.chunk(object, first)).await?;
        let mut alone = Vec::new();
        for (index, entry) in self.chunk(object, row.as_deref())?.iter() {
            let block = BlockIndex(first.0 + index);
            if !entry.is_own(entry.version) || !wanted.is_behind((object, block, entry.version)) {
                continue;
            }
            let origin = entry.sealed(object, block).origin;
            if self.packed_row(transaction, origin).await?.is_none() {
                alone.push((block, entry));
            }
        }
        if alone.is_empty() {
            return Ok(Vec::new());
        }
        let Some(file) = self.file_rows(transaction, object).await? else { return Ok(Vec::new()) };
        let versions =
            alone.into_iter().map(|(block, entry)| self.named_version(object, block, entry, &file));
        wanted.of(versions)
    }

    async fn left_of_row(
        &self,
        transaction: &mut dyn meta::Transaction,
        key: &[u8],
        wanted: Wanted,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        let damaged = |cause| VolumeError::Damaged { what: "a row of shared blocks".into(), cause };
        let (object, number) =
            Keys::shares_of(key).ok_or(BadRow("a key of the wrong length")).map_err(damaged)?;
        let Some(row) = transaction.get(key).await? else { return Ok(Vec::new()) };
        let row = ShareRow::decode(&row).map_err(damaged)?;
        let mut alone = Vec::new();
        for (&(index, version), share) in row.shares.iter().filter(|(_, share)| !share.own) {
            let origin = Origin { object, block: BlockIndex(number * CHUNK_BLOCKS + index), version };
            if wanted.is_behind((object, origin.block, version))
                && self.packed_row(transaction, origin).await?.is_none()
            {
                alone.push(self.named_version_of_share(&row, origin, share));
            }
        }
        wanted.of(alone)
    }
}

impl Wanted {
    fn is_behind(&self, place: Place) -> bool {
        self.after.is_none_or(|after| place > after)
    }

    fn of(
        &self,
        versions: impl IntoIterator<Item = Result<BlockVersion, VolumeError>>,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        let is_wanted = |version: &BlockVersion| self.shredded || !version.key.is_shredded();
        versions.into_iter().filter(|version| version.as_ref().map_or(true, is_wanted)).collect()
    }
}

/// Where a listing goes on behind a page.
fn behind_page(rows: &[(Bytes, Bytes)]) -> Option<Bytes> {
    let last = rows.last().filter(|_| rows.len() == ROWS);
    last.map(|(last, _)| [&last[..], &[0]].concat().into())
}
