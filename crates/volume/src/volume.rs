use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use blocks::{CurrentVersions, SealId};
use bytes::Bytes;
use cache::{FileKey, Scope, Sealing};
use file_system::{Caller, FileId, FileSystem, FsError, FsResult, Mode, OpenReference, Transaction};
use ids::{BlockIndex, GatewayId, ObjectId, Version, VolumeId};
use meta::{Committed, MetaError, Priority};
use parking_lot::RwLock;
use seal::BlockIdentity;
use tokio::sync::Notify;
use upkeep::BlockVersion;

use crate::VolumeError;
use crate::directories::read_directories;
use crate::epochs::Epochs;
use crate::error::meta_error;
use crate::keys::Keys;
use crate::migration::Migration;
use crate::node::{Node, RETRIES};
use crate::pack_reads::PackReads;
use crate::packs::PackFile;
use crate::references::References;
use crate::rekey::Rekeying;
use crate::row::{
    BlockEntry, Chunk, ChunkView, Inode, KeyRow, Origin, Policy, Special, Tier, VolumeRecord, decode_policy,
};
use crate::scan_marks::Quarantine;
use crate::spread::{Spreads, read_spreads};
use crate::transaction::VolumeTransaction;
use crate::usage::{Amount, Usage};

/// How long a commit at the tier `cloud` waits for the clouds.
const CLOUD_WAIT: Duration = Duration::from_secs(60);

/// One volume: a [`FileSystem`], and what upkeep needs to move its blocks. Cheap to clone.
#[derive(Clone)]
pub struct Volume {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub node: Arc<Node>,
    pub id: VolumeId,
    pub keys: Keys,
    pub root: ObjectId,
    pub record: RwLock<VolumeRecord>,
    pub policies: RwLock<BTreeMap<u32, Arc<Policy>>>,
    /// Directories with a policy of their own.
    pub directories: RwLock<Arc<BTreeMap<ObjectId, u32>>>,
    /// What files get instead of some policies.
    pub spreads: RwLock<Spreads>,
    pub epochs: Epochs,
    pub references: Arc<References>,
    pub usage: Arc<Usage>,
    /// A read has put something into the repair queue.
    pub repair_queued: Notify,
    /// What holds the packs that this start makes.
    pub packs: tokio::sync::Mutex<Vec<PackFile>>,
    pub rekeying: Rekeying,
    /// Whether what was sealed in earlier epochs is to stay readable when their keys go.
    pub keeps_contents: AtomicBool,
    pub migration: Migration,
    pub pack_reads: PackReads,
    pub quarantine: Quarantine,
}

impl Volume {
    /// Its name.
    pub fn name(&self) -> String {
        self.inner.record.read().name.clone()
    }

    /// What must hold before a stable write is answered.
    pub fn tier(&self) -> Tier {
        self.inner.record.read().tier
    }

    /// The policy of new files.
    pub fn policy(&self) -> Arc<Policy> {
        self.inner.policy_of_new_files()
    }

    /// Every policy that some file may have been made with.
    pub fn policies(&self) -> Vec<Arc<Policy>> {
        self.inner.policies.read().values().cloned().collect()
    }

    /// Objects, and bytes of their content.
    pub fn usage(&self) -> (u64, u64) {
        let Amount { objects, bytes } = self.inner.usage.get();
        (objects as u64, bytes as u64)
    }

    /// Saves the usage. Every few minutes; and with `closing` when nothing is to follow, so that the next start need
    /// not count; what follows nevertheless has it count.
    pub async fn save_usage(&self, closing: bool) -> Result<(), VolumeError> {
        let Inner { node, keys, usage, .. } = &*self.inner;
        if closing {
            usage.close();
        }
        // Whoever committed between the count and this commit would be in neither.
        let mode = if closing { meta::Mode::ExclusiveUpkeep } else { meta::Mode::Optimistic };
        let mut transaction = node.store.begin(mode).await?;
        transaction.put(keys.usage(), usage.get().encode(closing));
        node.commit_upkeep(transaction).await.map(drop)
    }

