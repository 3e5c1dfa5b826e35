//! What write-backs leave in the clouds is found and deleted, whatever comes between.

use std::time::Duration;

use bytes::Bytes;
use file_system::conformance::scene::{begin, commit};
use file_system::{Authority, CommitMode, FileId, FileSystem, FsError, FsResult, Position, Transaction};
use ids::{BlockIndex, Version};
use meta::{MetaStore, Mode, Priority};
use upkeep::{Plan, Written, WrittenAs};

use super::clones::life::{begin_write_back, end_write_back};
use super::files::{content, file_of, remove, set_size, write_at};
use super::node::{BLOCK, GC_DELAY, Node, SHIFT};
use super::packs::{self, packing};
use crate::row::{AttemptRow, BlockEntry, CHUNK_BLOCKS, GarbageVersion, MAX_ATTEMPTS};

async fn collect(node: &Node) {
    node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
    let _ = node.upkeep.garbage.once().await.unwrap();
    assert!(node.volume.all_garbage(None, 9).await.unwrap().is_empty());
}

async fn plan(node: &Node, file: FileId, block: u64) -> Version {
    let plans = node.volume.plan_write_back(&[(file.object, BlockIndex(block))]).await.unwrap();
    let Some(Ok(Plan::Store(new))) = plans.into_iter().next() else { panic!("nothing to store") };
    new.identity.version
}

async fn noted(node: &Node) -> usize {
    let rows = node.volume.unsettled(None, 99).await.unwrap();
    rows.iter().map(|row| row.versions.len()).sum()
}

async fn put(node: &Node, key: Bytes, value: &[u8]) {
    let mut tx = node.store.begin(Mode::Optimistic).await.unwrap();
    tx.put(key, Bytes::copy_from_slice(value));
    tx.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
}

#[tokio::test]
async fn what_a_killed_process_had_stored_and_not_committed_is_deleted() {
    let node = Node::new().await;
    let file = file_of(&node, "a", &vec![7; 3 * BLOCK as usize]).await;
    let in_flight = begin_write_back(&node).await;
    assert_eq!((in_flight.len(), node.stored()), (3, vec![3, 3, 3, 0]));
    assert_eq!(noted(&node).await, 3);
    let node = node.crash().await;
    drop(in_flight);
    assert_eq!(noted(&node).await, 0);
    node.check().await;
    node.write_back().await;
    assert_eq!(node.stored(), [6, 6, 6, 0]);
    // The same numbers, under another seal.
    node.check().await;
    collect(&node).await;
    assert_eq!(node.stored(), [3, 3, 3, 0]);
    node.check_clouds().await;
    node.cache.drop_clean().await;
    assert_eq!(content(&node, file).await, vec![7; 3 * BLOCK as usize]);
}

#[tokio::test]
async fn nothing_is_noted_of_what_was_committed() {
    let node = Node::new().await;
    let file = file_of(&node, "a", &vec![7; 3 * BLOCK as usize]).await;
    node.write_back().await;
    assert_eq!(noted(&node).await, 0);
    let node = node.crash().await;
    assert!(node.volume.all_garbage(None, 9).await.unwrap().is_empty());
    collect(&node).await;
    node.check_clouds().await;
    assert_eq!(content(&node, file).await, vec![7; 3 * BLOCK as usize]);
}

#[tokio::test]
async fn all_attempts_of_a_file_that_is_removed_are_garbage() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"content").await;
    for attempt in 1..4 {
        assert_eq!(plan(&node, file, 0).await, Version(attempt));
    }
    let in_flight = begin_write_back(&node).await;
    drop(in_flight);
    remove(&node, "a").await;
    assert_eq!(node.volume.reap_orphans(9).await.unwrap(), 1);
    assert_eq!(noted(&node).await, 0);
    let garbage = node.volume.all_garbage(None, 9).await.unwrap();
    let versions: Vec<_> = garbage.iter().flat_map(|row| &row.versions).map(|(id, _)| id.version.0).collect();
    assert_eq!(versions, [1, 2, 3, 4]);
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
}

#[tokio::test]
async fn a_file_that_was_removed_before_the_crash_takes_its_attempts_along() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"content").await;
    let held = node.volume.reference(file);
    let in_flight = begin_write_back(&node).await;
    remove(&node, "a").await;
    let node = node.crash().await;
    drop((in_flight, held));
    node.volume.end_of_claims();
    assert_eq!(node.volume.reap_orphans(9).await.unwrap(), 1);
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
    node.check().await;
}

