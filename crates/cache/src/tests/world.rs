use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::{Clock, Environment, LocalDisk, SystemEntropy};
use ids::{BlockIndex, BlockShift, GatewayId, ObjectId, ObjectNumber, Timestamp, Version, VolumeId};
use journal::{JournalError, Lsn, PayloadRef};
use meta::{CommitObserver, PublishedAttachment, ReplayedAttachment};
use parking_lot::Mutex;
use seal::{NodeKey, SealId};
use tokio::sync::Semaphore;

use crate::{
    BlockLoader, Cache, CacheConfig, DataOp, FileKey, LoadError, PayloadStore, ReadRequest, Sealing, Stored,
};

pub const SHIFT: BlockShift = BlockShift::MIN;
pub const BLOCK: u64 = 64 << 10;

pub fn file(number: u128) -> FileKey {
    FileKey { volume: VolumeId(7), object: ObjectId { creator: GatewayId(1), number: ObjectNumber(number) } }
}

/// A clock that stands still until it is told.
#[derive(Default)]
pub struct ManualClock {
    millis: AtomicU64,
}

impl ManualClock {
    pub fn advance(&self, by: Duration) {
        self.millis.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        Timestamp::default()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    async fn sleep(&self, _duration: Duration) {
        std::future::pending().await
    }
}

/// A journal in memory: record `n` is "segment" `n`; trimmed records cannot be read.
#[derive(Default)]
pub struct Records {
    records: Mutex<Vec<Option<(Bytes, Bytes)>>>,
    pub reads: AtomicU64,
}

impl Records {
    fn add(&self, descriptor: Bytes, payload: Bytes) -> (Lsn, PayloadRef) {
        let mut records = self.records.lock();
        let place = PayloadRef { segment: records.len() as u64, offset: 0, length: payload.len() as u32 };
        records.push(Some((descriptor, payload)));
        (Lsn(records.len() as u64), place)
    }

    pub fn len(&self) -> u64 {
        self.records.lock().len() as u64
    }

    pub fn get(&self, place: PayloadRef, from: u32, length: u32) -> Bytes {
        let records = self.records.lock();
        let (_, payload) = records[place.segment as usize].as_ref().unwrap();
        payload.slice(from as usize..(from + length) as usize)
    }

    /// Forgets the records before `oldest`.
    pub fn trim(&self, oldest: Option<Lsn>) {
        let mut records = self.records.lock();
        let end = oldest.map_or(records.len(), |lsn| lsn.0 as usize - 1);
        records[..end].fill(None);
    }
}

#[async_trait]
impl PayloadStore for Records {
    async fn read_range(&self, place: PayloadRef, from: u32, length: u32) -> Result<Bytes, JournalError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let records = self.records.lock();
        let record = records[place.segment as usize].as_ref().ok_or(JournalError::NoSuchPayload { place })?;
        Ok(record.1.slice(from as usize..(from + length) as usize))
    }
}

/// The clouds: every block version ever stored.
pub struct Clouds {
    pub blocks: Mutex<HashMap<(FileKey, u64, u64), Bytes>>,
    pub loads: AtomicU64,
    /// A load takes a permit and gives it back.
    pub gate: Semaphore,
}

#[derive(Debug, thiserror::Error)]
#[error("no such block")]
pub struct NoSuchBlock;

#[async_trait]
impl BlockLoader for Clouds {
    async fn load(&self, file: FileKey, block: BlockIndex, sealing: Sealing) -> Result<Bytes, LoadError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let _permit = self.gate.acquire().await;
        self.blocks
            .lock()
            .get(&(file, block.0, sealing.version.0))
            .cloned()
            .ok_or_else(|| Arc::new(NoSuchBlock) as _)
    }
}

/// A cache with its surroundings.
pub struct World {
    pub config: CacheConfig,
    pub cache: Cache,
    pub clock: Arc<ManualClock>,
    pub records: Arc<Records>,
    pub clouds: Arc<Clouds>,
    folder: tempfile::TempDir,
}