    /// Where a block version is stored. `None` when no block holds it any more: neither the one that it was stored for, nor
    /// one that has taken it over.
    pub async fn locate(
        &self,
        object: ObjectId,
        block: BlockIndex,
        Sealing { version, seal }: Sealing,
    ) -> Result<Option<BlockVersion>, VolumeError> {
        let inner = &self.inner;
        for _ in 0..RETRIES {
            let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
            match inner.locate_in(&mut *transaction, object, block, version).await {
                // Changed between two of its rows.
                Err(VolumeError::Meta(MetaError::Conflict)) => {}
                found => return Ok(found?.filter(|found| found.seal == seal)),
            }
        }
        Err(VolumeError::Meta(MetaError::Conflict))
    }
}

impl CurrentVersions for Volume {
    async fn is_current(&self, id: &BlockIdentity, seal: SealId) -> bool {
        let found = self.locate(id.object, id.block, Sealing { version: id.version, seal }).await;
        found.map_or(true, |found| found.is_some())
    }
}

/// The rows of a file that its blocks depend on.
pub(crate) struct FileRows {
    pub inode: Inode,
    /// Of what is stored from now on.
    pub policy_id: u32,
    pub policy: Arc<Policy>,
    /// Of the blocks whose entries name none.
    pub base: u32,
    pub key: KeyRow,
}

impl FileRows {
    /// The policy that a version of the file's own is stored by.
    pub fn policy_of(&self, entry: BlockEntry) -> u32 {
        entry.policy.unwrap_or(self.base)
    }

    /// What the entries of versions say that are stored from now on.
    pub fn mark(&self) -> Option<u32> {
        (self.policy_id != self.base).then_some(self.policy_id)
    }

    /// Bytes of a block that the file has.
    pub fn length_of(&self, block: BlockIndex) -> u64 {
        let Special::File { shift, .. } = self.inode.special else { return 0 };
        self.inode.attributes.size.saturating_sub(shift.start_of(block)).min(shift.bytes())
    }
}

impl Inner {
    pub fn policy_of_new_files(&self) -> Arc<Policy> {
        let current = self.record.read().policy;
        match self.policies.read().get(&current) {
            Some(policy) => policy.clone(),
            None => {
                unreachable!("the current policy is loaded when the volume is opened and when it changes")
            }
        }
    }

    pub fn file(&self, object: ObjectId) -> FileId {
        FileId { volume: self.id, object }
    }

    pub fn file_key(&self, object: ObjectId) -> FileKey {
        FileKey { volume: self.id, object }
    }

    pub fn damaged(
        &self,
        what: &'static str,
        object: ObjectId,
    ) -> impl FnOnce(crate::row::BadRow) -> VolumeError + use<> {
        let volume = self.id;
        move |cause| VolumeError::Damaged { what: format!("{what} {object} of volume {volume}"), cause }
    }

    /// Decodes an inode's row.
    pub fn inode(&self, object: ObjectId, row: &[u8]) -> Result<Inode, VolumeError> {
        let mut inode = Inode::decode(row).map_err(self.damaged("object", object))?;
        inode.attributes.file = self.file(object);
        inode.attributes.quarantined = self.quarantine.has(object);
        Ok(inode)
    }

    pub fn policy(&self, id: u32) -> Result<Arc<Policy>, VolumeError> {
        let found = self.policies.read().get(&id).cloned();
        found.ok_or_else(|| VolumeError::Missing { what: format!("policy {id} of volume {}", self.id) })
    }

    /// `None` when there is no such file.
    pub async fn file_rows(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
    ) -> Result<Option<FileRows>, VolumeError> {
        let Some(row) = transaction.get(&self.keys.inode(object)).await? else { return Ok(None) };
        let Some(key) = self.key_row(transaction, object).await? else { return Ok(None) };
        let inode = self.inode(object, &row)?;
        let Special::File { policy: policy_id, base, .. } = inode.special else { return Ok(None) };
        Ok(Some(FileRows { inode, policy_id, policy: self.policy(policy_id)?, base, key }))
    }

    pub async fn key_row(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
    ) -> Result<Option<KeyRow>, VolumeError> {
        let row = transaction.get(&self.keys.key(object)).await?;
        row.map(|row| KeyRow::decode(&row).map_err(self.damaged("the key of object", object))).transpose()
    }

    /// `None` when its chunk has no row: nothing of it was ever stored.
    pub async fn block_entry(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        block: BlockIndex,
    ) -> Result<Option<BlockEntry>, VolumeError> {
        let Some(row) = transaction.get(&self.keys.chunk(object, block)).await? else { return Ok(None) };
        let entry = ChunkView::new(&row).and_then(|chunk| chunk.entry(block.0 % crate::row::CHUNK_BLOCKS));
        entry.map(Some).map_err(self.damaged("the block map of object", object))
    }

