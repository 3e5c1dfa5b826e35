use file_system::conformance::scene::*;
use file_system::permission::{Access, permitted};
use file_system::{Authority, Caller, FileId, FsError, SetAttributes};

use super::files::{content, file_of, remove, write_at};
use super::node::Node;
use crate::{Marked, ScanState};

async fn mark(node: &Node, file: FileId, change: u64, state: ScanState) -> Marked {
    node.volume.mark_scanned(file.object, change, state, "Eicar").await.unwrap()
}

async fn version(node: &Node, file: FileId) -> u64 {
    node.volume.scan_target(file.object).await.unwrap().unwrap().change
}

/// Nobody gets at the content, whatever right he had to it.
async fn expect_out_of_reach(node: &Node, file: FileId) {
    let mut tx = begin(&node.fs()).await;
    for authority in [Authority::Checked, Authority::Opened] {
        assert_eq!(tx.read(file, 0, 100, authority).await.err(), Some(FsError::AccessDenied));
        assert_eq!(tx.write(file, 0, vec![1].into(), authority).await, Err(FsError::AccessDenied));
        let cut = tx.set_attributes(file, &SetAttributes::with_size(0), authority).await;
        assert_eq!(cut.err(), Some(FsError::AccessDenied));
    }
    let attributes = tx.attributes(file).await.unwrap();
    assert!(attributes.quarantined);
    assert_eq!(permitted(&attributes, &Caller::root()), Access(0));
}

#[tokio::test]
async fn content_in_quarantine_is_out_of_reach_also_after_a_restart_until_it_is_released() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"malware").await;
    let seen = version(&node, file).await;
    assert_eq!(mark(&node, file, seen, ScanState::Quarantined).await, Marked::Done);
    expect_out_of_reach(&node, file).await;
    assert!(version(&node, file).await > seen, "clients look again");
    let node = node.restart().await;
    expect_out_of_reach(&node, file).await;
    node.check().await;
    // It keeps its place, and can be moved.
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    tx.rename(root, &name("a"), root, &name("b")).await.unwrap();
    commit(tx).await;

    assert!(node.volume.release_from_quarantine(file.object).await.unwrap());
    assert!(!node.volume.release_from_quarantine(file.object).await.unwrap());
    assert_eq!(content(&node, file).await, b"malware");
    let released = version(&node, file).await;
    assert_eq!(mark(&node, file, released, ScanState::Quarantined).await, Marked::Released);
    let node = node.crash().await;
    assert_eq!(mark(&node, file, released, ScanState::Quarantined).await, Marked::Released);
    write_at(&node, file, 0, b"another").await;
    let changed = version(&node, file).await;
    assert_eq!(mark(&node, file, changed, ScanState::Quarantined).await, Marked::Done);
    node.check().await;
}

#[tokio::test]
async fn what_was_found_in_an_older_version_is_not_noted() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"malware").await;
    let seen = version(&node, file).await;
    write_at(&node, file, 0, b"goodware").await;
    for state in [ScanState::Quarantined, ScanState::Reported, ScanState::Unscanned, ScanState::Released] {
        assert_eq!(mark(&node, file, seen, state).await, Marked::Changed);
    }
    assert!(node.volume.scan_marks(None, 10).await.unwrap().is_empty());
    assert_eq!(content(&node, file).await, b"goodware");
}

#[tokio::test]
async fn marks_go_with_what_they_say_and_with_their_files() {
    let node = Node::new().await;
    let (one, two) = (file_of(&node, "one", b"1").await, file_of(&node, "two", b"2").await);
    assert_eq!(mark(&node, one, version(&node, one).await, ScanState::Unscanned).await, Marked::Done);
    assert_eq!(mark(&node, two, version(&node, two).await, ScanState::Quarantined).await, Marked::Done);
    let marks = node.volume.scan_marks(None, 1).await.unwrap();
    assert_eq!((marks[0].0, marks[0].1.state), (one.object, ScanState::Unscanned));
    let rest = node.volume.scan_marks(Some(one.object), 10).await.unwrap();
    assert_eq!((rest[0].0, &*rest[0].1.found), (two.object, "Eicar"));
    for file in [one, two] {
        node.volume.mark_clean(file.object).await.unwrap();
    }
    assert!(node.volume.scan_mark(one.object).await.unwrap().is_none());
    assert!(node.volume.is_quarantined(two.object), "a scan ends no quarantine");
    remove(&node, "two").await;
    assert_eq!(node.volume.reap_orphans(10).await.unwrap(), 1);
    assert!(node.volume.scan_marks(None, 10).await.unwrap().is_empty());
    assert!(!node.volume.is_quarantined(two.object));
    assert_eq!(mark(&node, two, 1, ScanState::Quarantined).await, Marked::Gone);
    assert!(node.volume.scan_target(two.object).await.unwrap().is_none());
    node.check().await;
}

#[tokio::test]
async fn a_scan_reads_what_is_dirty_and_what_is_stored() {
    let node = Node::new().await;
    let file = file_of(&node, "a", &[7; 200_000]).await;
    node.write_back().await;
    write_at(&node, file, 100_000, b"dirty").await;
    let target = node.volume.scan_target(file.object).await.unwrap().unwrap();
    assert_eq!(target.size, 200_000);
    let read = node.volume.read_for_scan(file.object, &target, 99_999, 1 << 20).await.unwrap().concat();
    assert_eq!((&read[..7], read.len()), (&b"\x07dirty\x07"[..], 100_001));
    assert!(node.volume.read_for_scan(file.object, &target, 200_000, 10).await.unwrap().is_empty());
}
