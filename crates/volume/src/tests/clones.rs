use std::collections::BTreeSet;
use std::time::Duration;

use blocks::BlockStore;
use bytes::Bytes;
use cache::{DirtyBlock, Selection};
use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use file_system::{Authority, CommitMode, FileId, FileSystem, FsError, Position, SetAttributes, Transaction};
use ids::{BlockIndex, Version};
use meta::{MetaStore, Priority};
use proptest::prelude::*;
use upkeep::{Base, Plan, Written, WrittenAs};

use super::files::{content, file_of, remove, set_size, write_at};
use super::node::{BLOCK, GC_DELAY, Node, Site};
use crate::row::ShareRow;

fn at(file: FileId, offset: u64) -> Position {
    Position { file, offset, authority: Authority::Checked }
}

async fn clone(node: &Node, from: Position, to: Position, length: u64) {
    let mut tx = begin(&node.fs()).await;
    tx.clone_range(from, to, length, true).await.unwrap();
    commit(tx).await;
}

async fn remove_whole(node: &Node, text: &str) {
    remove(node, text).await;
    node.volume.reap_orphans(9).await.unwrap();
}

async fn from_clouds(node: &Node, file: FileId) -> Vec<u8> {
    node.cache.drop_clean().await;
    content(node, file).await
}

async fn collect(node: &Node) {
    node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
    let _ = node.upkeep.garbage.once().await.unwrap();
}

fn blocks_of(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|&byte| vec![byte; BLOCK as usize]).collect()
}

/// A file of three blocks and a half, stored, and an empty one that is its clone.
async fn pair() -> (Node, FileId, FileId, Vec<u8>) {
    let node = Node::new().await;
    let mut text = blocks_of(&[1, 2, 3]);
    text.extend(vec![4; BLOCK as usize / 2]);
    let from = file_of(&node, "from", &text).await;
    node.write_back().await;
    let to = file_of(&node, "to", b"").await;
    clone(&node, at(from, 0), at(to, 0), 0).await;
    node.check().await;
    (node, from, to, text)
}

#[tokio::test]
async fn a_clone_stores_nothing_and_reads_like_its_source() {
    let (node, from, to, text) = pair().await;
    assert_eq!(node.cache.dirty_bytes(cache::Scope::All), 0);
    assert_eq!(node.stored(), [4, 4, 4, 0]);
    assert!(from_clouds(&node, to).await == text && from_clouds(&node, from).await == text);
    // What one of them has fetched is there for the other.
    let fetches = node.cache.usage().fetches;
    assert!(read_all(&mut begin(&node.fs()).await, to).await == text);
    assert_eq!(node.cache.usage().fetches, fetches);
    let report = node.volume.why("to", BlockIndex(0), 9).await.unwrap().unwrap();
    assert_eq!(report.blocks[3].origin, Some((from.object, BlockIndex(3), Version(1))));
    let source = node.volume.why("from", BlockIndex(0), 9).await.unwrap().unwrap();
    assert_eq!(report.blocks[3].fragments, source.blocks[3].fragments);
    assert_eq!(node.volume.usage().1, 2 * text.len() as u64);
}

#[tokio::test]
async fn what_is_written_to_one_is_not_seen_in_the_other() {
    let (node, from, to, text) = pair().await;
    write_at(&node, from, 10, b"source").await;
    write_at(&node, to, BLOCK + 10, b"target").await;
    node.write_back().await;
    collect(&node).await;
    assert_eq!(node.stored(), [6, 6, 6, 0]);
    let (mut source, mut target) = (text.clone(), text);
    source[10..16].copy_from_slice(b"source");
    target[BLOCK as usize + 10..BLOCK as usize + 16].copy_from_slice(b"target");
    assert!(from_clouds(&node, from).await == source && from_clouds(&node, to).await == target);
    node.check().await;
}

