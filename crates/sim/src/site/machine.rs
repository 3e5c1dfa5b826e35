use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use blocks::{BlockStore, CloudId, Incident, IncidentSink, Limits, Placement, Protection};
use cache::{Cache, CacheConfig, Scope};
use cloud::Connection;
use environment::Environment;
use file_system::FileSystem;
use ids::BlockShift;
use journal::{Journal, JournalConfig, WriterKind};
use meta::{LocalConfig, LocalStore};
use seal::NodeKey;
use tokio::task::JoinHandle;
use upkeep::{CleaningCosts, Upkeep, UpkeepConfig};
use volume::{NewVolume, Policy, Volume, Volumes, VolumesOptions};

use super::Site;
use super::backups::Backups;
use super::drains::Drains;
use crate::world::World;
use crate::world::disk::{CACHE, JOURNAL as JOURNAL_FOLDER, SimDisk};
use crate::world::entropy::SeededEntropy;

/// Of all files.
pub const SHIFT: BlockShift = BlockShift::MIN;
/// Bytes of the journal. Small, so that it is recycled often and its space is short.
const JOURNAL: u64 = 16 << 20;
/// Metadata that may wait for the engine.
const OVERLAY: u64 = 1 << 20;
/// How much more than their bounds queues may take for a moment: what one operation adds.
const SLACK: u64 = 1 << 20;

/// Counts what clouds are accused of.
#[derive(Default)]
pub struct Incidents(pub AtomicU64);

impl IncidentSink for Incidents {
    fn report(&self, _incident: Incident) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A gateway that is switched on: the parts that `gateway::Node` puts together, in its order, on one thread.
pub struct Machine {
    pub env: Environment,
    pub incidents: Arc<Incidents>,
    pub volume: Volume,
    pub upkeep: Arc<Upkeep<Volume>>,
    pub cache: Cache,
    pub backups: Option<Arc<Backups>>,
    pub drains: Arc<Drains>,
    keeping: Option<JoinHandle<()>>,
    world: World,
    disk: SimDisk,
    disk_cache: u64,
    journal: Journal,
    journal_config: JournalConfig,
    store: LocalStore,
    volumes: Arc<Volumes>,
}

/// What a machine has below its volumes.
pub struct Parts {
    pub env: Environment,
    pub connections: Vec<Connection>,
    pub store: LocalStore,
    pub journal_config: JournalConfig,
    incidents: Arc<Incidents>,
    blocks: Arc<BlockStore>,
    cache: Cache,
    journal: Journal,
}

fn policy(scheme: &str, clouds: u16) -> Policy {
    let clouds = (0..clouds).map(CloudId).collect();
    let placement = Placement::new(scheme.parse().unwrap(), clouds, SHIFT).unwrap();
    Policy { placement, protection: Protection::default() }
}

/// Puts keys of files under the present epoch's, as `gateway::Node` has it done.
async fn rekey(volume: Volume, env: Environment) {
    loop {
        let has_more = volume.rekey().await.unwrap_or(false);
        env.clock.sleep(Duration::from_millis(if has_more { 50 } else { 5_000 })).await;
    }
}

fn journal_config() -> JournalConfig {
    JournalConfig { writer: WriterKind::Task, ..JournalConfig::small(JOURNAL) }
}

/// As quick as the simulated disks and clouds are.
fn upkeep_config(site: &Site) -> UpkeepConfig {
    UpkeepConfig {
        in_flight: 4 << 20,
        longest_packed: site.setup.longest_packed,
        pack_size: 64 << 10,
        batch: 8,
        clean_interval: Duration::from_secs(7),
        // Whatever garbage a pack has is worth cleaning.
        cleaning: CleaningCosts { put: 0, get: 0, read: 0, months: 1 },
        write_back_tick: Duration::from_millis(200),
        garbage_interval: Duration::from_secs(5),
        repair_interval: Duration::from_secs(3),
        reap_interval: Duration::from_secs(2),
        first_pause: Duration::from_millis(200),
        longest_pause: Duration::from_secs(5),
        ..UpkeepConfig::default()
    }
}

impl Parts {
    /// In a runtime of its own. Panics if what the last machine has left cannot be opened.
    pub fn open(site: &Site, number: u64) -> Parts {
        let env = Environment {
            clock: site.world.time().machine(),
            entropy: Arc::new(SeededEntropy::new(site.seed, number)),
            disk: Arc::new(site.disk.clone()),
        };
        let connections = site.clouds.iter().enumerate().map(|(id, cloud)| {
            Connection::assemble(&env, &id.to_string(), cloud.for_machine(number), &site.connection)
        });
        let connections: Vec<_> = connections.collect();
        let incidents = Arc::new(Incidents::default());
        let late_puts = Duration::from_secs(site.setup.gc_delay);
        let limits = Limits { bytes_in_flight: 8 << 20, late_puts, ..Limits::default() };
        let numbered = (0..).map(CloudId).zip(connections.iter().cloned());
        let blocks = Arc::new(BlockStore::new(&env, numbered, incidents.clone(), limits));
        let node_key = NodeKey::from_bytes([1; 32]);
        let journal_config = journal_config();
        let mut config = CacheConfig::new(CACHE.into());
        (config.disk, config.disk_writer) = (site.setup.disk_cache, WriterKind::Task);
        config.memory = 16 << 20;
        config.journal = journal_config.most_kept();
        config.bookkeeping = 1 << 20;
        config.write_back_wait = Duration::from_millis(500);
        let cache = Cache::open(&config, &env, node_key.clone()).expect("the cache opens");
        let (journal, recovery) =
            Journal::open(env.clone(), Path::new(JOURNAL_FOLDER), &node_key, journal_config.clone())
                .expect("the journal opens");
        let config = LocalConfig {
            cache: 4 << 20,
            overlay: OVERLAY,
            checkpoint_interval: Duration::from_secs(3),
            changes: site.setup.backups.map_or(0, |backups| backups.changes),
            inline: true,
            ..LocalConfig::default()
        };
        let observer = Arc::new(cache.clone());
        let store =
            LocalStore::open(env.clone(), Path::new("/meta"), config, journal.clone(), recovery, observer)
                .expect("the metadata opens");
        cache.check_replay().expect("the journal is understood");
        cache.connect(Arc::new(journal.clone()));
        Parts { env, connections, store, journal_config, incidents, blocks, cache, journal }
    }

