//! The metadata in the clouds: what goes there, how often, and what waits for it (decision 24).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backup::{
    BackupError, BackupKeys, Content, Lacking, Maker, Mark, Notes, Place, Standing, State, Survey, Unsaved,
    Writer,
};
use cloud::{Connection, Direction};
use meta::{LocalStore, MetaError};
use parking_lot::Mutex;
use seal::KeyFile;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use upkeep::ScrubSchedule;

use crate::Config;
use crate::node::Node;
use crate::node_rows::{backup_proved, backup_state, is_passing, set_backup_proved, set_backup_state};
use crate::rival::Rivals;

/// A backup that is older than so many intervals needs attention.
const LATE: u32 = 3;
/// How often it is looked whether a scrub of the backup is due, at the least.
const SCRUB_TICK: Duration = Duration::from_secs(600);
/// Looks at a chain that is replaced meanwhile.
const CHECKS: usize = 3;
/// Memory for the keys of rows that have changed since the last backup.
pub(crate) const CHANGES: usize = 64 << 20;
/// What the keys of backups are derived from.
const SECRET: &str = "metadata backup";

/// The keys of a gateway's backups.
pub(crate) fn keys(key: &KeyFile) -> BackupKeys {
    BackupKeys::new(key.gateway(), &key.shared_secret(SECRET))
}

/// How the backups are doing.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct BackupStatus {
    /// Whether there are any.
    pub on: bool,
    /// Whether everything that was in the clouds when it was last looked is in a backup that enough clouds have.
    pub complete: bool,
    /// Number of the newest backup, of this start.
    pub backup: Option<u64>,
    /// Its last transaction.
    pub transaction: Option<u64>,
    /// Its time, in seconds since 1970.
    pub time: Option<f64>,
    /// The clouds that have it.
    pub has: Vec<String>,
    /// The clouds that do not.
    pub lacks: Vec<String>,
    /// Objects that it consists of in each cloud.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Why the last try failed.
    pub problem: Option<String>,
    /// Backups made since the start.
    pub made: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Bytes of files that were not in the clouds at the instant of the backup.
    pub unsaved_bytes: u64,
}

/// What a look at the newest backup in all clouds has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VerifiedBackup {
    /// Clouds that lacked something, and have it again.
    pub stored_again: usize,
    /// Clouds that lack something.
    pub lacking: usize,
    /// Clouds that could not be asked for all of it.
    pub unknown: usize,
    /// Clouds that have all of it, now or again.
    pub proved: Vec<String>,
}

/// What a node needs for its backups.
pub(crate) struct Backups {
    keys: Arc<BackupKeys>,
    pub(crate) making: tokio::sync::Mutex<Making>,
    shown: Mutex<Shown>,
    pub(crate) rivals: Rivals,
}

#[derive(Default)]
pub(crate) struct Making {
    pub(crate) maker: Option<Maker>,
    /// Clouds that nothing of it is in any more.
    left: BTreeSet<String>,
}

#[derive(Default)]
struct Shown {
    status: BackupStatus,
    /// When everything was last known to be safe, or the start.
    safe: Duration,
}

impl Backups {
    pub fn new(key: &KeyFile, now: Duration) -> Backups {
        let shown = Mutex::new(Shown { safe: now, ..Shown::default() });
        let (making, rivals) = (tokio::sync::Mutex::default(), Rivals::default());
        Backups { keys: Arc::new(keys(key)), making, shown, rivals }
    }
}

impl Content for Node {
    fn is_left_out(&self, key: &[u8]) -> bool {
        is_passing(key) || volume::is_attempt(key)
    }

    fn unsaved(&self) -> Vec<Unsaved> {
        let dirty = self.cache.all_dirty().into_iter();
        dirty.map(|(file, ranges)| Unsaved { volume: file.volume, object: file.object, ranges }).collect()
    }

    /// As a restored gateway can use it.
    fn configuration(&self) -> Result<String, String> {
        let mut config = Config::clone(&self.live.borrow());
        config.clouds = self.clouds.configured();
        toml::to_string(&config).map_err(|cause| format!("the configuration cannot be written: {cause}"))
    }
}

pub(crate) struct StoredState<'a>(pub &'a LocalStore);

