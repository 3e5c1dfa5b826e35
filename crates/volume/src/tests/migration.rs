use std::collections::BTreeMap;
use std::time::Duration;

use cache::Selection;
use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use file_system::{Attributes, Authority, FileId, Position};
use ids::{BlockIndex, BlockShift};
use meta::MetaStore;
use upkeep::{Plan, Written, WrittenAs};

use super::files::{content, file_of, remove, set_size, write_at};
use super::node::{BLOCK, GC_DELAY, Node, SHIFT, Site, policy};
use crate::{Migrating, VolumeError};

/// Every scheme, each on clouds of its own.
const POLICIES: [(&str, &[u16]); 5] = [
    ("rs:2+1", &[0, 1, 2]),
    ("replicas:3", &[1, 2, 3]),
    ("aont-rs:2+1", &[3, 1, 0]),
    ("caont-rs:2+1", &[0, 2, 3]),
    ("replicas:1", &[3]),
];

async fn set(node: &Node, (scheme, clouds): (&str, &[u16])) {
    node.volumes.set_policy("home", policy(scheme, clouds, SHIFT)).await.unwrap();
}

/// Moves what is on its way, until nothing is.
async fn finish(node: &Node) {
    for _ in 0..100 {
        let offered = node.upkeep.migrator.step().await.unwrap();
        node.write_back().await;
        if offered.is_done {
            assert_eq!(node.volume.migrating().await.unwrap(), Migrating::default());
            return;
        }
    }
    panic!("a migration goes on for ever");
}

async fn migrate(node: &Node) {
    node.volume.migrate("").await.unwrap();
    finish(node).await;
}

async fn collect(node: &Node) {
    for _ in 0..2 {
        // What lay in packs becomes garbage first, then the packs.
        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
        let _ = node.upkeep.garbage.once().await.unwrap();
    }
}

async fn clone(node: &Node, from: FileId, to: FileId) {
    let at = |file| Position { file, offset: 0, authority: Authority::Checked };
    let mut tx = begin(&node.fs()).await;
    tx.clone_range(at(from), at(to), 0, true).await.unwrap();
    commit(tx).await;
}

async fn attributes(node: &Node, file: FileId) -> Attributes {
    begin(&node.fs()).await.attributes(file).await.unwrap()
}

/// Files of all kinds, stored.
async fn files(node: &Node) -> Vec<FileId> {
    let mut files = vec![file_of(node, "empty", b"").await, file_of(node, "small", b"a few bytes").await];
    let large: Vec<u8> = (0..3 * BLOCK + 100).map(|n| (n / 1000) as u8).collect();
    files.push(file_of(node, "large", &large).await);
    files.push(file_of(node, "same", &large).await);
    let sparse = file_of(node, "sparse", b"").await;
    write_at(node, sparse, 2000 * BLOCK + 5, b"far").await;
    write_at(node, sparse, 7 * BLOCK, &[7; BLOCK as usize]).await;
    let cut = file_of(node, "cut", &[9; 2 * BLOCK as usize]).await;
    node.write_back().await;
    set_size(node, cut, BLOCK + 10).await;
    set_size(node, cut, 2 * BLOCK).await;
    node.write_back().await;
    let copy = file_of(node, "clone", b"").await;
    clone(node, files[2], copy).await;
    write_at(node, copy, BLOCK, b"changed").await;
    node.write_back().await;
    files.extend([sparse, cut, copy]);
    files
}

/// What files are: content and attributes.
async fn pictures(node: &Node, files: &[FileId]) -> Vec<(Vec<u8>, Attributes)> {
    let mut pictures = Vec::new();
    for &file in files {
        let attributes = attributes(node, file).await;
        // The sparse one in parts.
        let mut tx = begin(&node.fs()).await;
        let (mut bytes, size) = (Vec::new(), attributes.size);
        for start in [0, size.saturating_sub(2 * BLOCK)] {
            let length = (size - start).min(8 * BLOCK) as u32;
            let read = tx.read(file, start, length, Authority::Checked).await.unwrap();
            bytes.extend(read.segments.concat());
        }
        pictures.push((bytes, attributes));
    }
    pictures
}

async fn from_clouds(node: &Node, files: &[FileId]) -> Vec<(Vec<u8>, Attributes)> {
    node.cache.drop_clean().await;
    pictures(node, files).await
}

/// Only the clouds of a policy hold anything.
fn assert_only_in(node: &Node, clouds: &[u16]) {
    for (number, objects) in (0_u16..).zip(node.stored()) {
        assert_eq!(objects > 0, clouds.contains(&number), "cloud {number} has {objects} objects");
    }
}

