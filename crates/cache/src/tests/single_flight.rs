use std::sync::atomic::Ordering;

use bytes::Bytes;
use ids::{BlockIndex, Version};

use super::world::{BLOCK, SHIFT, World, file, sealing, stored};
use crate::{CacheError, ReadRequest, Stored};

fn request(offset: u64, length: u64) -> ReadRequest {
    ReadRequest { file: file(1), shift: SHIFT, size: 64 * BLOCK, offset, length, readahead: false }
}

#[tokio::test]
async fn many_readers_of_a_block_load_it_once() {
    let world = World::new(2 << 20, 0);
    world.store(file(1), 0, 1, Bytes::from(vec![5; BLOCK as usize]));
    let readers = (0..20).map(|step| world.read(file(1), BLOCK, step * 100, 100, &[1]));
    let parts = futures::future::join_all(readers).await;
    assert!(parts.iter().all(|part| part[..] == [5; 100]));
    assert_eq!(world.clouds.loads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_reader_that_gives_up_does_not_stop_the_load_for_the_others() {
    let world = World::new(2 << 20, 0);
    world.store(file(1), 0, 1, Bytes::from_static(b"content"));
    let all = world.clouds.gate.acquire_many(1 << 20).await.unwrap();
    world.clouds.gate.forget_permits(usize::MAX);
    {
        let early = world.read(file(1), 7, 0, 7, &[1]);
        tokio::pin!(early);
        assert!(futures::poll!(early).is_pending());
    }
    let late = world.read(file(1), 7, 0, 7, &[1]);
    tokio::pin!(late);
    assert!(futures::poll!(&mut late).is_pending());
    drop(all);
    assert_eq!(late.await, b"content");
    assert_eq!(world.clouds.loads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_was_forgotten_while_it_was_loaded_is_not_kept() {
    for drops_all in [false, true] {
        let world = World::new(2 << 20, 4 << 20);
        world.store(file(1), 0, 1, Bytes::from_static(b"content"));
        let all = world.clouds.gate.acquire_many(1 << 20).await.unwrap();
        world.clouds.gate.forget_permits(usize::MAX);
        let read = world.read(file(1), 7, 0, 7, &[1]);
        tokio::pin!(read);
        while world.clouds.loads.load(Ordering::Relaxed) == 0 {
            assert!(futures::poll!(&mut read).is_pending());
            tokio::task::yield_now().await;
        }
        match drops_all {
            true => world.cache.drop_clean().await,
            false => world.cache.evict(file(1)),
        }
        drop(all);
        assert_eq!(read.await, b"content");
        world.cache.inner.clean.disk().unwrap().written().await;
        assert!(!world.cache.has(file(1), BlockIndex(0), sealing(1)));
    }
}

#[tokio::test]
async fn what_was_loaded_ahead_is_forgotten_too() {
    let world = World::new(2 << 20, 0);
    let key = crate::block_key::BlockKey { file: file(1), block: BlockIndex(0), sealing: sealing(1) };
    world.cache.inner.clean.insert_ahead(key, Bytes::from_static(b"content"));
    assert!(world.cache.has(file(1), BlockIndex(0), sealing(1)));
    world.cache.evict(file(1));
    assert!(!world.cache.has(file(1), BlockIndex(0), sealing(1)));
    assert_eq!(world.cache.usage().clean_memory, 0);
}

#[tokio::test]
async fn all_blocks_of_a_read_are_loaded_at_the_same_time() {
    let world = World::new(32 << 20, 0);
    for block in 0..16 {
        world.store(file(1), block, 1, Bytes::from(vec![block as u8; BLOCK as usize]));
    }
    let all = world.clouds.gate.acquire_many(1 << 20).await.unwrap();
    world.clouds.gate.forget_permits(usize::MAX);
    let map = [1; 16];
    let read = world.read(file(1), 16 * BLOCK, 0, 16 * BLOCK, &map);
    tokio::pin!(read);
    for _ in 0..50 {
        assert!(futures::poll!(&mut read).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(world.clouds.loads.load(Ordering::Relaxed), 16);
    drop(all);
    assert_eq!(read.await.len() as u64, 16 * BLOCK);
}

#[tokio::test]
async fn a_failed_load_is_told_to_the_reader_and_tried_anew_by_the_next() {
    let world = World::new(2 << 20, 0);
    let plan = world.cache.plan_read(&request(0, 10));
    let error = world.cache.read(plan, &[Stored::Version(sealing(1))], &world.loader()).await.unwrap_err();
    assert!(matches!(error, CacheError::Load { block: BlockIndex(0), version: Version(1), .. }), "{error}");
    world.store(file(1), 0, 1, Bytes::from_static(b"content"));
    assert_eq!(world.read(file(1), 7, 0, 7, &[1]).await, b"content");
}

#[tokio::test]
async fn dirty_blocks_and_holes_are_not_loaded() {
    let world = World::new(2 << 20, 0);
    world.write(file(1), BLOCK, &[1; BLOCK as usize]);
    let plan = world.cache.plan_read(&request(0, 3 * BLOCK));
    assert_eq!(plan.blocks(), [BlockIndex(0), BlockIndex(2)]);
    let parts = world.cache.read(plan, &[Stored::Hole; 2], &world.loader()).await.unwrap();
    let expected = [vec![0; BLOCK as usize], vec![1; BLOCK as usize], vec![0; BLOCK as usize]].concat();
    assert!(parts.concat() == expected);
    assert_eq!(world.clouds.loads.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_plan_without_its_versions_is_refused() {
    let world = World::new(2 << 20, 0);
    let plan = world.cache.plan_read(&request(0, 2 * BLOCK));
    let error = world.cache.read(plan, &[Stored::Hole], &world.loader()).await.unwrap_err();
    assert!(matches!(error, CacheError::Unresolved { needed: 2, given: 1 }));
}

#[tokio::test]
async fn a_sequential_reader_finds_its_next_blocks_loaded() {
    let world = World::new(32 << 20, 0);
    let map = vec![1; 64];
    for block in 0..64 {
        world.store(file(1), block, 1, Bytes::from(vec![block as u8; BLOCK as usize]));
    }
    for block in 0..64 {
        let plan = world.cache.plan_read(&ReadRequest { readahead: true, ..request(block * BLOCK, BLOCK) });
        let versions: Vec<_> = plan.blocks().iter().map(|block| stored(&map, block.0)).collect();
        let parts = world.cache.read(plan, &versions, &world.loader()).await.unwrap();
        assert!(parts.concat() == vec![block as u8; BLOCK as usize]);
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
    let usage = world.cache.usage();
    assert_eq!(usage.fetches, 64);
    assert!(usage.readahead >= 60 && usage.memory_hits >= 60, "{usage:?}");
}

#[tokio::test]
async fn what_is_loaded_ahead_is_there_when_its_reader_comes_however_full_the_cache_is() {
    let world = World::new(16 << 20, 0);
    let map = vec![1; 400];
    let size = 400 * BLOCK;
    for number in 1..=4 {
        for block in 0..400 {
            world.store(file(number), block, 1, Bytes::from(vec![number as u8; BLOCK as usize]));
        }
    }
    // Hot blocks fill the memory.
    for _ in 0..4 {
        for block in 0..60 {
            world.read(file(4), size, block * BLOCK, BLOCK, &map).await;
        }
    }
    let before = world.cache.usage();
    for block in 0..400 {
        for number in 1..=3 {
            for part in 0..4 {
                let (offset, length) = (block * BLOCK + part * BLOCK / 4, BLOCK / 4);
                let request =
                    ReadRequest { file: file(number), shift: SHIFT, size, offset, length, readahead: true };
                let plan = world.cache.plan_read(&request);
                let versions: Vec<_> = plan.blocks().iter().map(|block| stored(&map, block.0)).collect();
                world.cache.read(plan, &versions, &world.loader()).await.unwrap();
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                assert!(
                    world.cache.usage().clean_memory
                        <= world.config.clean_memory() + world.config.unread_memory()
                );
            }
        }
    }
    let usage = world.cache.usage();
    assert_eq!(usage.fetches - before.fetches, 1200);
    assert!(usage.memory_hits - before.memory_hits > 4700, "{usage:?}");
}

#[tokio::test]
async fn blocks_loaded_for_a_reader_who_never_comes_make_room_after_a_while() {
    let world = World::new(2 << 20, 0);
    let map = vec![1; 400];
    for number in 1..=2 {
        for block in 0..400 {
            world.store(file(number), block, 1, Bytes::from(vec![1; BLOCK as usize]));
        }
    }
    let start = async |number| {
        for block in 0..8 {
            let (offset, size) = (block * BLOCK, 400 * BLOCK);
            let request = ReadRequest {
                file: file(number),
                shift: SHIFT,
                size,
                offset,
                length: BLOCK,
                readahead: true,
            };
            let plan = world.cache.plan_read(&request);
            let versions: Vec<_> = plan.blocks().iter().map(|block| stored(&map, block.0)).collect();
            world.cache.read(plan, &versions, &world.loader()).await.unwrap();
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
        }
        world.cache.usage().readahead
    };
    let first = start(1).await;
    assert!(first > 0);
    world.clock.advance(std::time::Duration::from_secs(6));
    assert!(start(2).await > first);
}

#[tokio::test]
async fn a_reader_as_fast_as_the_clouds_does_not_run_out_of_readahead() {
    let world = World::new(4 << 20, 0);
    let map = vec![1; 200];
    for block in 0..200 {
        world.store(file(1), block, 1, Bytes::from(vec![1; BLOCK as usize]));
    }
    for block in 0..200 {
        let size = 200 * BLOCK;
        let (offset, length) = (block * BLOCK, BLOCK);
        let request = ReadRequest { file: file(1), shift: SHIFT, size, offset, length, readahead: true };
        let plan = world.cache.plan_read(&request);
        let versions: Vec<_> = plan.blocks().iter().map(|block| stored(&map, block.0)).collect();
        // Always on the heels of the loads: most blocks are still under way.
        world.cache.read(plan, &versions, &world.loader()).await.unwrap();
    }
    let usage = world.cache.usage();
    assert_eq!(usage.fetches, 200);
    assert!(usage.readahead > 150, "{usage:?}");
}
