//! Measures the embedded store on this machine's disk: `cargo run --release -p meta --example throughput [DIRECTORY]`.

#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::unwrap_used)] // a measurement

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use environment::Environment;
use journal::{Attachment, Journal, JournalConfig, Priority};
use meta::{KeyBuilder, LocalConfig, LocalStore, MetaStore, Mode, NoObserver, Scan};
use seal::NodeKey;

const ROWS: u64 = 300_000;

fn open(directory: &std::path::Path) -> LocalStore {
    let environment = Environment::real();
    let key = NodeKey::from_bytes([7; 32]);
    let config = JournalConfig { capacity: 1 << 30, ..JournalConfig::default() };
    let (journal, recovery) =
        Journal::open(environment.clone(), &directory.join("journal"), &key, config).unwrap();
    LocalStore::open(environment, directory, LocalConfig::default(), journal, recovery, Arc::new(NoObserver))
        .unwrap()
}

fn key(number: u64) -> Bytes {
    KeyBuilder::new(b'i').number(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).build()
}

/// Runs `tasks` times `steps` transactions of `writes` rows of 150 bytes; latencies of the commits in microseconds.
async fn commits(
    store: &LocalStore,
    tasks: u64,
    seconds: u64,
    writes: u64,
    payload: usize,
) -> (f64, Vec<u128>) {
    let begun = Instant::now();
    let until = Duration::from_secs(seconds);
    let payload = Bytes::from(vec![3; payload]);
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (store, payload) = (store.clone(), payload.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                let mut step = 0;
                'steps: while begun.elapsed() < until {
                    let start = Instant::now();
                    let mut transaction = store.begin(Mode::Optimistic).await.unwrap();
                    for write in 0..writes {
                        let key = key((task * 7919 + step * writes + write) % ROWS);
                        if transaction.get(&key).await.is_err() {
                            continue 'steps;
                        }
                        transaction.put(key, Bytes::from(vec![step as u8; 150]));
                    }
                    if !payload.is_empty() {
                        transaction.attach(Attachment {
                            descriptor: Bytes::from_static(b"data"),
                            payload: payload.clone(),
                        });
                    }
                    match transaction.commit(Priority::Client).await {
                        Ok(committed) => committed.durable().await.unwrap(),
                        Err(meta::MetaError::Conflict) => continue,
                        Err(error) => panic!("{error}"),
                    }
                    latencies.push(start.elapsed().as_micros());
                    step += 1;
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in running {
        latencies.extend(task.await.unwrap());
    }
    let rate = latencies.len() as f64 / begun.elapsed().as_secs_f64();
    latencies.sort_unstable();
    (rate, latencies)
}

fn report(what: &str, (rate, latencies): (f64, Vec<u128>)) {
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    println!("{what:<46} {rate:>10.0}/s   p50 {} us  p99 {} us", at(0.5), at(0.99));
}

async fn reads(store: &LocalStore, what: &str) {
    const GETS: u64 = 300_000;
    let begun = Instant::now();
    for chunk in 0..GETS / 10 {
        let mut transaction = store.begin(Mode::Optimistic).await.unwrap();
        for step in 0..10 {
            let row = transaction.get(&key((chunk * 10 + step) * 7 % ROWS)).await;
            assert!(!matches!(row, Ok(None)));
        }
        let _ = transaction.commit(Priority::Client).await;
    }
    println!("{what:<46} {:>10.0}/s", GETS as f64 / begun.elapsed().as_secs_f64());
    const SCANS: u64 = 5_000;
    let begun = Instant::now();
    for step in 0..SCANS {
        let mut transaction = store.begin(Mode::Optimistic).await.unwrap();
        let scan = Scan { start: &key(step), end: &[255], guard: None, limit: 100 };
        let rows = transaction.scan(scan).await.unwrap();
        assert!(rows.len() <= 100);
    }
    println!("{:<46} {:>10.0}/s", "  100-row scans", SCANS as f64 / begun.elapsed().as_secs_f64());
}

#[tokio::main]
async fn main() {
    let folder =
        std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("kurma-throughput"), PathBuf::from);
    let _ = std::fs::remove_dir_all(&folder);
    let store = open(&folder);
    let begun = Instant::now();
    for chunk in 0..ROWS / 1000 {
        let mut transaction = store.begin(Mode::Optimistic).await.unwrap();
        for row in 0..1000 {
            transaction.put(key(chunk * 1000 + row), Bytes::from(vec![1; 150]));
        }
        transaction.commit(Priority::Client).await.unwrap().durable().await.unwrap();
    }
    println!("{ROWS} rows loaded in {:.2?}", begun.elapsed());

    report("durable 1-row transactions, alone", commits(&store, 1, 3, 1, 0).await);
    report("durable 1-row transactions, 64 tasks", commits(&store, 64, 5, 1, 0).await);
    report("durable 1-row transactions, 512 tasks", commits(&store, 512, 5, 1, 0).await);
    report("durable 100-row transactions, 64 tasks", commits(&store, 64, 5, 100, 0).await);
    report("durable 1-row + 4 KiB of data, alone", commits(&store, 1, 3, 1, 4096).await);
    report("durable 1-row + 4 KiB of data, 64 tasks", commits(&store, 64, 5, 1, 4096).await);
    report("durable 1-row + 1 MiB of data, alone", commits(&store, 1, 5, 1, 1 << 20).await);
    report("durable 1-row + 1 MiB of data, 16 tasks", commits(&store, 16, 8, 1, 1 << 20).await);

    store.close().await.unwrap();
    drop(store);
    let begun = Instant::now();
    let store = open(&folder);
    println!("reopened in {:.2?}", begun.elapsed());
    reads(&store, "random gets, 10 per transaction").await;
    let (writer, until) = (store.clone(), Instant::now());
    let background = tokio::spawn(async move { commits(&writer, 4, 4, 1, 0).await.0 });
    reads(&store, "random gets beside 4 writers").await;
    println!("  (reads took {:.2?}; writers {:.0}/s)", until.elapsed(), background.await.unwrap());
    store.close().await.unwrap();
    let _ = std::fs::remove_dir_all(&folder);
}
