//! The clouds of a gateway: which there are, and in which of them the fragments of a number lie.
//!
//! Policies of files name clouds by number. A number begins in the cloud that it was made for; draining moves it, with
//! all its fragments, to another cloud, and the policies stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blocks::{BlockStore, CloudId};
use bytes::Bytes;
use cloud::dir::Marker;
use cloud::{
    CloudError, CloudUrl, Connection, Credentials, Direction, ErrorKind, ObjectName, Options, Prices,
    PutMode, Rates, TimeoutPolicy,
};
use environment::Environment;
use meta::MetaStore;
use parking_lot::RwLock;
use seal::KeyFile;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use crate::bill::Bill;
use crate::config::{ByteSize, CloudConfig};
use crate::node_rows::{CloudRows, Place};
use crate::{StartError, config_file::ConfigFile};

/// Bytes of a probe.
pub(crate) const PROBE: usize = 64 << 10;
/// How often clouds that are down are looked at; the probes themselves come at growing intervals.
const WATCH: Duration = Duration::from_secs(1);

/// What an object that was put into one cloud told of others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Twins {
    /// Clouds that have the object as well: they are the same store under another name.
    pub same: Vec<String>,
    /// Clouds that could not be asked.
    pub unknown: Vec<String>,
}

/// The clouds and what is where.
pub(crate) struct Clouds {
    environment: Environment,
    markers: Markers,
    bill: Arc<Bill>,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    configured: Vec<CloudConfig>,
    connections: BTreeMap<String, Connection>,
    places: BTreeMap<CloudId, Place>,
}

/// The key that makes the markers of clouds from their names.
struct Markers(Zeroizing<[u8; 32]>);

impl Markers {
    fn of(&self, cloud: &str, known: bool) -> Marker {
        let hash = blake3::keyed_hash(&self.0, cloud.as_bytes());
        Marker { id: std::array::from_fn(|at| hash.as_bytes()[at]), known }
    }
}

/// What a probe measured.
pub(crate) struct Probed {
    pub write: Duration,
    pub read: Duration,
    pub delete: Duration,
}

impl Clouds {
    /// Connects all configured clouds and finds out what is where.
    ///
    /// # Errors
    /// A cloud that has not been used before cannot be used, one is another than it should be, or not one of them can be
    /// used.
    pub async fn open(
        configured: &[CloudConfig],
        environment: &Environment,
        key: &KeyFile,
        store: &dyn MetaStore,
        bill: Arc<Bill>,
    ) -> Result<Clouds, StartError> {
        let mut rows = CloudRows::load(store).await.map_err(StartError::configuration)?;
        let markers = Markers(key.shared_secret("cloud markers"));
        let opened = configured.iter().map(|cloud| {
            let known = rows.is_known(&cloud.name);
            connect(environment, cloud, markers.of(&cloud.name, known))
        });
        let opened: Result<Vec<(Connection, Option<CloudError>)>, StartError> =
            futures::future::join_all(opened).await.into_iter().collect();
        let opened = opened?;
        let unusable: Vec<String> =
            opened.iter().filter_map(|(_, down)| Some(down.as_ref()?.to_string())).collect();
        if !opened.is_empty() && unusable.len() == opened.len() {
            let causes = unusable.join("; ");
            return Err(StartError::Configuration(format!("none of the clouds can be used: {causes}")));
        }
        for (connection, down) in &opened {
            bill.charge(connection.name(), connection.costs());
            if let Some(cause) = down {
                let name = connection.name();
                tracing::error!(cloud = %name, %cause, "the cloud is down; going on without it until it is back");
                connection.health().report_down(&cause.to_string());
            }
        }
        let wanted = configured.iter().filter(|cloud| !cloud.drained).map(|cloud| cloud.name.clone());
        rows.number(store, wanted).await.map_err(StartError::configuration)?;
        let names = configured.iter().map(|cloud| cloud.name.clone());
        let state = State {
            configured: configured.to_vec(),
            connections: names.zip(opened.into_iter().map(|(connection, _)| connection)).collect(),
            places: rows.places(),
        };
        Ok(Clouds { environment: environment.clone(), markers, bill, state: RwLock::new(state) })
    }

