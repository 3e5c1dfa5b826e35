use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use blocks::{CurrentVersions, Placement, Protection, SealId};
use bytes::Bytes;
use cache::{Cache, DataOp};
use ids::{BlockIndex, BlockShift, GatewayId, ObjectId, ObjectNumber, Timestamp, Version, VolumeId};
use journal::{JournalError, Lsn, PayloadRef};
use meta::{CommitObserver, PublishedAttachment, ReplayedAttachment};
use parking_lot::Mutex;
use seal::{BlockIdentity, FileKey, KeyEpoch};

use crate::{
    Base, BlockVersion, GarbageRow, MaintainedVolume, NewBlock, Plan, Plans, RepairRow, Repaired,
    VolumeFailure, Written, WrittenAs,
};

pub const VOLUME: VolumeId = VolumeId(3);
pub const SHIFT: BlockShift = BlockShift::MIN;

pub fn object(number: u128) -> ObjectId {
    ObjectId { creator: GatewayId(1), number: ObjectNumber(number) }
}

pub fn file(object: ObjectId) -> cache::FileKey {
    cache::FileKey { volume: VOLUME, object }
}

/// The journal's payloads.
#[derive(Default)]
pub struct Records(Mutex<Vec<(Bytes, Bytes)>>);

#[async_trait]
impl cache::PayloadStore for Records {
    async fn read_range(&self, place: PayloadRef, from: u32, length: u32) -> Result<Bytes, JournalError> {
        Ok(self.0.lock()[place.segment as usize].1.slice(from as usize..(from + length) as usize))
    }
}

impl Records {
    fn place(at: usize, payload: &Bytes) -> PayloadRef {
        PayloadRef { segment: at as u64, offset: 0, length: payload.len() as u32 }
    }

    pub fn replay(&self, cache: &Cache) {
        for (at, (descriptor, payload)) in self.0.lock().iter().enumerate() {
            let place = Records::place(at, payload);
            let attachment = ReplayedAttachment { descriptor: descriptor.clone(), place };
            cache.replay(Lsn(at as u64 + 1), vec![attachment]);
        }
    }
}

#[derive(Clone, Copy, Default)]
pub struct Entry {
    pub version: u64,
    pub seal: u64,
    pub hole: bool,
}

#[derive(Default)]
pub struct File {
    pub size: u64,
    pub map: Vec<Entry>,
}

/// The metadata, all of it durable.
#[derive(Default)]
pub struct Rows {
    pub files: HashMap<ObjectId, File>,
    pub garbage: BTreeMap<u64, (ObjectId, Vec<(BlockIdentity, SealId)>)>,
    pub repairs: BTreeMap<(ObjectId, BlockIndex, Version), Vec<u8>>,
    pub removed: Vec<ObjectId>,
    next_garbage: u64,
}

type Meanwhile = Box<dyn FnOnce(&SmallVolume) + Send>;

/// A volume whose files are byte ranges by number.
pub struct SmallVolume {
    pub rows: Arc<Mutex<Rows>>,
    pub records: Arc<Records>,
    pub cache: Cache,
    pub placement: Arc<Placement>,
    /// Starts of the node.
    pub boot: u64,
    attempts: Mutex<HashMap<(ObjectId, BlockIndex), u64>>,
    /// Commits that will fail.
    pub fail_commits: AtomicU64,
    pub commits: AtomicU64,
    /// Happens after the next plan, before anything is stored.
    pub meanwhile: Mutex<Option<Meanwhile>>,
    repairs_waiting: tokio::sync::Notify,
    /// Objects whose metadata cannot be read.
    pub damaged: Mutex<Vec<ObjectId>>,
}

impl SmallVolume {
    pub fn new(
        rows: Arc<Mutex<Rows>>,
        records: Arc<Records>,
        cache: Cache,
        placement: Arc<Placement>,
        boot: u64,
    ) -> SmallVolume {
        SmallVolume {
            rows,
            records,
            cache,
            placement,
            boot,
            attempts: Mutex::default(),
            fail_commits: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            meanwhile: Mutex::default(),
            repairs_waiting: tokio::sync::Notify::new(),
            damaged: Mutex::default(),
        }
    }