#[tokio::test]
async fn an_attempt_that_is_planned_while_its_file_is_taken_apart_is_not_missed() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"content").await;
    let held = node.volume.reference(file);
    remove(&node, "a").await;
    let mut reaper = node.store.begin(Mode::Optimistic).await.unwrap();
    let (inner, mut rows, mut freed) = (&node.volume.inner, 100, Default::default());
    assert!(inner.take_apart(&mut *reaper, file.object, false, &mut rows, &mut freed).await.unwrap());
    plan(&node, file, 0).await;
    assert!(matches!(reaper.commit(Priority::Upkeep).await, Err(meta::MetaError::Conflict)));
    // The other way round there is nothing to plan any more.
    drop(held);
    assert_eq!(node.volume.reap_orphans(9).await.unwrap(), 1);
    let plans = node.volume.plan_write_back(&[(file.object, BlockIndex(0))]).await.unwrap();
    assert!(matches!(plans[..], [Ok(Plan::Nothing)]));
    assert_eq!(noted(&node).await, 0);
    assert_eq!(node.volume.all_garbage(None, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_block_that_was_cut_off_leaves_no_attempt_behind() {
    let node = Node::new().await;
    let file = file_of(&node, "a", &vec![7; 2 * BLOCK as usize]).await;
    let mut in_flight = begin_write_back(&node).await;
    set_size(&node, file, BLOCK).await;
    end_write_back(&node, &mut in_flight).await;
    // The cut counts for the whole file, whose other block is stored once more.
    assert_eq!(noted(&node).await, 0);
    node.check().await;
    node.write_back().await;
    collect(&node).await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    node.check_clouds().await;
}

#[tokio::test]
async fn what_a_failed_attempt_stored_of_a_block_that_is_cut_off_goes_with_the_next_start() {
    let node = Node::new().await;
    let file = file_of(&node, "a", &vec![7; 2 * BLOCK as usize]).await;
    let in_flight = begin_write_back(&node).await;
    drop(in_flight);
    set_size(&node, file, 0).await;
    let node = node.restart().await;
    assert_eq!(noted(&node).await, 0);
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
    write_at(&node, file, 0, b"again").await;
    node.write_back().await;
    node.check_clouds().await;
}

#[tokio::test]
async fn a_block_that_cannot_be_stored_for_a_long_time_is_noted_in_bounded_rows() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"content").await;
    // As if it had been tried so often.
    let (creator, seal) = (node.volume.inner.node.gateway, node.volume.inner.node.seal);
    let row = AttemptRow { creator, seal, first: Version(1), last: Version(MAX_ATTEMPTS), policy: Some(1) };
    put(&node, node.volume.inner.keys.attempts(file.object, BlockIndex(0)), &row.encode()).await;
    assert_eq!(plan(&node, file, 0).await, Version(MAX_ATTEMPTS + 1));
    assert_eq!(noted(&node).await, 1);
    let garbage = node.volume.all_garbage(None, 9).await.unwrap();
    assert_eq!(garbage.iter().map(|row| row.versions.len() as u64).sum::<u64>(), MAX_ATTEMPTS);
    node.write_back().await;
    assert_eq!(node.entry(file, 0).await.version, Version(MAX_ATTEMPTS + 2));
    let garbage = node.volume.all_garbage(None, 9).await.unwrap();
    assert_eq!(garbage.iter().map(|row| row.versions.len() as u64).sum::<u64>(), MAX_ATTEMPTS + 1);
    node.check().await;
}

#[tokio::test]
async fn a_damaged_note_stops_its_own_block_only_and_no_start() {
    let node = Node::new().await;
    let (bad, good) = (file_of(&node, "bad", b"content").await, file_of(&node, "good", b"content").await);
    put(&node, node.volume.inner.keys.attempts(bad.object, BlockIndex(0)), b"damaged").await;
    let _flush = node.cache.flush(cache::Scope::All);
    let report = node.upkeep.write_back.once().await;
    assert_eq!((report.blocks, report.damaged), (1, 1));
    assert!(!node.entry(good, 0).await.hole);
    let node = node.crash().await;
    node.write_back().await;
    assert!(!node.entry(bad, 0).await.hole);
    node.check().await;
}

#[tokio::test]
async fn many_attempts_are_abandoned_in_several_transactions() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"").await;
    set_size(&node, file, 700 * BLOCK).await;
    let blocks: Vec<_> = (0..700).map(|block| (file.object, BlockIndex(block))).collect();
    node.volume.plan_write_back(&blocks).await.unwrap();
    assert_eq!(noted(&node).await, 99, "a page");
    let node = node.crash().await;
    assert_eq!(noted(&node).await, 0);
    let garbage = node.volume.all_garbage(None, 99).await.unwrap();
    assert_eq!(garbage.iter().map(|row| row.versions.len()).sum::<usize>(), 700);
    node.check().await;
}