    /// The connection of every number whose cloud is configured.
    pub fn numbered(&self) -> Vec<(CloudId, Connection)> {
        let state = self.state.read();
        state.places.iter().filter_map(|(id, place)| Some((*id, state.connection_of(place)?))).collect()
    }

    /// All clouds, as configured.
    pub fn configured(&self) -> Vec<CloudConfig> {
        self.state.read().configured.clone()
    }

    /// The configuration and the connection of a cloud.
    pub fn get(&self, name: &str) -> Option<(CloudConfig, Connection)> {
        let state = self.state.read();
        let config = state.configured.iter().find(|cloud| cloud.name == name)?.clone();
        Some((config, state.connections.get(name)?.clone()))
    }

    /// All connections, by name.
    pub fn connections(&self) -> Vec<Connection> {
        self.state.read().connections.values().cloned().collect()
    }

    /// The cloud that a number is in, or on its way to.
    pub fn name_of(&self, cloud: CloudId) -> String {
        self.state.read().places.get(&cloud).map_or_else(|| cloud.to_string(), |place| place.to.clone())
    }

    /// The clouds that fragments of a number may be in.
    pub fn places_of(&self, cloud: CloudId) -> Vec<String> {
        let state = self.state.read();
        let place = state.places.get(&cloud);
        place.map_or_else(Vec::new, |place| place.from.iter().chain([&place.to]).cloned().collect())
    }

    /// The number that new files use for a cloud.
    ///
    /// # Errors
    /// There is no such cloud, or it takes no new fragments.
    pub fn number_for_new_files(&self, name: &str) -> Result<CloudId, String> {
        let state = self.state.read();
        match state.configured.iter().find(|cloud| cloud.name == name) {
            None => return Err(format!("there is no cloud {name:?}")),
            Some(cloud) if cloud.drained => {
                return Err(format!("the cloud {name:?} is drained: nothing new goes there"));
            }
            Some(_) => {}
        }
        let found = state.places.iter().find(|(_, place)| place.to == name);
        found
            .map(|(id, _)| *id)
            .ok_or_else(|| format!("the cloud {name:?} has no number; restart the gateway"))
    }

    /// Clouds that take new files, in the order of the configuration.
    pub fn for_new_files(&self) -> Vec<String> {
        let state = self.state.read();
        state.configured.iter().filter(|cloud| !cloud.drained).map(|cloud| cloud.name.clone()).collect()
    }

    /// The numbers that are in a cloud, or on their way out of it.
    pub fn numbers_in(&self, name: &str) -> BTreeSet<CloudId> {
        let state = self.state.read();
        let here = |place: &Place| place.from.as_deref().unwrap_or(&place.to) == name;
        state.places.iter().filter(|(_, place)| here(place)).map(|(id, _)| *id).collect()
    }

    /// Whether anything is on its way to a cloud, or lies there.
    pub fn is_place(&self, name: &str, used: &BTreeSet<CloudId>) -> bool {
        let state = self.state.read();
        let here = |place: &Place| place.to == name || place.from.as_deref() == Some(name);
        used.iter().any(|id| state.places.get(id).is_some_and(here))
    }

    /// The clouds of these numbers that are not in the configuration.
    pub fn unconfigured(&self, used: &BTreeSet<CloudId>) -> BTreeSet<String> {
        let state = self.state.read();
        let places = used.iter().filter_map(|id| state.places.get(id));
        let lost = places.filter(|place| !state.connections.contains_key(&place.to));
        lost.map(|place| place.to.clone()).collect()
    }

    /// What is on its way, as (from, to).
    pub fn moves(&self) -> BTreeSet<(String, String)> {
        let state = self.state.read();
        state.places.values().filter_map(|place| Some((place.from.clone()?, place.to.clone()))).collect()
    }

