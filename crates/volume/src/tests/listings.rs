use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use file_system::conformance::scene::*;
use file_system::{CommitMode, FileId, FsError};
use ids::BlockIndex;
use journal::Priority;
use meta::{MetaStore, Mode};

use super::files::file_of;
use super::node::{BLOCK, Node, SHIFT, policy};
use crate::VolumeError;
use crate::node::{RETRIES, upkeep_transaction};

const FILES: u64 = 40;
const WRITERS: u64 = 3;
/// Fewer commits than this are not busy.
const COMMITS: u64 = 10;

/// How long a writer may take whom nobody keeps waiting.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes to all files in turn until `stop`, counting the commits.
async fn keep_writing(node: Arc<Node>, files: Vec<FileId>, stop: Arc<AtomicBool>, commits: Arc<AtomicU64>) {
    let fs = node.fs();
    for file in files.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut tx = begin(&fs).await;
        let written = write(&mut tx, *file, 5, b"more").await;
        let committed = if written.is_ok() { tx.commit(CommitMode::Visible).await } else { written };
        match committed {
            Ok(()) => _ = commits.fetch_add(1, Ordering::Relaxed),
            Err(FsError::Conflict) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Files that are always written to, and who writes to them.
struct Busy {
    node: Arc<Node>,
    stop: Arc<AtomicBool>,
    commits: Arc<AtomicU64>,
    writers: Vec<tokio::task::JoinHandle<()>>,
}

impl Busy {
    async fn begin(count: u64) -> Busy {
        let node = Arc::new(Node::new().await);
        let mut files = Vec::new();
        for number in 0..count {
            files.push(file_of(&node, &number.to_string(), &vec![1; BLOCK as usize]).await);
        }
        node.write_back().await;
        let (stop, commits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer =
            |_| tokio::spawn(keep_writing(node.clone(), files.clone(), stop.clone(), commits.clone()));
        let writers = (0..WRITERS).map(writer).collect();
        Busy { node, stop, commits, writers }
    }

    /// Whether much has been written by now, for on a machine with other work the writers may come late; or a writer has failed, as
    /// [`Busy::end`] says then.
    fn was_busy(&self) -> bool {
        let has_failed = self.writers.iter().any(|writer| writer.is_finished());
        has_failed || self.commits.load(Ordering::Relaxed) >= COMMITS
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for writer in self.writers {
            writer.await.unwrap();
        }
    }
}

/// Whoever looks at many files would never see an instant at which none of them changes, nor who looks at one in which everybody writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn upkeep_lists_blocks_however_much_is_written() {
    for files in [FILES, 1] {
        let busy = Busy::begin(files).await;
        let mut rounds = 0;
        while rounds < 100 || !busy.was_busy() {
            rounds += 1;
            assert_eq!(busy.node.volume.stored_blocks(None, 1000).await.unwrap().len() as u64, files);
            assert!(busy.node.volume.why("0", BlockIndex(0), 1).await.unwrap().is_some());
        }
        busy.end().await;
    }
}

/// A directory that is worked in is sent to another policy all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_to_move_are_found_however_much_is_written() {
    let busy = Busy::begin(FILES).await;
    let mut round = 0;
    while round < 20 || !busy.was_busy() {
        let clouds = if round % 2 == 0 { [1, 2, 3] } else { [0, 1, 2] };
        busy.node.volumes.set_policy("home", policy("rs:2+1", &clouds, SHIFT)).await.unwrap();
        busy.node.volume.migrate("").await.unwrap();
        busy.node.volume.find_migrating().await.unwrap();
        let left = busy.node.volume.migrating().await.unwrap();
        assert_eq!((left.directories, left.files), (0, FILES), "round {round}");
        busy.node.volume.to_rewrite(10, 1 << 30).await.unwrap();
        round += 1;
    }
    busy.end().await;
}

/// Who writes a row again and again is kept waiting at last by upkeep that has read it.
#[tokio::test]
async fn upkeep_ends_however_much_is_written() -> Result<(), VolumeError> {
    let node = Node::new().await;
    let inner = node.volume.inner.node.clone();
    let row = || Bytes::from_static(b"\xffa row");
    let mut attempts = 0;
    let done: Result<(), VolumeError> = upkeep_transaction!(inner, |transaction| {
        transaction.get(&row()).await?;
        attempts += 1;
        let store = node.store.clone();
        let writer = tokio::spawn(async move {
            let mut other = store.begin(Mode::Optimistic).await.unwrap();
            other.put(row(), Bytes::from_static(b"other"));
            let _visible = other.commit(Priority::Client).await.unwrap();
        });
        if attempts < RETRIES {
            let written = tokio::time::timeout(PATIENCE, writer).await;
            written.expect("nobody keeps the writer waiting yet").unwrap();
        } else {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(!writer.is_finished(), "the last attempt keeps the writer waiting");
        }
        transaction.put(row(), Bytes::from_static(b"upkeep"));
        Ok(())
    });
    assert_eq!(attempts, RETRIES);
    done
}
