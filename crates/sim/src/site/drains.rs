//! Clouds are emptied into others, as `gateway` has it done: what is noted, and what goes on after an end of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use blocks::{BlockStore, CloudId};
use bytes::Bytes;
use cloud::Connection;
use environment::Environment;
use meta::{LocalStore, MetaStore, Mode, Priority};
use parking_lot::Mutex;
use upkeep::{DrainOwner, DrainProgress, Drainer, Upkeep};
use volume::Volume;

use super::Site;
use super::backups::Backups;

/// The row of where everything is, in the table of the gateway's own.
const PLACES: [u8; 2] = [0xF0, 0x03];

/// Where the fragments of a number are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The cloud that they move out of.
    pub from: Option<u16>,
    /// The cloud that they are in, or move to.
    pub to: u16,
}

/// Where the fragments of each number are.
#[derive(Clone, Debug)]
pub struct Places(BTreeMap<u16, Place>);

impl Places {
    /// As at the beginning, with so many numbers.
    pub fn new(numbers: u16) -> Places {
        Places((0..numbers).map(|number| (number, Place { from: None, to: number })).collect())
    }

    /// What a machine before has noted.
    async fn load(&mut self, store: &LocalStore) -> Result<(), String> {
        let row = async { store.begin(Mode::Optimistic).await?.get(&PLACES).await };
        let row = row.await.map_err(|error| error.to_string())?.unwrap_or_default();
        let number = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
        for place in row.chunks_exact(6) {
            let from = Some(number(&place[2..])).filter(|from| *from != u16::MAX);
            self.0.insert(number(place), Place { from, to: number(&place[4..]) });
        }
        Ok(())
    }

    async fn save(&self, store: &LocalStore) -> Result<(), String> {
        let place = |(number, place): (&u16, &Place)| {
            [*number, place.from.unwrap_or(u16::MAX), place.to].map(u16::to_be_bytes).concat()
        };
        let row: Vec<u8> = self.0.iter().flat_map(place).collect();
        let saved = async {
            let mut transaction = store.begin(Mode::Optimistic).await?;
            transaction.put(Bytes::from_static(&PLACES), row.into());
            transaction.commit(Priority::Client).await?.durable().await
        };
        saved.await.map_err(|error| error.to_string())
    }

    /// Where the fragments of this number are.
    pub fn of(&self, number: CloudId) -> Place {
        self.0[&number.0]
    }

    /// Clouds that are not, or not to be, emptied.
    pub fn in_use(&self) -> BTreeSet<u16> {
        self.0.values().map(|place| place.to).collect()
    }

    /// The number that moves.
    pub fn moving(&self) -> Option<CloudId> {
        self.0.iter().find(|(_, place)| place.from.is_some()).map(|(number, _)| CloudId(*number))
    }
}

/// Where the fragments of a machine are.
pub struct Drains {
    env: Environment,
    store: LocalStore,
    blocks: Arc<BlockStore>,
    connections: Vec<Connection>,
    gc_delay: Duration,
    places: Mutex<Places>,
    changing: tokio::sync::Mutex<()>,
}

/// What a drain has to ask the gateway for.
struct Owner {
    upkeep: Arc<Upkeep<Volume>>,
    backups: Option<Arc<Backups>>,
    to: u16,
}

#[async_trait]
impl DrainOwner<Volume> for Owner {
    fn volumes(&self) -> Vec<Arc<Upkeep<Volume>>> {
        vec![self.upkeep.clone()]
    }

    async fn are_apart(&self) -> Result<bool, String> {
        Ok(true)
    }

    async fn back_up(&self, to_the_new: bool) -> Result<(), String> {
        match &self.backups {
            Some(backups) => backups.make_complete(to_the_new.then_some(self.to)).await,
            None => Ok(()),
        }
    }

    fn told(&self, _progress: &DrainProgress) {}
}

impl Drains {
    /// As the machine before has left it.
    pub async fn open(
        site: &Site,
        env: &Environment,
        (store, blocks, connections): (&LocalStore, &Arc<BlockStore>, &[Connection]),
    ) -> Result<Arc<Drains>, String> {
        let mut places = Places::new(site.setup.clouds);
        places.load(store).await?;
        let drains = Drains {
            env: env.clone(),
            store: store.clone(),
            blocks: blocks.clone(),
            connections: connections.to_vec(),
            gc_delay: Duration::from_secs(site.setup.gc_delay),
            places: Mutex::new(places.clone()),
            changing: tokio::sync::Mutex::default(),
        };
        places.0.keys().for_each(|number| drains.connect(CloudId(*number), places.0[number]));
        Ok(Arc::new(drains))
    }

    /// Where everything is.
    pub fn places(&self) -> Places {
        self.places.lock().clone()
    }

    fn connect(&self, number: CloudId, Place { from, to }: Place) {
        let cloud = |number: u16| &self.connections[usize::from(number)];
        let connection = match from {
            Some(from) => Connection::moving(cloud(from), cloud(to)),
            None => cloud(to).clone(),
        };
        self.blocks.clouds().set(number, Some(connection));
    }

    /// Notes it, and acts by it from then on.
    async fn place(&self, number: CloudId, place: Place) -> Result<(), String> {
        let mut places = self.places();
        places.0.insert(number.0, place);
        places.save(&self.store).await?;
        *self.places.lock() = places;
        self.connect(number, place);
        Ok(())
    }

    /// Empties the cloud that this number is in, into one that has never been used, if nothing else is emptied at present.
    ///
    /// # Errors
    /// The metadata cannot be changed.
    pub async fn begin(
        &self,
        number: CloudId,
        of: (Arc<Upkeep<Volume>>, Option<Arc<Backups>>),
    ) -> Result<(), String> {
        {
            let _alone = self.changing.lock().await;
            let places = self.places();
            // Clouds are filled in their order.
            let to = places.in_use().last().map_or(0, |last| last + 1).max(places.0.len() as u16);
            if places.moving().is_some() || usize::from(to) >= self.connections.len() {
                return Ok(());
            }
            self.place(number, Place { from: Some(places.of(number).to), to }).await?;
        }
        self.resume(of).await
    }

    /// Goes on with what has begun.
    ///
    /// # Errors
    /// The metadata cannot be changed.
    pub async fn resume(&self, of: (Arc<Upkeep<Volume>>, Option<Arc<Backups>>)) -> Result<(), String> {
        let places = self.places();
        let Some(number) = places.moving() else { return Ok(()) };
        let Place { from: Some(from), to } = places.of(number) else { return Ok(()) };
        let drainer = Drainer {
            blocks: self.blocks.clone(),
            env: self.env.clone(),
            numbers: BTreeSet::from([number]),
            from: self.connections.get(usize::from(from)).cloned(),
            to: self.connections[usize::from(to)].clone(),
            rate: 0,
            gc_delay: self.gc_delay,
        };
        let (upkeep, backups) = of;
        let _left_behind = drainer.run(&Owner { upkeep, backups, to }).await;
        let _alone = self.changing.lock().await;
        self.place(number, Place { from: None, to }).await
    }
}