    /// Puts numbers in another place, durably, and has blocks found there.
    pub async fn place(
        &self,
        store: &dyn MetaStore,
        blocks: &BlockStore,
        numbers: &BTreeSet<CloudId>,
        place: &Place,
    ) -> Result<(), meta::MetaError> {
        CloudRows::place(store, numbers, place).await?;
        let mut state = self.state.write();
        for id in numbers {
            state.places.insert(*id, place.clone());
            blocks.clouds().set(*id, state.connection_of(place));
        }
        Ok(())
    }

    /// Tries a new cloud, gives it a number, writes it into the configuration, and uses it from now on.
    pub async fn add(
        &self,
        cloud: CloudConfig,
        file: &ConfigFile,
        store: &dyn MetaStore,
        blocks: &BlockStore,
    ) -> Result<(), String> {
        if self.get(&cloud.name).is_some() {
            return Err(format!("there is already a cloud {:?}", cloud.name));
        }
        let mut resolved = cloud.clone();
        file.resolve(&mut resolved);
        let marker = self.markers.of(&cloud.name, false);
        let (connection, down) =
            connect(&self.environment, &resolved, marker).await.map_err(|cause| cause.to_string())?;
        self.bill.charge(connection.name(), connection.costs());
        if let Some(cause) = down {
            return Err(cause.to_string());
        }
        self.probe(&connection).await?;
        let twins = twins(&self.environment, &connection, &self.connections()).await?;
        if let Some(twin) = twins.same.first() {
            return Err(format!(
                "{:?} is the same store as the cloud {twin:?}; fragments of one block must not lie together. Give it a bucket, prefix or directory of its own",
                cloud.name
            ));
        }
        let mut rows = CloudRows::load(store).await.map_err(|cause| cause.to_string())?;
        file.add_cloud(&cloud)?;
        rows.number(store, [cloud.name.clone()]).await.map_err(|cause| cause.to_string())?;
        let mut state = self.state.write();
        state.connections.insert(cloud.name.clone(), connection);
        state.configured.push(resolved);
        for (id, place) in rows.places() {
            if state.places.insert(id, place.clone()).is_none() || place.to == cloud.name {
                blocks.clouds().set(id, state.connection_of(&place));
            }
        }
        Ok(())
    }

    /// Notes that a cloud takes nothing new.
    pub fn drained(&self, name: &str) {
        let mut state = self.state.write();
        if let Some(cloud) = state.configured.iter_mut().find(|cloud| cloud.name == name) {
            cloud.drained = true;
        }
    }

    /// Forgets a cloud that nothing refers to.
    pub fn forget(&self, name: &str, blocks: &BlockStore) {
        let mut state = self.state.write();
        state.connections.remove(name);
        state.configured.retain(|cloud| cloud.name != name);
        for (id, _) in state.places.iter().filter(|(_, place)| place.to == name) {
            blocks.clouds().set(*id, None);
        }
        state.places.retain(|_, place| place.to != name);
    }

    /// Has a name stand for another store.
    #[cfg(test)]
    pub fn reconnect(&self, name: &str, connection: Connection) {
        self.state.write().connections.insert(name.to_owned(), connection);
    }

    /// Writes, reads and deletes an object.
    pub async fn probe(&self, connection: &Connection) -> Result<Probed, String> {
        let mut probe = vec![0; PROBE];
        self.environment.entropy.fill(&mut probe);
        let probe = Bytes::from(probe);
        let object = format!("probe-{:016x}", self.environment.entropy.next_u64());
        let object = ObjectName::new(&object).map_err(|cause| cause.to_string())?;
        let failed = |step: &'static str| move |cause: CloudError| format!("{step}: {cause}");
        let clock = &self.environment.clock;
        let start = clock.monotonic();
        // Not every cloud can create; nobody else takes such a name.
        if let Err(cause) = connection.put(&object, vec![probe.clone()], PutMode::Overwrite).await {
            // It may have arrived all the same.
            let _ = connection.delete(&object).await;
            return Err(failed("write")(cause));
        }
        let written = clock.monotonic();
        let back = connection.get(&object, None).await;
        let read = clock.monotonic();
        connection.delete(&object).await.map_err(|cause| {
            format!("delete: {cause}; the object {object} of {PROBE} bytes is left behind, delete it by hand")
        })?;
        let deleted = clock.monotonic();
        if back.map_err(failed("read"))? != probe {
            let name = connection.name();
            return Err(format!("the cloud {name:?} returned other bytes than it was given"));
        }
        Ok(Probed { write: written - start, read: read - written, delete: deleted - read })
    }

