//! Clouds that nobody has to trust.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cloud::{Cloud, CloudError, ErrorKind, ObjectName, Operation, PutMode};
use parking_lot::Mutex;

use super::World;
use super::dice::Dice;
use super::inspector::Inspector;
use crate::site::death::REQUEST_LEAVES;

/// Objects that a cloud remembers after they were deleted, to give them back instead of others.
const REMEMBERED: usize = 400;

/// Versions of one block that it remembers.
const TOLD: usize = 8;

/// How a cloud behaves for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// As it should.
    Fair,
    /// Does nothing, and says so.
    Refusing,
    /// Does nothing in half of the cases: somebody else had its attention.
    Throttling,
    /// Does it, and says at times that it did not.
    DoneButFailing,
    /// Never answers, and may do it much later.
    Hanging,
    /// Takes seconds.
    Slow,
    /// Gives back something else, at times.
    Lying(Lie),
    /// Says that it has stored what it drops, at times.
    Losing,
}

/// What it gives back instead of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// With a wrong bit.
    Flipped,
    /// An older version of the same, if somebody told; or another one of the same size.
    Swapped,
    /// A part of it.
    Truncated,
    /// With something behind it.
    Extended,
    /// Nothing.
    Withheld,
    /// What there was when it began to lie.
    Forked,
}

/// What a cloud has.
pub struct Store {
    seed: u64,
    number: u16,
    name: Arc<str>,
    world: World,
    inspector: Arc<Mutex<Inspector>>,
    /// How long after it was given up a request may arrive.
    longest_late: Duration,
    state: Mutex<State>,
}

/// What somebody inside could have told the owner of a cloud: which objects were versions of the same.
#[derive(Default)]
struct Told {
    kin: HashMap<String, Kin>,
    versions: HashMap<Kin, Vec<Bytes>>,
}

/// Whatever names a block of a file.
type Kin = (u128, u64);

struct State {
    objects: BTreeMap<ObjectName, Bytes>,
    /// For [`Lie::Swapped`].
    remembered: VecDeque<Bytes>,
    /// For [`Lie::Swapped`]: what was told of what belongs together.
    told: Told,
    /// For [`Lie::Forked`].
    forked: Option<BTreeMap<ObjectName, Bytes>>,
    weather: Weather,
    /// Puts that nobody waits for any more, by when they arrive.
    late: BTreeMap<(Duration, ObjectName), (Bytes, PutMode, u64)>,
    /// The machine that sent each object.
    senders: BTreeMap<String, u64>,
    dice: Dice,
}

impl Store {
    pub fn new(
        seed: u64,
        number: u16,
        world: &World,
        inspector: &Arc<Mutex<Inspector>>,
        longest_late: Duration,
    ) -> Arc<Store> {
        let state = State {
            objects: BTreeMap::new(),
            remembered: VecDeque::new(),
            told: Told::default(),
            forked: None,
            weather: Weather::Fair,
            late: BTreeMap::new(),
            senders: BTreeMap::new(),
            dice: Dice::new(seed, &format!("cloud {number}")),
        };
        Arc::new(Store {
            seed,
            number,
            name: number.to_string().into(),
            world: world.clone(),
            inspector: inspector.clone(),
            longest_late,
            state: Mutex::new(state),
        })
    }

    /// From now on it behaves like this.
    pub fn set(&self, weather: Weather) {
        self.world.trace().note(format_args!("cloud {} is {weather:?}", self.number), &[]);
        let mut state = self.state.lock();
        state.weather = weather;
        state.forked = (weather == Weather::Lying(Lie::Forked)).then(|| state.objects.clone());
    }

    /// How it behaves now.
    pub fn weather(&self) -> Weather {
        self.state.lock().weather
    }

    /// Ends what is not a lie.
    pub fn recover(&self) {
        let is_lying = matches!(self.weather(), Weather::Lying(_));
        if !is_lying {
            self.set(Weather::Fair);
        }
    }

    /// Somebody tells its owner that this object is a version of this block.
    pub fn tell(&self, name: &str, kin: Kin) {
        let mut state = self.state.lock();
        let State { told, objects, .. } = &mut *state;
        let object = objects.iter().find(|(other, _)| other.as_str() == name);
        if let Some((_, bytes)) = object
            && told.kin.insert(name.to_owned(), kin).is_none()
        {
            let versions = told.versions.entry(kin).or_default();
            versions.push(bytes.clone());
            if versions.len() > TOLD {
                versions.remove(0);
            }
        }
    }