#[tokio::test]
async fn a_clone_outlives_its_source_and_the_last_one_takes_all_away() {
    let (node, _, to, text) = pair().await;
    remove_whole(&node, "from").await;
    collect(&node).await;
    assert_eq!(node.stored(), [4, 4, 4, 0]);
    let node = node.crash().await;
    assert!(from_clouds(&node, to).await == text);
    node.check().await;
    let third = file_of(&node, "third", b"").await;
    clone(&node, at(to, BLOCK), at(third, 0), 2 * BLOCK).await;
    remove_whole(&node, "to").await;
    collect(&node).await;
    assert_eq!(node.stored(), [2, 2, 2, 0]);
    assert!(from_clouds(&node, third).await == text[BLOCK as usize..3 * BLOCK as usize]);
    node.check().await;
    set_size(&node, third, BLOCK).await;
    collect(&node).await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    write_at(&node, third, 0, b"new").await;
    node.write_back().await;
    collect(&node).await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    remove_whole(&node, "third").await;
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
    let (start, end) = node.volume.inner.keys.all_shares();
    let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
    let scan = meta::Scan { start: &start, end: &end, guard: None, limit: 9 };
    assert!(tx.scan(scan).await.unwrap().is_empty());
    node.check().await;
}

#[tokio::test]
async fn a_clone_is_repaired_although_its_source_is_gone() {
    let (node, _, to, text) = pair().await;
    remove_whole(&node, "from").await;
    let lost = node.site.clouds[1].inner().names()[0].clone();
    node.site.clouds[1].inner().poke(&lost, None);
    let report = node.upkeep.scrubber.once(100, 0).await.unwrap();
    assert_eq!((report.blocks, report.missing), (4, 1));
    assert_eq!(node.volume.repair_count(9).await.unwrap(), 1);
    let shown = node.volume.why("to", BlockIndex(0), 9).await.unwrap().unwrap();
    assert_eq!(shown.blocks.iter().map(|block| block.missing.len()).sum::<usize>(), 1);
    node.upkeep.repairer.once().await.unwrap();
    assert_eq!((node.stored(), node.volume.repair_count(9).await.unwrap()), (vec![4, 4, 4, 0], 0));
    assert!(from_clouds(&node, to).await == text);
}

#[tokio::test]
async fn a_version_that_is_shared_is_listed_once_whoever_is_left() {
    let (node, from, to, _) = pair().await;
    clone(&node, at(to, 0), at(to, 8 * BLOCK), BLOCK).await;
    for (rewritten, expected) in [(None, 4), (Some(from), 5), (Some(to), 6)] {
        if let Some(file) = rewritten {
            write_at(&node, file, 0, b"new").await;
            node.write_back().await;
        }
        for limit in [1, 2, 100] {
            let (mut after, mut seen) = (None, Vec::new());
            loop {
                let page = node.volume.stored_blocks(after, limit).await.unwrap();
                let Some(last) = page.last() else { break };
                after = Some(last.identity);
                seen.extend(page.iter().map(|version| version.identity));
            }
            assert_eq!(seen.len(), expected, "{seen:?}");
            let keys: Vec<_> = seen.iter().map(|id| (id.object, id.block, id.version)).collect();
            assert!(keys.is_sorted_by(|a, b| a < b));
        }
    }
}

#[tokio::test]
async fn the_end_of_a_file_takes_nothing_along_that_was_cut_off() {
    let node = Node::new().await;
    let from = file_of(&node, "from", &blocks_of(&[1])).await;
    node.write_back().await;
    for stored in [false, true] {
        set_size(&node, from, 100).await;
        if stored {
            node.write_back().await;
        }
        let to = file_of(&node, &format!("to {stored}"), &[7; 50]).await;
        clone(&node, at(from, 0), at(to, 0), 0).await;
        set_size(&node, to, 200).await;
        let expected = [[1; 100], [0; 100]].concat();
        assert_eq!(read_all(&mut begin(&node.fs()).await, to).await, expected);
        node.write_back().await;
        assert_eq!(from_clouds(&node, to).await, expected);
    }
    // The same within one transaction.
    write_at(&node, from, 0, &blocks_of(&[1])).await;
    node.write_back().await;
    let last = file_of(&node, "last", b"").await;
    let mut tx = begin(&node.fs()).await;
    tx.set_attributes(from, &SetAttributes::with_size(100), Authority::Checked).await.unwrap();
    tx.clone_range(at(from, 0), at(last, 0), 0, true).await.unwrap();
    tx.set_attributes(last, &SetAttributes::with_size(200), Authority::Checked).await.unwrap();
    assert_eq!(read_all(&mut tx, last).await, [[1; 100], [0; 100]].concat());
    commit(tx).await;
    node.write_back().await;
    assert_eq!(from_clouds(&node, last).await, [[1; 100], [0; 100]].concat());
    node.check().await;
}

