use std::sync::Arc;

use async_trait::async_trait;
use blocks::{
    BlockStore, CloudId, CurrentVersions, LoadError, Loaded, PackVersion, PackedBlock, PlaceInPack,
    Placement, Protection, SealId,
};
use bytes::Bytes;
use cache::{BlockSnapshot, FileKey as CachedFile};
use ids::{BlockIndex, BlockShift, GatewayId, ObjectId, Timestamp, Version, VolumeId};
use seal::{BlockIdentity, ContentId, FileKey, Owner, Signer, fragment_name};

/// Why a volume could not do what it was asked: its own error.
pub type VolumeFailure = Box<dyn std::error::Error + Send + Sync>;

/// A block version, with everything that finds and opens it.
#[derive(Clone, Debug)]
pub struct BlockVersion {
    /// What it is.
    pub identity: BlockIdentity,
    /// Its file's key.
    pub key: FileKey,
    /// Where its fragments are.
    pub placement: Arc<Placement>,
    /// Which sealing of it.
    pub seal: SealId,
    /// Where it lies, if it has no fragments of its own.
    pub packed: Option<Arc<Packed>>,
}

/// A place in a pack.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The pack, as the block version that it is.
    pub pack: BlockVersion,
    /// The place.
    pub place: PlaceInPack,
}

impl BlockVersion {
    /// What has the fragments: the pack that it lies in, or itself. This is what can be repaired.
    pub fn stored(&self) -> &BlockVersion {
        self.packed.as_ref().map_or(self, |packed| &packed.pack)
    }

    /// The cloud of each fragment, and what the fragment is called there.
    pub fn fragments(&self) -> impl Iterator<Item = (CloudId, String)> {
        let stored = self.stored();
        let names = stored.key.name_key();
        let clouds = stored.placement.clouds().iter().zip(0..);
        clouds.map(move |(&cloud, at)| (cloud, fragment_name(&names, &stored.identity, at, stored.seal)))
    }

    /// Reads it, alone or from its pack. What was bad are fragments of what is [stored](BlockVersion::stored).
    pub async fn load(
        &self,
        blocks: &BlockStore,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Result<Loaded, LoadError> {
        let BlockVersion { identity, key, placement, seal, packed } = self;
        match packed {
            None => blocks.load(key, identity, *seal, placement, versions).await,
            Some(packed) => {
                let BlockVersion { identity: id, key: pack_key, placement, seal, .. } = &packed.pack;
                let pack = PackVersion { key: pack_key, id, seal: *seal, placement };
                let block = PackedBlock { key, id: identity, place: &packed.place };
                blocks.load_packed(pack, block, versions).await
            }
        }
    }
}

/// A pack that is to be stored.
#[derive(Clone, Debug)]
pub struct NewPack {
    /// Never used before.
    pub identity: BlockIdentity,
    /// The key of the file of packs.
    pub key: FileKey,
    /// Where the fragments go; the block size is no less than the largest size of a pack.
    pub placement: Arc<Placement>,
    /// Which sealing of it.
    pub seal: SealId,
    /// Who certifies it.
    pub owner: Signer,
}

/// Where a block was stored that did not travel alone.
#[derive(Clone, Debug)]
pub struct InPack {
    /// Which pack.
    pub pack: BlockIdentity,
    /// Its place there.
    pub place: PlaceInPack,
    /// Fragments of the pack that are not stored yet.
    pub missing: Arc<[u8]>,
}

/// How much of a pack is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedPack {
    /// The file of packs.
    pub object: ObjectId,
    /// Which of them.
    pub number: BlockIndex,
    /// Bytes of the pack.
    pub len: u32,
    /// Bytes of the blocks that lie in it and are held, or wait for their deletion.
    pub live: u32,
    /// Whether all of its blocks are committed. Until then it seems to be less used than it is.
    pub is_settled: bool,
}

/// A block that was put into another pack.
#[derive(Clone, Debug)]
pub struct MovedBlock {
    /// What it is.
    pub id: BlockIdentity,
    /// Where it lay.
    pub from: PlaceInPack,
    /// Where it is now.
    pub to: InPack,
}

/// What to store of a dirty block.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // few at a time, and not for long
pub enum Plan {
    /// A new version.
    Store(NewBlock),
    /// The file is gone or ends before the block: its dirty data is of no use.
    Nothing,
}

/// What a volume answers about several blocks.
pub type Plans = Vec<Result<Plan, VolumeFailure>>;

/// A version to be stored.
#[derive(Clone, Debug)]
pub struct NewBlock {
    /// With a version number that no attempt before had.
    pub identity: BlockIdentity,
    /// Tells this sealing from those of the same version before a crash: part of the names of its fragments.
    pub seal: SealId,
    /// Its file's key.
    pub key: FileKey,
    /// Where the fragments go.
    pub placement: Arc<Placement>,
    /// How it is sealed.
    pub protection: Protection,
    /// Bytes of the block that the file has: the block size, or less in the last block.
    pub length: u64,
    /// What is there now.
    pub base: Base,
}

