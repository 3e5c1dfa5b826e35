use file_system::conformance::scene::*;
use file_system::{Authority, CommitMode, FileId, FsError, FsResult, Position};
use ids::{BlockIndex, Version};
use meta::{MetaStore, Priority};

use super::files::{content, file_of, set_size};
use super::node::{BLOCK, Node};
use crate::row::{BlockEntry, CHUNK_BLOCKS, Chunk, Origin};

/// Puts `chunks` whole chunks into the map of a file, as if all blocks of them had been stored.
async fn store(node: &Node, file: FileId, chunks: u64, version: impl Fn(u64) -> Version) {
    set_size(node, file, chunks * CHUNK_BLOCKS * BLOCK).await;
    let mut map = Chunk::default();
    for index in 0..CHUNK_BLOCKS {
        map.set(index, BlockEntry { version: version(index), hole: false, ..BlockEntry::NONE });
    }
    let map = map.encode();
    // What a record has room for.
    let at_a_time = (512 << 10) / (map.len() as u64 + 64);
    for first in (0..chunks).step_by(at_a_time as usize) {
        let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
        for chunk in first..chunks.min(first + at_a_time) {
            let block = BlockIndex(chunk * CHUNK_BLOCKS);
            tx.put(node.volume.inner.keys.chunk(file.object, block), map.clone());
        }
        tx.commit(Priority::Upkeep).await.unwrap().durable().await.unwrap();
    }
}

async fn clone(node: &Node, from: FileId, to: FileId, length: u64) -> FsResult<()> {
    let at = |file| Position { file, offset: 0, authority: Authority::Checked };
    let mut tx = begin(&node.fs()).await;
    tx.clone_range(at(from), at(to), length, true).await.unwrap();
    tx.commit(CommitMode::Durable).await
}

#[tokio::test]
async fn what_one_record_cannot_hold_is_too_large_to_be_cloned_and_nothing_of_it_is() {
    let node = Node::new().await;
    let (from, to) = (file_of(&node, "from", b"").await, file_of(&node, "to", b"kept").await);
    // No two neighbours are alike.
    store(&node, from, 128, |index| Version(1 << 32 | (index * index) << 8)).await;
    assert!(matches!(clone(&node, from, to, 0).await, Err(FsError::TooLarge)));
    assert_eq!(content(&node, to).await, b"kept");
    clone(&node, from, to, 8 * CHUNK_BLOCKS * BLOCK).await.unwrap();
    node.check().await;
}

#[tokio::test]
async fn of_blocks_that_were_written_in_order_one_mebibyte_of_journal_clones_a_million() {
    let node = Node::new().await;
    assert!(node.journal.max_record() <= 1 << 20);
    let (from, to) = (file_of(&node, "from", b"").await, file_of(&node, "to", b"").await);
    let chunks = (1 << 20) / CHUNK_BLOCKS;
    store(&node, from, chunks, |_| Version(1)).await;
    clone(&node, from, to, 0).await.unwrap();
    for block in [0, (1 << 20) - 1] {
        let origin = Origin { object: from.object, block: BlockIndex(block), version: Version(1) };
        assert_eq!(node.entry(to, block).await.origin, Some(origin));
    }
}
