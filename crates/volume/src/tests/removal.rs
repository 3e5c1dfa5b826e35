use std::time::Duration;

use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use file_system::{FileSystem, FsError, XattrName};
use futures::FutureExt as _;
use ids::BlockIndex;
use journal::WriterKind;

use super::files::{file_of, remove};
use super::node::{BLOCK, GC_DELAY, Node, Site};
use crate::keys::Keys;

#[tokio::test]
async fn a_removed_file_leaves_the_clouds_and_no_row_behind() {
    let node = Node::new().await;
    let objects = node.volume.usage().0;
    let file = file_of(&node, "a", &vec![1; 3 * BLOCK as usize]).await;
    node.write_back().await;
    assert_eq!(node.volume.usage(), (objects + 1, 3 * BLOCK));
    remove(&node, "a").await;
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 1);
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 0);
    assert_eq!(node.volume.usage(), (objects, 0));
    node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
    let _ = node.upkeep.garbage.once().await.unwrap();
    assert_eq!(node.stored(), [0, 0, 0, 0]);
    let (start, end) = node.volume.inner.keys.rows_of(file.object);
    let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
    let scan = meta::Scan { start: &start, end: &end, guard: None, limit: 100 };
    assert!(tx.scan(scan).await.unwrap().is_empty());
    node.check().await;
}

#[tokio::test]
async fn a_removal_whose_commit_nobody_waits_for_any_more_is_counted() {
    let mut site = Site::new(ManualClock::new());
    // Else who waits for the disk writes to it himself, and has waited before he can be ended.
    site.journal.writer = WriterKind::Task;
    let node = Node::start(site).await;
    let before = node.volume.usage();
    file_of(&node, "a", b"content").await;
    remove(&node, "a").await;
    // As a stop that does not wait for a slow disk.
    let reaped = node.volume.reap_orphans(100).now_or_never();
    assert!(reaped.is_none(), "it waits for the disk");
    assert_eq!(node.volume.usage(), before);
    node.check().await;
}

#[tokio::test]
async fn what_changes_after_the_usage_was_saved_for_the_last_time_is_counted_at_the_next_start() {
    let node = Node::new().await;
    let root = begin(&node.fs()).await.root();
    // One that had begun before, and one that begins after.
    let mut early = begin(&node.fs()).await;
    make_file(&mut early, root, "early", b"content").await;
    node.volume.save_usage(true).await.unwrap();
    assert_eq!(early.commit(file_system::CommitMode::Durable).await.map(drop), Err(FsError::Conflict));
    file_of(&node, "late", b"content").await;
    let usage = node.volume.usage();
    let node = node.crash().await;
    assert_eq!(node.volume.usage(), usage);
    node.check().await;
}

#[tokio::test]
async fn a_damaged_file_is_in_the_way_of_no_other_that_was_removed() {
    let node = Node::new().await;
    let files = [file_of(&node, "a", b"1").await, file_of(&node, "b", b"2").await];
    node.write_back().await;
    remove(&node, "a").await;
    remove(&node, "b").await;
    let first = files.iter().map(|file| file.object).min().unwrap();
    let keys = node.volume.inner.keys;
    let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
    let sound = tx.get(&keys.chunk(first, BlockIndex(0))).await.unwrap().unwrap();
    tx.put(keys.chunk(first, BlockIndex(0)), bytes::Bytes::from_static(b"not a part of a block map"));
    tx.commit(meta::Priority::Upkeep).await.unwrap().durable().await.unwrap();
    let error = node.volume.reap_orphans(100).await.unwrap_err().to_string();
    assert!(error.contains(&first.to_string()), "{error}");
    let rows = async |object| {
        let (start, end) = keys.rows_of(object);
        let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
        tx.scan(meta::Scan { start: &start, end: &end, guard: None, limit: 100 }).await.unwrap().len()
    };
    let left = [rows(files[0].object).await, rows(files[1].object).await];
    assert_eq!(left.iter().filter(|left| **left == 0).count(), 1, "{left:?}");
    // So does a volume that is deleted, of which the rest goes.
    file_of(&node, "c", b"3").await;
    node.volumes.delete("home", true).await.unwrap();
    assert!(node.volumes.bury().await.is_err());
    let (start, end) = keys.objects();
    let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
    let rows = tx.scan(meta::Scan { start: &start, end: &end, guard: None, limit: 100 }).await.unwrap();
    assert!(rows.iter().all(|(key, _)| Keys::object_row(key).is_some_and(|(object, _)| object == first)));
    tx.put(keys.chunk(first, BlockIndex(0)), sound);
    tx.commit(meta::Priority::Upkeep).await.unwrap().durable().await.unwrap();
    while node.volumes.bury().await.unwrap() > 0 {
        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
        let _ = node.upkeep.garbage.once().await.unwrap();
    }
    assert_eq!(node.stored(), [0; 4]);
}

