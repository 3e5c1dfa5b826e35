use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use environment::Environment;
use ids::{BlockIndex, BlockShift, VolumeId};
use journal::{JournalError, Lsn, PayloadRef};
use meta::{CommitObserver, HeldPayload, PublishedAttachment, ReplayedAttachment};
use parking_lot::Mutex;
use seal::NodeKey;
use tokio::sync::watch;

use crate::block_key::BlockKey;
use crate::clean::Clean;
use crate::dirty::Dirty;
use crate::disk::DiskTier;
use crate::fetch::Fetches;
use crate::overlay::{Overlay, Piece};
use crate::readahead::Readahead;
use crate::stats::{Stats, Waiting};
use crate::unread::Unread;
use crate::{
    Admission, BlockLoader, BlockSnapshot, CacheConfig, CacheError, DataOp, DirtyBlock, FileKey, Flush,
    HeldBack, Hold, PayloadStore, ReadPlan, ReadRequest, Scope, Sealing, Selection, StagedBlock, Stored,
    Ticket, Usage,
};

const LEAST_MEMORY: u64 = 16 << 20;
const LEAST_DISK: u64 = 1 << 20;
/// Unreadable ranges that are remembered; more are told of when some of these are gone.
const MOST_UNREADABLE: usize = 64;

/// The cache of one node. Cheap to clone; all clones are the same cache.
#[derive(Clone)]
pub struct Cache {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub dirty: Arc<Dirty>,
    pub clean: Arc<Clean>,
    pub fetches: Arc<Fetches>,
    pub readahead: Readahead,
    pub payloads: OnceLock<Arc<dyn PayloadStore>>,
    stats: Arc<Stats>,
    replay_error: Mutex<Option<CacheError>>,
    /// Dirty data that the journal could not give back when it was to be moved.
    unreadable: Mutex<Vec<HeldPayload>>,
}

impl Cache {
    /// Opens the disk tier, if there is one; everything else starts empty and is filled by replay. Blocks for some
    /// reads per GiB of the disk tier. The tier's files are sealed under keys derived from `node_key`.
    pub fn open(
        config: &CacheConfig,
        environment: &Environment,
        node_key: NodeKey,
    ) -> Result<Cache, CacheError> {
        if config.memory < LEAST_MEMORY {
            return Err(CacheError::Config("the memory budget must be at least 16 MiB"));
        }
        if config.disk > 0 && config.disk < LEAST_DISK {
            return Err(CacheError::Config("the disk tier must have at least 1 MiB, or be off (0)"));
        }
        Cache::build(config, environment, node_key)
    }

    /// As [`Cache::open`], with budgets as small as a test likes.
    pub(crate) fn build(
        config: &CacheConfig,
        environment: &Environment,
        node_key: NodeKey,
    ) -> Result<Cache, CacheError> {
        let stats = Arc::new(Stats::default());
        let disk = DiskTier::open(config, environment, node_key, Arc::clone(&stats))?;
        let clock = Arc::clone(&environment.clock);
        let unread = Unread::new(config.unread_memory(), Arc::clone(&clock));
        let memory = config.clean_memory() - config.unread_memory();
        let clean = Arc::new(Clean::new(memory, unread, disk, Arc::clone(&stats)));
        let dirty = Dirty::new(
            clock,
            config.write_back_wait,
            config.dirty_memory(),
            config.bookkeeping,
            config.journal,
        );
        Ok(Cache {
            inner: Arc::new(Inner {
                dirty: Arc::new(dirty),
                fetches: Fetches::new(config.fetch_memory(), Arc::clone(&clean), Arc::clone(&stats)),
                clean,
                readahead: Readahead::new(config.readahead.min(config.memory / 8)),
                payloads: OnceLock::new(),
                stats,
                replay_error: Mutex::new(None),
                unreadable: Mutex::default(),
            }),
        })
    }

    /// Tells where dirty data is read back from. Once, after recovery and before the first read; a second call
    /// changes nothing.
    pub fn connect(&self, payloads: Arc<dyn PayloadStore>) {
        // Already connected: the first one stays.
        let _ = self.inner.payloads.set(payloads);
    }

    /// Whether the replay of the journal understood everything. To be asked before serving; otherwise dirty data
    /// would be missing.
    pub fn check_replay(&self) -> Result<(), CacheError> {
        self.inner.replay_error.lock().clone().map_or(Ok(()), Err)
    }

    /// The first half of a read: looks at the dirty data and says which blocks to look up.
    pub fn plan_read(&self, request: &ReadRequest) -> ReadPlan {
        self.inner.plan_read(request)
    }

