//! The embedded store, on a disk that loses and tears what was not synced.

mod crash;
mod moving;
mod observer;
mod serial;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use journal::testing::MemoryDisk;
use journal::{Journal, JournalConfig, WriterKind};
use seal::NodeKey;

use crate::{CommitObserver, LocalConfig, LocalStore, MetaError, MetaStore, NoObserver};

fn config() -> LocalConfig {
    LocalConfig {
        cache: 1 << 20,
        overlay: 1 << 20,
        checkpoint_bytes: 16 << 10,
        apply_interval: Duration::from_millis(1),
        inline: true,
        ..LocalConfig::default()
    }
}

fn journal_config() -> JournalConfig {
    JournalConfig { writer: WriterKind::Task, ..JournalConfig::small(2 << 20) }
}

fn try_open(disk: &MemoryDisk, observer: Arc<dyn CommitObserver>) -> Result<LocalStore, MetaError> {
    let environment = disk.environment();
    let key = NodeKey::from_bytes([7; 32]);
    let (journal, recovery) =
        Journal::open(environment.clone(), Path::new("/journal"), &key, journal_config())?;
    LocalStore::open(environment, Path::new("/meta"), config(), journal, recovery, observer)
}

fn open(disk: &MemoryDisk) -> LocalStore {
    try_open(disk, Arc::new(NoObserver)).unwrap()
}

fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}

#[tokio::test]
async fn the_embedded_store_keeps_the_contract_on_one_thread() {
    crate::conformance::run(|| async { Arc::new(open(&MemoryDisk::new())) as Arc<dyn MetaStore> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_store_keeps_the_contract_on_many_threads_and_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::sync::atomic::AtomicU32::new(0);
    crate::conformance::run(|| async {
        let name = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
        let environment = environment::Environment::real();
        let journal_config = JournalConfig::small(16 << 20);
        let key = NodeKey::from_bytes([7; 32]);
        let directory = folder.path().join(name);
        let (journal, recovery) =
            Journal::open(environment.clone(), &directory.join("journal"), &key, journal_config).unwrap();
        let config = LocalConfig { inline: false, ..config() };
        let store =
            LocalStore::open(environment, &directory, config, journal, recovery, Arc::new(NoObserver));
        Arc::new(store.unwrap()) as Arc<dyn MetaStore>
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_nobody_waits_for_becomes_durable_all_the_same() {
    let store = open(&MemoryDisk::new());
    let mut transaction = store.begin(crate::Mode::Optimistic).await.unwrap();
    transaction.put(bytes("key"), bytes("value"));
    let committed = transaction.commit(journal::Priority::Client).await.unwrap();
    let lsn = committed.lsn.unwrap();
    assert!(!committed.is_durable());
    drop(committed);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(store.journal().durable_lsn() >= lsn);
}

/// Of values that are written to fill a disk.
const BIG: usize = 16 << 10;

/// A disk for the journal, and one for the engine.
type Disks = (MemoryDisk, MemoryDisk);

/// A store whose engine and journal have threads of their own.
fn threaded((journal, engine): &Disks) -> LocalStore {
    let (environment, key) = (engine.environment(), NodeKey::from_bytes([7; 32]));
    let journal_config = JournalConfig::small(64 << 20);
    let (journal, recovery) =
        Journal::open(journal.environment(), Path::new("/journal"), &key, journal_config).unwrap();
    let config = LocalConfig { inline: false, ..config() };
    LocalStore::open(environment, Path::new("/meta"), config, journal, recovery, Arc::new(NoObserver))
        .unwrap()
}

async fn put(store: &LocalStore, n: usize) -> Result<(), MetaError> {
    let mut transaction = store.begin(crate::Mode::Optimistic).await?;
    transaction.put(bytes(n.to_string()), Bytes::from(vec![n as u8; BIG]));
    transaction.commit(journal::Priority::Client).await?.durable().await
}

async fn has(store: &LocalStore, n: usize) -> bool {
    let mut transaction = store.begin(crate::Mode::Optimistic).await.unwrap();
    transaction.get(n.to_string().as_bytes()).await.unwrap() == Some(Bytes::from(vec![n as u8; BIG]))
}

/// Writes until the store takes nothing more, as its disk is full.
async fn fill(
    (_, disk): &Disks,
    store: &LocalStore,
) -> (usize, tokio::task::JoinHandle<Result<(), MetaError>>) {
    put(store, 0).await.unwrap();
    disk.set_full(true);
    for n in 1.. {
        let writer = store.clone();
        let writing = tokio::spawn(async move { put(&writer, n).await });
        while !writing.is_finished() {
            assert!(store.failed().is_none(), "{:?}", store.failed());
            if store.status().overlay > config().overlay && store.status().disk_full {
                return (n, writing);
            }
            tokio::task::yield_now().await;
        }
        writing.await.unwrap().unwrap();
    }
    unreachable!()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_makes_changes_wait_and_stops_nothing() {
    let disks = (MemoryDisk::new(), MemoryDisk::new());
    let store = threaded(&disks);
    let (count, last) = fill(&disks, &store).await;
    assert!(has(&store, 0).await && has(&store, count - 1).await, "it can be read meanwhile");
    disks.1.set_full(false);
    last.await.unwrap().unwrap();
    put(&store, count + 1).await.unwrap();
    assert!(!store.status().disk_full);
    store.close().await.unwrap();
    store.journal().close().await.unwrap();
    let store = threaded(&disks);
    for n in 0..count + 2 {
        assert!(has(&store, n).await, "{n} of {count}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_on_a_full_disk_stops_when_it_shall_and_loses_nothing() {
    let disks = (MemoryDisk::new(), MemoryDisk::new());
    let store = threaded(&disks);
    let (count, last) = fill(&disks, &store).await;
    assert!(store.close().await.is_err(), "not all is in the engine");
    let last = last.await.unwrap();
    store.journal().close().await.unwrap();
    disks.1.set_full(false);
    let store = threaded(&disks);
    for n in 0..count + usize::from(last.is_ok()) {
        assert!(has(&store, n).await, "{n} of {count}");
    }
}