    /// Where everything is; from now on it is looked for there.
    pub async fn drains(&self, site: &Site) -> Arc<Drains> {
        let of = (&self.store, &self.blocks, &*self.connections);
        Drains::open(site, &self.env, of).await.expect("it is noted where everything is")
    }

    /// After it is known where everything is.
    pub async fn volumes(&self, site: &Site) -> Volumes {
        let options = VolumesOptions {
            environment: self.env.clone(),
            keys: Arc::new(site.key_file.gateway_keys()),
            store: Arc::new(self.store.clone()),
            cache: self.cache.clone(),
            blocks: self.blocks.clone(),
            gc_delay: Duration::from_secs(site.setup.gc_delay),
            capacity: 1 << 50,
        };
        Volumes::open(options).await.expect("the volumes open")
    }

    /// Closes them in order.
    pub async fn close(self) {
        self.cache.close().await;
        self.store.close().await.expect("the metadata closes");
        self.journal.close().await.expect("the journal closes");
    }
}

impl Machine {
    /// Switches a machine on, in a runtime of its own. Panics if what the last one has left cannot be opened.
    pub async fn start(site: &Site, number: u64) -> Machine {
        let parts = Parts::open(site, number);
        let drains = parts.drains(site).await;
        let volumes = Arc::new(parts.volumes(site).await);
        let Parts { env, connections, store, journal_config, incidents, blocks, cache, journal } = parts;
        site.record.start();
        let backups = site.setup.backups.map(|setup| {
            // What the newest safe backup refers to stays: a row of the garbage that is in it is no part of what it restores.
            let changed = store.clone();
            volumes.hold_garbage(move |row| !changed.has_changed(row));
            Arc::new(Backups::new(site, setup, &env, (&store, &cache, &connections), drains.clone()))
        });
        let volume = match volumes.get("home") {
            Some(volume) => volume,
            None => {
                let new = NewVolume::new("home", policy(site.setup.scheme, site.setup.clouds));
                volumes.create(new).await.expect("a volume is made")
            }
        };
        let config = upkeep_config(site);
        let upkeep = Upkeep::new(Arc::new(volume.clone()), cache.clone(), blocks, env.clone(), config, None);
        upkeep.start();
        drop(tokio::spawn(rekey(volume.clone(), env.clone())));
        let (resumed, of) = (drains.clone(), (upkeep.clone(), backups.clone()));
        drop(tokio::spawn(async move { resumed.resume(of).await }));
        let keeping = backups.clone().map(|backups| tokio::spawn(backups.keep()));
        let (world, disk) = (site.world.clone(), site.disk.clone());
        Machine {
            env,
            incidents,
            volume,
            upkeep,
            cache,
            backups,
            drains,
            keeping,
            world,
            disk,
            disk_cache: site.setup.disk_cache,
            journal,
            journal_config,
            store,
            volumes,
        }
    }