    /// See [`Volume::locate`].
    pub async fn locate_in(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        block: BlockIndex,
        version: Version,
    ) -> Result<Option<BlockVersion>, VolumeError> {
        let entry = self.block_entry(transaction, object, block).await?;
        if let Some(entry) = entry.filter(|entry| entry.is_own(version))
            && let Some(file) = self.file_rows(transaction, object).await?
        {
            let found = self.block_version(object, block, entry, &file)?;
            return Ok(Some(self.placed(transaction, found).await?));
        }
        // The block or the file has moved on; others may have taken the version over.
        match self.shared_version(transaction, Origin { object, block, version }).await? {
            Some(found) => Ok(Some(self.placed(transaction, found).await?)),
            None => Ok(None),
        }
    }

    /// Which sealing of a version some block holds, if any.
    pub async fn held_sealing(
        &self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
    ) -> Result<Option<(GatewayId, SealId)>, VolumeError> {
        let Origin { object, block, version } = origin;
        let entry = self.block_entry(transaction, object, block).await?;
        if let Some(entry) = entry.filter(|entry| entry.is_own(version)) {
            return Ok(Some((entry.creator, entry.seal)));
        }
        let shared = self.share_of(transaction, origin).await?;
        Ok(shared.map(|(_, share)| (share.creator, share.seal)))
    }

    /// What is stored of a block that is no hole.
    pub async fn stored_version(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        block: BlockIndex,
        entry: BlockEntry,
        file: &FileRows,
    ) -> Result<BlockVersion, VolumeError> {
        let missing = || VolumeError::Missing {
            what: format!("the share of block {block} of object {object} of volume {}", self.id),
        };
        let found = match entry.origin {
            None => self.block_version(object, block, entry, file)?,
            Some(origin) => self.shared_version(transaction, origin).await?.ok_or_else(missing)?,
        };
        self.placed(transaction, found).await
    }

    /// A version of the block's own.
    pub fn block_version(
        &self,
        object: ObjectId,
        block: BlockIndex,
        entry: BlockEntry,
        file: &FileRows,
    ) -> Result<BlockVersion, VolumeError> {
        self.with_whole_key(self.named_version(object, block, entry, file)?)
    }

    /// Unless the key of its file was shredded.
    pub fn with_whole_key(&self, version: BlockVersion) -> Result<BlockVersion, VolumeError> {
        match version.key.is_shredded() {
            true => Err(VolumeError::Shredded { object: version.identity.object }),
            false => Ok(version),
        }
    }

    /// A version of the block's own; of a shredded file with what is left of its key, which finds fragments and opens none.
    pub fn named_version(
        &self,
        object: ObjectId,
        block: BlockIndex,
        entry: BlockEntry,
        file: &FileRows,
    ) -> Result<BlockVersion, VolumeError> {
        let identity = BlockIdentity {
            volume: self.id,
            object,
            block,
            version: entry.version,
            creator: entry.creator,
            epoch: self.epochs.of(entry.seal),
        };
        let key = self.key_or_names(object, &file.key, identity.epoch)?;
        let placement = self.policy(file.policy_of(entry))?.placement.clone().into();
        Ok(BlockVersion { identity, key, placement, seal: entry.seal, packed: None })
    }

    pub fn chunk(&self, object: ObjectId, row: Option<&[u8]>) -> Result<Chunk, VolumeError> {
        match row {
            Some(row) => Chunk::decode(row).map_err(self.damaged("the block map of object", object)),
            None => Ok(Chunk::default()),
        }
    }

    /// Waits until a commit holds at the volume's tier.
    pub async fn settle(&self, committed: Committed, files: &[ObjectId]) -> FsResult<()> {
        let tier = self.record.read().tier;
        if tier == Tier::Memory {
            return Ok(());
        }
        committed.durable().await.map_err(meta_error)?;
        if tier == Tier::Cloud {
            for &object in files {
                self.reach_clouds(object).await?;
            }
        }
        Ok(())
    }

    async fn reach_clouds(&self, object: ObjectId) -> FsResult<()> {
        let flush = self.node.cache.flush(Scope::File(self.file_key(object)));
        tokio::select! {
            () = flush.done() => Ok(()),
            () = self.node.environment.clock.sleep(CLOUD_WAIT) => Err(FsError::Unavailable(format!(
                "object {object} of volume {} has not reached the clouds in {} seconds",
                self.id,
                CLOUD_WAIT.as_secs()
            ))),
        }
    }

