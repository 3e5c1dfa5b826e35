use file_system::conformance::scene::*;
use file_system::{Authority, CommitMode, Extent, FileId, FsError, SetAttributes};
use ids::Version;

use super::files::{content, file_of};
use super::node::{BLOCK, GC_DELAY, Node};

async fn punch(node: &Node, file: FileId, offset: u64, length: u64) {
    let mut tx = begin(&node.fs()).await;
    tx.deallocate(file, offset, length, Authority::Checked).await.unwrap();
    commit(tx).await;
}

async fn extents(node: &Node, file: FileId) -> Vec<Extent> {
    begin(&node.fs()).await.extents(file, 0..u64::MAX, 99, Authority::Checked).await.unwrap()
}

#[tokio::test]
async fn the_blocks_of_a_hole_are_given_back_and_those_beside_it_stay() {
    // K13, K14
    let node = Node::new().await;
    let file = file_of(&node, "file", &vec![7; 4 * BLOCK as usize]).await;
    node.write_back().await;
    assert_eq!(node.stored(), [4, 4, 4, 0]);
    punch(&node, file, BLOCK - 100, 2 * BLOCK + 100).await;
    let entry = node.entry(file, 1).await;
    assert_eq!((entry.version, entry.hole), (Version(1), true));
    node.write_back().await;
    let found = extents(&node, file).await;
    let ranges: Vec<_> = found.into_iter().map(|extent| (extent.range, extent.is_hole)).collect();
    let hole = BLOCK..3 * BLOCK;
    assert_eq!(ranges, [(0..BLOCK, false), (hole, true), (3 * BLOCK..4 * BLOCK, false)]);
    node.site.clock.advance(GC_DELAY);
    let _ = node.upkeep.garbage.once().await.unwrap();
    assert_eq!(node.stored(), [2, 2, 2, 0]);
    node.cache.drop_clean().await;
    let mut expected = vec![7; 4 * BLOCK as usize];
    expected[BLOCK as usize - 100..3 * BLOCK as usize].fill(0);
    assert!(content(&node, file).await == expected);
    node.check().await;
}

#[tokio::test]
async fn punching_where_there_is_nothing_stores_nothing() {
    let node = Node::new().await;
    let file = file_of(&node, "file", b"").await;
    let mut tx = begin(&node.fs()).await;
    tx.set_attributes(file, &SetAttributes::with_size(1 << 40), Authority::Checked).await.unwrap();
    commit(tx).await;
    punch(&node, file, 100, (1 << 40) - 200).await;
    punch(&node, file, 10, 20).await;
    node.write_back().await;
    assert_eq!(node.stored(), [0; 4]);
    assert_eq!(extents(&node, file).await, [Extent { range: 0..1 << 40, is_hole: true }]);
    node.check().await;
}

#[tokio::test]
async fn a_hole_that_is_made_while_its_blocks_are_stored_wins() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &vec![7; 3 * BLOCK as usize]).await;
    // Nothing of the file is in the map when the hole looks for what it has to give back; then everything is.
    let mut tx = begin(&node.fs()).await;
    tx.deallocate(file, 0, 2 * BLOCK, Authority::Checked).await.unwrap();
    node.write_back().await;
    assert_eq!(tx.commit(CommitMode::Durable).await, Err(FsError::Conflict));
    punch(&node, file, 0, 2 * BLOCK).await;
    let expected = [vec![0; 2 * BLOCK as usize], vec![7; BLOCK as usize]].concat();
    assert!(content(&node, file).await == expected);
    node.check().await;
}

#[tokio::test]
async fn a_truncation_whose_blocks_are_stored_meanwhile_does_not_miss_them() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &vec![7; 2 * BLOCK as usize]).await;
    let mut tx = begin(&node.fs()).await;
    tx.set_attributes(file, &SetAttributes::with_size(0), Authority::Checked).await.unwrap();
    node.write_back().await;
    assert_eq!(tx.commit(CommitMode::Durable).await, Err(FsError::Conflict));
    let mut tx = begin(&node.fs()).await;
    for size in [0, 2 * BLOCK] {
        tx.set_attributes(file, &SetAttributes::with_size(size), Authority::Checked).await.unwrap();
    }
    commit(tx).await;
    assert!(content(&node, file).await.iter().all(|&byte| byte == 0));
    node.check().await;
}

#[tokio::test]
async fn holes_survive_a_crash() {
    let node = Node::new().await;
    let file = file_of(&node, "file", &vec![7; 3 * BLOCK as usize]).await;
    node.write_back().await;
    punch(&node, file, 10, 2 * BLOCK).await;
    let node = node.crash().await;
    let mut expected = vec![7; 3 * BLOCK as usize];
    expected[10..2 * BLOCK as usize + 10].fill(0);
    assert!(content(&node, file).await == expected);
    node.write_back().await;
    node.cache.drop_clean().await;
    assert!(content(&node, file).await == expected);
    node.check().await;
}

#[tokio::test]
async fn a_search_for_data_finds_the_last_block_of_a_large_sparse_file() {
    let node = Node::new().await;
    let file = file_of(&node, "file", b"start").await;
    let mut tx = begin(&node.fs()).await;
    write(&mut tx, file, 1 << 50, b"end").await.unwrap();
    commit(tx).await;
    for _ in 0..2 {
        let mut tx = begin(&node.fs()).await;
        let found = tx.extents(file, BLOCK..u64::MAX, 2, Authority::Checked).await.unwrap();
        let ranges: Vec<_> = found.into_iter().map(|extent| (extent.range, extent.is_hole)).collect();
        assert_eq!(ranges, [(BLOCK..1 << 50, true), (1 << 50..(1 << 50) + 3, false)]);
        drop(tx);
        node.write_back().await;
    }
}