#[tokio::test]
async fn a_transaction_sees_what_it_has_cloned() {
    let (node, from, _, text) = pair().await;
    let to = file_of(&node, "other", &blocks_of(&[8, 8, 8])).await;
    let mut tx = begin(&node.fs()).await;
    write(&mut tx, from, 5, b"unsaved").await.unwrap();
    tx.clone_range(at(from, 0), at(to, BLOCK), 2 * BLOCK, true).await.unwrap();
    write(&mut tx, to, 2 * BLOCK + 3, b"later").await.unwrap();
    tx.deallocate(to, 0, 10, Authority::Checked).await.unwrap();
    let mut expected = blocks_of(&[8, 1, 2]);
    expected[..10].fill(0);
    expected[BLOCK as usize + 5..BLOCK as usize + 12].copy_from_slice(b"unsaved");
    expected[2 * BLOCK as usize + 3..2 * BLOCK as usize + 8].copy_from_slice(b"later");
    assert!(read_all(&mut tx, to).await == expected);
    // A clone of a clone, of which nothing is committed.
    let copy = make_file(&mut tx, root_of(&node), "copy", b"").await.file;
    tx.clone_range(at(to, 0), at(copy, 0), 0, true).await.unwrap();
    assert!(read_all(&mut tx, copy).await == expected);
    commit(tx).await;
    node.write_back().await;
    assert!(from_clouds(&node, to).await == expected && from_clouds(&node, copy).await == expected);
    assert!(from_clouds(&node, from).await[12..] == text[12..]);
    node.check().await;
}

fn root_of(node: &Node) -> FileId {
    FileId { volume: node.volume.volume(), object: node.volume.inner.root }
}

#[tokio::test]
async fn a_clone_does_not_miss_what_is_written_or_stored_meanwhile() {
    let (node, from, to, text) = pair().await;
    for stored in [false, true] {
        write_at(&node, from, 0, b"before").await;
        let mut tx = begin(&node.fs()).await;
        tx.clone_range(at(from, 0), at(to, 0), 0, true).await.unwrap();
        match stored {
            false => write_at(&node, from, BLOCK, b"meanwhile").await,
            true => node.write_back().await,
        }
        // Stored meanwhile: the content was copied as it is now.
        let committed = tx.commit(CommitMode::Durable).await;
        assert!(stored || committed == Err(FsError::Conflict));
        node.check().await;
    }
    let mut tx = begin(&node.fs()).await;
    tx.clone_range(at(from, 0), at(to, 0), 0, true).await.unwrap();
    write_at(&node, to, 2 * BLOCK, b"x").await;
    assert_eq!(tx.commit(CommitMode::Durable).await, Err(FsError::Conflict));
    let mut tx = begin(&node.fs()).await;
    tx.clone_range(at(from, 0), at(to, 0), 0, true).await.unwrap();
    node.write_back().await;
    if tx.commit(CommitMode::Durable).await.is_err() {
        clone(&node, at(from, 0), at(to, 0), 0).await;
    }
    let mut expected = text;
    expected[..6].copy_from_slice(b"before");
    expected[BLOCK as usize..BLOCK as usize + 9].copy_from_slice(b"meanwhile");
    node.write_back().await;
    assert!(from_clouds(&node, to).await == expected);
    node.check().await;
}

#[tokio::test]
async fn garbage_that_is_shared_stays_in_the_clouds() {
    let (node, from, to, text) = pair().await;
    let inner = &node.volume.inner;
    let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
    let key = inner.key_row(&mut *tx, from.object).await.unwrap().unwrap();
    let entry = node.entry(from, 0).await;
    let version = crate::row::GarbageVersion {
        block: BlockIndex(0),
        version: entry.version,
        creator: entry.creator,
        seal: entry.seal,
    };
    inner.put_garbage(&mut *tx, from.object, 1, &key, vec![version]).await.unwrap();
    tx.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
    assert!(node.volume.check().await.unwrap()[0].to_string().contains("is held and is garbage"));
    write_at(&node, from, 0, b"new").await;
    node.write_back().await;
    assert!(node.volume.check().await.unwrap()[0].to_string().contains("is held and is garbage"));
    collect(&node).await;
    assert!(from_clouds(&node, to).await == text);
}

