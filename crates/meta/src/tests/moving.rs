//! Attachments that are needed for ever do not fill the journal.

use std::collections::{BTreeMap, BTreeSet};

use journal::{Attachment, JournalError, Lsn, PayloadRef, Priority};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::{HeldPayload, Mode, PublishedAttachment, ReplayedAttachment};

/// Keeps the last payload of each name until it is cleaned. Descriptor: what 1 (write, clean, move), name 1, age 8.
#[derive(Default)]
struct Shelf {
    kept: Mutex<BTreeMap<u8, Kept>>,
    unreadable: Mutex<BTreeSet<u8>>,
}

#[derive(Clone, Copy, PartialEq)]
struct Kept {
    /// The record that brought it, and the one that has it.
    age: Lsn,
    holder: Lsn,
    place: PayloadRef,
}

fn descriptor(what: u8, name: u8, age: Lsn) -> Bytes {
    [&[what, name][..], &age.0.to_be_bytes()].concat().into()
}

impl Shelf {
    fn apply(&self, lsn: Lsn, descriptor: &[u8], place: PayloadRef) {
        let age = Lsn(u64::from_be_bytes(descriptor[2..].try_into().unwrap()));
        let mut kept = self.kept.lock();
        match descriptor[0] {
            b'w' => drop(kept.insert(descriptor[1], Kept { age: lsn, holder: lsn, place })),
            b'm' => drop(kept.insert(descriptor[1], Kept { age, holder: lsn, place })),
            _ => drop(kept.remove(&descriptor[1])),
        }
    }

    fn held(name: u8, kept: &Kept) -> HeldPayload {
        let Kept { age, place, .. } = *kept;
        HeldPayload { descriptor: descriptor(b'm', name, age), place, from: 0, length: place.length }
    }

    fn contents(&self, store: &LocalStore) -> BTreeMap<u8, Bytes> {
        let kept = self.kept.lock().clone();
        kept.into_iter()
            .map(|(name, kept)| {
                (name, store.journal().read_blocking(kept.place, 0, kept.place.length).unwrap())
            })
            .collect()
    }
}

impl CommitObserver for Shelf {
    fn published(&self, lsn: Lsn, attachments: Vec<PublishedAttachment>) {
        attachments.into_iter().for_each(|a| self.apply(lsn, &a.descriptor, a.place));
    }

    fn replay(&self, lsn: Lsn, attachments: Vec<ReplayedAttachment>) {
        attachments.into_iter().for_each(|a| self.apply(lsn, &a.descriptor, a.place));
    }

    fn oldest_needed(&self) -> Option<Lsn> {
        self.kept.lock().values().map(|kept| kept.holder).min()
    }

    fn kept(&self) -> u64 {
        self.kept.lock().values().map(|kept| u64::from(kept.place.length) + 128).sum()
    }

    fn held_below(&self, end: Lsn, bytes: u64) -> Vec<HeldPayload> {
        let mut left = bytes;
        let kept = self.kept.lock();
        let below =
            kept.iter().filter(|(_, kept)| kept.holder < end).map(|(name, kept)| Shelf::held(*name, kept));
        below
            .take_while(|held| {
                left.checked_sub(u64::from(held.length) + 128).map(|rest| left = rest).is_some()
            })
            .collect()
    }

    fn still_holds(&self, held: &HeldPayload) -> bool {
        let name = held.descriptor[1];
        self.kept.lock().get(&name).is_some_and(|kept| Shelf::held(name, kept) == *held)
    }

    fn unreadable(&self, held: &HeldPayload, error: &JournalError) {
        assert!(matches!(error, JournalError::DamagedPayload { place, .. } if *place == held.place));
        self.unreadable.lock().insert(held.descriptor[1]);
    }
}

struct Node {
    disk: MemoryDisk,
    store: LocalStore,
    shelf: Arc<Shelf>,
}

impl Node {
    fn start(disk: MemoryDisk) -> Node {
        let shelf = Arc::new(Shelf::default());
        let store = try_open(&disk, shelf.clone()).unwrap();
        Node { disk, store, shelf }
    }