#[tokio::test]
async fn files_move_from_every_policy_to_every_other_and_stay_what_they_are() {
    for longest_packed in [0, 60_000] {
        let node = Node::start(Site { longest_packed, ..Site::new(ManualClock::new()) }).await;
        let mut before = POLICIES[0];
        let files = files(&node).await;
        let pictures = pictures(&node, &files).await;
        // A round trip through all pairs.
        let all = POLICIES.iter().flat_map(|from| POLICIES.iter().flat_map(move |to| [*from, *to]));
        for next in all.filter(|_| longest_packed == 0).chain(POLICIES) {
            if next == before {
                continue;
            }
            set(&node, next).await;
            migrate(&node).await;
            node.check().await;
            collect(&node).await;
            node.check().await;
            node.check_clouds().await;
            assert_only_in(&node, next.1);
            assert!(from_clouds(&node, &files).await == pictures, "from {} to {}", before.0, next.0);
            before = next;
        }
    }
}

#[tokio::test]
async fn a_file_is_the_same_at_every_step_of_its_migration() {
    let mut node = Node::new().await;
    let text: Vec<u8> = (0..12 * BLOCK).map(|n| (n / 3000) as u8).collect();
    let file = file_of(&node, "file", &text).await;
    node.write_back().await;
    let before = attributes(&node, file).await;
    set(&node, POLICIES[1]).await;
    node.volume.migrate("").await.unwrap();
    node.volume.find_migrating().await.unwrap();
    let mut steps = 0;
    while node.volume.migrating().await.unwrap() != Migrating::default() {
        let found = node.volume.to_rewrite(3, u64::MAX).await.unwrap();
        assert!(found.blocks.len() <= 3);
        steps += 1;
        node.upkeep.migrator.offer(found.blocks).await;
        node.write_back().await;
        node.check().await;
        if steps % 3 == 0 {
            node = node.crash().await;
        }
        assert_eq!(attributes(&node, file).await, before);
        node.cache.drop_clean().await;
        assert!(content(&node, file).await == text, "after {steps} steps");
        assert!(steps < 50);
    }
    assert!(steps >= 5, "{steps} steps for 12 blocks");
    collect(&node).await;
    assert_only_in(&node, POLICIES[1].1);
}

#[tokio::test]
async fn what_is_written_meanwhile_follows_the_new_policy_at_once() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &[1; 4 * BLOCK as usize]).await;
    node.write_back().await;
    write_at(&node, file, 0, b"before").await;
    set(&node, POLICIES[4]).await;
    node.volume.migrate("").await.unwrap();
    node.volume.find_migrating().await.unwrap();
    write_at(&node, file, BLOCK, b"after").await;
    node.write_back().await;
    let entries = [node.entry(file, 0).await, node.entry(file, 1).await, node.entry(file, 2).await];
    assert_eq!(entries.map(|entry| entry.policy.is_some()), [true, true, false]);
    assert_eq!(node.stored()[3], 2);
    write_at(&node, file, 3 * BLOCK, b"dirty").await;
    finish(&node).await;
    collect(&node).await;
    assert_eq!(node.stored(), [0, 0, 0, 4]);
    let mut expected = vec![1; 4 * BLOCK as usize];
    for (at, text) in [(0, &b"before"[..]), (BLOCK as usize, b"after"), (3 * BLOCK as usize, b"dirty")] {
        expected[at..at + text.len()].copy_from_slice(text);
    }
    node.cache.drop_clean().await;
    assert!(content(&node, file).await == expected);
    node.check().await;
}

#[tokio::test]
async fn a_write_back_that_began_by_the_old_policy_is_not_committed() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &[1; BLOCK as usize]).await;
    let hurry = Selection { bytes: u64::MAX, blocks: 9, hurry: true };
    let claimed = node.cache.claim_dirty(node.volume.inner.id, &hurry).remove(0);
    let snapshot = node.cache.snapshot(&claimed).unwrap();
    let plans = node.volume.plan_write_back(&[(file.object, BlockIndex(0))]).await.unwrap();
    let Ok(Plan::Store(new)) = plans.into_iter().next().unwrap() else { panic!("something to store") };
    set(&node, POLICIES[4]).await;
    node.volume.migrate("").await.unwrap();
    node.volume.find_migrating().await.unwrap();
    let (identity, seal, length) = (new.identity, new.seal, new.length);
    let (missing, packed, content_id) = (Vec::new(), None, None);
    let stored = WrittenAs::Version { identity, seal, missing, packed, length, content: content_id };
    let committed = node.volume.commit_written(&[Written { snapshot, content: stored }]).await.unwrap();
    assert_eq!(committed, [false]);
    node.check().await;
    let garbage = node.volume.all_garbage(None, 9).await.unwrap();
    assert_eq!(garbage[0].versions, [(identity, seal)]);
    assert_eq!(garbage[0].placement.scheme().to_string(), "rs:2+1", "it is deleted where it was stored");
    drop(claimed);
    node.write_back().await;
    assert_eq!(node.stored(), [0, 0, 0, 1]);
    finish(&node).await;
    node.check().await;
}

