use bytes::Bytes;
use futures::FutureExt;
use ids::BlockIndex;

use super::world::{BLOCK, World, file, sealing};
use crate::{DataOp, Scope};

#[tokio::test]
async fn dirty_data_beyond_the_memory_budget_is_read_back_from_the_journal() {
    let world = World::new(2 << 20, 0);
    let limit = world.config.dirty_memory();
    for block in 0..64 {
        world.write(file(1), block * BLOCK, &[block as u8; BLOCK as usize]);
        assert!(world.cache.usage().dirty_memory <= limit);
    }
    assert_eq!(world.cache.usage().dirty, 64 * BLOCK);
    for block in 0..64 {
        let got = world.read(file(1), 64 * BLOCK, block * BLOCK + 5, 10, &[]).await;
        assert_eq!(got, [block as u8; 10]);
        assert!(world.cache.usage().dirty_memory <= limit);
    }
    assert!(world.records.reads.load(std::sync::atomic::Ordering::Relaxed) >= 40);
}

#[test]
fn overwritten_and_removed_data_frees_its_memory() {
    let world = World::new(2 << 20, 0);
    for _ in 0..5000 {
        world.write(file(1), 0, &[1; 4096]);
        world.write(file(2), 0, &[1; 100]);
        world.commit(DataOp::Forget { file: file(2) }, b"");
    }
    let usage = world.cache.usage();
    assert_eq!((usage.dirty, usage.dirty_memory), (4096, 4096));
    assert!(usage.bookkeeping < 1000);
}

#[test]
fn writers_wait_while_the_books_are_full() {
    let mut world = World::new(2 << 20, 0);
    world.config.bookkeeping = 32 << 10;
    world.restart();
    assert!(world.cache.admit().now_or_never().is_some());
    let mut writes = 0;
    while world.cache.admit().now_or_never().is_some() {
        world.write(file(writes), 0, b"x");
        writes += 1;
        assert!(writes < 10_000);
    }
    assert!(world.cache.is_crowded());
    let waiting = world.cache.admit();
    tokio::pin!(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    for number in 0..writes / 2 + 1 {
        world.commit(DataOp::Forget { file: file(number) }, b"");
    }
    assert!(waiting.now_or_never().is_some());
    assert_eq!(world.cache.dirty_bytes(Scope::All), (writes - writes / 2 - 1) as u64);
}

#[tokio::test]
async fn clean_data_stays_within_its_memory_and_disk() {
    let world = World::new(4 << 20, 8 << 20);
    for round in 0..400 {
        let content = Bytes::from(vec![round as u8; BLOCK as usize]);
        world.cache.insert(file(round), BlockIndex(0), sealing(1), content);
        if round % 8 == 0 {
            tokio::task::yield_now().await;
            world.cache.inner.clean.disk().unwrap().written().await;
        }
        let usage = world.cache.usage();
        assert!(usage.clean_memory <= world.config.clean_memory(), "{usage:?}");
        assert!(usage.disk_queue <= world.config.disk_queue_memory(), "{usage:?}");
        assert!(usage.clean_disk <= world.config.disk, "{usage:?}");
    }
    let on_disk: u64 = std::fs::read_dir(&world.config.directory)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(on_disk > world.config.disk / 2 && on_disk <= world.config.disk, "{on_disk}");
}