/// The content that a partly dirty block is laid over.
#[derive(Clone, Debug)]
pub enum Base {
    /// Zeros.
    Hole,
    /// A stored version.
    Stored(BlockVersion),
}

/// A dirty block that has been written back and waits for its commit.
pub struct Written {
    /// What was stored. [`BlockSnapshot::is_current`] has to be asked in the transaction.
    pub snapshot: BlockSnapshot,
    /// As what.
    pub content: WrittenAs,
}

impl Written {
    /// Whether fragments of it, or of its pack, are not stored yet.
    pub fn is_degraded(&self) -> bool {
        let WrittenAs::Version { missing, packed, .. } = &self.content else { return false };
        !missing.is_empty() || packed.as_ref().is_some_and(|packed| !packed.missing.is_empty())
    }
}

/// What became of a dirty block.
#[derive(Clone, Debug)]
pub enum WrittenAs {
    /// Stored as this version.
    Version {
        /// From the plan.
        identity: BlockIdentity,
        /// Which sealing is the right one.
        seal: SealId,
        /// Fragments that are not stored yet; into the repair queue, in the same transaction. None of a block in a pack.
        missing: Vec<u8>,
        /// The pack that it is stored in, if it has no fragments of its own.
        packed: Option<InPack>,
        /// Plaintext bytes.
        length: u64,
        /// What the block holds, where equal content is kept once: later versions may share this one.
        content: Option<ContentId>,
    },
    /// Not stored, because a version with the same content is; of a volume that keeps equal content once.
    Content {
        /// From the plan; its number stays unused.
        identity: BlockIdentity,
        /// Which sealing it would have been.
        seal: SealId,
        /// What the block holds.
        content: ContentId,
        /// Plaintext bytes.
        length: u64,
    },
    /// [`Plan::Nothing`]: only the dirty data is to be dropped.
    Nothing,
}

/// A block that is to be stored once more, because its file has another policy now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Its file.
    pub file: CachedFile,
    /// The file's block size.
    pub shift: BlockShift,
    /// Which block.
    pub block: BlockIndex,
    /// Bytes of the block that the file has.
    pub length: u64,
}

/// A part of what is to be stored once more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrites {
    /// Each block once.
    pub blocks: Vec<Rewrite>,
    /// Whether everything has been looked at since this was last true.
    pub is_last: bool,
    /// Whether nothing was found meanwhile: nothing is left to be moved.
    pub is_done: bool,
}

/// A row of the queue of garbage: block versions of one file that nobody refers to any more.
#[derive(Clone, Debug)]
pub struct GarbageRow {
    /// Names the row; also the position behind which to go on.
    pub row: Bytes,
    /// The versions and which sealing of each, whose fragments are to be deleted.
    pub versions: Vec<(BlockIdentity, SealId)>,
    /// Their file's key.
    pub key: FileKey,
    /// Where their fragments are.
    pub placement: Arc<Placement>,
}

impl GarbageRow {
    /// The versions, each with everything that finds it.
    pub fn into_versions(self) -> impl Iterator<Item = BlockVersion> {
        let GarbageRow { versions, key, placement, .. } = self;
        let version = move |(identity, seal)| {
            let (key, placement) = (key.clone(), placement.clone());
            BlockVersion { identity, key, placement, seal, packed: None }
        };
        versions.into_iter().map(version)
    }
}

/// A row of the repair queue.
#[derive(Clone, Debug)]
pub struct RepairRow {
    /// Names the row; also the position behind which to go on.
    pub row: Bytes,
    /// The version with missing fragments; `None` when it is not the current one any more, so that only the row
    /// is left to be removed.
    pub version: Option<BlockVersion>,
    /// The missing fragments.
    pub fragments: Vec<u8>,
}

/// What came of a row of the repair queue.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// Names the row.
    pub row: Bytes,
    /// The fragments that it had.
    pub before: Vec<u8>,
    /// Those of them that are still to be repaired.
    pub left: Vec<u8>,
}