    /// One of its objects rots.
    pub fn rot(&self) {
        let mut state = self.state.lock();
        let State { objects, dice, .. } = &mut *state;
        if objects.is_empty() {
            return;
        }
        let which = dice.below(objects.len() as u64) as usize;
        let Some((name, bytes)) = objects.iter_mut().nth(which) else { return };
        self.world.trace().note(format_args!("cloud {}: {name} rots", self.number), &[]);
        *bytes = flipped(bytes, dice);
    }

    /// The names of what it has.
    pub fn names(&self) -> Vec<String> {
        self.arrive_until(self.world.time().now());
        self.state.lock().objects.keys().map(ObjectName::to_string).collect()
    }

    /// The machine that has sent an object of this name last.
    pub fn sender(&self, name: &str) -> Option<u64> {
        self.state.lock().senders.get(name).copied()
    }

    /// All that was given up and is still on its way arrives.
    pub fn hurry(&self) {
        self.arrive_until(Duration::MAX);
    }

    fn arrive_until(&self, now: Duration) {
        let mut state = self.state.lock();
        while let Some(first) = state.late.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, name), (bytes, mode, machine)) = first.remove_entry();
            self.world.trace().note(format_args!("cloud {}: {name} comes late", self.number), &bytes);
            let _nobody_hears_of_it = self.take(&mut state, (&name, machine), bytes, mode);
        }
    }

    /// What a put does; whether it was allowed to.
    fn take(
        &self,
        state: &mut State,
        (name, machine): (&ObjectName, u64),
        bytes: Bytes,
        mode: PutMode,
    ) -> bool {
        self.inspector.lock().inspect(&self.world, &bytes);
        self.world.trace().note(format_args!("cloud {}: has {name}", self.number), &bytes);
        if mode == PutMode::Create && state.objects.contains_key(name) {
            return false;
        }
        if state.weather != Weather::Losing || state.dice.percent(50) {
            let old = state.objects.insert(name.clone(), bytes);
            state.senders.insert(name.to_string(), machine);
            state.remember(old);
        }
        true
    }

    /// As one machine reaches it.
    pub fn for_machine(self: &Arc<Self>, machine: u64) -> Arc<SimCloud> {
        Arc::new(SimCloud { store: self.clone(), machine })
    }
}

fn flipped(bytes: &Bytes, dice: &mut Dice) -> Bytes {
    let mut bytes = bytes.to_vec();
    if !bytes.is_empty() {
        let at = dice.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << dice.below(8);
    }
    bytes.into()
}

impl State {
    fn remember(&mut self, old: Option<Bytes>) {
        self.remembered.extend(old);
        if self.remembered.len() > REMEMBERED {
            self.remembered.pop_front();
        }
    }

    /// What it gives back for an object; most of the time what it has.
    fn answer(&mut self, name: &ObjectName) -> Option<Bytes> {
        let right = self.objects.get(name).cloned();
        let Weather::Lying(lie) = self.weather else { return right };
        if let Some(forked) = &self.forked {
            return forked.get(name).cloned();
        }
        if !self.dice.percent(60) {
            return right;
        }
        let right = right?;
        match lie {
            Lie::Flipped => Some(flipped(&right, &mut self.dice)),
            Lie::Truncated => Some(right.slice(..self.dice.below(right.len().max(1) as u64) as usize)),
            Lie::Extended => Some([&right[..], b"more"].concat().into()),
            Lie::Withheld | Lie::Forked => None,
            Lie::Swapped => {
                let kin = self.told.kin.get(name.as_str()).and_then(|kin| self.told.versions.get(kin));
                let older = kin.into_iter().flatten().find(|other| **other != right);
                if let Some(older) = older {
                    return Some(older.clone());
                }
                let others = self.remembered.iter().chain(self.objects.values());
                let others: Vec<_> =
                    others.filter(|other| other.len() == right.len() && **other != right).collect();
                match others.is_empty() {
                    true => Some(right),
                    false => Some(others[self.dice.below(others.len() as u64) as usize].clone()),
                }
            }
        }
    }
}

/// A put that has been sent and not been answered.
struct Travelling<'a> {
    store: &'a Store,
    content: Option<(&'a ObjectName, Bytes, PutMode, u64)>,
}

