//! How much of packs is in use, and blocks that move out of those that are mostly garbage (decision 25 §13).

use blocks::PlaceInPack;
use ids::{BlockIndex, ObjectId};
use meta::Scan;
use seal::BlockIdentity;
use upkeep::{BlockVersion, MovedBlock, UsedPack};

use crate::VolumeError;
use crate::keys::Keys;
use crate::node::{consistent_read, upkeep_transaction};
use crate::row::{BadRow, Origin, PACK_VERSION, PackUse, PackedRow, Sealed};
use crate::shares::ShareBook;
use crate::volume::Volume;

/// Where a block lies, by the pack that was read.
fn lies_at(row: &PackedRow, pack: &BlockIdentity, MovedBlock { from, .. }: &MovedBlock) -> bool {
    (row.object, row.number, row.place) == (pack.object, pack.block, *from)
}

fn origin_of(id: &BlockIdentity) -> Origin {
    Origin { object: id.object, block: id.block, version: id.version }
}

impl Volume {
    /// Up to `limit` packs behind `after` whose blocks are all committed, with what is in use of each.
    pub async fn used_packs(
        &self,
        after: Option<(ObjectId, BlockIndex)>,
        limit: usize,
    ) -> Result<Vec<UsedPack>, VolumeError> {
        let inner = &self.inner;
        let (start, end) = inner.keys.pack_uses();
        let start = match after {
            Some((object, number)) => [&inner.keys.pack_use(object, number)[..], &[0]].concat().into(),
            None => start,
        };
        consistent_read!(inner.node, |transaction| {
            let mut found = Vec::new();
            for (key, row) in transaction.scan(Scan { start: &start, end: &end, guard: None, limit }).await? {
                let damaged =
                    |cause| VolumeError::Damaged { what: "how much is in use of a pack".into(), cause };
                let at = Keys::pack_note_at(&key).ok_or(BadRow("a key of the wrong length"));
                let (object, number) = at.map_err(damaged)?;
                let PackUse { len, live } = PackUse::decode(&row).map_err(damaged)?;
                let is_noted = transaction.get(&inner.keys.pack_note(object, number)).await?.is_some();
                found.push(UsedPack { object, number, len, live, is_settled: !is_noted });
            }
            Ok(found)
        })
    }

    /// What finds and opens a pack; `None` when nothing lies in it any more.
    pub async fn find_pack(
        &self,
        object: ObjectId,
        number: BlockIndex,
    ) -> Result<Option<BlockVersion>, VolumeError> {
        let pack = Origin { object, block: number, version: PACK_VERSION };
        consistent_read!(self.inner.node, |transaction| self.inner.shared_version(transaction, pack).await)
    }

    /// Which of these blocks lie in `pack`, each where it is said to: the others have gone, or moved.
    pub async fn lie_in(
        &self,
        pack: &BlockIdentity,
        blocks: &[(BlockIdentity, PlaceInPack)],
    ) -> Result<Vec<bool>, VolumeError> {
        let is_there = |row: PackedRow, place: &PlaceInPack| {
            (row.object, row.number, row.place) == (pack.object, pack.block, *place)
        };
        consistent_read!(self.inner.node, |transaction| {
            let mut found = Vec::with_capacity(blocks.len());
            for (id, place) in blocks {
                let row = self.inner.packed_row(transaction, origin_of(id)).await?;
                found.push(row.is_some_and(|row| is_there(row, place)));
            }
            Ok(found)
        })
    }

    /// Blocks lie in another pack from now on, which was planned and not settled, and hold it instead of `pack`. Tells of each
    /// whether it has moved; the others have let `pack` go meanwhile. Waits until that is durable.
    pub async fn commit_moved(
        &self,
        pack: &BlockIdentity,
        moved: &[MovedBlock],
    ) -> Result<Vec<bool>, VolumeError> {
        let inner = &self.inner;
        upkeep_transaction!(inner.node, |transaction| {
            let mut book = ShareBook::new(inner);
            let mut done = Vec::with_capacity(moved.len());
            for block in moved {
                let origin = origin_of(&block.id);
                let row = inner.packed_row(transaction, origin).await?;
                let row = row.filter(|row| lies_at(row, pack, block));
                done.push(row.is_some());
                let Some(PackedRow { place, sealing, .. }) = row else { continue };
                // Before the old pack goes: it may be the last one of the same books.
                match sealing {
                    Some((creator, seal)) => {
                        let sealed = Sealed { origin, creator, seal };
                        inner.put_packed(transaction, &mut book, sealed, &block.to).await?;
                    }
                    None => {
                        return Err(VolumeError::Missing { what: format!("which sealing lies in {pack}") });
                    }
                }
                inner.let_go_of_pack(transaction, &mut book, origin_of(pack), place.len).await?;
            }
            book.finish(transaction).await?;
            Ok(done)
        })
    }
}
