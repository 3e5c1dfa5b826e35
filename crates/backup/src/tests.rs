//! Chains in clouds that fail, lie and fall behind, against a model.

mod chains;
mod formats;
mod lies;
mod rivals;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cloud::{Cloud, Connection, Fault, Faulty, Memory, Options, Side, test_environment};
use environment::{Environment, SystemEntropy};
use ids::GatewayId;
use parking_lot::Mutex;

use crate::{
    BackupError, BackupKeys, Fetch, Head, Item, Items, Kind, Mark, Notes, Place, Rival, Source, State,
    Survey, Writer,
};

const NONE: [&str; 0] = [];

type Rows = BTreeMap<Bytes, Bytes>;

/// How long after it was given up a put may be carried out.
const LATE: Duration = Duration::from_secs(600);

/// Items one after the other.
struct Listed(std::vec::IntoIter<Item>);

#[async_trait]
impl Source for Listed {
    async fn next(&mut self) -> Result<Option<Item>, String> {
        Ok(self.0.next())
    }
}

/// What was kept last.
#[derive(Default)]
struct Kept(Mutex<Option<State>>);

#[async_trait]
impl Notes for Kept {
    async fn save(&self, state: &State) -> Result<(), String> {
        let bytes = state.encode();
        *self.0.lock() = Some(State::decode(&bytes).unwrap());
        Ok(())
    }
}

/// Name, content, and what goes wrong on the way there.
type TestCloud = (String, Arc<Memory>, Arc<Faulty<Arc<Memory>>>);

/// A gateway with three clouds, and what its store holds.
struct World {
    environment: Environment,
    keys: Arc<BackupKeys>,
    clouds: Vec<TestCloud>,
    /// Connections to them that may do late what was given up; else they are used directly.
    connections: Vec<Connection>,
    kept: Kept,
    rows: Rows,
    /// Rows after each backup, by its number.
    states: BTreeMap<(u32, u64), Rows>,
    changed: BTreeMap<Bytes, Option<Bytes>>,
    writer: Option<Writer>,
}

fn keys() -> Arc<BackupKeys> {
    Arc::new(BackupKeys::new(GatewayId(7), &[5; 32]))
}

impl World {
    fn new() -> World {
        let environment = Environment { entropy: Arc::new(SystemEntropy::new()), ..test_environment() };
        let clouds = ["a", "b", "c"].map(|name| {
            let memory = Memory::new(name);
            let faulty = Faulty::new(memory.clone(), name, environment.clock.clone());
            (name.to_owned(), memory, faulty)
        });
        World {
            environment,
            keys: keys(),
            clouds: clouds.into(),
            connections: Vec::new(),
            kept: Kept::default(),
            rows: Rows::new(),
            states: BTreeMap::new(),
            changed: BTreeMap::new(),
            writer: None,
        }
    }

    fn places(&self) -> Vec<Place> {
        if !self.connections.is_empty() {
            let place = |of: &Connection| Place::connected(&**of.name(), of.clone(), LATE);
            return self.connections.iter().map(place).collect();
        }
        let place = |(name, _, cloud): &(String, _, Arc<Faulty<Arc<Memory>>>)| {
            let cloud: Arc<dyn Cloud> = cloud.clone();
            Place::new(name, cloud)
        };
        self.clouds.iter().map(place).collect()
    }

    /// From now on clouds may do late what was given up.
    fn connect(&mut self) {
        let connection = |(name, _, cloud): &TestCloud| {
            Connection::assemble(&self.environment, name, cloud.clone(), &Options::default())
        };
        self.connections = self.clouds.iter().map(connection).collect();
    }

    fn names(&self) -> Vec<String> {
        self.clouds.iter().map(|(name, ..)| name.clone()).collect()
    }

    fn set(&mut self, key: &str, value: Option<&[u8]>) {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let value = value.map(Bytes::copy_from_slice);
        match value.clone() {
            Some(value) => self.rows.insert(key.clone(), value),
            None => self.rows.remove(&key),
        };
        self.changed.insert(key, value);
    }