impl Drop for Travelling<'_> {
    /// Nobody waits for it any more; it may arrive all the same.
    fn drop(&mut self) {
        let Some((name, bytes, mode, machine)) = self.content.take() else { return };
        // Many are given up at once when a machine dies, in no order: what becomes of each depends on its name.
        let mut dice = Dice::new(self.store.seed, name.as_str());
        if dice.percent(50) {
            let late = Duration::from_micros(dice.below(self.store.longest_late.as_micros() as u64));
            let at = self.store.world.time().now() + late;
            self.store.state.lock().late.insert((at, name.clone()), (bytes, mode, machine));
        }
    }
}

/// A cloud, as one machine reaches it: when that is dead, nobody hears what is left of it.
pub struct SimCloud {
    store: Arc<Store>,
    machine: u64,
}

impl SimCloud {
    fn error(&self, kind: ErrorKind, operation: Operation, name: &str) -> CloudError {
        CloudError::new(kind, &self.store.name, operation, name, "simulated")
    }

    /// Half of the way, in one direction.
    #[allow(clippy::disallowed_methods)] // the simulated network itself
    async fn travel(&self) {
        let micros = {
            let mut state = self.store.state.lock();
            match state.weather {
                Weather::Slow => 200_000 + state.dice.below(2_000_000),
                _ => 300 + state.dice.below(15_000),
            }
        };
        tokio::time::sleep(Duration::from_micros(micros)).await;
        if !self.store.world.hears(self.machine) {
            std::future::pending::<()>().await;
        }
    }

    /// A request arrives; returns when it is to be done.
    async fn arrive(&self, operation: Operation, name: &str) -> Result<(), CloudError> {
        let store = &*self.store;
        store.world.trace().note(format_args!("cloud {}: {operation} {name}", store.number), &[]);
        environment::failpoint::pass(REQUEST_LEAVES);
        self.travel().await;
        store.arrive_until(store.world.time().now());
        let (weather, is_unlucky) = {
            let mut state = store.state.lock();
            (state.weather, state.dice.percent(50))
        };
        match weather {
            Weather::Refusing => Err(self.error(ErrorKind::Refused, operation, name)),
            Weather::Throttling if is_unlucky => Err(self.error(ErrorKind::Transient, operation, name)),
            Weather::Hanging => std::future::pending().await,
            _ => Ok(()),
        }
    }

    /// The answer to something that was done goes back.
    async fn depart(&self, operation: Operation, name: &str) -> Result<(), CloudError> {
        let fails = {
            let mut state = self.store.state.lock();
            state.weather == Weather::DoneButFailing && state.dice.percent(70)
        };
        self.travel().await;
        match fails {
            true => Err(self.error(ErrorKind::Transient, operation, name)),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Cloud for SimCloud {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let (store, bytes) = (&*self.store, Bytes::from(parts.concat()));
        // What a dead machine seems to send has never left it.
        let content = store.world.hears(self.machine).then(|| (name, bytes.clone(), mode, self.machine));
        let mut travelling = Travelling { store, content };
        let arrived = self.arrive(Operation::Put, name.as_str()).await;
        travelling.content = None;
        arrived?;
        if !store.take(&mut store.state.lock(), (name, self.machine), bytes, mode) {
            return Err(self.error(ErrorKind::AlreadyExists, Operation::Put, name.as_str()));
        }
        self.depart(Operation::Put, name.as_str()).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        self.arrive(Operation::Get, name.as_str()).await?;
        let answer = self.store.state.lock().answer(name);
        self.travel().await;
        let bytes = answer.ok_or_else(|| self.error(ErrorKind::NotFound, Operation::Get, name.as_str()))?;
        let size = bytes.len() as u64;
        let range = range.map_or(0..size, |range| range.start.min(size)..range.end.min(size));
        Ok(bytes.slice(range.start as usize..range.end.max(range.start) as usize))
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        self.arrive(Operation::Head, name.as_str()).await?;
        let answer = self.store.state.lock().answer(name);
        self.travel().await;
        let bytes = answer.ok_or_else(|| self.error(ErrorKind::NotFound, Operation::Head, name.as_str()))?;
        Ok(bytes.len() as u64)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        self.arrive(Operation::Delete, name.as_str()).await?;
        {
            let mut state = self.store.state.lock();
            let old = state.objects.remove(name);
            state.remember(old);
        }
        self.depart(Operation::Delete, name.as_str()).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        self.arrive(Operation::List, prefix).await?;
        let found = {
            let state = self.store.state.lock();
            let matching = state.objects.iter().filter(|(name, _)| {
                name.as_str().starts_with(prefix) && after.is_none_or(|after| *name > after)
            });
            matching.take(limit).map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect()
        };
        self.travel().await;
        Ok(found)
    }
}