    /// Finds out whether two clouds are one store under two names; `None` when the second does not answer.
    pub async fn are_one(&self, one: &Connection, other: &Connection) -> Result<Option<bool>, String> {
        let twins = twins(&self.environment, one, std::slice::from_ref(other)).await?;
        Ok(twins.unknown.is_empty().then_some(!twins.same.is_empty()))
    }

    /// Whether a cloud is known to be another store than all of these, which have to answer for that.
    pub async fn is_apart_from(&self, cloud: &str, others: &[String]) -> bool {
        let others = others.iter().map(|other| Some(self.get(other)?.1)).collect::<Option<Vec<_>>>();
        let (Some((_, one)), Some(others)) = (self.get(cloud), others) else { return false };
        let twins = twins(&self.environment, &one, &others).await;
        twins.is_ok_and(|twins| twins.same.is_empty() && twins.unknown.is_empty())
    }

    /// Looks whether clouds that are down are back, until `stop`.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let is_sick = |connection: &Connection| {
            let health = connection.health();
            health.is_sick(Direction::Read) || health.is_sick(Direction::Write)
        };
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.environment.clock.sleep(WATCH) => {}
            }
            let probes = self.connections().into_iter().filter(|connection| {
                let health = connection.health();
                is_sick(connection)
                    && [Direction::Read, Direction::Write]
                        .into_iter()
                        .any(|direction| health.is_sick(direction) && health.admits(direction))
            });
            let clouds = &self;
            let probes = probes.map(|connection| async move {
                if clouds.probe(&connection).await.is_ok() && !is_sick(&connection) {
                    tracing::warn!(cloud = %connection.name(), "the cloud is back");
                }
            });
            tokio::select! {
                () = stop.cancelled() => return,
                _ = futures::future::join_all(probes) => {}
            }
        }
    }
}

impl State {
    fn connection_of(&self, place: &Place) -> Option<Connection> {
        let to = self.connections.get(&place.to)?;
        match &place.from {
            None => Some(to.clone()),
            // An old cloud that is not configured any more does not take the new one along.
            Some(from) => Some(match self.connections.get(from) {
                Some(from) => Connection::moving(from, to),
                None => to.clone(),
            }),
        }
    }
}

/// Looks who else has an object that is put into `one` for a moment.
async fn twins(environment: &Environment, one: &Connection, others: &[Connection]) -> Result<Twins, String> {
    let entropy = &environment.entropy;
    let name = format!("probe-{:016x}{:016x}", entropy.next_u64(), entropy.next_u64());
    let name = &ObjectName::new(&name).map_err(|cause| cause.to_string())?;
    let failed = |cause: CloudError| format!("{}: {cause}", one.name());
    let content = Bytes::from_static(b"Is this the same store under another name?");
    one.put(name, vec![content], PutMode::Overwrite).await.map_err(failed)?;
    let asked = others.iter().map(|other| async move {
        let health = other.health();
        match health.is_sick(Direction::Read) && !health.admits(Direction::Read) {
            true => None,
            false => Some(other.head(name).await),
        }
    });
    let answers = futures::future::join_all(asked).await;
    one.delete(name).await.map_err(failed)?;
    let mut twins = Twins::default();
    for (other, answer) in others.iter().zip(answers) {
        match answer {
            Some(Ok(_)) => twins.same.push(other.name().to_string()),
            Some(Err(error)) if error.kind() == ErrorKind::NotFound => {}
            Some(Err(_)) | None => twins.unknown.push(other.name().to_string()),
        }
    }
    Ok(twins)
}

