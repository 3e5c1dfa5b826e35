use std::time::Duration;

use file_system::conformance::scene::*;
use file_system::{Authority, FileSystem, FsError, SetAttributes};
use ids::{BlockIndex, GatewayId, Version};
use upkeep::Plan;

use super::files::{content, file_of, set_size, write_at};
use super::node::{BLOCK, GC_DELAY, Node, SHIFT, policy};
use crate::row::CHUNK_BLOCKS;

#[tokio::test]
async fn every_rewrite_of_a_block_raises_its_version_by_one() {
    // K12
    let node = Node::new().await;
    let file = file_of(&node, "file", b"one").await;
    assert_eq!(node.entry(file, 0).await.version, Version::NONE);
    for version in 1..4 {
        node.write_back().await;
        let entry = node.entry(file, 0).await;
        assert_eq!((entry.version, entry.hole, entry.creator), (Version(version), false, GatewayId(1)));
        write_at(&node, file, 1, &[version as u8; 5]).await;
    }
    node.write_back().await;
    node.cache.drop_clean().await;
    assert_eq!(content(&node, file).await, [b'o', 3, 3, 3, 3, 3]);
    node.check().await;
}

#[tokio::test]
async fn a_hole_is_read_without_asking_a_cloud() {
    // K13
    let node = Node::new().await;
    let file = file_of(&node, "file", b"start").await;
    write_at(&node, file, 10 * BLOCK, b"end").await;
    node.write_back().await;
    assert_eq!(node.stored(), [2, 2, 2, 0]);
    assert!(node.entry(file, 5).await.hole);
    let fetches = node.cache.usage().fetches;
    let zeros = read(&mut begin(&node.fs()).await, file, 3 * BLOCK, 4 * BLOCK as u32).await.unwrap();
    assert_eq!((zeros.len() as u64, zeros.iter().any(|&b| b != 0)), (4 * BLOCK, false));
    assert_eq!(node.cache.usage().fetches, fetches);
}

#[tokio::test]
async fn what_was_cut_off_twice_does_not_come_back() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &[7; 800]).await;
    node.write_back().await;
    set_size(&node, file, 500).await;
    set_size(&node, file, 300).await;
    set_size(&node, file, 800).await;
    let expected = [&[7; 300][..], &[0; 500]].concat();
    assert_eq!(content(&node, file).await, expected);
    node.write_back().await;
    node.cache.drop_clean().await;
    assert_eq!(content(&node, file).await, expected);
    node.check().await;
}

#[tokio::test]
async fn versions_survive_truncation_and_no_name_is_used_twice() {
    // K14
    let node = Node::new().await;
    let file = file_of(&node, "file", &vec![1; 2 * BLOCK as usize]).await;
    node.write_back().await;
    set_size(&node, file, 0).await;
    let entry = node.entry(file, 1).await;
    assert_eq!((entry.version, entry.hole), (Version(1), true));
    let first: Vec<_> = node.site.clouds.iter().flat_map(|cloud| cloud.inner().names()).collect();
    set_size(&node, file, 2 * BLOCK).await;
    assert!(content(&node, file).await.iter().all(|&b| b == 0));
    write_at(&node, file, 0, &vec![2; 2 * BLOCK as usize]).await;
    node.write_back().await;
    assert_eq!(node.entry(file, 1).await.version, Version(2));
    let second = node.site.clouds.iter().flat_map(|cloud| cloud.inner().names());
    assert_eq!(second.filter(|name| !first.contains(name)).count(), 6, "two blocks of three new fragments");
    node.check().await;
}

#[tokio::test]
async fn a_cut_inside_a_block_leaves_nothing_of_the_rest() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &vec![1; BLOCK as usize]).await;
    node.write_back().await;
    set_size(&node, file, 100).await;
    set_size(&node, file, 200).await;
    node.write_back().await;
    node.cache.drop_clean().await;
    let content = content(&node, file).await;
    assert!(content[..100].iter().all(|&b| b == 1) && content[100..].iter().all(|&b| b == 0));
}

#[tokio::test]
async fn a_second_cut_does_not_bring_back_what_the_first_one_cut() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &[7; 60_000]).await;
    node.write_back().await;
    for size in [40_000, 20_000, 60_000] {
        set_size(&node, file, size).await;
    }
    let mut expected = vec![7; 20_000];
    expected.resize(60_000, 0);
    assert_eq!(content(&node, file).await, expected);
    node.write_back().await;
    assert_eq!(content(&node, file).await, expected);
}

