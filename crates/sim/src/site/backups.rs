//! The metadata in the clouds, as `gateway` has it done: when, what waits for it, and who else goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backup::{
    BackupError, BackupKeys, Content, Maker, Notes, Place, Progress, Rival, Standing, State, Survey, Unsaved,
    Who, Writer,
};
use bytes::Bytes;
use cache::Cache;
use cloud::{Connection, Direction};
use environment::Environment;
use ids::GatewayId;
use meta::{LocalStore, MetaStore, Mode, Priority};
use parking_lot::Mutex;
use seal::KeyFile;

use super::Site;
use super::drains::Drains;
use crate::life::account::{Moment, Promise};
use crate::world::World;

/// The row of what a writer has to know, in the table of the gateway's own.
const STATE: [u8; 2] = [0xF0, 0x06];

/// How a gateway backs its metadata up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSetup {
    /// How often, in seconds.
    pub interval: u64,
    /// So many clouds have to have a backup before it counts.
    pub copies: usize,
    /// Memory for the keys of rows that have changed.
    pub changes: usize,
}

/// A backup: the branch, and its number there.
type Which = ([u8; 16], u64);

/// What is known of the backups of a gateway, whatever becomes of its machines.
#[derive(Default)]
pub struct Record(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    instants: BTreeMap<Which, Moment>,
    /// The newest that was complete.
    complete: Option<Which>,
    flushed: Option<Moment>,
    /// Flushes that are under way.
    flushing: BTreeSet<Moment>,
    /// Somebody was restored from them, so that two may seem to go on.
    was_restored: bool,
    /// Names of objects of branches that ended, which stay.
    ended: BTreeSet<String>,
}

impl Record {
    /// What the gateway has said.
    pub fn promise(&self) -> Promise {
        let inner = self.0.lock();
        let complete = inner.complete.and_then(|which| inner.instants.get(&which)).copied();
        let flushing = inner.flushing.first().copied();
        let backed_up = complete.map(|complete| flushing.map_or(complete, |flush| flush.min(complete)));
        Promise { backed_up, flushed: inner.flushed }
    }

    /// Whether there is a backup that a lost machine can be restored from.
    pub fn is_any(&self) -> bool {
        self.0.lock().complete.is_some()
    }

    /// A machine starts: what an earlier one was about to say, nobody hears.
    pub fn start(&self) {
        self.0.lock().flushing.clear();
    }

    /// The instant of a backup that was restored.
    ///
    /// # Errors
    /// It is older than one that was complete.
    pub fn restored(&self, which: Which) -> Result<Moment, String> {
        let mut inner = self.0.lock();
        inner.was_restored = true;
        let instant = |which: Which| inner.instants.get(&which).copied();
        let found = instant(which).ok_or("a backup that nobody made was restored")?;
        match inner.complete.and_then(instant) {
            Some(complete) if complete > found => Err(format!(
                "the backup of event {found} was restored, but that of event {complete} was complete"
            )),
            _ => Ok(found),
        }
    }

    pub fn ended(&self) -> BTreeSet<String> {
        self.0.lock().ended.clone()
    }
}

/// The keys of a gateway's backups.
pub fn keys(key: &KeyFile) -> BackupKeys {
    BackupKeys::new(GatewayId(1), &key.shared_secret("metadata backup"))
}

/// A row that no backup has.
pub fn is_left_out(key: &[u8]) -> bool {
    key == STATE || volume::is_attempt(key)
}

/// What a writer has to know, in the store.
pub struct StoredState<'a>(pub &'a LocalStore);

#[async_trait]
impl Notes for StoredState<'_> {
    async fn save(&self, state: &State) -> Result<(), String> {
        let saved = async {
            let mut transaction = self.0.begin(Mode::Optimistic).await?;
            transaction.put(Bytes::from_static(&STATE), state.encode().into());
            transaction.commit(Priority::Client).await?.durable().await
        };
        saved.await.map_err(|error| error.to_string())
    }
}

impl StoredState<'_> {
    async fn load(&self) -> Result<Option<State>, String> {
        let row = async { self.0.begin(Mode::Optimistic).await?.get(&STATE).await };
        let row = row.await.map_err(|error| error.to_string())?;
        row.map(|row| State::decode(&row)).transpose().map_err(|error| error.to_string())
    }
}

/// The backups of a machine that is running.
pub struct Backups {
    setup: BackupSetup,
    keys: Arc<BackupKeys>,
    env: Environment,
    store: LocalStore,
    cache: Cache,
    connections: Vec<Connection>,
    drains: Arc<Drains>,
    late_puts: Duration,
    record: Arc<Record>,
    world: World,
    making: tokio::sync::Mutex<Option<Maker>>,
    /// Emptied clouds that have nothing of it any more.
    left: Mutex<BTreeSet<String>>,
}