    fn down(&self, at: usize, down: bool) {
        let fault = if down { Fault::Fail(cloud::ErrorKind::Transient) } else { Fault::None };
        self.clouds[at].2.set(Side::Writes, fault.clone());
        self.clouds[at].2.set(Side::Reads, fault);
    }

    /// Looks at what the clouds have; those that lack something.
    async fn look(&mut self) -> Vec<String> {
        let places = self.places();
        let writer = self.writer.as_mut().unwrap();
        let check = writer.check().unwrap();
        let looked = check.run(&places, 0).await;
        assert!(writer.learn(&check, &looked));
        looked.lacking.into_iter().map(|lacking| lacking.place).collect()
    }

    async fn survey(&self) -> Survey {
        Survey::of(&self.keys, &self.places()).await
    }

    /// A start of the gateway: the first one, or after a crash or a restore.
    async fn start(&mut self) {
        self.try_start(false).await.unwrap();
    }

    async fn try_start(&mut self, take_over: bool) -> Result<(), Rival> {
        let (survey, kept) = (self.survey().await, self.kept.0.lock().clone());
        let (keys, environment) = (self.keys.clone(), self.environment.clone());
        self.writer = Some(Writer::new(keys, environment, kept, &survey, take_over)?);
        Ok(())
    }

    /// The clouds in which nobody else is seen.
    async fn hold(&mut self) -> Result<Vec<String>, BackupError> {
        let places = self.places();
        self.writer.as_mut().unwrap().hold(&places, &self.kept).await
    }

    async fn back_up(&mut self) -> Result<Mark, BackupError> {
        tokio::time::advance(Duration::from_secs(1)).await;
        let (places, names) = (self.places(), self.names());
        let writer = self.writer.as_mut().unwrap();
        let row =
            |(key, value): (&Bytes, Option<&Bytes>)| Item::Row { key: key.clone(), value: value.cloned() };
        let kind = if writer.wants_base() { Kind::Base } else { Kind::Increment };
        let mut items: Vec<Item> = match kind {
            Kind::Base => self.rows.iter().map(|(key, value)| row((key, Some(value)))).collect(),
            Kind::Increment => self.changed.iter().map(|(key, value)| row((key, value.as_ref()))).collect(),
        };
        items.push(Item::Configuration("the configuration".into()));
        let mut source = Listed(items.into_iter());
        writer.back_up(kind, (&places, &names), (&mut source, &self.kept), self.rows.len() as u64).await?;
        self.changed.clear();
        let mark = writer.progress().mark.unwrap();
        self.states.insert((writer.state().branch, mark.backup), self.rows.clone());
        Ok(mark)
    }

    async fn catch_up_and_collect(&mut self) {
        let (places, names) = (self.places(), self.names());
        let writer = self.writer.as_mut().unwrap();
        while writer.catch_up(&places).await {}
        if writer.progress().has.len() >= 2 {
            writer.collect((&places, &names), &self.kept).await.unwrap();
        }
    }
}

/// The state that `head` makes, as far as it can be fetched.
async fn fetched(keys: &BackupKeys, head: &Head, places: &[Place]) -> (Rows, Option<Mark>) {
    let mut fetch = Fetch::of(keys, head, places);
    let (mut rows, mut state) = (Rows::new(), Rows::new());
    while let Some(content) = fetch.next().await.unwrap() {
        for item in Items::of(content) {
            match item.unwrap() {
                Item::Row { key, value: Some(value) } => drop(rows.insert(key, value)),
                Item::Row { key, value: None } => drop(rows.remove(&key)),
                Item::End(_) => state = rows.clone(),
                Item::Unsaved(_) => {}
                Item::Configuration(text) => assert_eq!(text, "the configuration"),
            }
        }
    }
    (state, fetch.mark())
}