#[tokio::test]
async fn a_failed_attempt_is_deleted_where_it_was_made() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &[1; BLOCK as usize]).await;
    node.write_back().await;
    write_at(&node, file, 0, b"new").await;
    // Noted, and never committed.
    node.volume.plan_write_back(&[(file.object, BlockIndex(0))]).await.unwrap();
    set(&node, POLICIES[4]).await;
    node.volume.migrate("").await.unwrap();
    node.volume.find_migrating().await.unwrap();
    let schemes = async |node: &Node| {
        let garbage = node.volume.all_garbage(None, 9).await.unwrap();
        let of = |row: &upkeep::GarbageRow| (row.placement.scheme().to_string(), row.versions.len());
        garbage.iter().map(of).collect::<BTreeMap<_, _>>()
    };
    let node = node.crash().await;
    assert_eq!(schemes(&node).await, [("rs:2+1".to_owned(), 1)].into());
    finish(&node).await;
    node.check().await;
    collect(&node).await;
    assert_eq!(node.stored(), [0, 0, 0, 1]);
}

#[tokio::test]
async fn a_whole_version_is_not_given_up_for_one_that_lacks_fragments() {
    let site = Site { longest_packed: 16 << 10, pack_size: 1 << 20, ..Site::new(ManualClock::new()) };
    let node = Node::start(site).await;
    let large = file_of(&node, "large", &[1; 3 * BLOCK as usize]).await;
    let small = [file_of(&node, "small", &[2; 8000]).await, file_of(&node, "other", &[3; 8000]).await];
    node.write_back().await;
    let before = node.stored();
    set(&node, ("rs:2+1", &[1, 2, 3])).await;
    node.site.clouds[3].set(cloud::Side::Writes, cloud::Fault::Fail(cloud::ErrorKind::Refused));
    node.volume.migrate("").await.unwrap();
    for _ in 0..10 {
        assert!(!node.upkeep.migrator.step().await.unwrap().is_done);
        node.write_back().await;
        node.site.clock.advance(Duration::from_secs(1));
    }
    // What is dirty does not wait, nor does it take along what can.
    let fresh = file_of(&node, "fresh", &[4; 8000]).await;
    let written = node.upkeep.write_back.once().await;
    assert_eq!((written.degraded, written.rewritten), (0, 0), "nothing but what is flushed");
    let _flush = node.cache.flush(cache::Scope::All);
    let written = node.upkeep.write_back.once().await;
    assert_eq!((written.blocks, written.degraded, written.rewritten), (1, 1, 0));
    collect(&node).await;
    assert_eq!(node.stored()[0], before[0], "the old ones are all there");
    node.check().await;
    node.cache.drop_clean().await;
    node.site.clouds[1].set(cloud::Side::Reads, cloud::Fault::Fail(cloud::ErrorKind::Refused));
    assert!(content(&node, large).await == [1; 3 * BLOCK as usize], "any two of the three do");
    node.site.clouds[1].set(cloud::Side::Reads, cloud::Fault::None);

    node.site.clouds[3].set(cloud::Side::Writes, cloud::Fault::None);
    node.site.clock.advance(Duration::from_secs(3600));
    finish(&node).await;
    let repaired = node.upkeep.repairer.once().await.unwrap();
    assert_eq!((repaired.done, repaired.left), (1, 0));
    collect(&node).await;
    assert_only_in(&node, &[1, 2, 3]);
    node.cache.drop_clean().await;
    for (file, byte) in [(small[0], 2), (small[1], 3), (fresh, 4)] {
        assert!(content(&node, file).await == vec![byte; 8000]);
    }
    node.check().await;
    node.check_clouds().await;
}

