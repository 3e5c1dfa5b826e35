//! A gateway back from the clouds: `kurma restore` (decision 24).

mod lost;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backup::{BackupError, Chosen, Place, Standing, State, Survey};
use bytes::Bytes;
use cache::Cache;
use cloud::{Connection, Costs, Credentials};
use environment::{Environment, failpoint};
use journal::{Journal, JournalConfig, Lsn};
use meta::{CommitObserver, LocalConfig, LocalStore, MetaStore};
use seal::KeyFile;
use serde::Serialize;

use crate::backups::{ListedBackup, keys, seconds};
use crate::bill::Bill;
use crate::clouds::{Clouds, connect_known};
use crate::config::CloudConfig;
use crate::data_folder::{DataFolder, make_private, write_durably};
use crate::node::journal_config;
use crate::node_rows::{is_passing, set_backup_state, set_loading};
use crate::recovery_file::{self, Recovery};
use crate::{Config, StartError, clean_stop, owner};

pub use lost::LostData;

/// What is written into the folder about a restore.
const REPORT: &str = "restore-report.json";

/// What to restore, and where to.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// The new data folder; empty or not there.
    pub to: PathBuf,
    /// The recovery file, a key file, or what else a key is kept in: words, or shares.
    pub keys: Vec<PathBuf>,
    /// Clouds by name and URL, beside those of the recovery file and the backup; goes before them.
    pub clouds: Vec<(String, String)>,
    /// Files with the credentials of clouds, by their names.
    pub credentials: Vec<(String, PathBuf)>,
    /// Only this branch.
    pub branch: Option<u32>,
}

/// What one cloud has, against what was restored.
pub type CloudState = serde_json::Value;

/// What a restore did.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// The instant: seconds since 1970, by the clock of the lost gateway.
    pub time: f64,
    /// The last transaction.
    pub transaction: u64,
    /// Number of the backup, and of its branch.
    pub backup: u64,
    /// See [`Restored::backup`].
    pub branch: u32,
    /// Rows of metadata.
    pub rows: u64,
    /// Objects of all volumes.
    pub objects: u64,
    /// What each cloud has.
    pub clouds: Vec<CloudState>,
    /// Parts of the backup that clouds did not have, or did not have right, and why nothing newer was taken.
    pub problems: Vec<String>,
    /// Files with data that was nowhere but on the lost machine.
    pub lost: Vec<LostData>,
    /// What is wrong with the metadata; empty if nothing is.
    pub findings: Vec<String>,
}

impl Restored {
    /// Whether it is all there was: every cloud has just this, and nothing is lost.
    pub fn is_whole(&self) -> bool {
        let is_newest = |cloud: &CloudState| cloud["state"] == "newest";
        self.lost.is_empty() && self.problems.is_empty() && self.clouds.iter().all(is_newest)
    }
}

fn wrong(cause: impl std::fmt::Display) -> StartError {
    StartError::Configuration(cause.to_string())
}

/// Makes a data folder out of nothing but the key file and the clouds. `kurma up` goes on from there.
///
/// # Errors
/// The folder is not empty, the key file is no good, or no cloud has a backup that can be used.
pub async fn restore(options: &RestoreOptions) -> Result<Restored, StartError> {
    let environment = Environment::real();
    let to = std::path::absolute(&options.to).map_err(wrong)?;
    if std::fs::read_dir(&to).is_ok_and(|mut files| files.next().is_some()) {
        return Err(wrong(format!("{} is not empty; a restore needs a folder of its own", to.display())));
    }
    let Recovery { key, clouds } = recovery_file::load(&options.keys)?;
    let mut known: BTreeMap<String, String> = clouds.into_iter().collect();
    known.extend(options.clouds.iter().cloned());
    if known.is_empty() {
        return Err(wrong(
            "nobody says where the clouds are: use a file of `kurma key export`, or name them with --cloud NAME=URL",
        ));
    }
    let keys = keys(&key);
    let credentials = credentials(&options.credentials)?;
    let mut survey = look(&environment, &key, &keys, (&known, &credentials)).await?;
    let mut problems = Vec::new();
    let mut chosen = choose(&keys, &survey, options.branch, &mut problems).await?;
    // The backup may know of clouds that have been added since, and those of newer backups.
    let told = configuration(&chosen.configuration)?.clouds;
    let fresh: Vec<_> = told.into_iter().filter(|cloud| !known.contains_key(&cloud.name)).collect();
    if !fresh.is_empty() {
        known.extend(fresh.into_iter().map(|cloud| (cloud.name, cloud.url)));
        problems.clear();
        survey = look(&environment, &key, &keys, (&known, &credentials)).await?;
        chosen = choose(&keys, &survey, options.branch, &mut problems).await?;
    }
    for name in credentials.keys() {
        match known.get(name) {
            Some(url) if !url.starts_with("dir:") => {}
            Some(url) => return Err(wrong(format!("credentials for {name:?}: {url} takes none"))),
            None => return Err(wrong(format!("credentials for {name:?}: there is no cloud of this name"))),
        }
    }
    let config = lay_out(&to, &key, &chosen.configuration, (&known, &credentials))?;
    let (store, restored) =
        build(&environment, &to, &config, &key, (&keys, &survey), (chosen, problems)).await?;
    drop(store);
    Ok(restored)
}