    /// The second half: exactly [`ReadPlan::length`] bytes, in order, as slices of cached buffers. `stored` says what the
    /// block map has for [`ReadPlan::blocks`], in their order; at least for the first [`ReadPlan::needed`].
    pub async fn read(
        &self,
        plan: ReadPlan,
        stored: &[Stored],
        loader: &Arc<dyn BlockLoader>,
    ) -> Result<Vec<Bytes>, CacheError> {
        self.inner.read(plan, stored, loader).await
    }

    /// The whole stored content of one block, from the cache or through `loader`: what a partly dirty block is
    /// written over. Shorter than the block when the stored content is.
    pub async fn stored_block(
        &self,
        file: FileKey,
        shift: BlockShift,
        block: BlockIndex,
        sealing: Sealing,
        loader: &Arc<dyn BlockLoader>,
    ) -> Result<Bytes, CacheError> {
        let key = BlockKey { file, block, sealing };
        let whole = 0..shift.bytes();
        let parts = match self.inner.clean.in_memory(key, whole.clone()) {
            Some(parts) => Some(parts),
            None => self.inner.clean.on_disk(key, whole).await,
        };
        match parts {
            Some(parts) if parts.len() == 1 => Ok(parts[0].clone()),
            Some(parts) => Ok(parts.concat().into()),
            None => self.inner.fetches.get(key, shift.bytes(), loader).await,
        }
    }

    /// Takes a block version that is stored and about to be committed, into memory at first.
    pub fn stage(&self, file: FileKey, block: BlockIndex, sealing: Sealing, content: Bytes) -> StagedBlock {
        let block = BlockKey { file, block, sealing };
        self.inner.clean.insert_in_memory(block, content.clone());
        StagedBlock { clean: Arc::clone(&self.inner.clean), block, content: Some(content) }
    }

    /// Takes a committed block version.
    pub fn insert(&self, file: FileKey, block: BlockIndex, sealing: Sealing, content: Bytes) {
        self.inner.clean.insert(BlockKey { file, block, sealing }, content);
    }

    /// Brings a block into the cache unless it is there (`kurma cache warm`).
    pub async fn warm(
        &self,
        file: FileKey,
        shift: BlockShift,
        block: BlockIndex,
        sealing: Sealing,
        loader: &Arc<dyn BlockLoader>,
    ) -> Result<(), CacheError> {
        let key = BlockKey { file, block, sealing };
        if !self.inner.clean.has(key) {
            self.inner.fetches.get(key, shift.bytes(), loader).await?;
        }
        Ok(())
    }

    /// Whether a block can be had without asking a cloud.
    pub fn has(&self, file: FileKey, block: BlockIndex, sealing: Sealing) -> bool {
        self.inner.clean.has(BlockKey { file, block, sealing })
    }

    /// The dirty parts of a range, ascending and disjoint (for SEEK_DATA and SEEK_HOLE).
    pub fn dirty_ranges(&self, file: FileKey, range: Range<u64>) -> Vec<Range<u64>> {
        self.inner.dirty.overlay(file, range).ranges().collect()
    }

    /// Everything that is dirty: for each file its dirty ranges, ascending and disjoint.
    pub fn all_dirty(&self) -> Vec<(FileKey, Vec<Range<u64>>)> {
        self.inner.dirty.all()
    }

    /// Dirty bytes of a scope.
    pub fn dirty_bytes(&self, scope: Scope) -> u64 {
        let dirty = &self.inner.dirty;
        match scope {
            Scope::File(file) => dirty.bytes_of_file(file),
            Scope::Volume(volume) => dirty.bytes_of_volume(volume),
            Scope::All => dirty.bytes(),
        }
    }

    /// Lets `bytes` more of a volume become dirty; waits while the volume has its share of the journal, or of the
    /// memory for the books of the dirty data. To be called before a transaction brings data, and to be
    /// kept until it is committed.
    pub async fn admit(&self, volume: VolumeId, bytes: u64) -> Admission {
        if let Some(admission) = self.try_admit(volume, bytes) {
            return admission;
        }
        let _waiting = Waiting::new(&self.inner.stats);
        let mut cleaned = self.inner.dirty.cleaned();
        loop {
            cleaned.borrow_and_update();
            if let Some(admission) = self.try_admit(volume, bytes) {
                return admission;
            }
            // The sender lives as long as the cache.
            let _ = cleaned.changed().await;
        }
    }

    /// As [`Cache::admit`], but `None` where that would wait.
    pub fn try_admit(&self, volume: VolumeId, bytes: u64) -> Option<Admission> {
        Admission::take(&self.inner.dirty, volume, bytes)
    }

    /// Whether write-back of a volume should hurry: its writers will soon wait for its share of the journal, or of the
    /// memory of the books.
    pub fn is_crowded(&self, volume: VolumeId) -> bool {
        let dirty = &self.inner.dirty;
        dirty.books.is_crowded(volume) || dirty.shares.is_crowded(volume)
    }

