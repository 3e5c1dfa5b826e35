pub mod life;

use std::time::Duration;

use bytes::Bytes;
use file_system::conformance::scene::*;
use file_system::{Authority, CommitMode, FileId, FileSystem, FsError, Position, SetAttributes};
use ids::{BlockIndex, Version};
use meta::{MetaStore, Priority};

use super::files::{content, file_of, remove, set_size, write_at};
use super::node::{BLOCK, GC_DELAY, Node};
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
    assert_eq!((report.blocks, report.total().missing), (4, 1));
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