#[tokio::test]
async fn superseded_versions_leave_the_clouds_after_the_delay() {
    // K47
    let node = Node::new().await;
    let file = file_of(&node, "file", b"old").await;
    node.write_back().await;
    write_at(&node, file, 0, b"new").await;
    node.write_back().await;
    let _ = node.upkeep.garbage.once().await.unwrap();
    assert_eq!(node.stored(), [2, 2, 2, 0], "not before the delay has passed");
    node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
    let _ = node.upkeep.garbage.once().await.unwrap();
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    node.cache.drop_clean().await;
    assert_eq!(content(&node, file).await, b"new");
    assert!(node.volume.all_garbage(None, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_file_keeps_the_policy_it_was_made_with() {
    // K33, K11
    let node = Node::new().await;
    let old = file_of(&node, "file", b"old policy").await;
    let copies = policy("replicas:2", &[2, 3], ids::BlockShift::DEFAULT);
    node.volumes.set_policy("home", copies.clone()).await.unwrap();
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let new = make_file(&mut tx, root, "new", b"new policy").await.file;
    commit(tx).await;
    write_at(&node, old, 3, b"!").await;
    node.write_back().await;
    assert_eq!(node.stored(), [1, 1, 2, 1]);
    let node = node.restart().await;
    assert_eq!(*node.volume.policy(), copies);
    node.cache.drop_clean().await;
    assert_eq!(content(&node, old).await, b"old!policy");
    assert_eq!(content(&node, new).await, b"new policy");
    let report = node.volume.why("/file", BlockIndex(0), 9).await.unwrap().unwrap();
    assert_eq!((report.object, report.policy.block_shift()), (old.object, SHIFT));
    let block = &report.blocks[0];
    assert_eq!((block.version, block.dirty, block.fragments.len()), (Version(1), 0, 3));
    for (cloud, fragment) in &block.fragments {
        let stored = node.site.clouds[usize::from(cloud.0)].inner().names();
        assert!(stored.iter().any(|name| name.to_string() == *fragment));
    }
}

#[tokio::test]
async fn one_block_of_a_file_of_a_tebibyte_rewrites_a_few_kibibytes() {
    // K18: the chunk of the block, and nothing else of the map.
    let node = Node::new().await;
    let file = file_of(&node, "file", b"").await;
    set_size(&node, file, 1 << 40).await;
    let last = (1_u64 << 40) / BLOCK - 1;
    for block in [0, last / 2, last] {
        write_at(&node, file, block * BLOCK, b"x").await;
        node.write_back().await;
    }
    let (start, end) = node.volume.inner.keys.chunks(file.object, BlockIndex(0)..BlockIndex(u64::MAX));
    let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
    let scan = meta::Scan { start: &start, end: &end, guard: None, limit: 100 };
    let rows = tx.scan(scan).await.unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|(_, row)| row.len() < 2 * CHUNK_BLOCKS as usize));
    node.check().await;
}

#[tokio::test]
async fn a_change_of_attributes_leaves_the_key_alone() {
    // K17
    let node = Node::new().await;
    let file = file_of(&node, "file", b"x").await;
    let key = node.volume.inner.keys.key(file.object);
    let get = async |node: &Node| {
        let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
        tx.get(&key).await.unwrap().unwrap()
    };
    let before = get(&node).await;
    let mut tx = begin(&node.fs()).await;
    tx.set_attributes(file, &SetAttributes::with_mode(0), Authority::Checked).await.unwrap();
    commit(tx).await;
    assert_eq!(get(&node).await, before);
    let inode = node.volume.inner.keys.inode(file.object);
    let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
    let inode = tx.get(&inode).await.unwrap().unwrap();
    assert!(inode.len() < 100, "{}", inode.len());
}

#[tokio::test]
async fn a_degraded_write_is_in_the_repair_queue_until_it_is_repaired() {
    // K63
    let node = Node::new().await;
    node.site.clouds[1].set(cloud::Side::Writes, cloud::Fault::Fail(cloud::ErrorKind::Refused));
    let file = file_of(&node, "file", b"degraded").await;
    node.write_back().await;
    assert_eq!(node.volume.repair_count(9).await.unwrap(), 1);
    let report = node.volume.why("file", BlockIndex(0), 1).await.unwrap().unwrap();
    assert_eq!(report.blocks[0].missing, [1]);
    node.site.clouds[1].set(cloud::Side::Writes, cloud::Fault::None);
    node.upkeep.repairer.once().await.unwrap();
    assert_eq!(node.volume.repair_count(9).await.unwrap(), 0);
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    assert_eq!(content(&node, file).await, b"degraded");
}

#[tokio::test]
async fn a_fragment_that_a_read_found_bad_is_repaired() {
    // K65
    let node = Node::new().await;
    let file = file_of(&node, "file", b"precious").await;
    node.write_back().await;
    node.cache.drop_clean().await;
    for cloud in &node.site.clouds[..1] {
        let name = cloud.inner().names()[0].clone();
        cloud.inner().poke(&name, None);
    }
    assert_eq!(content(&node, file).await, b"precious");
    for _ in 0..100 {
        // The repair is queued beside the read.
        tokio::task::yield_now().await;
    }
    if node.volume.repair_count(9).await.unwrap() == 0 {
        // The read had enough with the other two.
        let _ = node.upkeep.scrubber.once(100, 0).await.unwrap();
    }
    assert_eq!(node.volume.repair_count(9).await.unwrap(), 1);
    node.upkeep.repairer.once().await.unwrap();
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    assert_eq!(node.volume.repair_count(9).await.unwrap(), 0);
}

#[tokio::test]
async fn a_failed_attempt_burns_its_version_and_its_fragments_are_collected() {
    let node = Node::new().await;
    let file = file_of(&node, "file", b"x").await;
    let plan = |plans: Vec<Result<Plan, crate::VolumeError>>| match plans.into_iter().next() {
        Some(Ok(Plan::Store(block))) => block.identity.version,
        other => panic!("{other:?}"),
    };
    let blocks = [(file.object, BlockIndex(0))];
    assert_eq!(plan(node.volume.plan_write_back(&blocks).await.unwrap()), Version(1));
    assert_eq!(plan(node.volume.plan_write_back(&blocks).await.unwrap()), Version(2));
    node.write_back().await;
    assert_eq!(node.entry(file, 0).await.version, Version(3));
    let garbage = node.volume.all_garbage(None, 9).await.unwrap();
    let versions: Vec<_> = garbage.iter().flat_map(|row| &row.versions).map(|(id, _)| id.version).collect();
    assert_eq!(versions, [Version(1), Version(2)]);
}

#[tokio::test]
async fn a_truncation_during_write_back_wins() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &vec![1; BLOCK as usize]).await;
    let claimed =
        node.cache.claim_dirty(node.volume.volume(), &cache::Selection { bytes: 1, blocks: 1, hurry: true });
    let snapshot = node.cache.snapshot(&claimed[0]).unwrap();
    let plans = node.volume.plan_write_back(&[(file.object, BlockIndex(0))]).await.unwrap();
    let Ok(Plan::Store(block)) = &plans[0] else { panic!("{plans:?}") };
    set_size(&node, file, 0).await;
    set_size(&node, file, 10).await;
    let content_of = upkeep::WrittenAs::Version {
        content: None,
        identity: block.identity,
        seal: block.seal,
        missing: Vec::new(),
        packed: None,
        length: block.length,
    };
    let written = [upkeep::Written { snapshot, content: content_of }];
    assert_eq!(node.volume.commit_written(&written).await.unwrap(), [false]);
    let entry = node.entry(file, 0).await;
    assert_eq!((entry.version, entry.hole, entry.next()), (Version::NONE, true, Version(2)));
    assert_eq!(content(&node, file).await, [0; 10]);
    drop(claimed);
    node.check().await;
}

