use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use blocks::{BlockStore, CloudId, Incident, IncidentSink, Limits, Placement, Protection};
use cache::{Cache, CacheConfig, Scope};
use cloud::{Connection, ErrorKind, Fault, Faulty, Memory, Options, Prices, Side};
use environment::{Clock, Environment};
use file_system::conformance::model::ManualClock;
use file_system::{FileId, FileSystem};
use ids::{BlockIndex, BlockShift, GatewayId};
use journal::{Journal, JournalConfig};
use meta::{LocalConfig, LocalStore, MetaStore};
use seal::{KeyFile, NodeKey};
use upkeep::{CleaningCosts, GarbageRow, RepairRow, Upkeep, UpkeepConfig};

use crate::row::{BlockEntry, Policy};
use crate::{NewVolume, Volume, Volumes, VolumesOptions};

pub const SHIFT: BlockShift = BlockShift::MIN;
pub const BLOCK: u64 = 64 << 10;
pub const GC_DELAY: Duration = Duration::from_secs(3600);

/// Counts what clouds are accused of.
#[derive(Default)]
pub struct Incidents(pub AtomicU64);

impl IncidentSink for Incidents {
    fn report(&self, _incident: Incident) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What outlives a node: disk, clouds, keys.
#[derive(Clone)]
pub struct Site {
    pub folder: Arc<tempfile::TempDir>,
    pub clock: Arc<ManualClock>,
    pub clouds: Vec<Arc<Faulty<Arc<Memory>>>>,
    pub key_file: KeyFile,
    pub journal: JournalConfig,
    /// How blocks are dispersed.
    pub scheme: &'static str,
    /// Bytes of the journal that dirty data may take.
    pub dirty: u64,
    /// Sealed blocks up to this size share objects.
    pub longest_packed: u64,
    /// Bytes of a pack.
    pub pack_size: u64,
    /// When packs are cleaned.
    pub cleaning: CleaningCosts,
    /// What each cloud charges.
    pub prices: Option<Prices>,
    /// Blocks that are committed together.
    pub batch: usize,
    /// How long after it was given up a put may be carried out.
    pub late_puts: Duration,
}

impl Site {
    pub fn new(clock: Arc<ManualClock>) -> Site {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let clouds = (0..4).map(|i: u16| {
            let name = i.to_string();
            Faulty::new(Memory::new(&name), &name, clock.clone() as Arc<dyn Clock>)
        });
        let clouds = clouds.collect();
        let key_file = KeyFile::generate(GatewayId(1), &*Environment::real().entropy);
        let (scheme, dirty) = ("rs:2+1", u64::MAX);
        let journal = JournalConfig::small(64 << 20);
        Site {
            folder,
            clock,
            clouds,
            key_file,
            journal,
            scheme,
            dirty,
            longest_packed: 0,
            pack_size: 4 << 20,
            cleaning: CleaningCosts::default(),
            prices: None,
            batch: 128,
            late_puts: Duration::ZERO,
        }
    }

    /// Puts that are late arrive in the clouds.
    pub async fn carry_out(&self) {
        for cloud in &self.clouds {
            cloud.carry_out().await.unwrap();
        }
    }

    /// What is on the disk now, and clouds that obey to a new process: the one before cannot reach them any more.
    pub fn cut_off(&self) -> Site {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        copy(self.folder.path(), folder.path());
        let clouds = self.clouds.iter().enumerate().map(|(i, cloud)| {
            cloud.set(Side::Writes, Fault::Fail(ErrorKind::Refused));
            cloud.set(Side::Reads, Fault::Fail(ErrorKind::Refused));
            let clock = self.clock.clone() as Arc<dyn Clock>;
            let obeying = Faulty::new(cloud.inner().clone(), &i.to_string(), clock);
            obeying.take_late(cloud);
            obeying
        });
        Site { folder, clouds: clouds.collect(), ..self.clone() }
    }
}

/// A running node with a volume `home` on three clouds with blocks of 64 KiB.
pub struct Node {
    pub site: Site,
    pub env: Environment,
    pub journal: Journal,
    pub store: LocalStore,
    pub cache: Cache,
    pub incidents: Arc<Incidents>,
    pub volumes: Arc<Volumes>,
    pub volume: Volume,
    pub upkeep: Arc<Upkeep<Volume>>,
}

pub fn policy(scheme: &str, clouds: &[u16], shift: BlockShift) -> Policy {
    let clouds = clouds.iter().copied().map(CloudId).collect();
    let placement = Placement::new(scheme.parse().unwrap(), clouds, shift).unwrap();
    Policy { placement, protection: Protection::default() }
}

impl Node {
    pub async fn new() -> Node {
        Node::start(Site::new(ManualClock::new())).await
    }

