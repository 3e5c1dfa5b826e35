use std::sync::Arc;

use blocks::{CloudId, PlaceInPack};
use bytes::Bytes;
use cache::Sealing;
use file_system::{FileKind, Name};
use ids::{BlockIndex, GatewayId, ObjectId, Version};

use crate::VolumeError;
use crate::node::consistent_read;
use crate::repair::{decode_repair, fragments_of};
use crate::row::{BlockEntry, Inode, Origin, PackedRow, Policy, Sealed, Special};
use crate::transaction::Entry;
use crate::volume::{FileRows, Inner, Volume};

/// Where a file is: what `kurma why` shows.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The object.
    pub object: ObjectId,
    /// Size in bytes.
    pub size: u64,
    /// How it is stored.
    pub policy: Arc<Policy>,
    /// Its blocks, from the first one asked for.
    pub blocks: Vec<BlockReport>,
}

/// Where a block is.
#[derive(Clone, Debug)]
pub struct BlockReport {
    /// Which block.
    pub block: BlockIndex,
    /// The last version that was stored; [`Version::NONE`] if none was.
    pub version: Version,
    /// Whether it reads as zeros, apart from dirty data.
    pub hole: bool,
    /// Who stored it.
    pub creator: GatewayId,
    /// The block that the content was stored for, if it is shared, and under which version.
    pub origin: Option<(ObjectId, BlockIndex, Version)>,
    /// Where it lies, if it has no fragments of its own. The fragments are those of the pack.
    pub pack: Option<PackReport>,
    /// Bytes that wait for write-back.
    pub dirty: u64,
    /// Whether it can be had without asking a cloud.
    pub cached: bool,
    /// Cloud and name of each fragment; none of a hole.
    pub fragments: Vec<(CloudId, String)>,
    /// Fragments that wait for repair.
    pub missing: Vec<u8>,
}

/// Where a block lies that has no fragments of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackReport {
    /// The file of packs.
    pub object: ObjectId,
    /// Which of them.
    pub number: BlockIndex,
    /// Its place there.
    pub place: PlaceInPack,
}

impl Volume {
    /// Where the blocks of the file at `path` (from the root, parts separated by `/`) are: up to `limit` of them from
    /// `first` on. `None` when there is no regular file of that path.
    pub async fn why(
        &self,
        path: &str,
        first: BlockIndex,
        limit: usize,
    ) -> Result<Option<FileReport>, VolumeError> {
        let inner = &self.inner;
        consistent_read!(inner.node, |transaction| {
            inner.file_report(transaction, path, first, limit).await
        })
    }
}

impl Inner {
    async fn file_report(
        &self,
        transaction: &mut dyn meta::Transaction,
        path: &str,
        first: BlockIndex,
        limit: usize,
    ) -> Result<Option<FileReport>, VolumeError> {
        let found = self.resolve(transaction, path).await?;
        let regular = found.filter(|(_, inode)| inode.attributes.kind == FileKind::Regular);
        let Some((object, _)) = regular else { return Ok(None) };
        let Some(file) = self.file_rows(transaction, object).await? else { return Ok(None) };
        let Special::File { shift, .. } = file.inode.special else { return Ok(None) };
        let size = file.inode.attributes.size;
        let mut blocks = Vec::new();
        for block in (first.0..shift.blocks_in(size)).take(limit).map(BlockIndex) {
            let entry = self.block_entry(transaction, object, block).await?.unwrap_or(BlockEntry::NONE);
            let origin = entry.sealed(object, block).origin;
            let packed = self.packed_row(transaction, origin).await?;
            let Origin { object: of, block: place, version } = packed.map_or(origin, |packed| packed.pack());
            let row = transaction.get(&self.keys.repair(of, place, version)).await?;
            let missing = row.map(|row| decode_repair(&row)).transpose();
            let missing = missing.map_err(self.damaged("a repair of object", object))?.unwrap_or(0);
            let start = shift.start_of(block);
            let dirty = self.node.cache.dirty_ranges(self.file_key(object), start..start + shift.bytes());
            blocks.push(BlockReport {
                block,
                version: entry.version,
                hole: !entry.is_stored(),
                creator: entry.creator,
                pack: packed.map(|PackedRow { object, number, place, .. }| PackReport {
                    object,
                    number,
                    place,
                }),
                origin: entry.origin.map(|Origin { object, block, version }| (object, block, version)),
                dirty: dirty.iter().map(|range| range.end - range.start).sum(),
                cached: entry.is_stored() && self.is_cached(object, block, entry),
                fragments: self.fragments(transaction, object, block, entry, &file).await?,
                missing: fragments_of(missing),
            });
        }
        Ok(Some(FileReport { object, size, policy: file.policy, blocks }))
    }

    /// Of a block that is stored.
    pub fn is_cached(&self, object: ObjectId, block: BlockIndex, entry: BlockEntry) -> bool {
        let Sealed { origin: Origin { object, block, version }, seal, .. } = entry.sealed(object, block);
        self.node.cache.has(self.file_key(object), block, Sealing { version, seal })
    }

    async fn fragments(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        block: BlockIndex,
        entry: BlockEntry,
        file: &FileRows,
    ) -> Result<Vec<(CloudId, String)>, VolumeError> {
        if !entry.is_stored() {
            return Ok(Vec::new());
        }
        let version = self.stored_version(transaction, object, block, entry, file).await?;
        Ok(version.fragments().collect())
    }

    /// The object at a path, with the eyes of the superuser; links are not followed.
    pub async fn resolve(
        &self,
        transaction: &mut dyn meta::Transaction,
        path: &str,
    ) -> Result<Option<(ObjectId, Inode)>, VolumeError> {
        let mut at = self.root;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let Ok(name) = Name::new(Bytes::copy_from_slice(part.as_bytes())) else { return Ok(None) };
            let row = transaction.get(&self.keys.name(at, name.as_bytes())).await?;
            let entry = row.map(|row| Entry::decode(&row)).transpose();
            match entry.map_err(self.damaged("an entry of directory", at))? {
                Some(entry) => at = entry.object,
                None => return Ok(None),
            }
        }
        let Some(row) = transaction.get(&self.keys.inode(at)).await? else { return Ok(None) };
        Ok(Some((at, self.inode(at, &row)?)))
    }
}
