//! After any life, the clouds hold exactly what the metadata refer to: nothing leaks, nothing is lost.
//!
//! Files are made, overwritten, cut, cloned, renamed over each other and removed while upkeep works and clouds fail, or do late what they
//! were given up for; the process dies at failpoints. When all is quiet the objects in each cloud are compared with what the metadata name, and every file
//! is read from there. `KURMA_SEEDS` is how many lives are tried, `KURMA_SEED` the first of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cloud::{ErrorKind, Fault, Side};
use environment::failpoint::{POINTS, watch};
use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use file_system::{
    Authority, CommitMode, FileSystem, FsResult, OpenCreate, Position, SetAttributes, Transaction,
};
use upkeep::CleaningCosts;

use super::node::{BLOCK, GC_DELAY, Node, Site};

const SEEDS: u64 = 20;
/// Files there can be at a time.
const FILES: u64 = 40;
const PHASES: usize = 24;
/// Where the process may die, and what upkeep does last so that it gets there.
const FAMILIES: [(&str, &[u64]); 6] = [
    ("writeback", &[0]),
    ("pack", &[0]),
    ("gc", &[4]),
    ("clean", &[0, 4, 6]),
    ("repair", &[8, 7]),
    ("reap", &[9]),
];
/// Longer than puts are late: until the second look for garbage at most.
const LATE_PUTS: Duration = GC_DELAY.saturating_mul(2);
/// Rounds of upkeep in which all must have come to rest.
const ROUNDS: usize = 12;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Mostly of small files, at times of several blocks.
    fn bytes(&mut self) -> Vec<u8> {
        let length = match self.below(10) {
            0 => self.below(3 * BLOCK),
            1 => BLOCK,
            2 => 1 + self.below(20),
            _ => 1 + self.below(5000),
        };
        let seed = self.next();
        (0..length).map(|at| (at.wrapping_mul(seed | 1) >> 5) as u8).collect()
    }
}

/// What a file may hold after a crash: what it held when the last change was acknowledged, or anything after that.
#[derive(Default)]
struct Slot {
    states: Vec<Option<Vec<u8>>>,
}

impl Slot {
    fn now(&self) -> Option<&Vec<u8>> {
        self.states.last().and_then(Option::as_ref)
    }
}

/// A death that is planned: at the n-th pass of a point.
struct Death {
    point: &'static str,
    passes: u64,
    site: Site,
    /// What was on the disk at that moment.
    left: Option<Site>,
}

impl Death {
    fn pass(&mut self, point: &str) {
        if self.point == point && self.left.is_none() {
            self.passes -= 1;
            if self.passes == 0 {
                self.left = Some(self.site.cut_off());
            }
        }
    }
}

struct World {
    slots: Vec<Slot>,
    random: Random,
    deaths: BTreeMap<&'static str, u64>,
}

/// What a client does, in one transaction.
enum Change {
    Write { slot: usize, offset: u64, data: Vec<u8> },
    Resize { slot: usize, size: u64 },
    Remove { slot: usize },
    Clone { from: usize, to: usize },
    Rename { from: usize, to: usize },
}

impl Change {
    /// What the files hold afterwards that it changes.
    fn applied(&self, slots: &[Slot]) -> Vec<(usize, Option<Vec<u8>>)> {
        let of = |slot: usize| slots[slot].now().cloned();
        match self {
            Change::Write { slot, offset, data } => {
                let mut text = of(*slot).unwrap_or_default();
                let end = *offset as usize + data.len();
                text.resize(text.len().max(end), 0);
                text[*offset as usize..end].copy_from_slice(data);
                vec![(*slot, Some(text))]
            }
            Change::Resize { slot, size } => {
                let mut text = of(*slot).unwrap_or_default();
                text.resize(*size as usize, 0);
                vec![(*slot, Some(text))]
            }
            Change::Remove { slot } => vec![(*slot, None)],
            Change::Clone { from, to } => vec![(*to, of(*from))],
            Change::Rename { from, to } => vec![(*from, None), (*to, of(*from))],
        }
    }

    async fn run(&self, tx: &mut Box<dyn Transaction>) -> FsResult<()> {
        let root = tx.root();
        let name_of = |slot: &usize| name(&slot.to_string());
        match self {
            Change::Write { slot, offset, data } => {
                let set = SetAttributes::with_mode(0o644);
                let opened = tx.open_create(root, &name_of(slot), OpenCreate::Unchecked, &set).await?;
                let data = Bytes::copy_from_slice(data);
                tx.write(opened.attributes.file, *offset, data, Authority::Opened).await
            }
            Change::Resize { slot, size } => {
                let file = tx.lookup(root, &name_of(slot)).await?.file;
                tx.set_attributes(file, &SetAttributes::with_size(*size), Authority::Checked).await.map(drop)
            }
            Change::Remove { slot } => tx.remove(root, &name_of(slot)).await.map(drop),
            Change::Clone { from, to } => {
                let file = tx.lookup(root, &name_of(from)).await?.file;
                let copy = make_file(tx, root, &to.to_string(), b"").await.file;
                let at = |file| Position { file, offset: 0, authority: Authority::Checked };
                tx.clone_range(at(file), at(copy), 0, true).await
            }
            Change::Rename { from, to } => {
                tx.rename(root, &name_of(from), root, &name_of(to)).await.map(drop)
            }
        }
    }
}