    pub async fn start(site: Site) -> Node {
        let env = Environment { clock: site.clock.clone(), ..Environment::real() };
        let connections = site.clouds.iter().enumerate().map(|(i, cloud)| {
            let options = Options { prices: site.prices, ..Options::default() };
            (CloudId(i as u16), Connection::assemble(&env, &i.to_string(), cloud.clone(), &options))
        });
        let incidents = Arc::new(Incidents::default());
        let limits = Limits { late_puts: site.late_puts, ..Limits::default() };
        let blocks = Arc::new(BlockStore::new(&env, connections, incidents.clone(), limits));
        let node_key = NodeKey::from_bytes([1; 32]);
        let mut config = CacheConfig::new(site.folder.path().join("cache"));
        config.memory = 16 << 20;
        config.journal = site.dirty;
        let cache = Cache::open(&config, &env, node_key.clone()).unwrap();
        let config = site.journal.clone();
        let folder = site.folder.path().join("journal");
        let (journal, recovery) = Journal::open(env.clone(), &folder, &node_key, config).unwrap();
        // The engine is written to only by checkpoints that a test asks for.
        let quiet = Duration::from_secs(1 << 20);
        let config =
            LocalConfig { checkpoint_interval: quiet, apply_interval: quiet, ..LocalConfig::default() };
        let (folder, observer) = (site.folder.path().join("meta"), Arc::new(cache.clone()));
        let store =
            LocalStore::open(env.clone(), &folder, config, journal.clone(), recovery, observer).unwrap();
        cache.check_replay().unwrap();
        cache.connect(Arc::new(journal.clone()));
        let options = VolumesOptions {
            environment: env.clone(),
            keys: Arc::new(site.key_file.gateway_keys()),
            store: Arc::new(store.clone()),
            cache: cache.clone(),
            blocks: blocks.clone(),
            gc_delay: GC_DELAY,
            capacity: 1 << 50,
        };
        let volumes = Arc::new(Volumes::open(options).await.unwrap());
        let volume = match volumes.get("home") {
            Some(volume) => volume,
            None => {
                let new = NewVolume::new("home", policy(site.scheme, &[0, 1, 2], SHIFT));
                volumes.create(new).await.unwrap()
            }
        };
        // Object numbers are reserved here: a reservation in a test's transaction may look like a change of what that
        // has read (two keys in 2^18 do), and few tests run theirs again.
        volume.inner.node.new_object().await.unwrap();
        let Site { longest_packed, pack_size, cleaning, batch, .. } = site;
        let config = UpkeepConfig { longest_packed, pack_size, cleaning, batch, ..UpkeepConfig::default() };
        let v = Arc::new(volume.clone());
        let upkeep = Upkeep::new(v, cache.clone(), blocks, env.clone(), config, None);
        Node { site, env, journal, store, cache, incidents, volumes, volume, upkeep }
    }

    /// Stops in order and starts again.
    pub async fn restart(self) -> Node {
        self.volumes.close().await.unwrap();
        let Node { site, journal, store, cache, .. } = self;
        cache.close().await;
        store.close().await.unwrap();
        journal.close().await.unwrap();
        drop((store, cache, journal));
        Node::start(site).await
    }

