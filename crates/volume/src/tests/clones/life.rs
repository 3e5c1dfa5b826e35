//! Files that are written, cloned, stored and removed in any order, against what they must hold.

use std::collections::BTreeSet;

use blocks::BlockStore;
use bytes::Bytes;
use cache::{DirtyBlock, Selection};
use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use file_system::{Authority, CommitMode, FileId, FileSystem, FsError, SetAttributes, Transaction};
use meta::MetaStore;
use proptest::prelude::*;
use upkeep::{Base, Plan, Written, WrittenAs};

use super::{at, collect};
use crate::tests::node::{BLOCK, Node, Site};

/// Blocks that are stored and not committed.
pub type InFlight = Vec<(DirtyBlock, Written)>;

pub async fn begin_write_back(node: &Node) -> InFlight {
    let all = Selection { bytes: u64::MAX, blocks: 99, hurry: true };
    let store: &BlockStore = &node.volume.inner.node.blocks;
    let mut in_flight = Vec::new();
    for dirty in node.cache.claim_dirty(node.volume.volume(), &all) {
        let Some(snapshot) = node.cache.snapshot(&dirty) else { continue };
        let place = [(snapshot.file().object, snapshot.block())];
        let plan = node.volume.plan_write_back(&place).await.unwrap().remove(0).unwrap();
        let content = match plan {
            Plan::Nothing => WrittenAs::Nothing,
            Plan::Store(new) => {
                let base = match &new.base {
                    Base::Hole => Bytes::new(),
                    Base::Stored(old) => {
                        let loaded =
                            store.load(&old.key, &old.identity, old.seal, &old.placement, &node.volume);
                        loaded.await.unwrap().plaintext
                    }
                };
                let parts = snapshot.assemble(new.length, Some(&base)).await.unwrap();
                let (identity, seal, length) = (new.identity, new.seal, new.length);
                let is_shared = new.placement.scheme().is_convergent();
                let content = is_shared
                    .then(|| seal::content_id(new.key.content_key(), &parts, new.protection.padding));
                let found = match content {
                    Some(content) => node.volume.find_content(identity.object, content).await.unwrap(),
                    None => None,
                };
                match content.filter(|_| found.is_some()) {
                    Some(content) => WrittenAs::Content { identity, seal, content, length },
                    None => {
                        let (key, placement) = (&new.key, &new.placement);
                        let stored = store.store(key, &identity, seal, placement, &parts, new.protection);
                        let missing = stored.await.unwrap().missing;
                        WrittenAs::Version { identity, seal, missing, packed: None, length, content }
                    }
                }
            }
        };
        in_flight.push((dirty, Written { snapshot, content }));
    }
    in_flight
}

pub async fn end_write_back(node: &Node, in_flight: &mut InFlight) {
    let (claims, written): (Vec<_>, Vec<_>) = in_flight.drain(..).unzip();
    node.volume.commit_written(&written).await.unwrap();
    drop(claims);
}

/// Files, what they hold, and what is on its way.
struct World {
    node: Option<Node>,
    files: Vec<Option<(FileId, Vec<u8>)>>,
    in_flight: InFlight,
    made: u32,
}

impl World {
    fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    async fn verify(&self, cold: bool) {
        if cold {
            self.node().cache.drop_clean().await;
        }
        for (file, expected) in self.files.iter().flatten() {
            let found = read_all(&mut begin(&self.node().fs()).await, *file).await;
            assert!(found == *expected, "{file:?} differs");
        }
        self.node().check().await;
    }

    /// The clone, unless it is refused; the other way round the transaction is given back.
    async fn cloned(&self, step: &[u8; 6]) -> Option<(Box<dyn Transaction>, usize, Vec<u8>)> {
        let pick = |number: u8| usize::from(number) % self.files.len();
        let (from, to) = (pick(step[1]), pick(step[2]));
        let (source, target) = (self.files[from].as_ref()?, self.files[to].as_ref()?);
        let (start, place) = (u64::from(step[3] % 4) * BLOCK, u64::from(step[4] % 5) * BLOCK);
        let length = u64::from(step[5] % 4) * BLOCK;
        let mut tx = begin(&self.node().fs()).await;
        match tx.clone_range(at(source.0, start), at(target.0, place), length, true).await {
            Ok(()) => {}
            Err(FsError::InvalidArgument) => return None,
            Err(error) => panic!("{error}"),
        }
        let length = if length == 0 { source.1.len() - start as usize } else { length as usize };
        let mut content = target.1.clone();
        let (start, place) = (start as usize, place as usize);
        if length > 0 {
            content.resize(content.len().max(place + length), 0);
            content[place..place + length].copy_from_slice(&source.1[start..start + length]);
        }
        assert!(read_all(&mut tx, target.0).await == content, "the clone before its commit");
        Some((tx, to, content))
    }