    /// Loads policies that were recorded since, and which directories have some.
    pub async fn load_policies(&self, transaction: &mut dyn meta::Transaction) -> Result<(), VolumeError> {
        let rows = read_policies(self.keys, transaction).await?;
        self.policies.write().extend(rows);
        *self.directories.write() = Arc::new(read_directories(self.keys, transaction).await?);
        let spreads = read_spreads(self.keys, transaction).await?;
        *self.spreads.write() = spreads;
        Ok(())
    }
}

pub(crate) async fn read_policies(
    keys: Keys,
    transaction: &mut dyn meta::Transaction,
) -> Result<BTreeMap<u32, Arc<Policy>>, VolumeError> {
    let (start, end) = keys.policies();
    let scan = meta::Scan { start: &start, end: &end, guard: None, limit: usize::MAX };
    let mut policies = BTreeMap::new();
    for (key, row) in transaction.scan(scan).await? {
        let damaged = |cause| VolumeError::Damaged { what: "a policy".into(), cause };
        let id =
            Keys::policy_of(&key).ok_or_else(|| damaged(crate::row::BadRow("a key of the wrong length")))?;
        policies.insert(id, Arc::new(decode_policy(&row).map_err(damaged)?));
    }
    Ok(policies)
}

#[async_trait]
impl FileSystem for Volume {
    fn volume(&self) -> VolumeId {
        self.inner.id
    }

    async fn begin(&self, caller: &Caller, mode: Mode) -> FsResult<Box<dyn Transaction>> {
        let transaction = VolumeTransaction::begin(self.inner.clone(), caller.clone(), mode).await?;
        Ok(Box::new(transaction))
    }

    fn reference(&self, file: FileId) -> OpenReference {
        OpenReference::new(self.inner.references.hold(file.object))
    }

    async fn sync(&self, file: FileId) -> FsResult<()> {
        if file.volume != self.inner.id {
            return Ok(());
        }
        for _ in 0..RETRIES {
            // Whatever changes a file writes its row; and a transaction that only read waits for what it read.
            let begun = self.inner.node.store.begin(meta::Mode::Optimistic).await;
            let mut transaction = begun.map_err(meta_error)?;
            transaction.get(&self.inner.keys.inode(file.object)).await.map_err(meta_error)?;
            match transaction.commit(Priority::Client).await {
                Ok(committed) => return self.inner.settle(committed, &[file.object]).await,
                Err(MetaError::Conflict) => {}
                Err(error) => return Err(meta_error(error)),
            }
        }
        Err(FsError::Conflict)
    }

    fn end_of_claims(&self) {
        self.inner.references.end_of_claims();
    }

    fn write_verifier(&self) -> [u8; 8] {
        self.inner.node.write_verifier
    }
}

/// Loads blocks for the cache.
pub(crate) struct Loader {
    pub volume: Volume,
}

#[async_trait]
impl cache::BlockLoader for Loader {
    async fn load(
        &self,
        file: FileKey,
        block: BlockIndex,
        sealing: Sealing,
    ) -> Result<Bytes, cache::LoadError> {
        let located = self.volume.locate(file.object, block, sealing).await.map_err(load_error)?;
        let Some(version) = located else { return Err(Arc::new(Superseded)) };
        if let Some(packed) = version.packed.clone() {
            return self.volume.read_packed(version, packed).await;
        }
        let loaded = version.load(&self.volume.inner.node.blocks, &self.volume).await;
        let loaded = loaded.map_err(load_error)?;
        self.volume.repair_later(&version.identity, &loaded.bad);
        Ok(loaded.plaintext)
    }
}

fn load_error(error: impl std::error::Error + Send + Sync + 'static) -> cache::LoadError {
    Arc::new(error)
}

/// The version was replaced between the look at the block map and the load; reading again helps.
#[derive(Debug, thiserror::Error)]
#[error("the block was replaced meanwhile; read it again")]
struct Superseded;

/// Whether a load failed because the version is not current any more.
pub(crate) fn is_superseded(cause: &cache::LoadError) -> bool {
    let of_blocks = cause.downcast_ref::<blocks::LoadError>();
    cause.is::<Superseded>() || matches!(of_blocks, Some(blocks::LoadError::Superseded { .. }))
}