#[tokio::test]
async fn a_loaded_dump_knows_of_no_attempts() {
    let node = Node::new().await;
    file_of(&node, "a", b"content").await;
    let in_flight = begin_write_back(&node).await;
    assert_eq!(noted(&node).await, 1);
    crate::after_load(&node.store, node.env.clock.wall()).await.unwrap();
    assert_eq!(noted(&node).await, 0);
    drop(in_flight);
}

#[tokio::test]
async fn a_deleted_volume_takes_its_attempts_along() {
    let node = Node::new().await;
    file_of(&node, "a", b"content").await;
    let in_flight = begin_write_back(&node).await;
    node.volumes.delete("home", true).await.unwrap();
    assert_eq!(node.volumes.bury().await.unwrap(), 1);
    assert_eq!(noted(&node).await, 0);
    drop(in_flight);
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
    assert_eq!(node.volumes.bury().await.unwrap(), 0);
}

#[tokio::test]
async fn what_was_given_up_does_not_become_current() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"content").await;
    let mut in_flight = begin_write_back(&node).await;
    let mut tx = node.store.begin(Mode::Optimistic).await.unwrap();
    let (mut rows, mut garbage) = (9, crate::garbage::Discarded::default());
    let taken = node.volume.inner.take_attempts(&mut *tx, file.object, &mut rows, 1, &mut garbage).await;
    assert!(taken.unwrap());
    tx.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
    assert_eq!((rows, garbage.count()), (8, 1));
    end_write_back(&node, &mut in_flight).await;
    assert!(node.entry(file, 0).await.hole);
    assert_eq!(node.cache.dirty_bytes(cache::Scope::All), 7);
}

#[tokio::test]
async fn a_file_with_more_attempts_than_a_transaction_takes_is_removed() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"").await;
    set_size(&node, file, 700 * BLOCK).await;
    let blocks: Vec<_> = (0..700).map(|block| (file.object, BlockIndex(block))).collect();
    node.volume.plan_write_back(&blocks).await.unwrap();
    remove(&node, "a").await;
    assert_eq!(node.volume.reap_orphans(9).await.unwrap(), 1);
    assert_eq!(noted(&node).await, 0);
    let garbage = node.volume.all_garbage(None, 99).await.unwrap();
    assert_eq!(garbage.iter().map(|row| row.versions.len()).sum::<usize>(), 700);
    node.check().await;
}

/// A block that was to be stored anew, and is a hole when it is looked at.
async fn found_a_hole(node: &Node, file: FileId) {
    let key = node.volume.inner.file_key(file.object);
    let (claim, snapshot) = node.cache.claim_clean(key, SHIFT, BlockIndex(0), Box::new(())).unwrap();
    plan(node, file, 0).await;
    let written = [Written { snapshot, content: WrittenAs::Nothing }];
    assert_eq!(node.volume.commit_written(&written).await.unwrap(), [true]);
    drop(claim);
}

#[tokio::test]
async fn numbers_of_attempts_that_came_to_nothing_are_not_given_again() {
    for (node, stored) in [(Node::new().await, 2), (packing("rs:2+1").await, 1)] {
        let file = file_of(&node, "a", b"").await;
        set_size(&node, file, 100).await;
        found_a_hole(&node, file).await;
        found_a_hole(&node, file).await;
        write_at(&node, file, 0, b"content").await;
        assert_eq!(plan(&node, file, 0).await, Version(3));
        file_of(&node, "b", b"which travels with the other one").await;
        node.write_back().await;
        packs::collect(&node).await;
        assert_eq!(node.stored(), [stored, stored, stored, 0]);
        node.check().await;
        node.check_clouds().await;
        node.cache.drop_clean().await;
        assert_eq!(&content(&node, file).await[..7], b"content");
    }
}

#[tokio::test]
async fn garbage_that_is_current_is_not_taken_out_of_its_pack() {
    let node = packing("rs:2+1").await;
    let files = packs::files(&node, 2).await;
    node.write_back().await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    // What must not be: the version that the block map has is in the garbage as well.
    let (inner, object) = (&node.volume.inner, files[0].object);
    let mut tx = node.store.begin(Mode::Optimistic).await.unwrap();
    let BlockEntry { version, creator, seal, .. } =
        inner.block_entry(&mut *tx, object, BlockIndex(0)).await.unwrap().unwrap();
    let rows = inner.file_rows(&mut *tx, object).await.unwrap().unwrap();
    let garbage = vec![GarbageVersion { block: BlockIndex(0), version, creator, seal }];
    inner.put_garbage(&mut *tx, object, rows.policy_id, &rows.key, garbage).await.unwrap();
    tx.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
    packs::collect(&node).await;
    node.check().await;
    node.cache.drop_clean().await;
    assert_eq!(content(&node, files[0]).await, packs::text_of(0));
}