/// The clouds, and what they have.
struct Looked {
    survey: Survey,
    places: Vec<Place>,
    costs: Vec<(String, Arc<Costs>)>,
    /// Those that cannot even be tried.
    out: Vec<(String, String)>,
}

/// By the names of their clouds, each a file that can be read.
fn credentials(given: &[(String, PathBuf)]) -> Result<BTreeMap<String, PathBuf>, StartError> {
    let mut credentials = BTreeMap::new();
    for (name, path) in given {
        let path = std::path::absolute(path).map_err(wrong)?;
        Credentials::read(&path).map_err(|cause| wrong(format!("cloud {name:?}: {cause}")))?;
        credentials.insert(name.clone(), path);
    }
    Ok(credentials)
}

async fn look(
    environment: &Environment,
    key: &KeyFile,
    keys: &backup::BackupKeys,
    (clouds, credentials): (&BTreeMap<String, String>, &BTreeMap<String, PathBuf>),
) -> Result<Looked, StartError> {
    let (mut places, mut costs, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for (name, url) in clouds {
        let cloud =
            CloudConfig { credentials: credentials.get(name).cloned(), ..CloudConfig::new(name, url) };
        let connected: Result<Connection, String> = connect_known(environment, &cloud, key).await;
        match connected {
            Ok(connection) => {
                costs.push((name.clone(), connection.costs().clone()));
                places.push(Place::new(name, connection.as_cloud()));
            }
            Err(cause) => out.push((name.clone(), cause)),
        }
    }
    let survey = Survey::of(keys, &places).await;
    Ok(Looked { survey, places, costs, out })
}

/// The newest state that all objects are there for.
async fn choose(
    keys: &backup::BackupKeys,
    looked: &Looked,
    branch: Option<u32>,
    problems: &mut Vec<String>,
) -> Result<Chosen, StartError> {
    let chosen = Chosen::newest(keys, (&looked.survey, &looked.places), branch, problems).await;
    chosen.ok_or_else(|| {
        let causes = looked.survey.problems().into_iter().chain(looked.out.clone());
        let causes: Vec<String> = causes.map(|(name, cause)| format!("{name}: {cause}")).collect();
        let causes = causes.into_iter().chain(std::mem::take(problems)).collect::<Vec<_>>().join("; ");
        wrong(match causes.is_empty() {
            true => "no cloud has a backup of this gateway".to_owned(),
            false => format!("no cloud has a backup of this gateway that can be used: {causes}"),
        })
    })
}

fn configuration(text: &str) -> Result<Config, StartError> {
    toml::from_str(text).map_err(|cause| wrong(format!("the configuration in the backup: {cause}")))
}

/// Keys and configuration of the new folder.
fn lay_out(
    to: &Path,
    key: &KeyFile,
    text: &str,
    (clouds, credentials): (&BTreeMap<String, String>, &BTreeMap<String, PathBuf>),
) -> Result<Config, StartError> {
    let mut config = configuration(text)?;
    config.gateway.data = PathBuf::from(".");
    config.gateway.key_file = PathBuf::from("keys/gateway.key");
    for cloud in &mut config.clouds {
        if let Some(url) = clouds.get(&cloud.name) {
            cloud.url.clone_from(url);
        }
        // The file of the lost machine went with it, and with one that is not there the gateway would not start.
        let old = cloud.credentials.take().filter(|path| to.join(path).exists());
        cloud.credentials = credentials.get(&cloud.name).cloned().or(old);
    }
    let text = toml::to_string(&config).map_err(wrong)?;
    let text = format!(
        "# Restored from a metadata backup. Paths are those of the lost machine: check them. Files with credentials that are\n\
         # not on this machine are left out.\n\n{text}"
    );
    make_private(&to.join("keys")).map_err(wrong)?;
    seal::create_key_file(&to.join("keys/gateway.key"), key).map_err(wrong)?;
    let path = to.join("kurma.toml");
    write_durably(&path, text.as_bytes()).map_err(wrong)?;
    Config::load(&path).map_err(wrong)
}

async fn build(
    environment: &Environment,
    to: &Path,
    config: &Config,
    key: &KeyFile,
    (keys, looked): (&backup::BackupKeys, &Looked),
    (chosen, problems): (Chosen, Vec<String>),
) -> Result<(LocalStore, Restored), StartError> {
    let folder = DataFolder::open(to)?;
    owner::check(&folder, &config.gateway.key_file, key, key.gateway())?;
    let mut cache_config = cache::CacheConfig::new(folder.join("cache"));
    cache_config.disk = 0;
    let cache = Cache::open(&cache_config, environment, key.node_key("cache")).map_err(wrong)?;
    let node_key = key.node_key("journal");
    let journal_config = JournalConfig { first: Lsn(1), ..journal_config(config) };
    let (journal, recovery) =
        Journal::open(environment.clone(), &folder.join("journal"), &node_key, journal_config)
            .map_err(wrong)?;
    let store_config = LocalConfig { waits_for_room: false, ..LocalConfig::default() };
    let observer = Arc::new(cache.clone());
    let meta = folder.join("meta");
    let store =
        LocalStore::open(environment.clone(), &meta, store_config, journal.clone(), recovery, observer)
            .map_err(wrong)?;
    cache.check_replay().map_err(wrong)?;
    cache.connect(Arc::new(journal.clone()));
    set_loading(&store, true).await.map_err(wrong)?;
    let loaded = chosen.load(keys, &looked.places, (&store, journal.max_record()), is_passing).await;
    let unsaved = loaded.map_err(|cause| match cause {
        BackupError::Gone => wrong(format!("{cause}; remove the folder and restore again")),
        cause => wrong(cause),
    })?;
    failpoint!("restore.loaded");
    volume::after_load(&store, environment.clock.wall()).await.map_err(wrong)?;
    let state = State::restored(chosen.as_parent(), looked.survey.known());
    set_backup_state(&store, state.encode().into()).await.map_err(wrong)?;

    let bill = Arc::new(Bill::open(&folder.join("costs.json"), &environment.clock)?);
    looked.costs.iter().for_each(|(name, costs)| bill.charge(name, costs));
    let clouds = Clouds::open(&config.clouds, environment, key, &store, bill.clone()).await?;
    let (objects, lost, findings) =
        lost::settle(config, environment, &folder, key, (&store, &cache, &clouds), &unsaved).await?;
    let Chosen { head, mark, .. } = chosen;
    let mut listed: Vec<ListedBackup> = Vec::new();
    let standings = looked.survey.standings(&head);
    let out = looked.out.iter().map(|(name, cause)| (name.clone(), Standing::Unreachable(cause.clone())));
    for (name, standing) in standings.into_iter().chain(out) {
        listed.push(ListedBackup::new(name, &standing, &head));
    }
    let clouds = listed.iter().map(serde_json::to_value).collect::<Result<_, _>>().map_err(wrong)?;
    let restored = Restored {
        time: seconds(&mark),
        transaction: mark.transaction,
        backup: mark.backup,
        branch: head.branch,
        // Without the mark.
        rows: count(&store).await? - 1,
        objects,
        clouds,
        problems,
        lost,
        findings,
    };
    let text = serde_json::to_vec_pretty(&restored).map_err(wrong)?;
    write_durably(&to.join(REPORT), &text).map_err(wrong)?;
    failpoint!("restore.before-end");
    // Before, files have the sizes of data that nobody has, or nobody is told which.
    set_loading(&store, false).await.map_err(wrong)?;
    bill.close().await;
    cache.close().await;
    store.close().await.map_err(wrong)?;
    journal.close().await.map_err(wrong)?;
    let last = store.applied();
    if cache.oldest_needed().is_none() && journal.durable_lsn() == last {
        clean_stop::leave(&folder, last).map_err(wrong)?;
    }
    Ok((store, restored))
}

async fn count(store: &LocalStore) -> Result<u64, StartError> {
    let mut snapshot = store.snapshot().await.map_err(wrong)?;
    let (mut start, mut count) = (Bytes::new(), 0);
    loop {
        let rows = snapshot.rows(&start, &[u8::MAX; meta::MAX_KEY + 1], 4096).await.map_err(wrong)?;
        let Some((last, _)) = rows.last() else { return Ok(count) };
        start = [&last[..], &[0]].concat().into();
        count += rows.len() as u64;
    }
}