impl World {
    fn choose(&mut self) -> Change {
        let random = &mut self.random;
        let slot = random.below(FILES) as usize;
        let is_there = |slot: usize| self.slots[slot].now().is_some();
        let other = (0..FILES as usize).map(|at| (at + slot) % FILES as usize).find(|&at| !is_there(at));
        let length = self.slots[slot].now().map_or(0, Vec::len) as u64;
        match (random.below(10), is_there(slot), other) {
            (0 | 1, true, _) => Change::Remove { slot },
            (2, true, _) => Change::Resize { slot, size: random.below(length * 5 / 4 + 2) },
            (3, true, Some(to)) => Change::Clone { from: slot, to },
            (4, true, _) => {
                let to = random.below(FILES) as usize;
                if to == slot { Change::Remove { slot } } else { Change::Rename { from: slot, to } }
            }
            (5, true, _) => Change::Write { slot, offset: 0, data: random.bytes() },
            (_, true, _) => {
                let mut data = random.bytes();
                data.truncate(300);
                Change::Write { slot, offset: random.below(length + 1), data }
            }
            (_, false, _) => Change::Write { slot, offset: 0, data: random.bytes() },
        }
    }

    /// Some changes, one after the other, beside the upkeep; until the process has died.
    async fn change(&mut self, node: &Node, count: u64, is_dead: impl Fn() -> bool) {
        for _ in 0..count {
            for _ in 0..self.random.below(40) {
                tokio::task::yield_now().await;
            }
            if is_dead() {
                return;
            }
            let change = self.choose();
            let after = change.applied(&self.slots);
            let slots: Vec<usize> = after.iter().map(|(slot, _)| *slot).collect();
            for (slot, state) in after {
                self.slots[slot].states.push(state);
            }
            let mut tx = begin(&node.fs()).await;
            let done = match change.run(&mut tx).await {
                Ok(()) => tx.commit(CommitMode::Durable).await,
                Err(error) => Err(error),
            };
            for slot in slots {
                let states = &mut self.slots[slot].states;
                match done.is_ok() {
                    true if !is_dead() => drop(states.drain(..states.len() - 1)),
                    true => {}
                    // It needed a cloud, or met somebody else; nothing of it is there.
                    false => drop(states.pop()),
                }
            }
        }
    }

    /// Some upkeep, in a random order.
    async fn maintain(node: &Node, actions: &[u64]) {
        for action in actions {
            let upkeep = &node.upkeep;
            match action {
                0..4 => {
                    let _flush = node.cache.flush(cache::Scope::All);
                    let _ = upkeep.write_back.once().await;
                }
                // Late puts arrive before what may be theirs is deleted, or after it was not.
                4 => {
                    node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
                    let _ = upkeep.garbage.once().await;
                    node.site.carry_out().await;
                }
                5 => {
                    node.site.carry_out().await;
                    node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
                    let _ = upkeep.garbage.once().await;
                }
                6 => drop(upkeep.cleaner.once().await),
                7 => drop(upkeep.repairer.once().await),
                8 => drop(upkeep.scrubber.once(100, 0).await),
                _ => drop(upkeep.reaper.once().await),
            }
        }
    }

    fn disturb_clouds(&mut self, node: &Node) {
        let refused = ErrorKind::Refused;
        let faults = [Fault::None, Fault::Fail(refused), Fault::FailAfter(refused), Fault::Late(refused)];
        for cloud in &node.site.clouds {
            cloud.set(Side::Reads, Fault::None);
            let fault = if self.random.percent(30) { self.random.below(4) as usize } else { 0 };
            cloud.set(Side::Writes, faults[fault].clone());
        }
        if self.random.percent(10) {
            let cloud = self.random.below(3) as usize;
            node.site.clouds[cloud].set(Side::Reads, Fault::Fail(ErrorKind::Refused));
        }
    }

