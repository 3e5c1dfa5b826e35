use std::sync::atomic::Ordering;

use bytes::Bytes;
use ids::{BlockIndex, BlockShift};

use super::world::{BLOCK, World, file, sealing};
use crate::ReadRequest;
use crate::Stored;

#[tokio::test]
async fn another_version_is_another_block() {
    let world = World::new(2 << 20, 0);
    world.cache.insert(file(1), BlockIndex(0), sealing(1), Bytes::from_static(b"old"));
    world.cache.insert(file(1), BlockIndex(0), sealing(2), Bytes::from_static(b"new"));
    assert_eq!(world.read(file(1), 3, 0, 3, &[2]).await, b"new");
    assert_eq!(world.read(file(1), 3, 0, 3, &[1]).await, b"old");
    assert_eq!(world.clouds.loads.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_short_block_reads_as_zeros_beyond_its_end() {
    let world = World::new(2 << 20, 4 << 20);
    let shift = BlockShift::new(18).unwrap();
    let content: Vec<u8> = (0..100_000_u32).map(|i| i as u8 | 1).collect();
    world.cache.insert(file(1), BlockIndex(0), sealing(1), content.clone().into());
    world.cache.close().await;
    let mut expected = content;
    expected.resize(200_000, 0);
    for tier in ["memory", "disk", "pieces"] {
        for (offset, length) in [(0, 200_000), (99_999, 2), (100_000, 1), (150_000, 50_000), (70_000, 60_000)]
        {
            let size = 200_000;
            let request = ReadRequest { file: file(1), shift, size, offset, length, readahead: false };
            let plan = world.cache.plan_read(&request);
            let parts =
                world.cache.read(plan, &[Stored::Version(sealing(1))], &world.loader()).await.unwrap();
            let got = parts.concat();
            assert!(got == expected[offset as usize..(offset + length) as usize], "{tier} {offset} {length}");
        }
        if tier == "memory" {
            world.cache.drop_memory();
        }
    }
    assert_eq!(world.clouds.loads.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn evicting_a_file_leaves_the_others() {
    let world = World::new(2 << 20, 4 << 20);
    for number in [1, 2] {
        world.cache.insert(file(number), BlockIndex(0), sealing(1), Bytes::from(vec![1; BLOCK as usize]));
    }
    world.cache.close().await;
    world.cache.evict(file(1));
    assert!(!world.cache.has(file(1), BlockIndex(0), sealing(1)));
    assert!(world.cache.has(file(2), BlockIndex(0), sealing(1)));
    world.cache.drop_memory();
    assert!(world.cache.has(file(2), BlockIndex(0), sealing(1)));
    world.cache.drop_clean().await;
    assert!(!world.cache.has(file(2), BlockIndex(0), sealing(1)));
    assert_eq!((world.cache.usage().clean_disk, world.cache.usage().clean_memory), (0, 0));
}

#[tokio::test]
async fn a_discarded_version_frees_its_memory_and_leaves_the_others() {
    // With many others the version itself is looked for, with few of them all are looked at.
    for others in [0, 500] {
        let world = World::new(16 << 20, 16 << 20);
        let shift = BlockShift::DEFAULT;
        for version in [1, 2] {
            world.cache.insert(file(1), BlockIndex(0), sealing(version), vec![version as u8; 1 << 20].into());
        }
        world.cache.close().await;
        world.cache.drop_memory();
        for number in 0..others {
            world.store(file(2 + number), 0, 1, Bytes::from_static(b"another one"));
        }
        let empty = world.cache.usage().clean_memory;
        let read = async |version: u64| {
            let request = ReadRequest {
                file: file(1),
                shift,
                size: 1 << 20,
                offset: 0,
                length: 40_000,
                readahead: false,
            };
            let plan = world.cache.plan_read(&request);
            let stored = [Stored::Version(sealing(version))];
            let parts = world.cache.read(plan, &stored, &world.loader()).await.unwrap();
            assert!(parts.concat() == vec![version as u8; 40_000]);
            world.cache.usage().clean_memory
        };
        // Three pieces of each, from the disk.
        let one = read(1).await - empty;
        assert!(one > 3 << 14);
        assert_eq!(read(2).await - empty, 2 * one);
        world.cache.stage(file(1), BlockIndex(0), sealing(1), vec![1; 1 << 20].into()).keep().await;
        assert!(world.cache.usage().clean_memory > empty + 2 * one + (1 << 20));
        world.cache.discard(file(1), &[(BlockIndex(0), sealing(1)), (BlockIndex(1), sealing(2))]);
        assert_eq!(world.cache.usage().clean_memory, empty + one);
        let hits = world.cache.usage().memory_hits;
        assert_eq!(read(2).await, empty + one);
        assert_eq!(world.cache.usage().memory_hits, hits + 1);
        assert_eq!(world.clouds.loads.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test]
async fn a_scan_does_not_wash_out_what_is_read_again_and_again() {
    let world = World::new(4 << 20, 0);
    let hot = |number| world.read(file(number), BLOCK, 0, BLOCK, &[1]);
    for number in 0..1000 {
        world.store(file(number), 0, 1, Bytes::from(vec![1; BLOCK as usize]));
    }
    for _ in 0..20 {
        for number in 0..8 {
            hot(number).await;
        }
    }
    for number in 100..800 {
        hot(number).await;
        hot(number % 8).await;
    }
    let before = world.clouds.loads.load(Ordering::Relaxed);
    for number in 0..8 {
        hot(number).await;
    }
    assert!(world.clouds.loads.load(Ordering::Relaxed) - before <= 1);
}

#[tokio::test]
async fn a_staged_block_is_readable_at_once_and_forgotten_unless_its_commit_is_durable() {
    let world = World::new(2 << 20, 4 << 20);
    let staged = world.cache.stage(file(1), BlockIndex(0), sealing(1), Bytes::from_static(b"first try"));
    assert_eq!(world.read(file(1), 9, 0, 9, &[1]).await, b"first try");
    drop(staged);
    assert!(!world.cache.has(file(1), BlockIndex(0), sealing(1)));

    let staged = world.cache.stage(file(1), BlockIndex(0), sealing(1), Bytes::from_static(b"second"));
    world.cache.close().await;
    world.cache.drop_memory();
    assert!(!world.cache.has(file(1), BlockIndex(0), sealing(1)));
    staged.keep().await;
    world.cache.close().await;
    assert_eq!(world.read(file(1), 6, 0, 6, &[1]).await, b"second");
    assert_eq!(world.clouds.loads.load(Ordering::Relaxed), 0);
}
