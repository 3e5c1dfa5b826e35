//! Clones, writes, cuts and removals by several at once, while write-back and reaper run beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use file_system::conformance::scene::*;
use file_system::{
    Authority, Caller, CommitMode, FileId, FsError, FsResult, Mode, OpenCreate, Position, SetAttributes,
    Transaction,
};

use super::node::{BLOCK, GC_DELAY, Node};

const FILES: u64 = 4;
const BLOCKS: u64 = 5;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }
}

/// A block is always all of one byte, whoever writes and clones it.
fn is_whole(content: &[u8]) -> bool {
    content.chunks(BLOCK as usize).all(|block| block.iter().all(|byte| *byte == block[0]))
}

async fn some_file(tx: &mut Box<dyn Transaction>, random: &mut Random) -> FsResult<FileId> {
    let (root, text) = (tx.root(), name(&random.below(FILES).to_string()));
    let opened = tx.open_create(root, &text, OpenCreate::Unchecked, &SetAttributes::with_mode(0o644)).await?;
    Ok(opened.attributes.file)
}

async fn change(tx: &mut Box<dyn Transaction>, random: &mut Random) -> FsResult<()> {
    let file = some_file(tx, random).await?;
    let offset = random.below(BLOCKS) * BLOCK;
    match random.below(8) {
        0..3 => {
            let data = vec![random.below(255) as u8 + 1; BLOCK as usize];
            write(tx, file, offset, &data).await
        }
        3..6 => {
            let to = some_file(tx, random).await?;
            let place = |file, offset| Position { file, offset, authority: Authority::Checked };
            let to = place(to, random.below(BLOCKS) * BLOCK);
            let length = random.below(3) * BLOCK;
            match tx.clone_range(place(file, offset), to, length, true).await {
                Err(FsError::InvalidArgument) => Ok(()),
                cloned => cloned,
            }
        }
        6 => {
            let set = SetAttributes::with_size(offset);
            tx.set_attributes(file, &set, Authority::Checked).await.map(drop)
        }
        _ => {
            let root = tx.root();
            tx.remove(root, &name(&random.below(FILES).to_string())).await.map(drop)
        }
    }
}

async fn mutate(node: Arc<Node>, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..40 {
        for attempt in 0.. {
            let mode = if attempt < 6 { Mode::Optimistic } else { Mode::Exclusive };
            let mut again = Random(random.0);
            let mut tx = node.fs().begin(&Caller::root(), mode).await.unwrap();
            let done = match change(&mut tx, &mut again).await {
                Ok(()) => tx.commit(CommitMode::Durable).await,
                Err(error) => Err(error),
            };
            match done {
                // Not to meet the same again.
                Ok(()) | Err(FsError::NotFound | FsError::Stale) => {
                    random = again;
                    break;
                }
                Err(FsError::Conflict | FsError::Unavailable(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

async fn verify(node: &Node) {
    node.check().await;
    node.cache.drop_clean().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    for text in names(&mut tx, root).await {
        let file = tx.lookup(root, &name(&text)).await.unwrap().file;
        assert!(is_whole(&read_all(&mut tx, file).await), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_cloned_beside_everything_else_stays_whole_and_leaves_nothing_behind() {
    let node = Arc::new(Node::new().await);
    for round in 0..6_u64 {
        let stop = Arc::new(AtomicBool::new(false));
        let (beside, stopped) = (node.clone(), stop.clone());
        let upkeep = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                let _flush = beside.cache.flush(cache::Scope::All);
                let _ = beside.upkeep.write_back.once().await;
                beside.upkeep.reaper.once().await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let mutators = (0..3).map(|n| tokio::spawn(mutate(node.clone(), 0x9E37_79B9 * (3 * round + n + 1))));
        for mutator in mutators.collect::<Vec<_>>() {
            mutator.await.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        upkeep.await.unwrap();
        verify(&node).await;
        node.write_back().await;
        // Nothing is on its way now: what is due is deleted without harm.
        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
        let _ = node.upkeep.garbage.once().await.unwrap();
        verify(&node).await;
    }
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    for text in names(&mut tx, root).await {
        tx.remove(root, &name(&text)).await.unwrap();
    }
    commit(tx).await;
    node.volume.reap_orphans(99).await.unwrap();
    node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
    let _ = node.upkeep.garbage.once().await.unwrap();
    assert_eq!(node.stored(), [0; 4]);
    node.check().await;
}