/// What upkeep needs of a volume. All methods retry conflicts themselves, bounded; an error is worth another try
/// later. Lists are bounded by `limit` and ascend by `row`, so that the last one is the position to go on from.
#[async_trait]
pub trait MaintainedVolume: CurrentVersions + Send + Sync + 'static {
    /// Which volume.
    fn id(&self) -> VolumeId;

    /// What to store of these blocks, in their order, from one consistent view of the metadata. A block whose
    /// metadata is damaged has an error of its own. The versions are noted durably when this returns: what is stored of them
    /// and not committed becomes garbage, whatever happens.
    async fn plan_write_back(&self, blocks: &[(ObjectId, BlockIndex)]) -> Result<Plans, VolumeFailure>;

    /// A stored version that some block holds, and that `object` may share, with this content. What is found may be gone by the
    /// time of the commit, which looks again. Volumes that do not keep equal content once find nothing.
    async fn find_content(
        &self,
        _object: ObjectId,
        _content: ContentId,
    ) -> Result<Option<(BlockIdentity, SealId)>, VolumeFailure> {
        Ok(None)
    }

    /// Makes written versions current and their dirty data clean, in one transaction, and waits until it is
    /// durable. Tells of each whether it was committed; the others were overtaken by a truncation, a removal or
    /// another version, their stored fragments are garbage, and what is still dirty of them is written back anew.
    async fn commit_written(&self, written: &[Written]) -> Result<Vec<bool>, VolumeFailure>;

    /// A new pack of at most `size` bytes for blocks of files with this placement, noted durably when this returns, as versions of
    /// blocks are. `None` from a volume that does not pack: every block travels alone.
    async fn plan_pack(&self, _placement: &Placement, _size: u64) -> Result<Option<NewPack>, VolumeFailure> {
        Ok(None)
    }

    /// No more blocks of this pack will be committed. If none was, it becomes garbage.
    async fn settle_pack(&self, _pack: &BlockIdentity) -> Result<(), VolumeFailure> {
        Ok(())
    }

    /// Packs behind `after`, with how much of each is in use; by file of packs and number.
    async fn used_packs(
        &self,
        _after: Option<(ObjectId, BlockIndex)>,
        _limit: usize,
    ) -> Result<Vec<UsedPack>, VolumeFailure> {
        Ok(Vec::new())
    }

    /// What finds and opens a pack; `None` when nothing lies in it any more.
    async fn find_pack(
        &self,
        _object: ObjectId,
        _number: BlockIndex,
    ) -> Result<Option<BlockVersion>, VolumeFailure> {
        Ok(None)
    }

    /// Which of these blocks lie in this pack, at these places: the others have gone, or moved.
    async fn lie_in(
        &self,
        _pack: &BlockIdentity,
        blocks: &[(BlockIdentity, PlaceInPack)],
    ) -> Result<Vec<bool>, VolumeFailure> {
        Ok(vec![false; blocks.len()])
    }

    /// Blocks of this pack lie in another one from now on, which was planned and not settled. One transaction, durable when this
    /// returns. Tells of each whether it has moved; the others are gone.
    async fn commit_moved(
        &self,
        _pack: &BlockIdentity,
        moved: &[MovedBlock],
    ) -> Result<Vec<bool>, VolumeFailure> {
        Ok(vec![false; moved.len()])
    }

    /// Garbage that is due at `until`.
    async fn garbage(
        &self,
        until: Timestamp,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<GarbageRow>, VolumeFailure>;

    /// Whether the fragments of this row may be deleted by now: nothing that might be restored refers to them.
    fn may_delete(&self, _row: &Bytes) -> bool {
        true
    }

    /// The fragments of these rows are deleted. What they held of packs is let go; a pack that nobody holds becomes garbage.
    async fn garbage_collected(&self, rows: &[Bytes]) -> Result<(), VolumeFailure>;

    /// The repair queue.
    async fn repairs(&self, after: Option<&Bytes>, limit: usize) -> Result<Vec<RepairRow>, VolumeFailure>;

    /// What is left to repair of these rows; nothing removes the row.
    async fn repaired(&self, rows: &[Repaired]) -> Result<(), VolumeFailure>;

    /// What a gateway certifies its packs as, if that is known.
    fn owner(&self, _gateway: GatewayId) -> Option<Owner> {
        None
    }

    /// Returns when there may be something for [`MaintainedVolume::reap`], or never.
    async fn orphans_waiting(&self) {
        std::future::pending().await
    }

    /// Returns when a fragment was put into the repair queue that had better be repaired at once: a write has left it out, or a read
    /// met it. A volume that does not tell is looked at in intervals.
    async fn repairs_waiting(&self) {
        std::future::pending().await
    }

    /// Puts fragments into the repair queue, unless no block holds `version` any more. Object, block and version are those of
    /// the identity, as in a [`RepairRow`].
    async fn queue_repair(
        &self,
        object: ObjectId,
        block: BlockIndex,
        version: Version,
        fragments: &[u8],
    ) -> Result<(), VolumeFailure>;

    /// The block versions with fragments of their own that some block holds, each once, behind `after`, in an order of the volume's
    /// own: packs, and blocks that lie in none.
    async fn stored_blocks(
        &self,
        after: Option<BlockIdentity>,
        limit: usize,
    ) -> Result<Vec<BlockVersion>, VolumeFailure>;

    /// Finds the files that are to be moved to another policy, where somebody asked for that.
    async fn find_migrating(&self) -> Result<(), VolumeFailure> {
        Ok(())
    }

    /// Some of the blocks that are still stored by another policy than their file's, up to about so many with so many bytes. The next call goes on
    /// behind them, and begins anew after the last. Files without such blocks are done with.
    async fn to_rewrite(&self, _most: usize, _bytes: u64) -> Result<Rewrites, VolumeFailure> {
        Ok(Rewrites { blocks: Vec::new(), is_last: true, is_done: true })
    }

    /// Returns when somebody has asked for files to be moved, or never.
    async fn migrations_waiting(&self) {
        std::future::pending().await
    }

    /// Does a bounded piece of work on removed files that nobody holds open; tells whether there is more.
    async fn reap(&self) -> Result<bool, VolumeFailure>;
}
