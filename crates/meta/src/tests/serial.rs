use std::collections::BTreeMap;

use journal::{Lsn, Priority};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::{Mode, Scan};

/// One operation of a transaction on a small set of keys.
#[derive(Debug, Clone)]
enum Operation {
    Get(u8),
    Scan(u8, u8, usize),
    /// Stores a digest of all that was read, so that a wrong read spreads.
    Put(u8),
    Delete(u8),
    Yield,
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || 0u8..6;
    prop_oneof![
        4 => key().prop_map(Operation::Get),
        2 => (key(), 0u8..7, 1usize..8).prop_map(|(from, to, limit)| Operation::Scan(from, to, limit)),
        3 => key().prop_map(Operation::Put),
        1 => key().prop_map(Operation::Delete),
        3 => Just(Operation::Yield),
    ]
}

/// Everything a transaction observed, and what it wrote.
#[derive(Debug, Clone, Default, PartialEq)]
struct Trace {
    seen: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
    digest: u64,
}

impl Trace {
    fn see(&mut self, rows: Vec<(Vec<u8>, Vec<u8>)>) {
        for byte in rows.iter().flat_map(|(key, value)| key.iter().chain(value)) {
            self.digest = self.digest.wrapping_mul(1099511628211) ^ u64::from(*byte);
        }
        self.digest = self.digest.wrapping_mul(31) + rows.len() as u64;
        self.seen.push(rows);
    }
}

const GUARD: &[u8] = &[200];

async fn run(
    store: &LocalStore,
    program: &[Operation],
    name: u64,
) -> Result<(Option<Lsn>, Trace), MetaError> {
    let mut transaction = store.begin(Mode::Optimistic).await?;
    let mut trace = Trace { digest: name, ..Trace::default() };
    for operation in program {
        match operation {
            Operation::Get(key) => {
                let value = transaction.get(&[*key]).await?;
                trace.see(value.map(|value| (vec![*key], value.to_vec())).into_iter().collect());
            }
            Operation::Scan(start, end, limit) => {
                let scan = Scan { start: &[*start], end: &[*end], guard: Some(GUARD), limit: *limit };
                let rows = transaction.scan(scan).await?;
                trace.see(rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect());
            }
            Operation::Put(key) => {
                transaction.put(bytes([*key]), bytes(trace.digest.to_be_bytes()));
                transaction.touch(GUARD);
            }
            Operation::Delete(key) => {
                transaction.delete(bytes([*key]));
                transaction.touch(GUARD);
            }
            Operation::Yield => tokio::task::yield_now().await,
        }
    }
    let committed = transaction.commit(Priority::Client).await?;
    Ok((committed.lsn, trace))
}

/// The same program alone on a plain map.
fn run_alone(map: &mut BTreeMap<Vec<u8>, Vec<u8>>, program: &[Operation], name: u64) -> Trace {
    let mut trace = Trace { digest: name, ..Trace::default() };
    for operation in program {
        match operation {
            Operation::Get(key) => {
                trace.see(
                    map.get_key_value(&vec![*key]).map(|(k, v)| (k.clone(), v.clone())).into_iter().collect(),
                );
            }
            Operation::Scan(start, end, limit) => {
                let rows = map.iter().filter(|(key, _)| (*start..*end).contains(&key[0])).take(*limit);
                trace.see(rows.map(|(k, v)| (k.clone(), v.clone())).collect());
            }
            Operation::Put(key) => drop(map.insert(vec![*key], trace.digest.to_be_bytes().to_vec())),
            Operation::Delete(key) => drop(map.remove(&vec![*key])),
            Operation::Yield => {}
        }
    }
    trace
}

async fn check(programs: Vec<Vec<Vec<Operation>>>, multi: bool) {
    let store = open(&MemoryDisk::new());
    type Done = (Lsn, u64, Vec<Operation>, Trace);
    let committed: Arc<Mutex<Vec<Done>>> = Arc::default();
    let tasks: Vec<_> = programs
        .into_iter()
        .enumerate()
        .map(|(task, programs)| {
            let (store, committed) = (store.clone(), committed.clone());
            tokio::spawn(async move {
                for (index, program) in programs.into_iter().enumerate() {
                    let name = (task * 1000 + index) as u64;
                    match run(&store, &program, name).await {
                        Ok((Some(lsn), trace)) => committed.lock().push((lsn, name, program, trace)),
                        Ok((None, _)) | Err(MetaError::Conflict) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut committed = std::mem::take(&mut *committed.lock());
    committed.sort_by_key(|entry| entry.0);
    assert!(!multi || !committed.is_empty());
    let mut map = BTreeMap::new();
    for (lsn, name, program, trace) in committed {
        assert_eq!(run_alone(&mut map, &program, name), trace, "{lsn:?} {program:?}");
    }
    let mut reader = store.begin(Mode::Optimistic).await.unwrap();
    let rows = reader.scan(Scan { start: b"", end: GUARD, guard: None, limit: 100 }).await.unwrap();
    assert!(rows.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).eq(map));
    store.close().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn concurrent_transactions_equal_a_serial_run_in_the_order_of_their_numbers(
        programs in prop::collection::vec(prop::collection::vec(prop::collection::vec(operation(), 1..10), 1..12), 2..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(check(programs, false));
    }
}

#[test]
fn transactions_on_many_threads_equal_a_serial_run() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    use Operation::*;
    let mixes = [
        vec![Get(0), Get(1), Yield, Put(0), Put(2)],
        vec![Scan(0, 6, 8), Put(1), Delete(3)],
        vec![Get(2), Put(3), Put(4), Scan(1, 5, 2), Put(5)],
        vec![Delete(0), Get(4), Put(4)],
        vec![Scan(2, 6, 3), Yield, Get(0), Put(0)],
    ];
    let programs =
        (0..8).map(|task| (0..200).map(|step| mixes[(task * 3 + step) % 5].clone()).collect()).collect();
    runtime.block_on(check(programs, true));
}