impl World {
    pub fn new(memory: u64, disk: u64) -> World {
        let folder = tempfile::tempdir().unwrap();
        let mut config = CacheConfig::new(folder.path().join("cache"));
        (config.memory, config.disk) = (memory, disk);
        let clock = Arc::new(ManualClock::default());
        let records = Arc::new(Records::default());
        let clouds = Arc::new(Clouds {
            blocks: Mutex::default(),
            loads: AtomicU64::new(0),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let cache = open(&config, &clock, &records);
        World { config, cache, clock, records, clouds, folder }
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub fn loader(&self) -> Arc<dyn BlockLoader> {
        Arc::clone(&self.clouds) as _
    }

    /// One transaction with one data operation.
    pub fn commit(&self, op: DataOp, payload: &[u8]) -> Lsn {
        self.commit_all(vec![(op, Bytes::copy_from_slice(payload))])
    }

    /// One record per operation, all under the number of the first: one transaction.
    pub fn commit_all(&self, ops: Vec<(DataOp, Bytes)>) -> Lsn {
        let mut first = None;
        for (op, payload) in ops {
            let descriptor = op.encode();
            let (lsn, place) = self.records.add(descriptor.clone(), payload.clone());
            first.get_or_insert(lsn);
            self.cache.published(lsn, vec![PublishedAttachment { descriptor, payload, place }]);
        }
        first.unwrap()
    }

    pub fn write(&self, file: FileKey, offset: u64, bytes: &[u8]) -> Lsn {
        self.commit(DataOp::Write { file, shift: SHIFT, offset }, bytes)
    }

    /// A new process: only the journal and the disk tier are left.
    pub fn restart(&mut self) {
        self.cache = open(&self.config, &self.clock, &self.records);
        let records = self.records.records.lock();
        for (at, record) in records.iter().enumerate() {
            if let Some((descriptor, payload)) = record {
                let place = PayloadRef { segment: at as u64, offset: 0, length: payload.len() as u32 };
                let attachment = ReplayedAttachment { descriptor: descriptor.clone(), place };
                self.cache.replay(Lsn(at as u64 + 1), vec![attachment]);
            }
        }
        drop(records);
        self.cache.check_replay().unwrap();
    }

    pub fn store(&self, file: FileKey, block: u64, version: u64, content: Bytes) {
        self.clouds.blocks.lock().insert((file, block, version), content);
    }

    /// Reads with the given block map.
    pub async fn read(&self, file: FileKey, size: u64, at: u64, length: u64, map: &[u64]) -> Vec<u8> {
        let request = ReadRequest { file, shift: SHIFT, size, offset: at, length, readahead: false };
        let plan = self.cache.plan_read(&request);
        let stored: Vec<_> = plan.blocks().iter().map(|block| stored(map, block.0)).collect();
        let expected = plan.length();
        let parts = self.cache.read(plan, &stored, &self.loader()).await.unwrap();
        let out = parts.concat();
        assert_eq!(out.len() as u64, expected);
        out
    }
}

/// All of one start of the store.
pub fn sealing(version: u64) -> Sealing {
    Sealing { version: Version(version), seal: SealId(5) }
}

/// Version zero, or none, is a hole.
pub fn stored(map: &[u64], block: u64) -> Stored {
    match map.get(block as usize) {
        None | Some(0) => Stored::Hole,
        Some(version) => Stored::Version(sealing(*version)),
    }
}

fn open(config: &CacheConfig, clock: &Arc<ManualClock>, records: &Arc<Records>) -> Cache {
    let environment = Environment {
        clock: Arc::clone(clock) as _,
        entropy: Arc::new(SystemEntropy::new()),
        disk: Arc::new(LocalDisk),
    };
    let cache = Cache::build(config, &environment, NodeKey::from_bytes([9; 32])).unwrap();
    cache.connect(Arc::clone(records) as _);
    cache
}