    /// Publishes under the lock of the rows, as the metadata store does.
    fn publish(&self, _rows: &mut Rows, op: DataOp, payload: Bytes) {
        let descriptor = op.encode();
        let mut records = self.records.0.lock();
        let place = Records::place(records.len(), &payload);
        records.push((descriptor.clone(), payload.clone()));
        let lsn = Lsn(records.len() as u64);
        drop(records);
        self.cache.published(lsn, vec![PublishedAttachment { descriptor, payload, place }]);
    }

    pub fn write(&self, object: ObjectId, offset: u64, data: Vec<u8>) {
        let mut rows = self.rows.lock();
        let file_rows = rows.files.entry(object).or_default();
        file_rows.size = file_rows.size.max(offset + data.len() as u64);
        let op = DataOp::Write { file: file(object), shift: SHIFT, offset };
        self.publish(&mut rows, op, data.into());
    }

    /// To a block boundary.
    pub fn truncate(&self, object: ObjectId, size: u64) {
        let mut rows = self.rows.lock();
        let file_rows = rows.files.get_mut(&object).unwrap();
        file_rows.size = size;
        let first = SHIFT.blocks_in(size) as usize;
        let cut: Vec<_> = (first..file_rows.map.len()).filter(|at| !file_rows.map[*at].hole).collect();
        let mut versions = Vec::new();
        for at in cut {
            let entry = &mut file_rows.map[at];
            entry.hole = true;
            if entry.version > 0 {
                versions.push((identity(object, BlockIndex(at as u64), entry.version), SealId(entry.seal)));
            }
        }
        rows.discard(object, versions);
        self.publish(&mut rows, DataOp::truncate(file(object), size), Bytes::new());
    }

    pub fn remove(&self, object: ObjectId) {
        let mut rows = self.rows.lock();
        rows.removed.push(object);
        let file_rows = rows.files.remove(&object).unwrap();
        let stored = file_rows.map.iter().enumerate().filter(|(_, entry)| !entry.hole && entry.version > 0);
        let versions = stored
            .map(|(at, entry)| (identity(object, BlockIndex(at as u64), entry.version), SealId(entry.seal)));
        let mut versions: Vec<_> = versions.collect();
        // What was stored and not committed.
        self.attempts.lock().retain(|(of, block), version| {
            let stored = file_rows.map.get(block.0 as usize).map_or(0, |entry| entry.version);
            if *of == object && *version > stored {
                versions.push((identity(object, *block, *version), SealId(self.boot)));
            }
            *of != object
        });
        rows.discard(object, versions);
        self.publish(&mut rows, DataOp::Forget { file: file(object) }, Bytes::new());
    }

    pub fn version(&self, object: ObjectId, block: BlockIndex, entry: Entry) -> BlockVersion {
        BlockVersion {
            identity: identity(object, block, entry.version),
            key: key(object),
            placement: self.placement.clone(),
            seal: SealId(entry.seal),
            packed: None,
        }
    }
}

pub fn identity(object: ObjectId, block: BlockIndex, version: u64) -> BlockIdentity {
    BlockIdentity {
        volume: VOLUME,
        object,
        block,
        version: Version(version),
        creator: GatewayId(1),
        epoch: KeyEpoch(0),
    }
}

fn key(object: ObjectId) -> FileKey {
    FileKey::from_bytes([object.number.0 as u8; 32])
}

impl Rows {
    pub fn entry(&self, object: ObjectId, block: BlockIndex) -> Entry {
        let map = self.files.get(&object).map(|file| &file.map[..]).unwrap_or_default();
        map.get(block.0 as usize).copied().unwrap_or(Entry { hole: true, ..Entry::default() })
    }