    async fn settle(&mut self, cloned: Option<(Box<dyn Transaction>, usize, Vec<u8>)>) {
        let Some((tx, to, content)) = cloned else { return };
        match tx.commit(CommitMode::Durable).await {
            Ok(()) => self.files[to].as_mut().unwrap().1 = content,
            Err(FsError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn change(&mut self, step: &[u8; 6]) {
        let slot = usize::from(step[1]) % self.files.len();
        let mut tx = begin(&self.node().fs()).await;
        let root = tx.root();
        let Some((file, content)) = &mut self.files[slot] else {
            self.made += 1;
            let file = make_file(&mut tx, root, &format!("{slot} {}", self.made), b"").await.file;
            tx.link(file, root, &name(&slot.to_string())).await.unwrap();
            commit(tx).await;
            self.files[slot] = Some((file, Vec::new()));
            return;
        };
        let offset = usize::from(step[2] % 5) * BLOCK as usize + usize::from(step[3] % 3) * 20_000;
        match step[4] % 6 {
            0..3 => {
                let length = [10, 30_000, BLOCK as usize, 2 * BLOCK as usize][usize::from(step[5]) % 4];
                let data = vec![step[5] | 1; length];
                write(&mut tx, *file, offset as u64, &data).await.unwrap();
                content.resize(content.len().max(offset + length), 0);
                content[offset..offset + length].copy_from_slice(&data);
            }
            3 => {
                let set = SetAttributes::with_size(offset as u64);
                tx.set_attributes(*file, &set, Authority::Checked).await.unwrap();
                content.resize(offset, 0);
            }
            4 => {
                let length = usize::from(step[5] % 4 + 1) * 50_000;
                tx.deallocate(*file, offset as u64, length as u64, Authority::Checked).await.unwrap();
                let end = content.len().min(offset + length);
                content[offset.min(end)..end].fill(0);
            }
            _ => {
                let found = tx.read_directory(root, 0, 99).await.unwrap().entries;
                for entry in found.into_iter().filter(|entry| entry.attributes.file == *file) {
                    tx.remove(root, &entry.name).await.unwrap();
                }
                self.files[slot] = None;
            }
        }
        commit(tx).await;
    }

    async fn step(&mut self, step: &[u8; 6]) {
        match step[0] % 20 {
            0..7 => self.change(step).await,
            7..12 => {
                let cloned = self.cloned(step).await;
                self.settle(cloned).await;
            }
            // Something comes between the clone and its commit.
            12 => {
                let cloned = self.cloned(step).await;
                if step[5] & 8 == 0 {
                    let mut in_flight = std::mem::take(&mut self.in_flight);
                    end_write_back(self.node(), &mut in_flight).await;
                    self.node().write_back().await;
                } else {
                    let step = [0, step[3], step[4], step[1], step[2], step[5]];
                    let to = cloned.as_ref().map(|(_, to, _)| *to);
                    let slot = usize::from(step[1]) % self.files.len();
                    // The model would have to know what came first.
                    if to != Some(slot) {
                        self.change(&step).await;
                    }
                }
                self.settle(cloned).await;
            }
            13 => {
                let mut begun = begin_write_back(self.node()).await;
                self.in_flight.append(&mut begun);
            }
            14 => {
                let mut in_flight = std::mem::take(&mut self.in_flight);
                // Or it fails: some fragments are stored, and nothing is committed.
                if !step[1].is_multiple_of(3) {
                    end_write_back(self.node(), &mut in_flight).await;
                }
            }
            15 => drop(self.node().volume.reap_orphans(9).await.unwrap()),
            16 => {
                collect(self.node()).await;
                self.node().check_clouds().await;
                self.verify(true).await;
            }
            kind => {
                // What a dead process had under way is garbage for the next one.
                let mut in_flight = std::mem::take(&mut self.in_flight);
                if step[1].is_multiple_of(3) {
                    end_write_back(self.node(), &mut in_flight).await;
                }
                drop(in_flight);
                let node = self.node.take().unwrap();
                if kind == 17 {
                    node.write_back().await;
                }
                let node = match kind {
                    18 => node.crash().await,
                    19 => node.restart().await,
                    _ => node,
                };
                node.volume.end_of_claims();
                self.node = Some(node);
                self.verify(true).await;
            }
        }
        self.node().check().await;
    }

    /// Where equal content is kept once, no two versions that are stored hold the same.
    async fn verify_contents(&self) {
        let (node, store) = (self.node(), &self.node().volume.inner.node.blocks);
        let mut contents = BTreeSet::new();
        for stored in node.volume.stored_blocks(None, 999).await.unwrap() {
            let loaded =
                store.load(&stored.key, &stored.identity, stored.seal, &stored.placement, &node.volume).await;
            let is_new = contents.insert(loaded.unwrap().plaintext);
            assert!(
                is_new || !stored.placement.scheme().is_convergent(),
                "{} is stored twice",
                stored.identity
            );
        }
    }

    /// Everything goes, and nothing is left in the clouds.
    async fn end(mut self) {
        let mut in_flight = std::mem::take(&mut self.in_flight);
        end_write_back(self.node(), &mut in_flight).await;
        self.verify(true).await;
        let node = self.node();
        node.write_back().await;
        self.verify(true).await;
        collect(node).await;
        node.check_clouds().await;
        self.verify(true).await;
        self.verify_contents().await;
        let mut tx = begin(&node.fs()).await;
        let root = tx.root();
        for name in names(&mut tx, root).await {
            tx.remove(root, &file_system::Name::new(name).unwrap()).await.unwrap();
        }
        commit(tx).await;
        node.volume.reap_orphans(99).await.unwrap();
        node.check().await;
        collect(node).await;
        assert_eq!(node.stored(), [0; 4]);
        let keys = node.volume.inner.keys;
        for (start, end) in [keys.all_shares(), keys.all_contents(), keys.contents_of_all()] {
            let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
            let scan = meta::Scan { start: &start, end: &end, guard: None, limit: 9 };
            assert!(tx.scan(scan).await.unwrap().is_empty());
        }
        assert_eq!(node.incidents.0.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

fn run(scheme: &'static str, steps: &[[u8; 6]]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = Node::start(Site { scheme, ..Site::new(ManualClock::new()) }).await;
        let files = (0..4).map(|_| None).collect();
        let mut world = World { node: Some(node), files, in_flight: Vec::new(), made: 0 };
        for step in steps {
            world.step(step).await;
        }
        world.end().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clones_keep_what_they_have_and_leave_nothing_behind(
        steps in prop::collection::vec(any::<[u8; 6]>(), 0..120),
    ) {
        run("rs:2+1", &steps);
    }

    #[test]
    fn equal_blocks_are_stored_once_for_as_long_as_somebody_holds_them(
        steps in prop::collection::vec(any::<[u8; 6]>(), 0..120),
    ) {
        run("caont-rs:2+1", &steps);
    }
}

/// The same for longer: `KURMA_SOAK=rounds`.
#[test]
fn clones_in_a_long_life() {
    let rounds = std::env::var("KURMA_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u8
    };
    for _ in 0..rounds {
        let steps: Vec<[u8; 6]> = (0..600).map(|_| std::array::from_fn(|_| next())).collect();
        run("rs:2+1", &steps);
        run("caont-rs:2+1", &steps);
    }
}

/// A process dies while it stores two blocks; the next one stores them under the same numbers, and what the first one left is
/// collected. The second block of the clone is the same after zeros in it were replaced by zeros.
#[test]
fn garbage_of_a_dead_attempt_forgets_nothing_of_the_version_with_its_number() {
    let steps = [
        [84, 102, 228, 70, 129, 70],
        [241, 102, 17, 4, 186, 10],
        [13, 148, 31, 23, 237, 29],
        [38, 100, 155, 192, 27, 17],
        [157, 59, 227, 221, 25, 127],
        [36, 254, 113, 61, 105, 235],
        [221, 35, 237, 119, 114, 151],
        [232, 230, 187, 116, 83, 208],
        [6, 27, 73, 87, 148, 94],
    ];
    run("caont-rs:2+1", &steps);
}
