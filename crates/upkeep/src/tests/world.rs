use std::sync::Arc;
use std::time::Duration;

use blocks::{BlockStore, CloudId, Incident, IncidentSink, Limits, Placement, SealId};
use cache::{BlockLoader, Cache, CacheConfig, FileKey, LoadError, ReadRequest, Scope, Sealing, Stored};
use cloud::{Connection, Faulty, Memory, Options, test_environment};
use environment::Environment;
use ids::{BlockIndex, ObjectId, Version};
use parking_lot::Mutex;
use seal::NodeKey;

use super::small_volume::{Records, Rows, SHIFT, SmallVolume, VOLUME, file};
use crate::loader::VersionLoader;
use crate::{Upkeep, UpkeepConfig};

pub const BLOCK: u64 = 64 << 10;

struct NoSink;

impl IncidentSink for NoSink {
    fn report(&self, _incident: Incident) {}
}

/// A node with one volume on `rs:2+1`.
pub struct World {
    pub env: Environment,
    pub clouds: Vec<Arc<Faulty<Arc<Memory>>>>,
    pub blocks: Arc<BlockStore>,
    pub cache: Cache,
    pub volume: Arc<SmallVolume>,
    pub upkeep: Arc<Upkeep<SmallVolume>>,
    pub config: UpkeepConfig,
    folder: tempfile::TempDir,
}

impl World {
    pub fn new() -> World {
        World::with(UpkeepConfig::default())
    }

    pub fn with(config: UpkeepConfig) -> World {
        let env = test_environment();
        let ids: Vec<_> = (0..3).map(CloudId).collect();
        let clouds: Vec<_> = ids
            .iter()
            .map(|id| Faulty::new(Memory::new(&id.to_string()), &id.to_string(), env.clock.clone()))
            .collect();
        let connections = ids.iter().zip(&clouds).map(|(id, cloud)| {
            (*id, Connection::assemble(&env, &id.to_string(), cloud.clone(), &Options::default()))
        });
        let limits = Limits { late_puts: Duration::ZERO, ..Limits::default() };
        let blocks = Arc::new(BlockStore::new(&env, connections, Arc::new(NoSink), limits));
        let placement = Arc::new(Placement::new("rs:2+1".parse().unwrap(), ids, SHIFT).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let (rows, records) = (Arc::new(Mutex::new(Rows::default())), Arc::new(Records::default()));
        World::start(env, clouds, blocks, config, folder, rows, records, placement, 1)
    }

    #[allow(clippy::too_many_arguments)]
    fn start(
        env: Environment,
        clouds: Vec<Arc<Faulty<Arc<Memory>>>>,
        blocks: Arc<BlockStore>,
        config: UpkeepConfig,
        folder: tempfile::TempDir,
        rows: Arc<Mutex<Rows>>,
        records: Arc<Records>,
        placement: Arc<Placement>,
        boot: u64,
    ) -> World {
        let mut cache_config = CacheConfig::new(folder.path().join("cache"));
        cache_config.memory = 16 << 20;
        let cache = Cache::open(&cache_config, &env, NodeKey::from_bytes([1; 32])).unwrap();
        records.replay(&cache);
        cache.check_replay().unwrap();
        cache.connect(records.clone());
        let volume = Arc::new(SmallVolume::new(rows, records, cache.clone(), placement, boot));
        let (v, c) = (volume.clone(), cache.clone());
        let upkeep = Upkeep::new(v, c, blocks.clone(), env.clone(), config.clone(), None);
        World { env, clouds, blocks, cache, volume, upkeep, config, folder }
    }

    /// A new process over the same journal, metadata and clouds.
    pub fn restart(self) -> World {
        let World { env, clouds, blocks, volume, config, folder, .. } = self;
        let (rows, records, placement) =
            (volume.rows.clone(), volume.records.clone(), volume.placement.clone());
        World::start(env, clouds, blocks, config, folder, rows, records, placement, volume.boot + 1)
    }

    /// Writes back everything that is dirty and can be.
    pub async fn write_all(&self) -> crate::WriteBackReport {
        let _flush = self.cache.flush(Scope::Volume(VOLUME));
        self.upkeep.write_back.once().await
    }

    pub fn dirty(&self) -> u64 {
        self.cache.dirty_bytes(Scope::All)
    }

    /// Objects in all clouds.
    pub fn objects(&self) -> Vec<usize> {
        self.clouds.iter().map(|cloud| cloud.inner().names().len()).collect()
    }

    pub fn set_all(&self, side: cloud::Side, fault: &cloud::Fault) {
        self.clouds.iter().for_each(|cloud| cloud.set(side, fault.clone()));
    }

    /// The whole file.
    pub async fn read(&self, object: ObjectId) -> Vec<u8> {
        let size = self.volume.rows.lock().files[&object].size;
        let request =
            ReadRequest { file: file(object), shift: SHIFT, size, offset: 0, length: size, readahead: false };
        let plan = self.cache.plan_read(&request);
        let stored: Vec<_> = plan
            .blocks()
            .iter()
            .map(|block| match self.volume.rows.lock().entry(object, *block) {
                entry if entry.hole => Stored::Hole,
                entry => {
                    Stored::Version(Sealing { version: Version(entry.version), seal: SealId(entry.seal) })
                }
            })
            .collect();
        let loader: Arc<dyn BlockLoader> =
            Arc::new(AnyVersion { volume: self.volume.clone(), blocks: self.blocks.clone() });
        self.cache.read(plan, &stored, &loader).await.unwrap().concat()
    }
}

struct AnyVersion {
    volume: Arc<SmallVolume>,
    blocks: Arc<BlockStore>,
}

#[async_trait::async_trait]
impl BlockLoader for AnyVersion {
    async fn load(
        &self,
        file: FileKey,
        block: BlockIndex,
        sealing: Sealing,
    ) -> Result<bytes::Bytes, LoadError> {
        let entry = self.volume.rows.lock().entry(file.object, block);
        let stored = self.volume.version(file.object, block, entry);
        assert_eq!((stored.identity.version, stored.seal), (sealing.version, sealing.seal));
        let (volume, blocks) = (self.volume.clone(), self.blocks.clone());
        VersionLoader { volume, blocks, version: stored }.load(file, block, sealing).await
    }
}

/// `blocks` whole blocks and a bit.
pub fn content(seed: u64, blocks: u64) -> Vec<u8> {
    (0..blocks * BLOCK + 100).map(|at| (at.wrapping_mul(seed * 2 + 7) >> 5) as u8).collect()
}

pub async fn pass(duration: Duration) {
    tokio::time::advance(duration).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