    /// All files are to be stored by another scheme from now on.
    pub fn move_files(&self, scheme: &str) {
        let (volumes, volume) = (self.volumes.clone(), self.volume.clone());
        let policy = policy(scheme, volume.policy().placement.clouds().len() as u16);
        // What meets a death, or metadata that change, is not begun, or only half of it; which may be seen, but not be felt.
        drop(tokio::spawn(async move {
            volumes.set_policy("home", policy).await?;
            volume.migrate("").await
        }));
    }

    /// The cloud that this number is in is emptied into another one.
    pub fn drain(&self, number: u16) {
        let (drains, of) = (self.drains.clone(), (self.upkeep.clone(), self.backups.clone()));
        drop(tokio::spawn(async move { drains.begin(CloudId(number), of).await }));
    }

    /// A new epoch of keys begins.
    pub fn rotate_keys(&self) {
        let volumes = self.volumes.clone();
        drop(tokio::spawn(async move { volumes.rotate_keys("home").await }));
    }

    pub fn fs(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.volume.clone())
    }

    /// Everything dirty is written back; then what the gateway has said of it counts.
    pub fn flush(&self) {
        let (upkeep, cache, backups) = (self.upkeep.clone(), self.cache.clone(), self.backups.clone());
        let flush = async move {
            let dirty = cache.flush(Scope::All);
            let _left = upkeep.flush(Duration::from_secs(20)).await;
            tokio::select! {
                biased;
                () = dirty.done() => true,
                () = std::future::ready(()) => false,
            }
        };
        drop(tokio::spawn(async move {
            match backups {
                Some(backups) => backups.after_flush(flush).await,
                None => drop(flush.await),
            }
        }));
    }

    /// One more backup.
    pub fn back_up(&self) {
        if let Some(backups) = self.backups.clone() {
            drop(tokio::spawn(async move { backups.make().await }));
        }
    }

    /// Switches it off in order.
    pub async fn stop(self) {
        let _left = self.upkeep.stop(Duration::from_secs(30)).await;
        if let Some(keeping) = &self.keeping {
            // Safe anywhere: whatever no head names is retired by the next start.
            keeping.abort();
        }
        if let Some(backups) = &self.backups {
            tokio::select! {
                _ = backups.make() => {}
                () = self.env.clock.sleep(Duration::from_secs(30)) => {}
            }
        }
        self.volumes.close().await.expect("the volumes close");
        self.cache.close().await;
        self.store.close().await.expect("the metadata closes");
        self.journal.close().await.expect("the journal closes");
    }

    /// Queues and caches keep to their bounds, and nothing has stopped by itself.
    pub fn check_bounds(&self) {
        let (cache, journal, meta) = (self.cache.usage(), self.journal.usage(), self.store.status());
        let bounds = [
            ("dirty data in the journal", cache.journal, self.journal_config.most_kept()),
            ("dirty data in memory", cache.dirty_memory, 6 << 20),
            ("clean data in memory", cache.clean_memory, 6 << 20),
            ("clean data on disk", cache.clean_disk, self.disk_cache),
            ("files of clean data", self.disk.cached().unwrap_or(u64::MAX), self.disk_cache),
            ("clean data on its way to the disk", cache.disk_queue, 2 << 20),
            ("books of dirty data", cache.bookkeeping, 1 << 20),
            ("queue of the journal", journal.queued, self.journal_config.queue),
            ("journal", journal.used, journal.capacity),
            ("metadata not yet in the engine", meta.overlay, OVERLAY),
        ];
        for (what, found, bound) in bounds {
            if found > bound + SLACK {
                self.world.violate(format!("{what}: {found} bytes are more than {bound}"));
            }
        }
        if let Some(error) = self.store.failed() {
            self.world.violate(format!("the metadata store has stopped: {error}"));
        }
        if let Some(error) = self.journal.failed() {
            self.world.violate(format!("the journal has stopped: {error}"));
        }
    }
}