#[tokio::test]
async fn a_clone_of_a_file_on_its_way_is_on_its_way() {
    let node = Node::new().await;
    let text = [[1; BLOCK as usize], [2; BLOCK as usize]].concat();
    let file = file_of(&node, "file", &text).await;
    node.write_back().await;
    set(&node, POLICIES[4]).await;
    node.volume.migrate("").await.unwrap();
    node.volume.find_migrating().await.unwrap();
    let copy = file_of(&node, "copy", b"").await;
    clone(&node, file, copy).await;
    node.check().await;
    assert_eq!(node.volume.migrating().await.unwrap().files, 2);
    remove(&node, "file").await;
    node.volume.reap_orphans(9).await.unwrap();
    assert_eq!(node.volume.migrating().await.unwrap().files, 1);
    node.check().await;
    finish(&node).await;
    collect(&node).await;
    assert_eq!(node.stored(), [0, 0, 0, 2]);
    node.cache.drop_clean().await;
    assert!(content(&node, copy).await == text);
    node.check().await;
}

#[tokio::test]
async fn what_clones_share_is_stored_once_by_the_new_policy_too() {
    let node = Node::new().await;
    let text: Vec<u8> = (0..5 * BLOCK).map(|n| (n / 1000) as u8).collect();
    let file = file_of(&node, "file", &text).await;
    node.write_back().await;
    let mut copies = Vec::new();
    for name in ["one", "two", "three"] {
        let copy = file_of(&node, name, b"").await;
        clone(&node, file, copy).await;
        copies.push(copy);
    }
    write_at(&node, copies[1], BLOCK, &[9; BLOCK as usize]).await;
    remove(&node, "file").await;
    node.volume.reap_orphans(9).await.unwrap();
    node.write_back().await;
    for (scheme, clouds) in [("replicas:1", &[3][..]), ("rs:1+1", &[0, 1])] {
        set(&node, (scheme, clouds)).await;
        migrate(&node).await;
        node.check().await;
        collect(&node).await;
        node.check().await;
        node.check_clouds().await;
        let expected: Vec<usize> = (0..4).map(|cloud| if clouds.contains(&cloud) { 6 } else { 0 }).collect();
        assert_eq!(node.stored(), expected);
    }
    node.cache.drop_clean().await;
    assert!(content(&node, copies[0]).await == text && content(&node, copies[2]).await == text);
    let (start, end) = node.volume.inner.keys.all_moved();
    let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
    let scan = meta::Scan { start: &start, end: &end, guard: None, limit: 9 };
    assert!(tx.scan(scan).await.unwrap().is_empty(), "nothing is remembered of what is over");
}

#[tokio::test]
async fn a_file_that_takes_over_old_blocks_is_not_done_with() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &[1; BLOCK as usize]).await;
    let other = file_of(&node, "other", &[2; BLOCK as usize]).await;
    node.write_back().await;
    set(&node, POLICIES[4]).await;
    node.volume.migrate("").await.unwrap();
    node.volume.find_migrating().await.unwrap();
    // All of the other one is moved, and it is looked at, before it takes a block over that is not.
    write_at(&node, other, 0, &[3; BLOCK as usize]).await;
    node.write_back().await;
    let found = node.volume.to_rewrite(1, u64::MAX).await.unwrap();
    assert_eq!(found.blocks[0].file.object, file.object);
    clone(&node, file, other).await;
    finish(&node).await;
    node.check().await;
    collect(&node).await;
    assert_only_in(&node, &[3]);
    assert!(content(&node, other).await == [1; BLOCK as usize]);
}

#[tokio::test]
async fn only_what_is_below_the_directory_moves_and_each_directory_to_its_own_policy() {
    let node = Node::new().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let above = make_directory(&mut tx, root, "above", 0o755).await;
    let inside = make_directory(&mut tx, above, "inside", 0o755).await;
    let mut made = Vec::new();
    for (directory, text) in [(root, "a"), (above, "b"), (inside, "c")] {
        made.push(make_file(&mut tx, directory, text, &[7; BLOCK as usize]).await.file);
    }
    commit(tx).await;
    node.write_back().await;
    let set = async |path: &str, (scheme, clouds): (&str, &[u16])| {
        let policy = policy(scheme, clouds, SHIFT);
        node.volumes.set_directory_policy("home", path, Some(policy)).await.unwrap();
    };
    set("above", POLICIES[1]).await;
    set("above/inside", POLICIES[4]).await;
    let schemes = async || {
        let mut found = Vec::new();
        for path in ["a", "above/b", "above/inside/c"] {
            let why = node.volume.why(path, BlockIndex(0), 1).await.unwrap().unwrap();
            found.push((why.policy.placement.scheme().to_string(), why.blocks[0].fragments.len()));
        }
        found
    };
    node.volume.migrate("above/inside").await.unwrap();
    finish(&node).await;
    assert_eq!(schemes().await.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [3, 3, 1]);
    migrate(&node).await;
    let expected = [("rs:2+1", 3), ("replicas:3", 3), ("replicas:1", 1)].map(|(s, n)| (s.to_owned(), n));
    assert_eq!(schemes().await, expected);
    let refused = node.volume.migrate("nowhere").await;
    assert!(matches!(refused, Err(VolumeError::NoDirectory(_))));
    node.check().await;
}

