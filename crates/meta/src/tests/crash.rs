use std::collections::BTreeMap;

use journal::{Lsn, Priority};
use proptest::prelude::*;

use super::*;
use crate::{Mode, Scan};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Step {
    /// Puts (or deletes) keys of one transaction.
    Commit(Vec<(u8, Option<u16>)>),
    /// Waits until everything is durable.
    Flush,
    /// Lets the writer and the applier run.
    Pause,
    /// Closes, and then the power goes.
    Close(u64),
    Kill,
    Crash(u64),
    CutPower(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let write = (any::<u8>(), prop::option::weighted(0.8, 0u16..3000));
    prop_oneof![
        14 => prop::collection::vec(write, 1..6).prop_map(Step::Commit),
        4 => Just(Step::Flush),
        3 => Just(Step::Pause),
        2 => any::<u64>().prop_map(Step::Close),
        1 => Just(Step::Kill),
        2 => any::<u64>().prop_map(Step::Crash),
        1 => (0u64..40).prop_map(Step::CutPower),
    ]
}

async fn contents(store: &LocalStore) -> Rows {
    let mut reader = store.begin(Mode::Optimistic).await.unwrap();
    let scan = Scan { start: b"", end: &[255; 4], guard: None, limit: usize::MAX };
    let rows = reader.scan(scan).await.unwrap();
    rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

async fn run(steps: Vec<Step>) {
    let mut disk = MemoryDisk::new();
    let mut store = open(&disk);
    // The state after each transaction, from the last one known to be durable.
    let mut history: BTreeMap<Lsn, Rows> = BTreeMap::from([(Lsn::ZERO, Rows::new())]);
    let mut durable = Lsn::ZERO;
    for step in steps {
        let next = match step {
            Step::Commit(writes) => {
                let mut transaction = store.begin(Mode::Optimistic).await.unwrap();
                let mut rows = history.last_key_value().unwrap().1.clone();
                for (key, value) in writes {
                    let key = vec![key, key];
                    match value {
                        Some(length) => {
                            let value = vec![history.len() as u8; length as usize];
                            transaction.put(bytes(&key), bytes(&value));
                            rows.insert(key, value);
                        }
                        None => {
                            transaction.delete(bytes(&key));
                            rows.remove(&key);
                        }
                    }
                }
                if let Ok(committed) = transaction.commit(Priority::Client).await {
                    history.insert(committed.lsn.unwrap(), rows);
                }
                None
            }
            Step::Flush => {
                let last = *history.last_key_value().unwrap().0;
                if store.journal().durable(last).await.is_ok() {
                    durable = durable.max(last);
                }
                None
            }
            Step::Pause => {
                disk.environment().clock.sleep(Duration::from_millis(2)).await;
                None
            }
            Step::Close(seed) => {
                let _ = store.close().await;
                Some(disk.crash(seed))
            }
            Step::Kill => Some(disk.kill()),
            Step::Crash(seed) => Some(disk.crash(seed)),
            Step::CutPower(operations) => {
                disk.cut_power_after(operations);
                None
            }
        };
        let next = next.or_else(|| store.journal().failed().map(|_| disk.crash(durable.0)));
        if let Some(next) = next {
            durable = durable.max(store.journal().durable_lsn());
            disk = next;
            store = open(&disk);
            let last = store.published();
            assert!(last >= durable, "{durable:?} was durable, {last:?} is there");
            history.retain(|&lsn, _| lsn <= last);
            let (&newest, rows) = history.last_key_value().unwrap();
            assert_eq!(newest, last);
            assert!(contents(&store).await == *rows, "the rows after {last:?}");
            durable = last;
        }
    }
    let (_, rows) = history.last_key_value().unwrap();
    assert!(contents(&store).await == *rows);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn a_crash_at_any_point_leaves_the_durable_transactions_and_a_prefix_of_the_rest(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        // Time passes only while nothing else can be done, so a hang is a failure at once.
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(3600), run(steps)).await.expect("it hangs") });
    }
}

#[tokio::test]
async fn fifty_restarts_keep_every_row() {
    let mut disk = MemoryDisk::new();
    for restart in 0..50u32 {
        let store = open(&disk);
        assert_eq!(contents(&store).await.len(), restart as usize);
        let mut transaction = store.begin(Mode::Exclusive).await.unwrap();
        transaction.put(bytes(restart.to_be_bytes()), bytes("row"));
        transaction.commit(Priority::Client).await.unwrap().durable().await.unwrap();
        if restart % 3 == 0 {
            store.close().await.unwrap();
        }
        disk = if restart % 2 == 0 { disk.kill() } else { disk.crash(restart.into()) };
    }
}

#[tokio::test]
async fn a_journal_that_does_not_belong_to_the_store_is_refused() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    let mut transaction = store.begin(Mode::Optimistic).await.unwrap();
    transaction.put(bytes("a"), bytes("b"));
    transaction.commit(Priority::Client).await.unwrap().durable().await.unwrap();
    store.close().await.unwrap();
    let disk = disk.kill();
    for (path, _) in disk.files() {
        if path.starts_with("/journal") {
            environment::Disk::remove(&disk, &path).unwrap();
        }
    }
    let error = try_open(&disk, Arc::new(NoObserver)).err().unwrap();
    assert!(matches!(error, MetaError::Apart { .. }), "{error}");
}