#[tokio::test]
async fn what_nobody_refers_to_any_more_gives_its_memory_back_with_the_commit() {
    let node = Node::new().await;
    let clean = || node.cache.usage().clean_memory;
    let content = vec![1; 3 * BLOCK as usize];
    let file = file_of(&node, "a", &content).await;
    node.write_back().await;
    let (full, block) = (clean(), clean() / 3);
    assert!(block > BLOCK);
    // Written again: the old version of that block goes, the new one comes.
    let mut tx = begin(&node.fs()).await;
    write(&mut tx, file, BLOCK, &content[..BLOCK as usize]).await.unwrap();
    commit(tx).await;
    node.write_back().await;
    assert_eq!(clean(), full);
    let mut tx = begin(&node.fs()).await;
    let set = file_system::SetAttributes::with_size(BLOCK);
    tx.set_attributes(file, &set, file_system::Authority::Checked).await.unwrap();
    assert_eq!(clean(), full, "before the commit nothing is lost");
    commit(tx).await;
    assert_eq!(clean(), block);
    remove(&node, "a").await;
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 1);
    assert_eq!(clean(), 0);
    node.check().await;
}

#[tokio::test]
async fn a_write_back_that_overtakes_the_reaper_leaves_no_row_behind() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"dirty").await;
    let held = node.volume.reference(file); // otherwise nothing of it is written back
    remove(&node, "a").await;
    let mut reaper = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
    let (inner, mut rows, mut freed) = (&node.volume.inner, 100, Default::default());
    assert!(inner.take_apart(&mut *reaper, file.object, false, &mut rows, &mut freed).await.unwrap());
    node.write_back().await;
    assert!(matches!(reaper.commit(meta::Priority::Upkeep).await, Err(meta::MetaError::Conflict)));
    drop(held);
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 1);
    node.check().await;
}

#[tokio::test]
async fn a_file_that_is_held_is_not_reaped() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"held").await;
    let held = node.volume.reference(file);
    remove(&node, "a").await;
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 0);
    node.check().await;
    node.write_back().await;
    node.cache.drop_clean().await;
    let mut tx = begin(&node.fs()).await;
    assert_eq!(read_all(&mut tx, file).await, b"held");
    drop((tx, held));
    node.volume.orphans_waiting().await;
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 1);
    node.check().await;
}

#[tokio::test]
async fn an_orphan_of_the_last_life_that_nobody_held_is_reaped() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"not held").await;
    remove(&node, "a").await;
    let node = node.crash().await;
    let mut tx = begin(&node.fs()).await;
    assert_eq!(tx.attributes(file).await, Err(FsError::Stale));
    drop(tx);
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 1);
    node.check().await;
}

#[tokio::test]
async fn a_removed_file_that_was_held_is_there_after_a_crash_until_the_claims_end() {
    let mut node = Node::new().await;
    let file = file_of(&node, "claimed", b"claimed").await;
    let other = file_of(&node, "forgotten", b"forgotten").await;
    let held = (node.volume.reference(file), node.volume.reference(other));
    remove(&node, "claimed").await;
    remove(&node, "forgotten").await;
    for _ in 0..2 {
        node = node.crash().await;
        assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 0);
        let mut tx = begin(&node.fs()).await;
        assert_eq!(read_all(&mut tx, file).await, b"claimed");
        assert_eq!(tx.attributes(other).await.unwrap().links, 0);
    }
    drop(held);
    let held = node.volume.reference(file);
    node.volume.end_of_claims();
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 1);
    let mut tx = begin(&node.fs()).await;
    assert_eq!(tx.attributes(other).await, Err(FsError::Stale));
    write(&mut tx, file, 7, b" and written").await.unwrap();
    commit(tx).await;
    assert_eq!(read_all(&mut begin(&node.fs()).await, file).await, b"claimed and written");
    drop(held);
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 1);
    node.check().await;
}

