//! A process that is killed at every named point, on the machine's own disk, again and again in one directory.
//! Release builds have no such points.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used)] // a test, with its helpers

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use environment::Environment;
use environment::failpoint::POINTS;
use journal::{Attachment, Journal, JournalConfig, Lsn, PayloadRef, Priority};
use meta::{
    CommitObserver, LocalConfig, LocalStore, MetaStore, Mode, PublishedAttachment, ReplayedAttachment,
};
use parking_lot::Mutex;
use seal::NodeKey;

const TASKS: u8 = 8;
const DIRECTORY: &str = "KURMA_KILL_TEST_DIRECTORY";

/// Needs the last few records.
#[derive(Default)]
struct Recent {
    newest: AtomicU64,
    replayed: Mutex<Vec<(Lsn, Bytes, PayloadRef)>>,
}

impl CommitObserver for Recent {
    fn published(&self, lsn: Lsn, _attachments: Vec<PublishedAttachment>) {
        self.newest.store(lsn.0, Ordering::Relaxed);
    }

    fn replay(&self, lsn: Lsn, attachments: Vec<ReplayedAttachment>) {
        self.newest.store(lsn.0, Ordering::Relaxed);
        self.replayed.lock().extend(attachments.into_iter().map(|a| (lsn, a.descriptor, a.place)));
    }

    fn oldest_needed(&self) -> Option<Lsn> {
        Some(Lsn(self.newest.load(Ordering::Relaxed).saturating_sub(40)))
    }
}

fn open(directory: &Path) -> (LocalStore, Arc<Recent>) {
    let environment = Environment::real();
    let key = NodeKey::from_bytes([7; 32]);
    let config = JournalConfig::small(2 << 20);
    let (journal, recovery) =
        Journal::open(environment.clone(), &directory.join("journal"), &key, config).unwrap();
    let observer = Arc::new(Recent::default());
    let config = LocalConfig { checkpoint_bytes: 64 << 10, cache: 4 << 20, ..LocalConfig::default() };
    let store =
        LocalStore::open(environment, directory, config, journal, recovery, observer.clone()).unwrap();
    (store, observer)
}

fn payload(task: u8, count: u64) -> Bytes {
    vec![task ^ count as u8; 3000 + count as usize % 500].into()
}

async fn count(store: &LocalStore, task: u8) -> u64 {
    let mut reader = store.begin(Mode::Optimistic).await.unwrap();
    reader.get(&[task]).await.unwrap().map_or(0, |value| u64::from_be_bytes(value[..8].try_into().unwrap()))
}

/// The process that is killed: counts, and tells every durable count. Does nothing unless it is started by the test.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (store, _) = open(&directory);
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let store = store.clone();
                tokio::spawn(async move {
                    for next in count(&store, task).await + 1.. {
                        let mut transaction = store.begin(Mode::Optimistic).await.unwrap();
                        transaction.put(Bytes::from(vec![task]), next.to_be_bytes().to_vec().into());
                        let descriptor = [&[task][..], &next.to_be_bytes()].concat().into();
                        transaction.attach(Attachment { descriptor, payload: payload(task, next) });
                        transaction.commit(Priority::Client).await.unwrap().durable().await.unwrap();
                        let mut out = std::io::stdout().lock();
                        writeln!(out, "done {task} {next}").unwrap();
                        out.flush().unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Runs the child until it passes the point for the n-th time; the last count that each task has told.
fn run_and_kill(directory: &Path, point: &str, pass: u64) -> BTreeMap<u8, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(DIRECTORY, directory)
        .env("KURMA_FAILPOINT", format!("{point}:{pass}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BTreeMap::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((_, line)) = line.split_once("done ") else { continue };
        // The last line may be cut short; then nobody was told.
        let numbers: Option<(u8, u64)> =
            line.split_once(' ').and_then(|(task, count)| Some((task.parse().ok()?, count.parse().ok()?)));
        if let Some((task, count)) = numbers {
            told.insert(task, count);
        }
    }
    assert_eq!(child.wait().unwrap().signal(), Some(9), "killed at {point}");
    told
}

/// Everything told is there, and at most the one transaction of each task that was on its way.
async fn check(directory: &Path, told: &mut BTreeMap<u8, u64>, what: &str) {
    let (store, observer) = open(directory);
    for task in 0..TASKS {
        let told = told.entry(task).or_default();
        let found = count(&store, task).await;
        assert!(
            found == *told || found == *told + 1,
            "{what}: task {task} was told {told}, {found} is there"
        );
        *told = found;
    }
    let replayed = observer.replayed.lock().clone();
    let newest = observer.newest.load(Ordering::Relaxed);
    for (lsn, descriptor, place) in replayed {
        if lsn.0 + 40 <= newest {
            continue; // not needed, so possibly gone in this very moment
        }
        let count = u64::from_be_bytes(descriptor[1..].try_into().unwrap());
        assert_eq!(store.journal().read(place).await.unwrap(), payload(descriptor[0], count), "{what}");
    }
    store.close().await.unwrap();
    // Or its filler could be at a file that the next process makes as well.
    store.journal().close().await.unwrap();
}

#[test]
fn whatever_was_acknowledged_is_there_after_a_kill_at_any_point() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let points: Vec<_> = POINTS
        .iter()
        .map(|point| point.0)
        .filter(|name| name.starts_with("journal.") || name.starts_with("meta."))
        // What is needed here is needed for a moment only: nothing is ever moved. See `tests::moving`.
        .filter(|name| !name.ends_with("-move"))
        .collect();
    assert!(points.len() >= 8);
    let mut told = BTreeMap::new();
    for pass in [1, 3, 20] {
        for point in &points {
            told.extend(run_and_kill(folder.path(), point, pass));
            runtime.block_on(check(folder.path(), &mut told, &format!("{point}:{pass}")));
        }
    }
    assert!(told.values().sum::<u64>() > 500);
}
