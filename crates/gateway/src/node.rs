//! Everything of a gateway below its listeners, opened and closed in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::scan::{Shared, Stage};
use blocks::{BlockStore, CloudId, IncidentLog, IncidentLogLimits, IncidentSink, Placement, Protection};
use cache::Cache;
use environment::Environment;
use file_system::FileSystem;
use ids::{BlockShift, GatewayId, VolumeId};
use journal::{Journal, JournalConfig};
use meta::{CommitObserver, LocalConfig, LocalStore, MetaStore};
use nfs4_server::{Export, NameMapping, Server, ServerConfig, ServerError};
use parking_lot::{Mutex, RwLock};
use rustix::process::{Resource, getrlimit};
use seal::{KeyFile, Suite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use upkeep::{Flushed, GarbageCollector, Gate, Upkeep, UpkeepConfig, UpkeepError};
use volume::{NewVolume, Policy, Volume, VolumeError, Volumes, VolumesOptions};

use crate::background::Background;
use crate::backups::{Backups, CHANGES};
use crate::bill::Bill;
use crate::clouds::Clouds;
use crate::config::{NfsConfig, OwnerNames, VolumeConfig};
use crate::config_file::ConfigFile;
use crate::data_folder::DataFolder;
use crate::drain::Drains;
use crate::keys::keys_in_force;
use crate::name_service::SystemNames;
use crate::nfs_security::NfsSecurity;
use crate::node_rows::{self, Scrubbed, StoredClients};
use crate::paths::FoundPaths;
use crate::rebalance::windows;
use crate::scrubs::StoredScrub;
use crate::{Config, Left, StartError, clean_stop, owner, scans};

/// A volume that is being served.
pub(crate) struct Served {
    pub volume: Arc<Volume>,
    pub upkeep: Arc<Upkeep<Volume>>,
    /// Before its write-back, if its files are scanned.
    pub scan: Option<Arc<Stage>>,
}

impl Served {
    /// Flushes for at most `limit`, then ends all that goes on behind the volume.
    async fn stop(&self, limit: Duration) -> Result<Flushed, UpkeepError> {
        let flushed = self.upkeep.stop(limit).await;
        if let Some(stage) = &self.scan {
            stage.stop().await;
        }
        flushed
    }
}

/// All parts of a running gateway.
pub(crate) struct Node {
    /// As at the start.
    pub config: Config,
    /// As it is in force now.
    pub live: watch::Sender<Arc<Config>>,
    /// Held while the configuration is read again.
    pub reloading: tokio::sync::Mutex<()>,
    /// For the next page of what a client holds.
    pub found_paths: FoundPaths,
    /// Held while the exports are put together.
    offering: Mutex<()>,
    pub environment: Environment,
    pub folder: DataFolder,
    /// The key file, as it is on the disk.
    pub(crate) key: Mutex<KeyFile>,
    /// Held by whoever shreds.
    pub shredding: tokio::sync::Mutex<()>,
    pub journal: Journal,
    pub store: LocalStore,
    pub cache: Cache,
    pub blocks: Arc<BlockStore>,
    pub incidents: Arc<IncidentLog>,
    pub volumes: Volumes,
    pub server: Server,
    pub nfs_security: NfsSecurity,
    pub clouds: Arc<Clouds>,
    /// Held by whoever adds, drains or removes a cloud.
    pub changing_clouds: tokio::sync::Mutex<()>,
    pub drains: Drains,
    pub backups: Backups,
    pub bill: Arc<Bill>,
    /// Where scrubs run.
    pub background: Background,
    /// What the scans of all volumes share, if files are scanned.
    pub scan: Option<Arc<Shared>>,
    pub file: ConfigFile,
    /// Work that nobody waits for ends.
    pub stop: CancellationToken,
    served: RwLock<BTreeMap<VolumeId, Arc<Served>>>,
    started: Duration,
}

/// Share of the memory budget that the metadata engine gets for its pages; on top of the cache's.
const META_MEMORY: u64 = 32 << 20;

/// How often deleted volumes are worked on.
const BURY_INTERVAL: Duration = Duration::from_secs(10);

/// Size that volumes show: clouds have none, and programs want one.
const SHOWN_CAPACITY: u64 = 1 << 50;

impl Node {
    pub async fn open(config: Config) -> Result<Node, StartError> {
        let environment = Environment::real();
        let folder = DataFolder::open(&config.gateway.data)?;
        let key_path = &config.gateway.key_file;
        let key = owner::load_key(key_path)?;
        let gateway = GatewayId(config.gateway.id);
        owner::check(&folder, key_path, &key, gateway)?;

        let mut cache_config = cache::CacheConfig::new(folder.join("cache"));
        cache_config.memory = config.cache.memory.bytes();
        cache_config.disk = config.cache.disk.bytes();
        cache_config.readahead = config.cache.readahead.bytes();
        cache_config.write_back_wait = config.cache.write_back_wait.as_duration();
        let journal_config = journal_config(&config);
        cache_config.journal = journal_config.most_kept();
        // The books of small writes take several times the memory that their data takes in the journal.
        cache_config.bookkeeping = cache_config.bookkeeping.min(journal_config.most_kept());
        let cache = Cache::open(&cache_config, &environment, key.node_key("cache"))
            .map_err(StartError::configuration)?;
        let has_journal = Journal::exists(&environment, &folder.join("journal"), &key.node_key("journal"))
            .map_err(StartError::configuration)?;
        let (journal, recovery) = Journal::open(
            environment.clone(),
            &folder.join("journal"),
            &key.node_key("journal"),
            JournalConfig { first: clean_stop::first_record(&folder, has_journal)?, ..journal_config },
        )
        .map_err(StartError::configuration)?;
        let changes = if config.backup.is_on() { CHANGES } else { 0 };
        let store = LocalStore::open(
            environment.clone(),
            &folder.join("meta"),
            LocalConfig { cache: META_MEMORY as usize, changes, ..LocalConfig::default() },
            journal.clone(),
            recovery,
            Arc::new(cache.clone()),
        )
        .map_err(StartError::configuration)?;
        cache.check_replay().map_err(StartError::configuration)?;
        clean_stop::clear(&folder)?;
        cache.connect(Arc::new(journal.clone()));
        let shared_store: Arc<dyn MetaStore> = Arc::new(store.clone());
        if node_rows::is_loading(&*shared_store).await.map_err(StartError::configuration)? {
            return Err(StartError::Configuration(format!(
                "{0}/meta is not complete, since loading a dump or a backup was interrupted; remove {0}/meta and {0}/journal and load the dump again, or remove {0} and restore again",
                config.gateway.data.display()
            )));
        }

        let incidents =
            IncidentLog::open(&environment.disk, &folder.join("tamper.log"), IncidentLogLimits::default())
                .map_err(|cause| {
                    StartError::Configuration(format!(
                        "cannot open {}: {cause}",
                        folder.join("tamper.log").display()
                    ))
                })?;
        let bill = Arc::new(Bill::open(&folder.join("costs.json"), &environment.clock)?);
        let clouds = Clouds::open(&config.clouds, &environment, &key, &*shared_store, bill.clone()).await?;
        let limits = blocks::Limits {
            bytes_in_flight: 2 * config.upkeep.in_flight.bytes(),
            preference: config.read.preference(),
            least_spare: usize::from(config.upkeep.least_spare),
            late_puts: config.upkeep.gc_delay.as_duration(),
            ..blocks::Limits::default()
        };
        let sink: Arc<dyn IncidentSink> = incidents.clone();
        let blocks = Arc::new(BlockStore::new(&environment, clouds.numbered(), sink, limits));
        let volumes = Volumes::open(VolumesOptions {
            environment: environment.clone(),
            keys: Arc::new(keys_in_force(&key, &*shared_store).await?),
            store: shared_store.clone(),
            cache: cache.clone(),
            blocks: blocks.clone(),
            gc_delay: config.upkeep.gc_delay.as_duration(),
            capacity: SHOWN_CAPACITY,
        })
        .await
        .map_err(StartError::configuration)?;

        let mut limits = config.nfs.limits.limits(getrlimit(Resource::Nofile).current);
        // All of it has to fit into one record of the journal.
        limits.atomic_bytes = limits.atomic_bytes.min(shared_store.attachable());
        let server = Server::new(ServerConfig {
            exports: Vec::new(),
            handle_key: *key.shared_secret("nfs handles"),
            records: Arc::new(StoredClients::new(shared_store)),
            environment: environment.clone(),
            server_id: format!("kurma-{}-{}", gateway, key.id()).into_bytes(),
            lease: config.nfs.lease.as_duration(),
            courtesy: ServerConfig::DEFAULT_COURTESY,
            delegations: config.nfs.delegations,
            limits,
        })
        .await
        .map_err(StartError::configuration)?;
        let nfs_security = NfsSecurity::load(&config.nfs, &environment).map_err(StartError::configuration)?;
        server.replace_security(nfs_security.offer());
        server.replace_names(name_mapping(&config.nfs, &environment));
        let started = environment.clock.monotonic();
        let backups = Backups::new(&key, started);
        if config.backup.is_on() {
            // What the newest safe backup refers to stays: a row of the garbage that is in it is no part of what it restores.
            let (store, rivals) = (store.clone(), backups.rivals.clone());
            volumes.hold_garbage(move |row| !store.has_changed(row) && !rivals.is_any());
        }
        let scan = scans::shared(&config, &environment);
        let file = ConfigFile::of(&config);
        let node = Node {
            live: watch::Sender::new(Arc::new(config.clone())),
            reloading: tokio::sync::Mutex::default(),
            found_paths: FoundPaths::default(),
            offering: Mutex::default(),
            config,
            environment,
            folder,
            key: Mutex::new(key),
            shredding: tokio::sync::Mutex::default(),
            journal,
            store,
            cache,
            blocks,
            incidents,
            volumes,
            server,
            nfs_security,
            clouds: Arc::new(clouds),
            changing_clouds: tokio::sync::Mutex::default(),
            drains: Drains::default(),
            background: Background::new().map_err(StartError::configuration)?,
            backups,
            bill,
            scan,
            file,
            stop: CancellationToken::new(),
            served: RwLock::default(),
            started,
        };
        for volume in node.volumes.list() {
            node.serve(volume);
        }
        for wanted in node.config.volumes.clone() {
            if node.volumes.get(&wanted.name).is_none() && wanted.export.referral.is_empty() {
                node.create_volume(&wanted).await.map_err(|cause| {
                    StartError::Configuration(format!("volume {:?}: {cause}", wanted.name))
                })?;
            }
        }
        node.offer().map_err(StartError::configuration)?;
        Ok(node)
    }

    /// The key file, as it is on the disk.
    pub fn key_file(&self) -> KeyFile {
        self.key.lock().clone()
    }

    /// The policy that a configuration describes, and its variants: one for each cloud, if it names more than are needed.
    pub fn policy(&self, wanted: &VolumeConfig) -> Result<(Policy, Vec<Policy>), String> {
        let scheme: disperse::Scheme = wanted.policy.parse().map_err(|cause| format!("{cause}"))?;
        let shift = BlockShift::from_bytes(wanted.block_size.bytes()).ok_or_else(|| {
            format!("block size {} is not a power of two from 64KiB to 16MiB", wanted.block_size)
        })?;
        let names = match wanted.clouds.is_empty() {
            true => self.clouds.for_new_files().into_iter().take(scheme.total()).collect(),
            false => wanted.clouds.clone(),
        };
        let numbers = names.iter().map(|name| self.clouds.number_for_new_files(name));
        let clouds = numbers.collect::<Result<Vec<CloudId>, _>>()?;
        let first: Vec<CloudId> = clouds.iter().copied().take(scheme.total()).collect();
        if clouds.len() > first.len() && scheme.is_convergent() {
            return Err(format!(
                "{scheme} stores equal content once, on the same clouds: name {}",
                first.len()
            ));
        }
        let placement = Placement::new(scheme, first, shift).map_err(|cause| cause.to_string())?;
        let suite = if wanted.integrity_only { Suite::IntegrityOnly } else { Suite::Aes256Gcm };
        let policy = Policy { placement, protection: Protection { suite, ..Protection::default() } };
        let variants = windows(&policy, &clouds)?;
        Ok((policy, variants))
    }

    /// Makes a volume and serves it.
    pub async fn create_volume(&self, wanted: &VolumeConfig) -> Result<Arc<Served>, String> {
        let (policy, variants) = self.policy(wanted)?;
        let mut new = NewVolume::new(&wanted.name, policy.clone());
        new.tier = wanted.tier.into();
        let volume = self.volumes.create(new).await.map_err(|cause| cause.to_string())?;
        if variants.len() > 1 {
            let spread = self.volumes.spread(&wanted.name, vec![(policy, variants)]).await;
            spread.map_err(|cause| cause.to_string())?;
        }
        let served = self.serve(volume);
        self.offer().map_err(|cause| cause.to_string())?;
        Ok(served)
    }

    /// Deletes an empty volume.
    pub async fn delete_volume(&self, name: &str) -> Result<(), VolumeError> {
        self.take_volume_away(name, false).await
    }

    /// Deletes a volume with all that is in it.
    pub async fn delete_volume_with_files(&self, name: &str) -> Result<(), VolumeError> {
        self.take_volume_away(name, true).await
    }

    async fn take_volume_away(&self, name: &str, force: bool) -> Result<(), VolumeError> {
        self.volumes.delete(name, force).await?;
        let gone: Vec<_> = self.served().into_iter().filter(|served| served.volume.name() == name).collect();
        self.served.write().retain(|_, served| served.volume.name() != name);
        if let Err(error) = self.offer() {
            tracing::error!(%error, "the exports still name a deleted volume");
        }
        for served in gone {
            // What is dirty belongs to files that go with the volume, and is dropped with them.
            if let Err(error) = served.stop(Duration::from_secs(1)).await {
                tracing::warn!(%error, "stopping the upkeep of a deleted volume");
            }
            let volume = FileSystem::volume(&*served.volume);
            let rows = [(Scrubbed::Present, None), (Scrubbed::Whole, None)];
            if let Err(error) = node_rows::set_scrub_period(&self.store, volume, &rows).await {
                tracing::warn!(%error, "forgetting the scrubs of a deleted volume");
            }
        }
        Ok(())
    }

    /// Takes deleted volumes out of the clouds and the metadata, until `stop`.
    pub async fn bury_deleted_volumes(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.environment.clock.sleep(BURY_INTERVAL) => {}
            }
            for volume in self.volumes.doomed() {
                let collector = GarbageCollector::new(
                    Arc::new(volume),
                    self.blocks.clone(),
                    self.environment.clone(),
                    UpkeepConfig::default(),
                );
                if let Err(error) = collector.once().await {
                    tracing::warn!(%error, "a deleted volume still has blocks in the clouds");
                }
            }
            if let Err(error) = self.volumes.bury().await {
                tracing::warn!(%error, "a deleted volume could not be taken apart");
            }
        }
    }

    /// Starts the upkeep of a volume.
    fn serve(&self, volume: Volume) -> Arc<Served> {
        let volume = Arc::new(volume);
        let config = UpkeepConfig {
            in_flight: self.config.upkeep.in_flight.bytes(),
            longest_packed: self.config.upkeep.longest_packed.bytes(),
            migration_rate: self.config.upkeep.migration_rate.bytes(),
            pack_size: self.config.upkeep.pack_size.bytes(),
            ..UpkeepConfig::default()
        };
        let shared = self.scan.clone().filter(|_| self.config.scan.covers(&volume.name()));
        let scan = shared.map(|shared| Stage::new(volume.clone(), self.cache.clone(), shared));
        let upkeep = Upkeep::new(
            volume.clone(),
            self.cache.clone(),
            self.blocks.clone(),
            self.environment.clone(),
            config,
            scan.clone().map(|stage| stage as Arc<dyn Gate>),
        );
        upkeep.start();
        if let Some(stage) = &scan {
            stage.start();
        }
        let id = FileSystem::volume(&*volume);
        let notes = StoredScrub::new(Arc::new(self.store.clone()), id);
        let background = self.background.handle();
        let there = background.enter();
        upkeep.start_scrubs(self.config.upkeep.scrubs(), Arc::new(notes));
        drop(there);
        let served = Arc::new(Served { volume, upkeep, scan });
        self.served.write().insert(id, served.clone());
        served
    }

    /// Offers all served volumes to NFS clients, as the configuration says now.
    pub fn offer(&self) -> Result<(), ServerError> {
        let _alone = self.offering.lock();
        let config = self.live.borrow().clone();
        let export = |served: &Arc<Served>| {
            let name = served.volume.name();
            let configured = config.volumes.iter().find(|volume| volume.name == name);
            // Checked when the configuration was read.
            let options = configured.and_then(|volume| volume.export.options().ok()).unwrap_or_default();
            Export::new(name, served.volume.clone()).with(options)
        };
        let served = self.served();
        let mut exports: Vec<_> = served.iter().map(export).collect();
        for volume in config.volumes.iter().filter(|volume| !volume.export.referral.is_empty()) {
            if !served.iter().any(|served| served.volume.name() == volume.name)
                && let Ok(options) = volume.export.options()
            {
                exports.push(Export::referral(&volume.name, options));
            }
        }
        self.server.replace_exports(exports)
    }

    /// All volumes, by name.
    pub fn served(&self) -> Vec<Arc<Served>> {
        let mut served: Vec<_> = self.served.read().values().cloned().collect();
        served.sort_by_key(|served| served.volume.name());
        served
    }

    pub fn volume_names(&self) -> Vec<String> {
        self.served().iter().map(|served| served.volume.name()).collect()
    }

    pub fn volume_name(&self, id: VolumeId) -> Option<String> {
        self.served.read().get(&id).map(|served| served.volume.name())
    }

    pub fn uptime(&self) -> Duration {
        self.environment.clock.monotonic() - self.started
    }

    /// Returns with the reason when journal or metadata store have stopped.
    pub async fn storage_failed(&self) -> String {
        loop {
            if let Some(error) = self.journal.failed() {
                return error.to_string();
            }
            if let Some(error) = self.store.failed() {
                return error.to_string();
            }
            self.environment.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Writes back what is dirty, bounded, and closes everything; says what is left.
    pub async fn close(&self) -> Left {
        let limit = self.live.borrow().upkeep.stop_wait.as_duration();
        let stops = self.served().into_iter().map(|served| async move {
            let left = served.stop(limit).await;
            if let Err(error) = served.volume.save_usage(true).await {
                tracing::warn!(%error, volume = served.volume.name(), "usage is counted anew at the next start");
            }
            left
        });
        let mut left = Left::default();
        for stopped in futures::future::join_all(stops).await {
            match stopped {
                Ok(flushed) => {
                    left.dirty_bytes += flushed.left_dirty_bytes;
                    left.repairs += flushed.left_repairs;
                }
                Err(error) => tracing::warn!(%error, "stopping the upkeep of a volume"),
            }
        }
        let last_backup = async {
            if let Some(problem) = self.back_up().await.problem {
                tracing::warn!(problem, "the last changes are in no backup; the next start takes them");
            }
        };
        tokio::select! {
            () = last_backup => {}
            () = self.environment.clock.sleep(limit) => {
                tracing::warn!("the last backup was not done in time; the next start takes it");
            }
        }
        self.incidents.flush().await;
        self.cache.close().await;
        let stored = self.store.close().await;
        if let Err(error) = &stored {
            tracing::error!(%error, "closing the metadata store");
        }
        if let Err(error) = self.journal.close().await {
            tracing::error!(%error, "closing the journal");
        }
        let last = self.store.applied();
        // Asked last: a request that outlived the server may have written until the store was closed.
        let needs_journal = self.cache.oldest_needed().is_some();
        if stored.is_ok()
            && !needs_journal
            && self.journal.durable_lsn() == last
            && let Err(error) = clean_stop::leave(&self.folder, last)
        {
            tracing::warn!(%error, "the next start needs the journal");
        }
        self.bill.close().await;
        self.folder.withdraw_admin();
        left
    }
}

/// Who says what users and groups are called; nobody if they are numbers.
pub(crate) fn name_mapping(config: &NfsConfig, environment: &Environment) -> Option<NameMapping> {
    match (config.names, &config.domain) {
        (OwnerNames::System, Some(domain)) => Some(NameMapping {
            service: Arc::new(SystemNames::new(environment.clock.clone())),
            domain: domain.clone(),
        }),
        _ => None,
    }
}

pub(crate) fn journal_config(config: &Config) -> JournalConfig {
    let capacity = config.cache.journal.bytes();
    let standard = JournalConfig::default();
    if capacity >= standard.capacity {
        return JournalConfig { capacity, ..standard };
    }
    // Smaller journals: sixteen segments, and everything else in proportion.
    let segment = (capacity / 16).next_multiple_of(4096).clamp(4 << 20, standard.segment);
    JournalConfig {
        capacity,
        segment,
        max_record: standard.max_record.min(segment / 8 * 3),
        headroom: 3 * segment,
        queue: standard.queue.min(capacity / 8),
        batch: standard.batch.min(segment / 2),
        ..standard
    }
}