#[tokio::test]
async fn too_many_bad_clouds_are_an_error_and_never_wrong_bytes() {
    let node = Node::new().await;
    let file = file_of(&node, "file", b"precious").await;
    node.write_back().await;
    node.cache.drop_clean().await;
    for cloud in &node.site.clouds[..2] {
        let name = cloud.inner().names()[0].clone();
        cloud.inner().poke(&name, Some(bytes::Bytes::from_static(b"noise")));
    }
    let lost = read(&mut begin(&node.fs()).await, file, 0, 8).await;
    assert!(matches!(lost, Err(FsError::Io(_))), "{lost:?}");
}

#[tokio::test]
async fn a_version_that_a_crash_brought_back_has_names_of_its_own() {
    let node = Node::new().await;
    let file = file_of(&node, "file", b"content").await;
    let plan = async |node: &Node| {
        let plans = node.volume.plan_write_back(&[(file.object, BlockIndex(0))]).await.unwrap();
        let Some(Ok(Plan::Store(block))) = plans.into_iter().next() else { panic!("something to store") };
        block
    };
    let before = plan(&node).await;
    let node = node.crash().await;
    let after = plan(&node).await;
    assert_eq!(before.identity, after.identity);
    let name =
        |block: &upkeep::NewBlock| seal::fragment_name(&block.key.name_key(), &block.identity, 0, block.seal);
    assert_ne!(name(&before), name(&after));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_who_is_slower_than_the_garbage_gets_the_new_version_and_accuses_nobody() {
    let node = Node::new().await;
    let file = file_of(&node, "file", b"old").await;
    node.write_back().await;
    node.cache.drop_clean().await;
    // The clouds keep the reader waiting, and have lost what he wants when they answer.
    let (reached, slow) = std::sync::mpsc::channel();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let (reached, gate) = (parking_lot::Mutex::new(reached), parking_lot::Mutex::new(gate));
    #[allow(clippy::type_complexity)] // named once
    let lost: std::sync::Arc<dyn Fn(&cloud::ObjectName, bytes::Bytes) -> bytes::Bytes + Send + Sync> =
        std::sync::Arc::new(move |_, _| {
            reached.lock().send(()).unwrap();
            // Open for everybody once the sender is gone.
            let _ = gate.lock().recv();
            bytes::Bytes::new()
        });
    let set = |fault: &cloud::Fault| {
        node.site.clouds.iter().for_each(|cloud| cloud.set(cloud::Side::Reads, fault.clone()));
    };
    set(&cloud::Fault::Corrupt(lost));
    let mut tx = begin(&node.fs()).await;
    let reader = tokio::spawn(async move { read(&mut tx, file, 0, 3).await });
    tokio::task::block_in_place(|| slow.recv().unwrap());
    set(&cloud::Fault::None);
    write_at(&node, file, 0, b"new").await;
    node.write_back().await;
    node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
    let _ = node.upkeep.garbage.once().await.unwrap();
    drop(go);
    assert_eq!(reader.await.unwrap().unwrap(), &b"new"[..]);
    assert_eq!(node.incidents.0.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test]
async fn damaged_rows_stop_the_write_back_of_their_own_blocks_only() {
    let node = Node::new().await;
    let mut files = Vec::new();
    for text in ["inode", "map", "good"] {
        let mut tx = begin(&node.fs()).await;
        let root = tx.root();
        files.push(make_file(&mut tx, root, text, b"content").await.file);
        commit(tx).await;
    }
    let keys = node.volume.inner.keys;
    let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
    tx.put(keys.inode(files[0].object), bytes::Bytes::from_static(b"damaged"));
    // Behind the entry of the block itself.
    tx.put(keys.chunk(files[1].object, BlockIndex(0)), bytes::Bytes::from_static(&[2, 0, 2, 0, 3, 9]));
    let _ = tx.commit(meta::Priority::Upkeep).await.unwrap();
    let _flush = node.cache.flush(cache::Scope::All);
    let report = node.upkeep.write_back.once().await;
    assert_eq!((report.blocks, report.damaged, report.failed), (1, 2, 2));
    assert!(!node.entry(files[2], 0).await.hole);
    assert_eq!(node.cache.dirty_bytes(cache::Scope::All), 2 * 7);
    assert_eq!(content(&node, files[2]).await, b"content");
}

#[tokio::test]
async fn what_is_found_bad_during_a_repair_is_repaired_by_the_next_one() {
    use upkeep::Repaired;
    let node = Node::new().await;
    let file = file_of(&node, "file", b"precious").await;
    node.write_back().await;
    let bad = async |fragment| {
        node.volume.queue_repair(file.object, BlockIndex(0), Version(1), &[fragment]).await.unwrap();
    };
    let queued = async || node.volume.repairs(None, 9).await.unwrap().pop();
    bad(0).await;
    bad(1).await;
    let begun = queued().await.unwrap();
    assert_eq!(begun.fragments, [0, 1]);
    bad(2).await;
    let done = |left: &[u8]| [Repaired { row: begun.row.clone(), before: vec![0, 1], left: left.into() }];
    node.volume.repaired(&done(&[1])).await.unwrap();
    assert_eq!(queued().await.unwrap().fragments, [1, 2]);
    node.volume.repaired(&done(&[])).await.unwrap();
    assert_eq!(queued().await.unwrap().fragments, [2]);
    node.volume.repaired(&[Repaired { before: vec![2], ..done(&[])[0].clone() }]).await.unwrap();
    assert!(queued().await.is_none());
}

#[tokio::test]
async fn upkeep_is_told_at_once_of_what_a_read_found_bad() {
    // K65
    use upkeep::MaintainedVolume;
    let node = Node::new().await;
    let file = file_of(&node, "file", b"precious").await;
    node.write_back().await;
    node.volume.queue_repair(file.object, BlockIndex(0), Version(1), &[1]).await.unwrap();
    node.volume.repairs_waiting().await;
    // What is known already is no news.
    node.volume.queue_repair(file.object, BlockIndex(0), Version(1), &[1]).await.unwrap();
    tokio::select! {
        biased;
        () = node.volume.repairs_waiting() => panic!("told again"),
        () = std::future::ready(()) => {}
    }
}