    /// Dirty ranges, 64 at most, that the journal cannot give back. Their segment of the journal and all behind it stay
    /// in use until the ranges are written again, cut off, or their files are removed.
    pub fn unreadable_ranges(&self) -> Vec<(FileKey, Range<u64>)> {
        let mut known = self.inner.unreadable.lock();
        known.retain(|held| self.still_holds(held));
        known.iter().filter_map(moved_range).collect()
    }

    /// The volumes that have dirty data.
    pub fn dirty_volumes(&self) -> Vec<VolumeId> {
        self.inner.dirty.volumes()
    }

    /// Claims blocks of a volume that should be written back now: first those that are waited for,
    /// then those that are full and have rested for a fifth of the usual time, then the others that have rested; each
    /// oldest first. In a hurry nothing need rest.
    pub fn claim_dirty(&self, volume: VolumeId, selection: &Selection) -> Vec<DirtyBlock> {
        self.inner.dirty.claim(volume, selection)
    }

    /// Keeps the dirty data of a file from write-back, also what becomes dirty later. Nothing happens to one without dirty data.
    pub fn hold_back(&self, file: FileKey, hold: Hold) {
        self.inner.dirty.hold_back(file, hold);
    }

    /// Ends a hold: what records up to `up_to` brought has leave to be written back, which [`BlockSnapshot::may_pass`] tells. Forgotten
    /// with the last dirty byte of the file.
    pub fn let_through(&self, file: FileKey, up_to: Lsn) {
        self.inner.dirty.let_through(file, up_to);
    }

    /// The last record of which everything can be read. Who reads a file after asking sees what this record and those before have made of it.
    pub fn applied_up_to(&self) -> Lsn {
        self.inner.dirty.applied_up_to()
    }

    /// Whether somebody waits for dirty data of the file to be stored.
    pub fn is_waited_for(&self, file: FileKey) -> bool {
        self.inner.dirty.is_waited_for(file)
    }

    /// What is kept from write-back of a volume. Looks at every file with dirty data.
    pub fn held_back(&self, volume: VolumeId) -> HeldBack {
        self.inner.dirty.held_back(volume)
    }

    /// Fixes what is stored of a claimed block; `None` when nothing of it is dirty any more, or a transaction is
    /// just changing it: give it back then.
    pub fn snapshot(&self, dirty: &DirtyBlock) -> Option<BlockSnapshot> {
        let (overlay, up_to, cut) = self.inner.dirty.block_overlay(dirty.file, dirty.block)?;
        let cache = Arc::clone(&self.inner);
        Some(BlockSnapshot {
            file: dirty.file,
            shift: dirty.shift,
            block: dirty.block,
            overlay,
            up_to,
            cut,
            cache,
        })
    }

    /// Claims a block of which nothing is dirty, so that what is stored of it can be stored once more, otherwise; with a snapshot without
    /// dirty data. `None` when it is dirty, or claimed: then it is stored anew anyway. `ticket` is dropped when the claim ends.
    pub fn claim_clean(
        &self,
        file: FileKey,
        shift: BlockShift,
        block: BlockIndex,
        ticket: Ticket,
    ) -> Option<(DirtyBlock, BlockSnapshot)> {
        let (claim, cut) = self.inner.dirty.claim_clean(file, shift, block, ticket)?;
        let (overlay, up_to, cache) = (Overlay::default(), Lsn::ZERO, Arc::clone(&self.inner));
        Some((claim, BlockSnapshot { file, shift, block, overlay, up_to, cut, cache }))
    }

    /// Ticks when a block appears that need not rest for the whole time: it is full, or a flush waits for it.
    pub fn work(&self) -> watch::Receiver<u64> {
        self.inner.dirty.work()
    }

    /// Puts the dirty data of a scope first, and waits for it (`kurma flush`, the tier `cloud`, close with a wait of zero).
    pub fn flush(&self, scope: Scope) -> Flush {
        Flush::new(&self.inner.dirty, scope)
    }

    /// Sizes and counters.
    pub fn usage(&self) -> Usage {
        let disk = self.inner.clean.disk();
        Usage {
            dirty: self.inner.dirty.bytes(),
            dirty_memory: self.inner.dirty.memory(),
            bookkeeping: self.inner.dirty.books.total(),
            journal: self.inner.dirty.shares.total(),
            clean_memory: self.inner.clean.memory_bytes(),
            clean_disk: disk.map_or(0, |disk| disk.bytes()),
            disk_queue: disk.map_or(0, |disk| disk.queued()),
            ..self.inner.stats.usage()
        }
    }