    /// One stretch of life, at whose end the process may have died.
    async fn phase(&mut self, node: Node) -> Node {
        self.disturb_clouds(&node);
        let is_armed = self.random.percent(60);
        let (family, last) = self.random.pick(&FAMILIES);
        let points: Vec<&'static str> = POINTS.iter().map(|(point, _)| *point).collect();
        let points: Vec<_> =
            points.into_iter().filter(|point| point.split('.').next() == Some(family)).collect();
        let passes = if is_armed { 1 + self.random.below(3) } else { u64::MAX };
        let point = self.random.pick(&points);
        let death = Rc::new(RefCell::new(Death { point, passes, site: node.site.clone(), left: None }));
        let mut actions: Vec<u64> = (0..1 + self.random.below(4)).map(|_| self.random.below(10)).collect();
        actions.extend(last.iter().filter(|_| is_armed));
        let changes = self.random.below(8);
        let watching = watch({
            let death = death.clone();
            move |point| death.borrow_mut().pass(point)
        });
        let is_dead = || death.borrow().left.is_some();
        tokio::join!(World::maintain(&node, &actions), self.change(&node, changes, is_dead));
        drop(watching);
        let left = death.borrow_mut().left.take();
        let left = match left {
            Some(left) => {
                *self.deaths.entry(point).or_default() += 1;
                Some(left)
            }
            None => self.random.percent(10).then(|| node.site.cut_off()),
        };
        let Some(left) = left else { return node };
        node.die().await;
        let node = Node::start(left).await;
        self.look(&node).await;
        node.check().await;
        node.check_clouds().await;
        node
    }

    /// Finds out which of the changes that nobody was told of have happened.
    async fn look(&mut self, node: &Node) {
        let mut tx = begin(&node.fs()).await;
        let root = tx.root();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let found = match tx.lookup(root, &name(&number.to_string())).await {
                Ok(attributes) => Some(read_all(&mut tx, attributes.file).await),
                Err(_) => None,
            };
            let lengths: Vec<_> = slot.states.iter().map(|state| state.as_ref().map(Vec::len)).collect();
            let length = found.as_ref().map(Vec::len);
            assert!(
                slot.states.contains(&found) || (slot.states.is_empty() && found.is_none()),
                "file {number} has {length:?} bytes, and may have one of {lengths:?}"
            );
            slot.states = vec![found];
        }
    }

    /// Until nothing is left to be done.
    async fn come_to_rest(&mut self, node: &Node) {
        for cloud in &node.site.clouds {
            cloud.set(Side::Reads, Fault::None);
            cloud.set(Side::Writes, Fault::None);
        }
        node.volume.end_of_claims();
        for _ in 0..ROUNDS {
            node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
            node.write_back().await;
            node.upkeep.reaper.once().await.unwrap();
            node.upkeep.repairer.retry_now();
            let _ = node.upkeep.repairer.once().await.unwrap();
            let _ = node.upkeep.garbage.once().await.unwrap();
            let cleaned = node.upkeep.cleaner.once().await.unwrap();
            node.site.carry_out().await;
            let is_clean = node.volume.all_garbage(None, 1).await.unwrap().is_empty();
            if is_clean && cleaned.made == 0 {
                return;
            }
        }
        panic!("upkeep does not come to an end");
    }
}

async fn live(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut random = Random(seed);
    let site = Site::new(ManualClock::new());
    let is_packing = seed % 4 != 3;
    // Whatever garbage a pack has is worth cleaning.
    let cleaning = CleaningCosts { put: 0, get: 0, read: 0, months: 1 };
    let site = Site {
        scheme: random.pick(&["rs:2+1", "rs:2+1", "replicas:3", "aont-rs:2+1", "caont-rs:2+1"]),
        longest_packed: if is_packing { 16 << 10 } else { 0 },
        pack_size: 64 << 10,
        batch: 8,
        late_puts: LATE_PUTS,
        cleaning,
        journal: journal::JournalConfig::small(16 << 20),
        ..site
    };
    let mut node = Node::start(site).await;
    node.site.clock.hurry();
    let slots = (0..FILES).map(|_| Slot { states: vec![None] }).collect();
    let mut world = World { slots, random, deaths: BTreeMap::new() };
    for _ in 0..PHASES {
        node = world.phase(node).await;
    }
    world.come_to_rest(&node).await;
    node.check().await;
    node.check_clouds_at_rest().await;
    node.cache.drop_clean().await;
    world.look(&node).await;
    node.die().await;
    world.deaths
}

#[test]
fn the_clouds_hold_exactly_what_the_metadata_refer_to_whatever_happens() {
    let number =
        |name: &str, usual| std::env::var(name).ok().map_or(usual, |text| text.parse().expect("a number"));
    let (first, seeds) = (number("KURMA_SEED", 0), number("KURMA_SEEDS", SEEDS));
    let mut deaths: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in first..first + seeds {
        println!("KURMA_SEED={seed}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (point, count) in runtime.block_on(live(seed)) {
            *deaths.entry(point).or_default() += count;
        }
    }
    println!("deaths: {deaths:#?}");
    for (family, _) in FAMILIES.iter().filter(|_| seeds >= SEEDS) {
        let died = deaths.keys().any(|point| point.split('.').next() == Some(*family));
        assert!(died, "nobody died in {family}: {deaths:?}");
    }
}