#[tokio::test]
async fn block_sizes_stay_and_what_has_its_policy_is_left_alone() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &[1; 3 * BLOCK as usize]).await;
    node.write_back().await;
    let shift = BlockShift::new(18).unwrap();
    node.volumes.set_policy("home", policy("rs:2+1", &[0, 1, 2], shift)).await.unwrap();
    let before = node.entry(file, 0).await;
    migrate(&node).await;
    assert_eq!(node.entry(file, 0).await, before, "but for the size of blocks it is the same policy");
    node.volumes.set_policy("home", policy("rs:1+1", &[1, 3], shift)).await.unwrap();
    let mut tx = begin(&node.fs()).await;
    assert_eq!(tx.clone_unit(file).await.unwrap(), BLOCK);
    drop(tx);
    migrate(&node).await;
    collect(&node).await;
    assert_eq!(node.stored(), [0, 3, 0, 3]);
    assert!(content(&node, file).await == [1; 3 * BLOCK as usize]);
    node.check().await;
}

#[tokio::test]
async fn a_file_that_is_sent_elsewhere_on_its_way_arrives_there() {
    let mut node = Node::new().await;
    let text: Vec<u8> = (0..6 * BLOCK).map(|n| (n / 3000) as u8).collect();
    let file = file_of(&node, "file", &text).await;
    node.write_back().await;
    for next in [POLICIES[1], POLICIES[4], POLICIES[0], POLICIES[2]] {
        set(&node, next).await;
        node.volume.migrate("").await.unwrap();
        node.volume.find_migrating().await.unwrap();
        let found = node.volume.to_rewrite(2, u64::MAX).await.unwrap();
        node.upkeep.migrator.offer(found.blocks).await;
        node.write_back().await;
        node.check().await;
        node = node.restart().await;
    }
    finish(&node).await;
    collect(&node).await;
    assert_only_in(&node, POLICIES[2].1);
    node.cache.drop_clean().await;
    assert!(content(&node, file).await == text);
    node.check().await;
    node.check_clouds().await;
}

#[tokio::test]
async fn many_files_on_their_way_are_not_counted_each_time_that_somebody_asks() {
    let node = Node::start(Site::new(ManualClock::new())).await;
    for number in 0..100 {
        file_of(&node, &number.to_string(), b"content").await;
    }
    node.write_back().await;
    set(&node, POLICIES[1]).await;
    node.volume.migrate("").await.unwrap();
    node.volume.find_migrating().await.unwrap();
    let lately = node.volume.migrating_lately().await.unwrap();
    assert_eq!(lately, node.volume.migrating().await.unwrap());
    assert_eq!(lately.files, 100);
    remove(&node, "7").await;
    assert_eq!(node.volume.reap_orphans(10).await.unwrap(), 1);
    assert_eq!(node.volume.migrating_lately().await.unwrap(), lately, "asked again at once");
    node.site.clock.advance(Duration::from_millis(5));
    assert_eq!(node.volume.migrating_lately().await.unwrap().files, 99);
    assert_eq!(node.volume.migrating().await.unwrap().files, 99);
}

#[tokio::test]
async fn a_migration_goes_on_by_itself_when_the_node_runs() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &[1; 3 * BLOCK as usize]).await;
    node.write_back().await;
    set(&node, POLICIES[4]).await;
    node.volume.migrate("").await.unwrap();
    let node = node.crash().await;
    node.upkeep.start();
    while node.volume.migrating().await.unwrap() != Migrating::default() {
        tokio::task::yield_now().await;
    }
    assert_eq!(node.upkeep.write_back.report().rewritten, 3);
    let _ = node.upkeep.stop(Duration::from_secs(60)).await.unwrap();
    assert_eq!(node.stored()[3], 3);
    assert!(content(&node, file).await == [1; 3 * BLOCK as usize]);
    node.check().await;
}