#[tokio::test]
async fn who_opens_a_file_while_it_is_being_removed_keeps_it_over_a_crash() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"held").await;
    let held = node.volume.reference(file);
    remove(&node, "a").await;
    let found_nobody = async || {
        let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
        tx.put(node.volume.inner.keys.orphan(file.object), crate::orphans::orphan_row(false));
        tx.commit(meta::Priority::Upkeep).await.unwrap().durable().await.unwrap();
    };
    // As if he had come between the removal and its commit.
    found_nobody().await;
    node.volume.inner.keep_orphan(file.object).await.unwrap();
    drop(held);
    let node = node.crash().await;
    assert_eq!(read_all(&mut begin(&node.fs()).await, file).await, b"held");
}

#[tokio::test]
async fn who_has_let_a_removed_file_go_does_not_keep_it_over_a_crash() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"not held").await;
    remove(&node, "a").await;
    node.volume.inner.keep_orphan(file.object).await.unwrap();
    let node = node.crash().await;
    assert_eq!(begin(&node.fs()).await.attributes(file).await, Err(FsError::Stale));
}

#[tokio::test]
async fn files_with_more_repairs_than_a_transaction_can_hold_are_cut_and_removed() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"content").await;
    node.write_back().await;
    let keys = node.volume.inner.keys;
    for part in 0..5_u64 {
        let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
        for block in part * 15_000..(part + 1) * 15_000 {
            let key = keys.repair(file.object, BlockIndex(block), ids::Version(1));
            tx.put(key, crate::repair::repair_row(1));
        }
        let _ = tx.commit(meta::Priority::Upkeep).await.unwrap();
    }
    let mut tx = begin(&node.fs()).await;
    let set = file_system::SetAttributes::with_size(0);
    tx.set_attributes(file, &set, file_system::Authority::Checked).await.unwrap();
    commit(tx).await;
    remove(&node, "a").await;
    assert_eq!(node.volume.reap_orphans(9).await.unwrap(), 1);
    assert_eq!(node.upkeep.repairer.once().await.unwrap().done, 75_000);
    assert_eq!(node.volume.repair_count(9).await.unwrap(), 0);
    node.check().await;
}

#[tokio::test]
async fn many_orphans_and_large_ones_take_several_transactions() {
    let node = Node::new().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    for number in 0..600 {
        let file = make_file(&mut tx, root, &format!("{number}"), b"").await.file;
        if number == 0 {
            for attribute in 0..900 {
                let value = "v".into();
                let mode = file_system::XattrMode::Either;
                tx.set_xattr(file, &XattrName::new(format!("x{attribute}")).unwrap(), value, mode)
                    .await
                    .unwrap();
            }
        }
    }
    commit(tx).await;
    let mut tx = begin(&node.fs()).await;
    for number in 0..600 {
        tx.remove(root, &name(&format!("{number}"))).await.unwrap();
    }
    commit(tx).await;
    node.check().await;
    assert_eq!(node.volume.reap_orphans(500).await.unwrap(), 500);
    assert_eq!(node.volume.reap_orphans(500).await.unwrap(), 100);
    node.check().await;
}

#[tokio::test]
async fn a_file_removed_during_its_write_back_leaves_nothing_in_the_clouds() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"short life").await;
    // An attempt that stored fragments, of which nothing was committed.
    let plans = node.volume.plan_write_back(&[(file.object, BlockIndex(0))]).await.unwrap();
    assert!(matches!(plans[..], [Ok(upkeep::Plan::Store(_))]));
    remove(&node, "a").await;
    assert_eq!(node.volume.reap_orphans(9).await.unwrap(), 1);
    let garbage = node.volume.all_garbage(None, 9).await.unwrap();
    assert_eq!(garbage.iter().map(|row| row.versions.len()).sum::<usize>(), 1);
    assert!(node.volume.unsettled(None, 9).await.unwrap().is_empty());
    node.check().await;
}

#[tokio::test]
async fn a_file_that_was_being_removed_at_the_instant_of_a_backup_does_not_stop_a_restore() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"not stored").await;
    remove(&node, "a").await;
    assert_eq!(node.volume.settle(file, std::slice::from_ref(&(0..10))).await, Ok(None));
    assert_eq!(node.volume.reap_orphans(100).await.unwrap(), 1);
    node.check().await;
}