/// Connects a cloud that the gateway of this key has used before.
pub(crate) async fn connect_known(
    environment: &Environment,
    cloud: &CloudConfig,
    key: &KeyFile,
) -> Result<Connection, String> {
    let marker = Markers(key.shared_secret("cloud markers")).of(&cloud.name, true);
    let connected = connect(environment, cloud, marker).await.map_err(|cause| cause.to_string())?;
    Ok(connected.0)
}

/// Connects one cloud; also what is wrong with a known cloud that cannot be used until somebody does something.
async fn connect(
    environment: &Environment,
    cloud: &CloudConfig,
    marker: Marker,
) -> Result<(Connection, Option<CloudError>), StartError> {
    let wrong =
        |cause: &dyn std::fmt::Display| StartError::Configuration(format!("cloud {:?}: {cause}", cloud.name));
    let url = CloudUrl::parse(&cloud.url).map_err(|cause| wrong(&cause))?;
    let credentials = cloud.credentials.as_deref().map(Credentials::read).transpose();
    let options = Options {
        credentials: credentials.map_err(|cause| wrong(&cause))?,
        concurrent: cloud.concurrency.unwrap_or_else(|| url.usual_concurrency()),
        rates: Rates {
            requests: cloud.requests_per_second,
            upload: cloud.upload_rate.map(ByteSize::bytes),
            download: cloud.download_rate.map(ByteSize::bytes),
        },
        read_only: cloud.read_only,
        prices: cloud.price.as_ref().map(Prices::from),
        timeouts: TimeoutPolicy { base: cloud.timeout.as_duration(), ..TimeoutPolicy::default() },
        marker: Some(marker),
        ..Options::default()
    };
    let connection = Connection::open(environment, &cloud.name, &url, &options).await;
    let connection = connection.map_err(|cause| wrong(&cause))?;
    match connection.check().await {
        Ok(()) => Ok((connection, None)),
        // A provider that is down must not keep the gateway down.
        Err(cause) if cause.kind().is_retryable() => {
            tracing::warn!(cloud = %cloud.name, %cause, "does not answer; going on without it");
            Ok((connection, None))
        }
        // Nor must a cloud that was lost; what has never worked is for a human.
        Err(cause) if marker.known => Ok((connection, Some(cause))),
        Err(cause) => Err(wrong(&cause)),
    }
}

#[cfg(test)]
mod tests {
    use cloud::{Cloud, Fault, Faulty, Memory, Side, test_environment};

    use super::*;

    fn connect(environment: &Environment, name: &str, store: Arc<dyn Cloud>) -> Connection {
        Connection::assemble(environment, name, store, &Options::default())
    }

    #[tokio::test(start_paused = true)]
    async fn two_names_of_one_store_are_found_out_and_nothing_stays_there() {
        let environment = test_environment();
        let (shared, other) = (Memory::new("shared"), Memory::new("other"));
        let down = Faulty::new(Memory::new("down"), "down", environment.clock.clone());
        down.set(Side::Reads, Fault::Fail(ErrorKind::Refused));
        let one = connect(&environment, "one", shared.clone());
        let others = [
            connect(&environment, "same", shared.clone()),
            connect(&environment, "other", other.clone()),
            connect(&environment, "down", down.clone()),
        ];
        let found = twins(&environment, &one, &others).await.unwrap();
        assert_eq!(found, Twins { same: vec!["same".into()], unknown: vec!["down".into()] });
        assert!(shared.names().is_empty() && other.names().is_empty());
        down.set(Side::Writes, Fault::Fail(ErrorKind::Refused));
        assert!(twins(&environment, &others[2], &others).await.is_err(), "what cannot be tried is not taken");
    }

    #[test]
    fn an_old_cloud_that_is_not_configured_does_not_take_the_new_one_along() {
        let environment = test_environment();
        let new = connect(&environment, "new", Memory::new("new"));
        let mut state = State::default();
        state.connections.insert("new".into(), new);
        let place = Place { from: Some("old".into()), to: "new".into() };
        assert_eq!(&**state.connection_of(&place).unwrap().name(), "new");
        assert!(state.connection_of(&Place { from: None, to: "old".into() }).is_none());
    }
}