    /// Forgets all clean blocks, in memory and on disk (`kurma cache drop`), and those that are on their way there. Dirty data stays.
    pub async fn drop_clean(&self) {
        self.inner.clean.clear().await;
    }

    /// Forgets the clean blocks in memory only, so that the next reads show the disk tier (benchmarks).
    pub fn drop_memory(&self) {
        self.inner.clean.clear_memory();
    }

    /// Forgets the clean blocks of one file (`kurma cache evict`). Looks at every entry.
    pub fn evict(&self, file: FileKey) {
        self.inner.clean.forget(file);
    }

    /// Takes block versions out of the memory that nobody will ask for any more: others can use it at once. What is on the disk goes
    /// with its region.
    pub fn discard(&self, file: FileKey, versions: &[(BlockIndex, Sealing)]) {
        let blocks: Vec<_> =
            versions.iter().map(|&(block, sealing)| BlockKey { file, block, sealing }).collect();
        self.inner.clean.discard(&blocks);
    }

    /// Finishes the disk tier's current file, so that a restart finds everything. Further inserts are fine.
    pub async fn close(&self) {
        if let Some(disk) = self.inner.clean.disk() {
            disk.finish().await;
        }
    }
}

impl CommitObserver for Cache {
    fn published(&self, lsn: Lsn, attachments: Vec<PublishedAttachment>) {
        for attachment in attachments {
            self.inner.apply(lsn, &attachment.descriptor, attachment.place, Some(attachment.payload), false);
        }
        self.inner.dirty.applied(lsn);
    }

    fn replay(&self, lsn: Lsn, attachments: Vec<ReplayedAttachment>) {
        for attachment in attachments {
            self.inner.apply(lsn, &attachment.descriptor, attachment.place, None, true);
        }
        self.inner.dirty.applied(lsn);
    }

    fn oldest_needed(&self) -> Option<Lsn> {
        self.inner.dirty.oldest_needed()
    }

    fn kept(&self) -> u64 {
        self.inner.dirty.shares.total()
    }

    fn held_below(&self, end: Lsn, bytes: u64) -> Vec<HeldPayload> {
        let held = self.inner.dirty.held_below(end, bytes).into_iter();
        held.map(|(file, shift, piece)| moved(file, shift, &piece)).collect()
    }

    fn still_holds(&self, held: &HeldPayload) -> bool {
        let Ok(DataOp::Moved { file, shift, offset, length, .. }) = DataOp::decode(&held.descriptor) else {
            return false;
        };
        let overlay = self.inner.dirty.overlay(file, offset..offset.saturating_add(length));
        matches!(overlay.pieces(), [piece] if moved(file, shift, piece) == *held)
    }

    fn unreadable(&self, held: &HeldPayload, error: &JournalError) {
        let mut known = self.inner.unreadable.lock();
        known.retain(|held| self.still_holds(held));
        let is_known = known.iter().any(|one| (one.place, one.from) == (held.place, held.from));
        if is_known || known.len() >= MOST_UNREADABLE || !self.still_holds(held) {
            return;
        }
        known.push(held.clone());
        drop(known);
        let Some((file, range)) = moved_range(held) else { return };
        tracing::error!(
            %file, from = range.start, to = range.end, %error,
            "dirty data cannot be read; the journal keeps it and all that comes behind it, and will fill up until no \
             writes are taken: write this range of the file again, or remove the file"
        );
    }
}

/// What moves a dirty range to another record.
fn moved(file: FileKey, shift: BlockShift, piece: &Piece) -> HeldPayload {
    let length = piece.range.end - piece.range.start;
    let op = DataOp::Moved { file, shift, offset: piece.range.start, length, of: piece.payload.lsn() };
    // A payload is shorter than 4 GiB.
    let (from, length) = if piece.payload.is_zeros() { (0, 0) } else { (piece.from as u32, length as u32) };
    HeldPayload { descriptor: op.encode(), place: piece.payload.place(), from, length }
}

/// The range of which [`moved`] is.
fn moved_range(held: &HeldPayload) -> Option<(FileKey, Range<u64>)> {
    match DataOp::decode(&held.descriptor) {
        Ok(DataOp::Moved { file, offset, length, .. }) => Some((file, offset..offset.saturating_add(length))),
        _ => None,
    }
}

impl Inner {
    fn apply(&self, lsn: Lsn, descriptor: &[u8], place: PayloadRef, payload: Option<Bytes>, replay: bool) {
        match DataOp::decode(descriptor) {
            Ok(op) => self.dirty.apply(lsn, op, place, payload),
            Err(error) => {
                tracing::error!(lsn = lsn.0, %error, "an attachment of the journal is no data operation");
                Stats::add(&self.stats.bad_operations);
                if replay {
                    self.replay_error.lock().get_or_insert(CacheError::Replay(error));
                }
            }
        }
    }
}