    /// Starts from what is on the disk now, as after a power cut; this node is gone.
    pub async fn crash(self) -> Node {
        let Node { site, journal, store, .. } = self;
        let folder = Arc::new(tempfile::tempdir().unwrap());
        copy(site.folder.path(), folder.path());
        let _ = store.close().await;
        let _ = journal.close().await;
        Node::start(Site { folder, ..site }).await
    }

    /// Ends without a word, after [`Site::cut_off`] has taken what was on the disk.
    pub async fn die(self) {
        let _ = self.store.close().await;
        let _ = self.journal.close().await;
    }

    pub fn fs(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.volume.clone())
    }

    /// Writes back everything that is dirty.
    pub async fn write_back(&self) {
        let _flush = self.cache.flush(Scope::All);
        let _ = self.upkeep.write_back.once().await;
        assert_eq!(self.cache.dirty_bytes(Scope::All), 0);
    }

    pub async fn entry(&self, file: FileId, block: u64) -> BlockEntry {
        let mut tx = self.store.begin(meta::Mode::Optimistic).await.unwrap();
        let entry = self.volume.inner.block_entry(&mut *tx, file.object, BlockIndex(block)).await.unwrap();
        entry.unwrap_or(BlockEntry::NONE)
    }

    /// Objects in each cloud.
    pub fn stored(&self) -> Vec<usize> {
        self.site.clouds.iter().map(|cloud| cloud.inner().names().len()).collect()
    }

    /// Nothing is on its way: in the clouds is what the metadata refer to, and nothing else.
    pub async fn check_clouds_at_rest(&self) {
        assert!(self.volume.all_garbage(None, 1).await.unwrap().is_empty());
        assert!(self.volume.unsettled(None, 1).await.unwrap().is_empty());
        assert!(self.volume.unsettled_packs(None, 1).await.unwrap().is_empty());
        assert_eq!(self.volume.repair_count(1).await.unwrap(), 0);
        self.check_clouds().await;
    }

    /// Every object in the clouds is known, and all of every current block is there or waits for its repair.
    pub async fn check_clouds(&self) {
        let mut current = BTreeSet::new();
        let mut after = None;
        loop {
            let page = self.volume.named_blocks(after, 99).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.identity);
            current.extend(page.iter().flat_map(|version| version.fragments()));
        }
        let leaving = self.volume.all_garbage(None, usize::MAX).await.unwrap();
        let mut unsettled = self.volume.unsettled(None, usize::MAX).await.unwrap();
        unsettled.extend(self.volume.unsettled_packs(None, usize::MAX).await.unwrap());
        let versions = leaving.into_iter().chain(unsettled).flat_map(GarbageRow::into_versions);
        let passing: BTreeSet<_> =
            versions.flat_map(|version| version.fragments().collect::<Vec<_>>()).collect();
        let clouds = self.site.clouds.iter().zip(0..);
        let there = clouds.flat_map(|(cloud, number)| {
            let names = cloud.inner().names().into_iter();
            names.map(move |name| (CloudId(number), name.to_string()))
        });
        let there: BTreeSet<_> = there.collect();
        let mut queued = BTreeSet::new();
        for RepairRow { version, fragments, .. } in self.volume.repairs(None, usize::MAX).await.unwrap() {
            let all: Vec<_> = version.iter().flat_map(|version| version.fragments()).collect();
            queued.extend(fragments.iter().filter_map(|fragment| all.get(usize::from(*fragment)).cloned()));
        }
        let lost: Vec<_> = current.difference(&there).filter(|at| !queued.contains(at)).collect();
        assert!(lost.is_empty(), "missing in the clouds: {lost:?}");
        let unknown: Vec<_> =
            there.iter().filter(|at| !current.contains(at) && !passing.contains(at)).collect();
        assert!(unknown.is_empty(), "nobody knows of {unknown:?}");
    }

    pub async fn check(&self) {
        let findings = self.volume.check().await.unwrap();
        assert!(findings.is_empty(), "{findings:#?}");
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