#[tokio::test]
async fn wrong_books_are_found() {
    for damage in 0..4 {
        let (node, from, _, _) = pair().await;
        let key = node.volume.inner.keys.shares(from.object, BlockIndex(0));
        let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
        let mut row = ShareRow::decode(&tx.get(&key).await.unwrap().unwrap()).unwrap();
        let first = row.shares.get_mut(&(0, Version(1))).unwrap();
        let expected = match damage {
            0 => {
                first.clones = 2;
                "shared by 1 blocks, the books say 2"
            }
            1 => {
                first.own = false;
                "wrong about who holds"
            }
            2 => {
                row.shares.remove(&(0, Version(1)));
                "and not in the books"
            }
            _ => {
                row.shares.clear();
                "nothing in it"
            }
        };
        tx.put(key, row.encode());
        tx.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
        let found = node.volume.check().await.unwrap();
        assert!(found.iter().any(|finding| finding.to_string().contains(expected)), "{found:?}");
    }
}

#[tokio::test]
async fn a_deleted_volume_leaves_nothing_of_what_its_files_shared() {
    let (node, from, _, _) = pair().await;
    write_at(&node, from, 0, b"new").await;
    node.write_back().await;
    node.volumes.delete("home", true).await.unwrap();
    assert_eq!(node.volumes.bury().await.unwrap(), 1);
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
    assert_eq!(node.volumes.bury().await.unwrap(), 0);
}

#[tokio::test]
async fn what_one_transaction_cannot_take_apart_goes_in_several() {
    let node = Node::new().await;
    let file = file_of(&node, "a", b"").await;
    set_size(&node, file, 1 << 40).await;
    // No two neighbours are alike, so that the garbage takes more than a record has room for.
    for part in 0..4 {
        let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
        for chunk in part * 64..(part + 1) * 64_u64 {
            let mut map = crate::row::Chunk::default();
            for index in 0..crate::row::CHUNK_BLOCKS {
                let version = Version(1 << 32 | (index * index) << 8);
                let entry = crate::row::BlockEntry { version, hole: false, ..crate::row::BlockEntry::NONE };
                map.set(index, entry);
            }
            let first = BlockIndex(chunk * crate::row::CHUNK_BLOCKS);
            tx.put(node.volume.inner.keys.chunk(file.object, first), map.encode());
        }
        tx.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
    }
    remove_whole(&node, "a").await;
    assert_eq!(node.entry(file, 0).await, crate::row::BlockEntry::NONE);
    node.check().await;
}

#[tokio::test]
async fn an_operation_that_meets_damage_half_way_takes_its_transaction_along() {
    let (node, from, to, text) = pair().await;
    let keys = node.volume.inner.keys;
    let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
    tx.put(keys.chunk(to.object, BlockIndex(1 << 20)), Bytes::from_static(b"damaged"));
    tx.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
    let mut tx = begin(&node.fs()).await;
    write(&mut tx, from, 0, b"x").await.unwrap();
    let cut = tx.set_attributes(to, &SetAttributes::with_size(0), Authority::Checked).await;
    assert!(matches!(cut, Err(FsError::Io(_))));
    assert!(matches!(tx.commit(CommitMode::Durable).await, Err(FsError::Io(_))));
    assert!(from_clouds(&node, from).await == text && from_clouds(&node, to).await == text);
}