/// What goes into one backup.
struct OfNow<'a> {
    backups: &'a Backups,
    which: Which,
}

impl Content for OfNow<'_> {
    fn is_left_out(&self, key: &[u8]) -> bool {
        is_left_out(key)
    }

    fn unsaved(&self) -> Vec<Unsaved> {
        let Backups { cache, record, world, .. } = self.backups;
        record.0.lock().instants.insert(self.which, world.now());
        let dirty = cache.all_dirty().into_iter();
        dirty.map(|(file, ranges)| Unsaved { volume: file.volume, object: file.object, ranges }).collect()
    }

    fn configuration(&self) -> Result<String, String> {
        Ok(String::new())
    }
}

impl Backups {
    pub fn new(
        site: &Site,
        setup: BackupSetup,
        env: &Environment,
        (store, cache, connections): (&LocalStore, &Cache, &[Connection]),
        drains: Arc<Drains>,
    ) -> Backups {
        Backups {
            setup,
            keys: Arc::new(keys(&site.key_file)),
            env: env.clone(),
            store: store.clone(),
            cache: cache.clone(),
            connections: connections.to_vec(),
            drains,
            late_puts: Duration::from_secs(site.setup.gc_delay),
            record: site.record.clone(),
            world: site.world.clone(),
            making: tokio::sync::Mutex::default(),
            left: Mutex::default(),
        }
    }

    /// Makes backups for ever.
    pub async fn keep(self: Arc<Self>) {
        let _told = self.hold().await;
        loop {
            self.env.clock.sleep(Duration::from_secs(self.setup.interval)).await;
            let _told = self.make().await;
        }
    }