#[async_trait]
impl Notes for StoredState<'_> {
    async fn save(&self, state: &State) -> Result<(), String> {
        set_backup_state(self.0, state.encode().into()).await.map_err(|cause| cause.to_string())
    }
}

impl Node {
    /// Makes backups until `stop`.
    pub async fn keep_backups(self: Arc<Self>, stop: CancellationToken) {
        let backup = &self.config.backup;
        if !backup.is_on() {
            return;
        }
        // What the start had no time for.
        tokio::select! {
            () = stop.cancelled() => return,
            _ = self.hold() => {}
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.environment.clock.sleep(backup.interval.as_duration()) => {}
            }
            // Safe to drop anywhere: whatever no head names is retired by the next start.
            tokio::select! {
                () = stop.cancelled() => return,
                status = self.back_up() => if let Some(problem) = status.problem {
                    tracing::warn!(problem, "the metadata backup failed; it is tried again");
                },
            }
        }
    }

    /// Takes everything that has changed into the clouds. Returns what is there now: [`BackupStatus::complete`] tells whether
    /// enough clouds have it all.
    pub async fn back_up(&self) -> BackupStatus {
        if !self.config.backup.is_on() {
            return self.backup_status();
        }
        let mut making = self.backups.making.lock().await;
        let result = self.make_backup(&mut making).await;
        let maker = making.maker.as_ref();
        let progress = maker.map(|maker| maker.writer.progress()).unwrap_or_default();
        let (made, unsaved_bytes) = maker.map_or((0, 0), |maker| (maker.made, maker.unsaved_bytes));
        drop(making);
        let mut locked = self.backups.shown.lock();
        let shown = &mut *locked;
        let status = &mut shown.status;
        status.backup = progress.mark.map(|mark| mark.backup);
        status.transaction = progress.mark.map(|mark| mark.transaction);
        status.time = progress.mark.map(|mark| seconds(&mark));
        (status.has, status.lacks) = (progress.has, progress.lacks);
        (status.made, status.unsaved_bytes) = (made, unsaved_bytes);
        (status.objects, status.bytes) = (progress.objects, progress.bytes);
        match result {
            Ok(since) => {
                status.complete = since.is_some();
                status.problem = None;
                if let Some(since) = since {
                    shown.safe = since;
                }
            }
            Err(problem) => {
                status.complete = false;
                status.problem = Some(problem);
                status.failed += 1;
            }
        }
        drop(locked);
        self.backup_status()
    }

    /// One backup. The instant since which all is safe, if it is.
    async fn make_backup(&self, making: &mut Making) -> Result<Option<Duration>, String> {
        if let Some(problem) = self.backups.rivals.problem() {
            return Err(problem);
        }
        let notes = StoredState(&self.store);
        let configured = self.clouds.configured();
        let wanted = self.backup_clouds();
        let places = self.backup_places(&wanted);
        let copies = self.config.backup.copies.min(wanted.len());
        if making.maker.is_none() {
            making.maker = Some(Maker::new(self.new_writer(&places).await?));
        }
        let Some(maker) = &mut making.maker else { return Err("no writer".into()) };
        let now = self.environment.clock.monotonic();
        let made = maker.make(&self.store, self, (&places, &wanted, copies), &notes).await;
        let complete = made.map_err(|cause| self.told(cause))?;
        if complete {
            for cloud in configured.iter().filter(|cloud| cloud.drained) {
                // As everywhere, nothing is deleted in a store that may be another one's under a second name.
                if making.left.contains(&cloud.name) || !self.clouds.is_apart_from(&cloud.name, &wanted).await
                {
                    continue;
                }
                for place in self.backup_places(std::slice::from_ref(&cloud.name)) {
                    if maker.writer.leave(&place).await {
                        making.left.insert(place.name);
                    }
                }
            }
        }
        making.left.retain(|name| !wanted.contains(name));
        Ok(complete.then_some(now))
    }

    /// The next backup has all rows, so that those before it are not needed any more.
    pub async fn rebase_backups(&self) {
        if let Some(maker) = &mut self.backups.making.lock().await.maker {
            maker.writer.begin_anew();
        }
    }

    /// Fetches all of the newest backup from every cloud, at no more than `rate` bytes a second if that is not 0, proves it, and
    /// stores again what is missing or changed. Only clouds that are `due`.
    pub async fn verify_backup(&self, rate: u64, due: impl Fn(&str) -> bool) -> VerifiedBackup {
        let names: Vec<String> = self.clouds.configured().into_iter().map(|cloud| cloud.name).collect();
        for _ in 0..CHECKS {
            let places = self.backup_places(&names);
            // Backups go on meanwhile.
            let check = self.backups.making.lock().await.maker.as_ref().and_then(|it| it.writer.check());
            let Some(mut check) = check else { break };
            check.retain(&due);
            let looked = check.run(&places, rate).await;
            let learnt = match &mut self.backups.making.lock().await.maker {
                Some(maker) => maker.writer.learn(&check, &looked),
                None => false,
            };
            if !learnt {
                continue;
            }
            for Lacking { place, objects, wrong } in &looked.lacking {
                tracing::warn!(
                    cloud = place,
                    object = objects,
                    wrong,
                    "the metadata backup is stored again there"
                );
            }
            let mut verified = VerifiedBackup { unknown: looked.unknown.len(), ..VerifiedBackup::default() };
            verified.proved = looked.right;
            if !looked.lacking.is_empty() {
                let has = self.back_up().await.has;
                let lacking = looked.lacking.into_iter().map(|it| it.place);
                let (again, lacking): (Vec<_>, Vec<_>) = lacking.partition(|place| has.contains(place));
                (verified.stored_again, verified.lacking) = (again.len(), lacking.len());
                verified.proved.extend(again);
            }
            return verified;
        }
        // There is none, or it is replaced all the time.
        VerifiedBackup::default()
    }

    /// Proves the newest backup once in every period of scrubs, until `stop`.
    pub async fn scrub_backups(self: Arc<Self>, stop: CancellationToken) {
        let schedule = self.config.upkeep.scrubs();
        if schedule.period.is_zero() || !self.config.backup.is_on() {
            return;
        }
        let tick = schedule.period.min(SCRUB_TICK);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.environment.clock.sleep(tick) => {}
            }
            // Safe to drop anywhere: what was not noted is looked at again.
            tokio::select! {
                () = stop.cancelled() => return,
                result = self.scrub_backup_if_due(&schedule) => if let Err(error) = result {
                    tracing::warn!(%error, "the metadata backup could not be scrubbed; it is tried again");
                },
            }
        }
    }

    async fn scrub_backup_if_due(&self, schedule: &ScrubSchedule) -> Result<(), MetaError> {
        let begun = self.environment.clock.wall().seconds;
        let mut last = backup_proved(&self.store).await?;
        // Who has set the clock back does not wait for it.
        let is_recent = |last: &i64| (0..schedule.period.as_secs() as i64).contains(&(begun - last));
        // A cloud that could not be asked is asked soon again, and the others are not.
        let verified =
            self.verify_backup(schedule.rate, |cloud| !last.get(cloud).is_some_and(is_recent)).await;
        if verified.proved.is_empty() {
            return Ok(());
        }
        let configured = self.clouds.configured();
        last.retain(|name, _| configured.iter().any(|cloud| cloud.name == *name));
        last.extend(verified.proved.into_iter().map(|cloud| (cloud, begun)));
        set_backup_proved(&self.store, &last).await
    }

    pub(crate) async fn new_writer(&self, places: &[Place]) -> Result<Writer, String> {
        let row = backup_state(&self.store).await.map_err(|cause| cause.to_string())?;
        let state = row.map(|row| State::decode(&row)).transpose().map_err(|cause| cause.to_string())?;
        let survey = Survey::of(&self.backups.keys, places).await;
        let (keys, environment) = (self.backups.keys.clone(), self.environment.clone());
        let writer = Writer::new(keys, environment, state, &survey, self.config.take_over);
        writer.map_err(|rival| self.told(BackupError::Rival(rival)))
    }

    /// The clouds that backups go to.
    pub(crate) fn backup_clouds(&self) -> Vec<String> {
        let configured = self.clouds.configured().into_iter();
        configured.filter(|cloud| !cloud.drained).map(|cloud| cloud.name).collect()
    }

    /// Those of these clouds that are worth asking.
    pub(crate) fn backup_places(&self, names: &[String]) -> Vec<Place> {
        let answers = |connection: &Connection| {
            let health = connection.health();
            [Direction::Read, Direction::Write]
                .into_iter()
                .all(|direction| !health.is_sick(direction) || health.admits(direction))
        };
        let late_puts = self.config.upkeep.gc_delay.as_duration();
        let connection = |name: &String| Some(self.clouds.get(name)?.1).filter(answers);
        let places = names.iter().filter_map(|name| {
            connection(name).map(|connection| Place::connected(name, connection, late_puts))
        });
        places.collect()
    }

    /// How the backups are doing.
    pub fn backup_status(&self) -> BackupStatus {
        let status = self.backups.shown.lock().status.clone();
        BackupStatus { on: self.config.backup.is_on(), ..status }
    }

    /// What needs attention.
    pub fn backup_attention(&self) -> Vec<String> {
        let status = self.backup_status();
        let mut attention: Vec<String> = self.backups.rivals.problem().into_iter().collect();
        let interval = self.config.backup.interval.as_duration();
        let age = self.environment.clock.monotonic().saturating_sub(self.backups.shown.lock().safe);
        if status.on && age > interval * LATE {
            let cause = status.problem.unwrap_or_else(|| match status.lacks.is_empty() {
                true => "none has been made".into(),
                false => format!("missing in {}", status.lacks.join(", ")),
            });
            attention.push(format!(
                "the metadata has not been backed up for {} s: {cause}; if this machine is lost, so is what was written since",
                age.as_secs()
            ));
        }
        attention
    }

    /// Seconds since everything was known to be safe.
    pub fn backup_age(&self) -> Duration {
        self.environment.clock.monotonic().saturating_sub(self.backups.shown.lock().safe)
    }

    /// What each cloud has, by what it says now.
    pub async fn list_backups(&self) -> Vec<ListedBackup> {
        let names: Vec<String> = self.clouds.configured().iter().map(|cloud| cloud.name.clone()).collect();
        let places = self.backup_places(&names);
        let survey = Survey::of(&self.backups.keys, &places).await;
        let Some(newest) = survey.newest() else { return Vec::new() };
        let mut standings: BTreeMap<String, Standing> = survey.standings(newest).into_iter().collect();
        let unreachable = || Standing::Unreachable("it has not answered for a while".into());
        let listed = names.into_iter().map(|cloud| {
            let standing = standings.remove(&cloud).unwrap_or_else(unreachable);
            ListedBackup::new(cloud, &standing, newest)
        });
        listed.collect()
    }

    /// Names of objects in the clouds that are part of backups.
    pub async fn backup_names(&self) -> Vec<cloud::ObjectName> {
        let making = self.backups.making.lock().await;
        making.maker.as_ref().map(|maker| maker.writer.names()).unwrap_or_default()
    }
}

