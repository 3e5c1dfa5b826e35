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