#[tokio::test]
async fn what_is_not_in_the_books_is_not_taken_over_and_stays_in_the_clouds() {
    let (node, from, to, _) = pair().await;
    let third = file_of(&node, "third", b"third").await;
    let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
    tx.delete(node.volume.inner.keys.shares(from.object, BlockIndex(0)));
    tx.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
    let mut tx = begin(&node.fs()).await;
    assert!(matches!(tx.clone_range(at(to, 0), at(third, 0), 0, true).await, Err(FsError::Io(_))));
    commit(tx).await;
    assert_eq!(from_clouds(&node, third).await, b"third");
    set_size(&node, to, 0).await;
    assert!(node.volume.all_garbage(None, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_shared_is_warmed_once() {
    let (node, from, to, _) = pair().await;
    remove_whole(&node, "from").await;
    let third = file_of(&node, "third", b"").await;
    clone(&node, at(to, 0), at(third, 0), 0).await;
    node.cache.drop_clean().await;
    for (file, fetched) in [(to, 4), (third, 0)] {
        let warmed = node.volume.warm(file.object, BlockIndex(0), 9).await.unwrap().unwrap();
        assert_eq!((warmed.fetched, warmed.blocks), (fetched, 4));
    }
    assert_eq!(node.volume.warm(from.object, BlockIndex(0), 9).await.unwrap(), None);
    assert!(node.volume.why("third", BlockIndex(0), 9).await.unwrap().unwrap().blocks[3].cached);
}

#[tokio::test]
async fn clones_go_over_the_edges_of_chunks() {
    let node = Node::new().await;
    let from = file_of(&node, "from", b"").await;
    let chunk = crate::row::CHUNK_BLOCKS;
    let places: Vec<u64> = (chunk - 5..chunk + 5).chain([2 * chunk - 1, 2 * chunk, 5 * chunk + 3]).collect();
    for &place in &places {
        write_at(&node, from, place * BLOCK, &blocks_of(&[place as u8])).await;
    }
    node.write_back().await;
    let (to, size) = (file_of(&node, "to", b"").await, (5 * chunk + 4) * BLOCK);
    clone(&node, at(from, 0), at(to, 3 * BLOCK), 0).await;
    clone(&node, at(from, 2 * BLOCK), at(from, size), 2 * chunk * BLOCK).await;
    node.check().await;
    remove_whole(&node, "to").await;
    let to = file_of(&node, "to", b"").await;
    clone(&node, at(from, BLOCK), at(to, 0), 0).await;
    node.check().await;
    remove_whole(&node, "from").await;
    node.check().await;
    collect(&node).await;
    node.cache.drop_clean().await;
    let mut tx = begin(&node.fs()).await;
    let again = places.iter().filter(|place| (2..2 * chunk + 2).contains(*place));
    let again = again.map(|place| (place - 3 + size / BLOCK, *place as u8));
    let all = places.iter().map(|place| (place - 1, *place as u8)).chain(again);
    for (place, byte) in all {
        assert!(
            read(&mut tx, to, place * BLOCK, BLOCK as u32).await.unwrap() == blocks_of(&[byte]),
            "{place}"
        );
        assert_eq!(node.entry(to, place).await.origin.map(|origin| origin.object), Some(from.object));
    }
    assert_eq!(node.stored(), [places.len(), places.len(), places.len(), 0]);
    drop(tx);
    remove_whole(&node, "to").await;
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
    node.check().await;
}

#[tokio::test]
async fn only_files_of_one_policy_share() {
    let (node, from, ..) = pair().await;
    let copies = super::node::policy("replicas:2", &[2, 3], super::node::SHIFT);
    node.volumes.set_policy("home", copies).await.unwrap();
    let other = file_of(&node, "other", b"").await;
    let mut tx = begin(&node.fs()).await;
    let refused = tx.clone_range(at(from, 0), at(other, 0), BLOCK, true).await;
    assert_eq!(refused, Err(FsError::InvalidArgument));
}

/// A file of which more is dirty than a clone copies, and an empty one.
async fn much_that_is_dirty(node: &Node) -> (FileId, FileId, Vec<u8>) {
    let text = blocks_of(&(0..80).collect::<Vec<u8>>());
    let from = file_of(node, "from", b"").await;
    for (part, data) in text.chunks(5 * BLOCK as usize).enumerate() {
        write_at(node, from, part as u64 * 5 * BLOCK, data).await;
    }
    (from, file_of(node, "to", b"").await, text)
}

#[tokio::test]
async fn a_clone_of_much_that_is_not_stored_waits_for_the_clouds() {
    let node = Node::new().await;
    let (from, to, text) = much_that_is_dirty(&node).await;
    let mut tx = begin(&node.fs()).await;
    let write_back = async {
        // The clone asks for it.
        tokio::task::yield_now().await;
        let _ = node.upkeep.write_back.once().await;
    };
    let (cloned, ()) = tokio::join!(tx.clone_range(at(from, 0), at(to, 0), 0, true), write_back);
    cloned.unwrap();
    commit(tx).await;
    assert_eq!(node.stored(), [80, 80, 80, 0]);
    assert!(from_clouds(&node, to).await == text);
    node.check().await;
}

#[tokio::test]
async fn a_clone_of_much_that_the_clouds_do_not_take_is_left_to_who_copies() {
    let node = Node::new().await;
    let (from, to, _) = much_that_is_dirty(&node).await;
    node.site.clock.hurry();
    for (wait, error) in [(true, true), (false, false)] {
        let mut tx = begin(&node.fs()).await;
        let refused = tx.clone_range(at(from, 0), at(to, 0), 0, wait).await.unwrap_err();
        assert_eq!(refused == FsError::InvalidArgument, error);
        assert_eq!(matches!(refused, FsError::Unavailable(_)), !error);
        commit(tx).await;
    }
    assert_eq!(node.stored(), [0; 4]);
    node.check().await;
}

/// Blocks that are stored and not committed.
pub type InFlight = Vec<(DirtyBlock, Written)>;

pub async fn begin_write_back(node: &Node) -> InFlight {
    let all = Selection { bytes: u64::MAX, blocks: 99, hurry: true };
    let store: &BlockStore = &node.volume.inner.node.blocks;
    let mut in_flight = Vec::new();
    for dirty in node.cache.claim_dirty(node.volume.volume(), &all) {
        let Some(snapshot) = node.cache.snapshot(&dirty) else { continue };
        let place = [(snapshot.file().object, snapshot.block())];
        let plan = node.volume.plan_write_back(&place).await.unwrap().remove(0).unwrap();
        let content = match plan {
            Plan::Nothing => WrittenAs::Nothing,
            Plan::Store(new) => {
                let base = match &new.base {
                    Base::Hole => Bytes::new(),
                    Base::Stored(old) => {
                        let loaded =
                            store.load(&old.key, &old.identity, old.seal, &old.placement, &node.volume);
                        loaded.await.unwrap().plaintext
                    }
                };
                let parts = snapshot.assemble(new.length, Some(&base)).await.unwrap();
                let (identity, seal, length) = (new.identity, new.seal, new.length);
                let is_shared = new.placement.scheme().is_convergent();
                let content = is_shared
                    .then(|| seal::content_id(new.key.content_key(), &parts, new.protection.padding));
                let found = match content {
                    Some(content) => node.volume.find_content(identity.object, content).await.unwrap(),
                    None => None,
                };
                match content.filter(|_| found.is_some()) {
                    Some(content) => WrittenAs::Content { identity, seal, content, length },
                    None => {
                        let (key, placement) = (&new.key, &new.placement);
                        let stored = store.store(key, &identity, seal, placement, &parts, new.protection);
                        let missing = stored.await.unwrap().missing;
                        WrittenAs::Version { identity, seal, missing, packed: None, length, content }
                    }
                }
            }
        };
        in_flight.push((dirty, Written { snapshot, content }));
    }
    in_flight
}

pub async fn end_write_back(node: &Node, in_flight: &mut InFlight) {
    let (claims, written): (Vec<_>, Vec<_>) = in_flight.drain(..).unzip();
    node.volume.commit_written(&written).await.unwrap();
    drop(claims);
}

/// Files, what they hold, and what is on its way.
struct World {
    node: Option<Node>,
    files: Vec<Option<(FileId, Vec<u8>)>>,
    in_flight: InFlight,
    made: u32,
}

impl World {
    fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    async fn verify(&self, cold: bool) {
        if cold {
            self.node().cache.drop_clean().await;
        }
        for (file, expected) in self.files.iter().flatten() {
            let found = read_all(&mut begin(&self.node().fs()).await, *file).await;
            assert!(found == *expected, "{file:?} differs");
        }
        self.node().check().await;
    }

    /// The clone, unless it is refused; the other way round the transaction is given back.
    async fn cloned(&self, step: &[u8; 6]) -> Option<(Box<dyn Transaction>, usize, Vec<u8>)> {
        let pick = |number: u8| usize::from(number) % self.files.len();
        let (from, to) = (pick(step[1]), pick(step[2]));
        let (source, target) = (self.files[from].as_ref()?, self.files[to].as_ref()?);
        let (start, place) = (u64::from(step[3] % 4) * BLOCK, u64::from(step[4] % 5) * BLOCK);
        let length = u64::from(step[5] % 4) * BLOCK;
        let mut tx = begin(&self.node().fs()).await;
        match tx.clone_range(at(source.0, start), at(target.0, place), length, true).await {
            Ok(()) => {}
            Err(FsError::InvalidArgument) => return None,
            Err(error) => panic!("{error}"),
        }
        let length = if length == 0 { source.1.len() - start as usize } else { length as usize };
        let mut content = target.1.clone();
        let (start, place) = (start as usize, place as usize);
        if length > 0 {
            content.resize(content.len().max(place + length), 0);
            content[place..place + length].copy_from_slice(&source.1[start..start + length]);
        }
        assert!(read_all(&mut tx, target.0).await == content, "the clone before its commit");
        Some((tx, to, content))
    }

    async fn settle(&mut self, cloned: Option<(Box<dyn Transaction>, usize, Vec<u8>)>) {
        let Some((tx, to, content)) = cloned else { return };
        match tx.commit(CommitMode::Durable).await {
            Ok(()) => self.files[to].as_mut().unwrap().1 = content,
            Err(FsError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn change(&mut self, step: &[u8; 6]) {
        let slot = usize::from(step[1]) % self.files.len();
        let mut tx = begin(&self.node().fs()).await;
        let root = tx.root();
        let Some((file, content)) = &mut self.files[slot] else {
            self.made += 1;
            let file = make_file(&mut tx, root, &format!("{slot} {}", self.made), b"").await.file;
            tx.link(file, root, &name(&slot.to_string())).await.unwrap();
            commit(tx).await;
            self.files[slot] = Some((file, Vec::new()));
            return;
        };
        let offset = usize::from(step[2] % 5) * BLOCK as usize + usize::from(step[3] % 3) * 20_000;
        match step[4] % 6 {
            0..3 => {
                let length = [10, 30_000, BLOCK as usize, 2 * BLOCK as usize][usize::from(step[5]) % 4];
                let data = vec![step[5] | 1; length];
                write(&mut tx, *file, offset as u64, &data).await.unwrap();
                content.resize(content.len().max(offset + length), 0);
                content[offset..offset + length].copy_from_slice(&data);
            }
            3 => {
                let set = SetAttributes::with_size(offset as u64);
                tx.set_attributes(*file, &set, Authority::Checked).await.unwrap();
                content.resize(offset, 0);
            }
            4 => {
                let length = usize::from(step[5] % 4 + 1) * 50_000;
                tx.deallocate(*file, offset as u64, length as u64, Authority::Checked).await.unwrap();
                let end = content.len().min(offset + length);
                content[offset.min(end)..end].fill(0);
            }
            _ => {
                let found = tx.read_directory(root, 0, 99).await.unwrap().entries;
                for entry in found.into_iter().filter(|entry| entry.attributes.file == *file) {
                    tx.remove(root, &entry.name).await.unwrap();
                }
                self.files[slot] = None;
            }
        }
        commit(tx).await;
    }

    async fn step(&mut self, step: &[u8; 6]) {
        match step[0] % 20 {
            0..7 => self.change(step).await,
            7..12 => {
                let cloned = self.cloned(step).await;
                self.settle(cloned).await;
            }
            // Something comes between the clone and its commit.
            12 => {
                let cloned = self.cloned(step).await;
                if step[5] & 8 == 0 {
                    let mut in_flight = std::mem::take(&mut self.in_flight);
                    end_write_back(self.node(), &mut in_flight).await;
                    self.node().write_back().await;
                } else {
                    let step = [0, step[3], step[4], step[1], step[2], step[5]];
                    let to = cloned.as_ref().map(|(_, to, _)| *to);
                    let slot = usize::from(step[1]) % self.files.len();
                    // The model would have to know what came first.
                    if to != Some(slot) {
                        self.change(&step).await;
                    }
                }
                self.settle(cloned).await;
            }
            13 => {
                let mut begun = begin_write_back(self.node()).await;
                self.in_flight.append(&mut begun);
            }
            14 => {
                let mut in_flight = std::mem::take(&mut self.in_flight);
                // Or it fails: some fragments are stored, and nothing is committed.
                if !step[1].is_multiple_of(3) {
                    end_write_back(self.node(), &mut in_flight).await;
                }
            }
            15 => drop(self.node().volume.reap_orphans(9).await.unwrap()),
            16 => {
                collect(self.node()).await;
                self.node().check_clouds().await;
                self.verify(true).await;
            }
            kind => {
                // What a dead process had under way is garbage for the next one.
                let mut in_flight = std::mem::take(&mut self.in_flight);
                if step[1].is_multiple_of(3) {
                    end_write_back(self.node(), &mut in_flight).await;
                }
                drop(in_flight);
                let node = self.node.take().unwrap();
                if kind == 17 {
                    node.write_back().await;
                }
                let node = match kind {
                    18 => node.crash().await,
                    19 => node.restart().await,
                    _ => node,
                };
                node.volume.end_of_claims();
                self.node = Some(node);
                self.verify(true).await;
            }
        }
        self.node().check().await;
    }

    /// Where equal content is kept once, no two versions that are stored hold the same.
    async fn verify_contents(&self) {
        let (node, store) = (self.node(), &self.node().volume.inner.node.blocks);
        let mut contents = BTreeSet::new();
        for stored in node.volume.stored_blocks(None, 999).await.unwrap() {
            let loaded =
                store.load(&stored.key, &stored.identity, stored.seal, &stored.placement, &node.volume).await;
            let is_new = contents.insert(loaded.unwrap().plaintext);
            assert!(
                is_new || !stored.placement.scheme().is_convergent(),
                "{} is stored twice",
                stored.identity
            );
        }
    }

    /// Everything goes, and nothing is left in the clouds.
    async fn end(mut self) {
        let mut in_flight = std::mem::take(&mut self.in_flight);
        end_write_back(self.node(), &mut in_flight).await;
        self.verify(true).await;
        let node = self.node();
        node.write_back().await;
        self.verify(true).await;
        collect(node).await;
        node.check_clouds().await;
        self.verify(true).await;
        self.verify_contents().await;
        let mut tx = begin(&node.fs()).await;
        let root = tx.root();
        for name in names(&mut tx, root).await {
            tx.remove(root, &file_system::Name::new(name).unwrap()).await.unwrap();
        }
        commit(tx).await;
        node.volume.reap_orphans(99).await.unwrap();
        node.check().await;
        collect(node).await;
        assert_eq!(node.stored(), [0; 4]);
        let keys = node.volume.inner.keys;
        for (start, end) in [keys.all_shares(), keys.all_contents(), keys.contents_of_all()] {
            let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
            let scan = meta::Scan { start: &start, end: &end, guard: None, limit: 9 };
            assert!(tx.scan(scan).await.unwrap().is_empty());
        }
        assert_eq!(node.incidents.0.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

fn run(scheme: &'static str, steps: &[[u8; 6]]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = Node::start(Site { scheme, ..Site::new(ManualClock::new()) }).await;
        let files = (0..4).map(|_| None).collect();
        let mut world = World { node: Some(node), files, in_flight: Vec::new(), made: 0 };
        for step in steps {
            world.step(step).await;
        }
        world.end().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clones_keep_what_they_have_and_leave_nothing_behind(
        steps in prop::collection::vec(any::<[u8; 6]>(), 0..120),
    ) {
        run("rs:2+1", &steps);
    }

    #[test]
    fn equal_blocks_are_stored_once_for_as_long_as_somebody_holds_them(
        steps in prop::collection::vec(any::<[u8; 6]>(), 0..120),
    ) {
        run("caont-rs:2+1", &steps);
    }
}

/// The same for longer: `KURMA_SOAK=rounds`.
#[test]
fn clones_in_a_long_life() {
    let rounds = std::env::var("KURMA_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u8
    };
    for _ in 0..rounds {
        let steps: Vec<[u8; 6]> = (0..600).map(|_| std::array::from_fn(|_| next())).collect();
        run("rs:2+1", &steps);
        run("caont-rs:2+1", &steps);
    }
}