/// Time of a mark, in seconds since 1970.
pub(crate) fn seconds(mark: &Mark) -> f64 {
    mark.time.seconds as f64 + f64::from(mark.time.nanos) / 1e9
}

/// What one cloud has.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ListedBackup {
    cloud: String,
    state: &'static str,
    backup: Option<u64>,
    transaction: Option<u64>,
    time: Option<f64>,
    problem: Option<String>,
}

impl ListedBackup {
    pub fn new(cloud: String, standing: &Standing, newest: &backup::Head) -> ListedBackup {
        let (state, mark, problem) = match standing {
            Standing::Current => ("newest", Some(newest.mark()), None),
            Standing::Behind(mark) => ("older", Some(*mark), None),
            Standing::Forked(branch, mark) => {
                let problem = format!("branch {branch}, which is not part of the newest backup");
                ("another branch", Some(*mark), Some(problem))
            }
            Standing::Empty => ("none", None, None),
            Standing::Bad(cause) => ("damaged", None, Some(cause.clone())),
            Standing::Unreachable(cause) => ("unreachable", None, Some(cause.clone())),
        };
        ListedBackup {
            cloud,
            state,
            backup: mark.map(|mark| mark.backup),
            transaction: mark.map(|mark| mark.transaction),
            time: mark.map(|mark| seconds(&mark)),
            problem,
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // test code
mod tests;