async fn clone_of(node: &Node, from: FileId, to: FileId) -> FsResult<()> {
    let mut tx = begin(&node.fs()).await;
    clone_in(&mut tx, from, to).await?;
    commit(tx).await;
    Ok(())
}

async fn clone_in(tx: &mut Box<dyn Transaction>, from: FileId, to: FileId) -> FsResult<()> {
    let at = |file| Position { file, offset: 0, authority: Authority::Checked };
    tx.clone_range(at(from), at(to), 0, true).await.map(drop)
}

/// A file `a` with a block map in two parts, of which a clone `b` has the content, and which is to be stored with another one.
async fn cloned_and_changed(node: &Node) -> [FileId; 2] {
    let file = file_of(node, "a", b"old").await;
    write_at(node, file, CHUNK_BLOCKS * BLOCK, b"another part of the block map").await;
    node.write_back().await;
    let copy = file_of(node, "b", b"").await;
    clone_of(node, file, copy).await.unwrap();
    write_at(node, file, 0, b"new").await;
    [file, copy]
}

/// The beginning of the block map goes, the rest stays for the next transaction.
async fn begin_to_take_apart(node: &Node, file: FileId) {
    let inner = &node.volume.inner;
    for rows in 1.. {
        let mut reaper = node.store.begin(Mode::Optimistic).await.unwrap();
        let (mut rows, mut freed) = (rows, Default::default());
        assert!(!inner.take_apart(&mut *reaper, file.object, false, &mut rows, &mut freed).await.unwrap());
        reaper.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
        let mut tx = node.store.begin(Mode::Optimistic).await.unwrap();
        let chunk = tx.get(&inner.keys.chunk(file.object, BlockIndex(0))).await.unwrap();
        if chunk.is_none() {
            break;
        }
    }
}

/// The clone has what it had; nothing of the other one is left.
async fn only_the_clone_is_left(node: &Node, copy: FileId) {
    while node.volume.reap_orphans(9).await.unwrap() > 0 {}
    packs::collect(node).await;
    node.check().await;
    node.check_clouds().await;
    node.cache.drop_clean().await;
    assert_eq!(&content(node, copy).await[..3], b"old");
}

#[tokio::test]
async fn what_is_left_of_a_file_that_is_being_taken_apart_is_not_written_back() {
    let node = Node::new().await;
    let [file, copy] = cloned_and_changed(&node).await;
    remove(&node, "a").await;
    begin_to_take_apart(&node, file).await;
    // By a number that the clone's block has.
    let plans = node.volume.plan_write_back(&[(file.object, BlockIndex(0))]).await.unwrap();
    assert!(matches!(plans[..], [Ok(Plan::Nothing)]));
    node.write_back().await;
    only_the_clone_is_left(&node, copy).await;
}

#[tokio::test]
async fn who_had_a_file_open_that_is_being_taken_apart_does_not_get_it_back_after_a_crash() {
    for node in [Node::new().await, packing("rs:2+1").await] {
        let [file, copy] = cloned_and_changed(&node).await;
        let held = node.volume.reference(file);
        remove(&node, "a").await;
        drop(held);
        begin_to_take_apart(&node, file).await;
        let node = node.crash().await;
        assert_eq!(begin(&node.fs()).await.attributes(file).await, Err(FsError::Stale));
        let plans = node.volume.plan_write_back(&[(file.object, BlockIndex(0))]).await.unwrap();
        assert!(matches!(plans[..], [Ok(Plan::Nothing)]));
        node.write_back().await;
        node.check().await;
        node.volume.end_of_claims();
        only_the_clone_is_left(&node, copy).await;
    }
}

#[tokio::test]
async fn who_looks_at_a_file_that_is_being_taken_apart_takes_no_holes_for_its_content() {
    let node = Node::new().await;
    let [file, copy] = cloned_and_changed(&node).await;
    let other = file_of(&node, "c", b"").await;
    let held = node.volume.reference(file);
    remove(&node, "a").await;
    let mut tx = begin(&node.fs()).await;
    tx.attributes(file).await.unwrap();
    drop(held);
    begin_to_take_apart(&node, file).await;
    if clone_in(&mut tx, file, other).await.is_ok() {
        assert_eq!(tx.commit(CommitMode::Durable).await.map(drop), Err(FsError::Conflict));
    }
    only_the_clone_is_left(&node, copy).await;
}