    /// Commits; waits, if asked to, until that is durable or never will be.
    async fn commit(&self, what: u8, name: u8, payload: Bytes, durable: bool) -> Result<Lsn, MetaError> {
        let mut transaction = self.store.begin(Mode::Optimistic).await?;
        transaction.put(bytes([name]), bytes([what]));
        transaction.attach(Attachment { descriptor: descriptor(what, name, Lsn::ZERO), payload });
        let priority = if what == b'c' { Priority::Upkeep } else { Priority::Client };
        let committed = transaction.commit(priority).await?;
        let lsn = committed.lsn.unwrap();
        if durable {
            let _ = committed.durable().await;
        }
        Ok(lsn)
    }
}

fn content(name: u8, number: u32, length: usize) -> Bytes {
    (0..length as u32)
        .map(|at| ((at / 7) ^ number.wrapping_mul(31) ^ u32::from(name)) as u8)
        .collect::<Vec<_>>()
        .into()
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_is_needed_for_ever_keeps_its_own_size_and_no_more() {
    let mut node = Node::start(MemoryDisk::new());
    let stuck = [content(1, 1, 9000), content(2, 2, 100)];
    for (name, payload) in stuck.iter().enumerate() {
        node.commit(b'w', name as u8, payload.clone(), true).await.unwrap();
    }
    let capacity = journal_config().capacity;
    for life in 0..4 {
        let mut written = 0;
        // Nothing ends a wait for space but space.
        let all = async {
            while written < 3 * capacity {
                node.commit(b'w', 9, content(9, written as u32, 8000), true).await.unwrap();
                node.commit(b'c', 9, Bytes::new(), true).await.unwrap();
                written += 8000;
            }
        };
        tokio::time::timeout(Duration::from_secs(3600), all).await.expect("the journal is full");
        let kept = node.shelf.contents(&node.store);
        assert_eq!(kept.into_values().collect::<Vec<_>>(), stuck);
        node = Node::start(if life % 2 == 0 { node.disk.kill() } else { node.disk.crash(life) });
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_cannot_be_read_is_named_and_once_nobody_needs_it_the_journal_is_free_again() {
    let node = Node::start(MemoryDisk::new());
    node.commit(b'w', 1, content(1, 1, 9000), true).await.unwrap();
    node.commit(b'w', 2, content(2, 2, 100), true).await.unwrap();
    let place = node.shelf.kept.lock()[&1].place;
    let mut files = node.disk.files().into_iter();
    let (path, _) =
        files.find(|(_, bytes)| bytes.get(24..32) == Some(&place.segment.to_be_bytes()[..])).unwrap();
    node.disk.damage(&path, |bytes| bytes[place.offset as usize + 10] ^= 1);
    let fill = async |bytes: u64| {
        let mut written = 0;
        while written < bytes {
            node.commit(b'w', 9, content(9, written as u32, 8000), true).await.unwrap();
            node.commit(b'c', 9, Bytes::new(), true).await.unwrap();
            written += 8000;
        }
    };
    // Nothing ends a wait for space but space.
    let filled = tokio::time::timeout(Duration::from_secs(3600), fill(3 * journal_config().capacity)).await;
    assert!(filled.is_err(), "the segment was released");
    assert_eq!(*node.shelf.unreadable.lock(), BTreeSet::from([1]));
    node.commit(b'c', 1, Bytes::new(), true).await.unwrap();
    let filled = tokio::time::timeout(Duration::from_secs(3600), fill(3 * journal_config().capacity)).await;
    filled.expect("the journal is full");
}

#[derive(Debug, Clone)]
enum Step {
    Write {
        name: u8,
        length: usize,
        durable: bool,
    },
    Clean {
        name: u8,
    },
    /// Data that is needed for a moment only; fills an eighth of the journal.
    Pass,
    Crash(u64),
    Kill,
    CutPower(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..12, 1usize..6000, any::<bool>()).prop_map(|(name, length, durable)| Step::Write { name, length, durable }),
        3 => (0u8..12).prop_map(|name| Step::Clean { name }),
        8 => Just(Step::Pass),
        1 => any::<u64>().prop_map(Step::Crash),
        1 => Just(Step::Kill),
        1 => (0u64..60).prop_map(Step::CutPower),
    ]
}

async fn run(steps: Vec<Step>) {
    let mut node = Node::start(MemoryDisk::new());
    // What is kept after each transaction; those between are moves.
    let mut history = BTreeMap::from([(Lsn::ZERO, BTreeMap::new())]);
    let mut durable = Lsn::ZERO;
    let mut number = 0;
    for step in steps {
        let mut now = history.last_key_value().unwrap().1.clone();
        let mut next = None;
        match step {
            Step::Write { name, length, durable } => {
                number += 1;
                let payload = content(name, number, length);
                if let Ok(lsn) = node.commit(b'w', name, payload.clone(), durable).await {
                    now.insert(name, payload);
                    history.insert(lsn, now);
                }
            }
            Step::Clean { name } => {
                if let Ok(lsn) = node.commit(b'c', name, Bytes::new(), false).await {
                    now.remove(&name);
                    history.insert(lsn, now);
                }
            }
            Step::Pass => {
                now.remove(&99);
                for _ in 0..journal_config().capacity / 8 / 8192 {
                    number += 1;
                    let payload = content(99, number, 8000);
                    let Ok(lsn) = node.commit(b'w', 99, payload.clone(), true).await else { break };
                    let mut with = now.clone();
                    with.insert(99, payload);
                    history.insert(lsn, with);
                    let Ok(lsn) = node.commit(b'c', 99, Bytes::new(), false).await else { break };
                    history.insert(lsn, now.clone());
                }
            }
            Step::Crash(seed) => next = Some(node.disk.crash(seed)),
            Step::Kill => next = Some(node.disk.kill()),
            Step::CutPower(operations) => node.disk.cut_power_after(operations),
        }
        if next.is_none() && node.store.journal().failed().is_some() || node.store.failed().is_some() {
            next = Some(node.disk.crash(number.into()));
        }
        durable = durable.max(node.store.journal().durable_lsn());
        if let Some(disk) = next {
            node = Node::start(disk);
            let last = node.store.published();
            assert!(last >= durable, "{durable:?} was durable, {last:?} is there");
            history.retain(|&lsn, _| lsn <= last);
            let expected = history.last_key_value().unwrap().1;
            assert!(node.shelf.contents(&node.store) == *expected, "after {last:?}");
            durable = last;
        }
    }
    if node.store.journal().failed().is_none() {
        assert!(node.shelf.contents(&node.store) == *history.last_key_value().unwrap().1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_moved_and_wherever_it_crashes_what_is_needed_is_there_and_nothing_comes_back(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(3600), run(steps)).await.expect("it hangs") });
    }
}

#[tokio::test(start_paused = true)]
async fn who_saw_what_never_became_durable_is_told_so() {
    let node = Node::start(MemoryDisk::new());
    node.commit(b'w', 1, content(1, 1, 10), true).await.unwrap();
    node.disk.fail_next_sync();
    let mut writer = node.store.begin(Mode::Optimistic).await.unwrap();
    writer.put(bytes("key"), bytes("never"));
    let committed = writer.commit(Priority::Client).await.unwrap();
    // Between visibility and durability.
    let mut reader = node.store.begin(Mode::Optimistic).await.unwrap();
    assert_eq!(reader.get(b"key").await.unwrap(), Some(bytes("never")));
    let seen = reader.commit(Priority::Client).await.unwrap();
    assert!(!seen.is_durable());
    assert!(matches!(committed.durable().await, Err(MetaError::Journal(_))));
    assert!(matches!(seen.durable().await, Err(MetaError::Journal(_))));
    // And whoever comes later.
    let mut reader = node.store.begin(Mode::Optimistic).await.unwrap();
    assert_eq!(reader.get(b"key").await.unwrap(), Some(bytes("never")));
    assert!(reader.commit(Priority::Client).await.unwrap().durable().await.is_err());
    // What is durable can still be read.
    let mut reader = node.store.begin(Mode::Optimistic).await.unwrap();
    assert!(reader.get(&[1]).await.unwrap().is_some());
    reader.commit(Priority::Client).await.unwrap().durable().await.unwrap();
}