    /// Looks who else goes on, and says that this one does.
    async fn hold(&self) -> Result<(), String> {
        let mut making = self.making.lock().await;
        if making.is_some() {
            return Ok(());
        }
        let mut maker = Maker::new(self.writer().await?);
        match maker.writer.hold(&self.places(), &StoredState(&self.store)).await {
            Ok(_) => *making = Some(maker),
            Err(BackupError::Rival(rival)) => *making = Some(Maker::new(self.take_over(&rival).await?)),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Takes everything that has changed into the clouds; whether enough of them have it.
    pub async fn make(&self) -> Result<bool, String> {
        let mut making = self.making.lock().await;
        let (all, places) = (self.names(), self.places());
        if making.is_none() {
            *making = Some(Maker::new(self.writer().await?));
        }
        let Some(maker) = &mut *making else { return Err("no writer".to_owned()) };
        let state = maker.writer.state();
        let content = OfNow { backups: self, which: (state.id, state.backups) };
        let copies = self.setup.copies.min(all.len());
        let notes = StoredState(&self.store);
        match maker.make(&self.store, &content, (&places, &all, copies), &notes).await {
            Ok(is_complete) => {
                if is_complete && !self.world.is_dead() {
                    self.is_complete(maker);
                }
                if is_complete {
                    self.leave(maker).await;
                }
                Ok(is_complete)
            }
            Err(BackupError::Rival(rival)) => {
                *making = None;
                *making = Some(Maker::new(self.take_over(&rival).await?));
                Err("somebody else goes on".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn is_complete(&self, maker: &Maker) {
        let Progress { mark: Some(mark), .. } = maker.writer.progress() else { return };
        let mut inner = self.record.0.lock();
        inner.complete = Some((maker.writer.state().id, mark.backup));
    }

    /// Clouds that are emptied, or have been, have no backups any more.
    async fn leave(&self, maker: &mut Maker) {
        let in_use = self.names();
        self.left.lock().retain(|name| !in_use.contains(name));
        for place in self.answering(|name| !in_use.contains(name)) {
            if !self.left.lock().contains(&place.name) && maker.writer.leave(&place).await {
                self.left.lock().insert(place.name);
            }
        }
    }

    /// Makes a backup that enough clouds have, and this one, too.
    ///
    /// # Errors
    /// It has it not, or too few others have it.
    pub async fn make_complete(&self, cloud: Option<u16>) -> Result<(), String> {
        let is_complete = self.make().await?;
        let making = self.making.lock().await;
        let has = |maker: &Maker| {
            let has = maker.writer.progress().has;
            cloud.is_none_or(|cloud| has.contains(&cloud.to_string()))
        };
        match is_complete && making.as_ref().is_some_and(has) {
            true => Ok(()),
            false => Err("not everybody has the backup".to_owned()),
        }
    }

    async fn writer(&self) -> Result<Writer, String> {
        let state = StoredState(&self.store).load().await?;
        let survey = Survey::of(&self.keys, &self.places()).await;
        match Writer::new(self.keys.clone(), self.env.clone(), state, &survey, false) {
            Ok(writer) => Ok(writer),
            Err(rival) => self.take_over(&rival).await,
        }
    }

    /// The machine that this one was restored for is known to be gone: whoever looks after the gateway starts it with `--take-over`.
    /// In lives without a restore nobody meets anybody.
    async fn take_over(&self, rival: &Rival) -> Result<Writer, String> {
        self.world.trace().note(format_args!("takes over: {rival}"), &[]);
        let may_be = self.record.0.lock().was_restored && matches!(rival.is, Who::Original | Who::Successor);
        if !may_be {
            if !self.world.is_dead() {
                self.world.violate(format!("a gateway that is alone stops: {rival}"));
            }
            return Err(rival.to_string());
        }
        let state = StoredState(&self.store).load().await?;
        self.record.0.lock().ended.extend(state.iter().flat_map(|state| self.names_of(state)));
        let survey = Survey::of(&self.keys, &self.places()).await;
        let writer = Writer::new(self.keys.clone(), self.env.clone(), state, &survey, true);
        writer.map_err(|rival| rival.to_string())
    }

    /// Names of all objects of the branch of this state.
    fn names_of(&self, state: &State) -> Vec<String> {
        let retired = state.retired.iter().map(|retired| retired.numbers);
        let objects = state.numbers.iter().copied().chain(retired).flat_map(|numbers| {
            (numbers.from..numbers.to)
                .map(move |number| self.keys.object_name(&state.id, numbers.start, number))
        });
        let own = [self.keys.head_name(state.branch), self.keys.claim_name(state.branch)];
        objects.chain(own).map(|name| name.to_string()).collect()
    }

    /// A flush of which is said that everything from before survives, if it does.
    pub async fn after_flush(&self, flush: impl Future<Output = bool>) {
        let asked = self.world.now();
        self.record.0.lock().flushing.insert(asked);
        let is_safe = flush.await && self.make().await == Ok(true);
        let mut inner = self.record.0.lock();
        if !self.world.is_dead() && inner.flushing.remove(&asked) && is_safe {
            inner.flushed = inner.flushed.max(Some(asked));
        }
    }

    /// Names of all objects that belong to it.
    pub async fn object_names(&self) -> BTreeSet<String> {
        let making = self.making.lock().await;
        let names = making.as_ref().map(|maker| maker.writer.names()).unwrap_or_default();
        names.iter().map(ToString::to_string).collect()
    }

    /// Whether all that no backup needs any more is deleted, and cannot come back.
    pub async fn is_swept(&self) -> bool {
        let making = self.making.lock().await;
        making.as_ref().is_none_or(|maker| maker.writer.state().retired.is_empty())
    }

    /// How many clouds lack something of it.
    pub async fn verify(&self) -> usize {
        match &mut *self.making.lock().await {
            Some(maker) => {
                let Some(check) = maker.writer.check() else { return 0 };
                let looked = check.run(&self.places(), 0).await;
                maker.writer.learn(&check, &looked);
                looked.lacking.len()
            }
            None => 0,
        }
    }

    /// Whoever looks finds the newest backup of this gateway in every cloud.
    pub async fn check_heads(&self) -> Result<(), String> {
        // While one is made, some clouds have it and others do not yet.
        let making = self.making.lock().await;
        let survey = Survey::of(&self.keys, &self.places()).await;
        let newest = survey.newest().ok_or("no cloud has a backup")?;
        let state = making.as_ref().map(|maker| maker.writer.state()).ok_or("no writer")?;
        if newest.id != state.id {
            return Err(format!("somebody else's backup is the newest: {newest:?}"));
        }
        let standings = survey.standings(newest);
        match standings.iter().all(|(_, standing)| *standing == Standing::Current) {
            true if standings.len() == self.names().len() => Ok(()),
            _ => Err(format!("not every cloud has the newest backup: {standings:?}")),
        }
    }

    /// The clouds that have backups.
    fn names(&self) -> Vec<String> {
        self.drains.places().in_use().iter().map(u16::to_string).collect()
    }

    /// Those of them that are worth asking.
    fn places(&self) -> Vec<Place> {
        let in_use = self.names();
        self.answering(|name| in_use.contains(name))
    }

    fn answering(&self, which: impl Fn(&String) -> bool) -> Vec<Place> {
        let answers = |connection: &Connection| {
            let health = connection.health();
            [Direction::Read, Direction::Write]
                .into_iter()
                .all(|direction| !health.is_sick(direction) || health.admits(direction))
        };
        places(&self.connections, self.late_puts)
            .into_iter()
            .zip(&self.connections)
            .filter(|(place, of)| which(&place.name) && answers(of))
            .map(|(place, _)| place)
            .collect()
    }
}

/// All clouds.
pub fn places(connections: &[Connection], late_puts: Duration) -> Vec<Place> {
    let numbered = connections.iter().enumerate();
    numbered.map(|(number, of)| Place::connected(number.to_string(), of.clone(), late_puts)).collect()
}