    fn discard(&mut self, object: ObjectId, versions: Vec<(BlockIdentity, SealId)>) {
        if !versions.is_empty() {
            self.next_garbage += 1;
            self.garbage.insert(self.next_garbage, (object, versions));
        }
    }
}

fn row_of(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn repair_row(key: &(ObjectId, BlockIndex, Version)) -> Bytes {
    [&key.0.to_bytes()[..], &key.1.0.to_be_bytes(), &key.2.0.to_be_bytes()].concat().into()
}

impl CurrentVersions for SmallVolume {
    async fn is_current(&self, id: &BlockIdentity, seal: SealId) -> bool {
        let entry = self.rows.lock().entry(id.object, id.block);
        !entry.hole && (entry.version, entry.seal) == (id.version.0, seal.0)
    }
}

#[async_trait]
impl MaintainedVolume for SmallVolume {
    fn id(&self) -> VolumeId {
        VOLUME
    }

    async fn plan_write_back(&self, blocks: &[(ObjectId, BlockIndex)]) -> Result<Plans, VolumeFailure> {
        let plans = blocks.iter().map(|&(object, block)| {
            if self.damaged.lock().contains(&object) {
                return Err("its row is damaged".into());
            }
            let rows = self.rows.lock();
            let Some(file) = rows.files.get(&object) else { return Ok(Plan::Nothing) };
            let length = file.size.saturating_sub(SHIFT.start_of(block)).min(SHIFT.bytes());
            if length == 0 {
                return Ok(Plan::Nothing);
            }
            let entry = rows.entry(object, block);
            let mut attempts = self.attempts.lock();
            let attempt = attempts.entry((object, block)).or_default();
            *attempt = (*attempt).max(entry.version) + 1;
            let base = match entry.hole {
                true => Base::Hole,
                false => Base::Stored(self.version(object, block, entry)),
            };
            let new = Entry { version: *attempt, seal: self.boot, hole: false };
            let BlockVersion { identity, key, placement, seal, .. } = self.version(object, block, new);
            let protection = Protection::default();
            Ok(Plan::Store(NewBlock { identity, seal, key, placement, protection, length, base }))
        });
        let plans = plans.collect();
        if let Some(meanwhile) = self.meanwhile.lock().take() {
            meanwhile(self);
        }
        Ok(plans)
    }

    async fn commit_written(&self, written: &[Written]) -> Result<Vec<bool>, VolumeFailure> {
        let mut rows = self.rows.lock();
        if self.fail_commits.load(Ordering::Relaxed) > 0 {
            self.fail_commits.fetch_sub(1, Ordering::Relaxed);
            return Err("the metadata store is down".into());
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
        let mut committed = Vec::new();
        for Written { snapshot, content } in written {
            let (object, block) = (snapshot.file().object, snapshot.block());
            let current = snapshot.is_current() && rows.files.contains_key(&object);
            committed.push(current);
            if let WrittenAs::Version { identity, seal, missing, .. } = content {
                let old = rows.entry(object, block);
                if !rows.files.contains_key(&object) {
                    continue; // its attempts went with it
                }
                if !current {
                    rows.discard(object, vec![(*identity, *seal)]);
                    continue;
                }
                let failed = old.version + 1..identity.version.0;
                let of = |version, seal| (super::small_volume::identity(object, block, version), seal);
                let mut versions: Vec<_> = failed.map(|version| of(version, *seal)).collect();
                if !old.hole {
                    versions.push(of(old.version, SealId(old.seal)));
                    rows.repairs.remove(&(object, block, Version(old.version)));
                }
                rows.discard(object, versions);
                if !missing.is_empty() {
                    rows.repairs.insert((object, block, identity.version), missing.clone());
                    self.repairs_waiting.notify_one();
                }
                let map = &mut rows.files.get_mut(&object).unwrap().map;
                if map.len() <= block.0 as usize {
                    map.resize(block.0 as usize + 1, Entry { hole: true, ..Entry::default() });
                }
                map[block.0 as usize] = Entry { version: identity.version.0, seal: seal.0, hole: false };
            }
            let up_to = snapshot.up_to();
            self.publish(
                &mut rows,
                DataOp::Cleaned { file: file(object), shift: SHIFT, block, up_to },
                Bytes::new(),
            );
        }
        Ok(committed)
    }

    async fn garbage(
        &self,
        _until: Timestamp,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<GarbageRow>, VolumeFailure> {
        let rows = self.rows.lock();
        let due =
            rows.garbage.iter().filter(|(number, _)| after.is_none_or(|after| row_of(**number) > *after));
        let due = due.take(limit).map(|(number, (object, versions))| GarbageRow {
            row: row_of(*number),
            versions: versions.clone(),
            key: key(*object),
            placement: self.placement.clone(),
        });
        Ok(due.collect())
    }

    async fn garbage_collected(&self, done: &[Bytes]) -> Result<(), VolumeFailure> {
        self.rows.lock().garbage.retain(|number, _| !done.contains(&row_of(*number)));
        Ok(())
    }

    async fn repairs(&self, after: Option<&Bytes>, limit: usize) -> Result<Vec<RepairRow>, VolumeFailure> {
        let rows = self.rows.lock();
        let queued =
            rows.repairs.iter().filter(|(key, _)| after.is_none_or(|after| repair_row(key) > *after));
        let queued = queued.take(limit).map(|(key, fragments)| {
            let entry = rows.entry(key.0, key.1);
            let current = !entry.hole && entry.version == key.2.0;
            let version = current.then(|| self.version(key.0, key.1, entry));
            RepairRow { row: repair_row(key), version, fragments: fragments.clone() }
        });
        Ok(queued.collect())
    }

    async fn repaired(&self, done: &[Repaired]) -> Result<(), VolumeFailure> {
        let mut rows = self.rows.lock();
        for Repaired { row, before, left } in done {
            let key = *rows.repairs.keys().find(|key| repair_row(key) == *row).unwrap();
            let mut queued = rows.repairs.remove(&key).unwrap();
            queued.retain(|fragment| left.contains(fragment) || !before.contains(fragment));
            if !queued.is_empty() {
                rows.repairs.insert(key, queued);
            }
        }
        Ok(())
    }

    async fn repairs_waiting(&self) {
        self.repairs_waiting.notified().await;
    }

    async fn queue_repair(
        &self,
        object: ObjectId,
        block: BlockIndex,
        version: Version,
        fragments: &[u8],
    ) -> Result<(), VolumeFailure> {
        let mut rows = self.rows.lock();
        if rows.entry(object, block).version == version.0 {
            let queued = rows.repairs.entry((object, block, version)).or_default();
            queued.extend(fragments);
            queued.sort_unstable();
            queued.dedup();
            self.repairs_waiting.notify_one();
        }
        Ok(())
    }

    async fn stored_blocks(
        &self,
        after: Option<BlockIdentity>,
        limit: usize,
    ) -> Result<Vec<BlockVersion>, VolumeFailure> {
        let rows = self.rows.lock();
        let mut all: Vec<_> = rows
            .files
            .iter()
            .flat_map(|(object, file)| {
                let stored = file.map.iter().enumerate().filter(|(_, entry)| !entry.hole);
                stored.map(|(at, entry)| (*object, BlockIndex(at as u64), *entry))
            })
            .collect();
        all.sort_by_key(|(object, block, _)| (*object, *block));
        let behind = all.into_iter().filter(|(object, block, _)| {
            after.is_none_or(|after| (*object, *block) > (after.object, after.block))
        });
        Ok(behind.take(limit).map(|(object, block, entry)| self.version(object, block, entry)).collect())
    }

    async fn reap(&self) -> Result<bool, VolumeFailure> {
        Ok(self.rows.lock().removed.pop().is_some())
    }
}
