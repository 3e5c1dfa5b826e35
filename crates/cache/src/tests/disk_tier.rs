use std::path::PathBuf;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use ids::{BlockIndex, BlockShift};
use journal::testing::MemoryDisk;
use seal::{NodeKey, SealId};

use super::world::{BLOCK, World, file, sealing};
use crate::{Cache, CacheConfig, ReadRequest, Sealing, Stored};

fn content(seed: u8) -> Bytes {
    (0..BLOCK).map(|i| (i as u8).wrapping_mul(3) ^ seed).collect::<Vec<_>>().into()
}

async fn fill(world: &World, files: std::ops::Range<u128>) {
    for number in files {
        world.store(file(number), 0, 1, content(number as u8));
        world.cache.insert(file(number), BlockIndex(0), sealing(1), content(number as u8));
        world.cache.inner.clean.disk().unwrap().written().await;
    }
}

async fn read(world: &World, number: u128) -> bool {
    let before = world.clouds.loads.load(Ordering::Relaxed);
    assert!(world.read(file(number), BLOCK, 0, BLOCK, &[1]).await == content(number as u8), "file {number}");
    world.clouds.loads.load(Ordering::Relaxed) == before
}

fn regions(world: &World) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(&world.config.directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn blocks_survive_a_restart_after_a_clean_stop() {
    let mut world = World::new(2 << 20, 8 << 20);
    fill(&world, 0..10).await;
    world.cache.close().await;
    world.restart();
    for number in 0..10 {
        assert!(read(&world, number).await);
    }
    assert_eq!(world.cache.usage().disk_hits, 10);
}

#[tokio::test]
async fn after_a_kill_finished_regions_survive_and_the_rest_is_a_miss() {
    let mut world = World::new(2 << 20, 8 << 20);
    fill(&world, 0..40).await;
    assert_eq!(regions(&world).len(), 2);
    world.restart();
    assert_eq!(regions(&world).len(), 1);
    let mut hits = 0;
    for number in 0..40 {
        hits += usize::from(read(&world, number).await);
    }
    assert!((20..40).contains(&hits), "{hits}");
}

#[tokio::test]
async fn a_damaged_block_is_a_miss_and_never_wrong_bytes() {
    let mut world = World::new(2 << 20, 8 << 20);
    fill(&world, 0..8).await;
    world.cache.close().await;
    let region = regions(&world).remove(0);
    let mut bytes = std::fs::read(&region).unwrap();
    // One bit in every third block, and two blocks swapped.
    let sealed = BLOCK as usize + 16;
    for block in [0, 3] {
        bytes[64 + block * sealed + 1000 + block] ^= 4;
    }
    let (one, two) = (64 + 4 * sealed, 64 + 5 * sealed);
    for i in 0..sealed {
        bytes.swap(one + i, two + i);
    }
    std::fs::write(&region, bytes).unwrap();
    world.restart();
    let mut misses = Vec::new();
    for number in 0..8 {
        if !read(&world, number).await {
            misses.push(number);
        }
    }
    assert_eq!(misses, [0, 3, 4, 5]);
    assert_eq!(world.cache.usage().bad_disk_blocks, 4);
}

#[tokio::test]
async fn a_region_with_a_damaged_header_index_or_trailer_is_removed() {
    let mut world = World::new(2 << 20, 8 << 20);
    fill(&world, 0..2).await;
    world.cache.close().await;
    let region = regions(&world).remove(0);
    let good = std::fs::read(&region).unwrap();
    let end = good.len();
    for at in [0, 9, 20, 30, end - 1, end - 10, end - 24, end - 32, end - 100] {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        std::fs::write(&region, bad).unwrap();
        world.restart();
        assert!(!region.exists(), "byte {at}");
        assert!(!world.cache.has(file(0), BlockIndex(0), sealing(1)));
    }
    for cut in [0, 10, 64, 5000, end - 1] {
        std::fs::write(&region, &good[..cut]).unwrap();
        world.restart();
        assert!(!region.exists(), "cut at {cut}");
    }
    std::fs::write(&region, &good).unwrap();
    world.restart();
    assert!(world.cache.has(file(0), BlockIndex(0), sealing(1)));
}

#[tokio::test]
async fn the_files_hold_no_plaintext() {
    let world = World::new(2 << 20, 8 << 20);
    let canary = b"kurma canary: nobody may read this";
    // So long that noise does not have it by chance.
    let number: u64 = 0xC0FF_EE15_900D_FEED;
    let mut bytes = canary.repeat(1500);
    bytes.truncate(BLOCK as usize);
    world.cache.insert(file(number.into()), BlockIndex(0), sealing(1), bytes.into());
    world.cache.close().await;
    let mut seen = 0;
    for region in regions(&world) {
        let bytes = std::fs::read(region).unwrap();
        seen += bytes.len();
        assert!(!bytes.windows(16).any(|window| window == &canary[..16]));
        assert!(
            !bytes.windows(8).any(|window| window == number.to_be_bytes() || window == number.to_le_bytes())
        );
    }
    assert!(seen > canary.len() * 1400);
}

#[tokio::test]
async fn blocks_that_are_read_outlive_those_that_are_not() {
    let world = World::new(2 << 20, 8 << 20);
    fill(&world, 0..4).await;
    for round in 0..60 {
        world.cache.drop_memory();
        for number in 0..4 {
            assert!(read(&world, number).await, "round {round}");
        }
        fill(&world, 100 + round * 8..108 + round * 8).await;
    }
    assert!(!world.cache.has(file(100), BlockIndex(0), sealing(1)) || !read(&world, 100).await);
}

#[tokio::test]
async fn a_small_read_of_a_large_block_touches_one_piece() {
    let world = World::new(2 << 20, 16 << 20);
    let shift = BlockShift::DEFAULT;
    let large: Bytes = (0..1 << 20).map(|i: u32| (i >> 12) as u8).collect::<Vec<_>>().into();
    world.cache.insert(file(1), BlockIndex(0), sealing(1), large.clone());
    world.cache.close().await;
    world.cache.drop_memory();
    let request =
        ReadRequest { file: file(1), shift, size: 1 << 20, offset: 700_000, length: 4096, readahead: false };
    let plan = world.cache.plan_read(&request);
    let parts = world.cache.read(plan, &[Stored::Version(sealing(1))], &world.loader()).await.unwrap();
    assert!(parts.concat() == large[700_000..704_096]);
    let usage = world.cache.usage();
    assert!(usage.clean_memory < 18 << 10, "{usage:?}");
    let again = world.cache.plan_read(&ReadRequest { offset: 699_000, ..request });
    world.cache.read(again, &[Stored::Version(sealing(1))], &world.loader()).await.unwrap();
    assert_eq!((world.cache.usage().disk_hits, world.cache.usage().memory_hits), (1, 1));
}

#[tokio::test]
async fn a_shrunken_configuration_gives_space_back() {
    let mut world = World::new(2 << 20, 16 << 20);
    fill(&world, 0..200).await;
    world.cache.close().await;
    world.config.disk = 4 << 20;
    world.restart();
    assert!(world.cache.usage().clean_disk <= 4 << 20);
    world.config.disk = 0;
    world.restart();
    assert!(regions(&world).is_empty());
}

#[tokio::test]
async fn the_index_of_small_blocks_keeps_to_its_part_of_the_memory() {
    let mut world = World::new(4 << 20, 8 << 20);
    let most = (4 << 20) / 8 / 280;
    for number in 0..4 * most {
        world.cache.insert(file(number), BlockIndex(0), sealing(1), Bytes::from_static(b"small"));
        if number % 100 == 0 {
            world.cache.inner.clean.disk().unwrap().written().await;
        }
    }
    let kept = |world: &World| {
        world.cache.drop_memory();
        (0..4 * most)
            .filter(|&number| world.cache.has(file(number), BlockIndex(0), sealing(1)))
            .collect::<Vec<_>>()
    };
    world.cache.close().await;
    let found = kept(&world);
    assert!((most as usize / 2..=most as usize).contains(&found.len()), "{}", found.len());
    assert_eq!(found, (4 * most - found.len() as u128..4 * most).collect::<Vec<_>>(), "the newest");
    world.config.memory = 1 << 20;
    world.restart();
    assert!((256..=1024).contains(&kept(&world).len()), "{}", kept(&world).len());
}

/// A disk in memory, and a cache with a tier of four regions of 31 blocks on it.
async fn on_a_disk_in_memory() -> (MemoryDisk, Cache) {
    let disk = MemoryDisk::new();
    let mut config = CacheConfig::new("/cache".into());
    (config.memory, config.disk) = (16 << 20, 8 << 20);
    let cache = Cache::build(&config, &disk.environment(), NodeKey::from_bytes([9; 32])).unwrap();
    (disk, cache)
}

async fn insert(cache: &Cache, files: std::ops::Range<u128>) {
    for number in files {
        cache.insert(file(number), BlockIndex(0), sealing(1), content(1));
    }
    cache.inner.clean.disk().unwrap().written().await;
}

#[tokio::test]
async fn a_region_whose_index_does_not_fit_is_still_in_the_books() {
    let (disk, cache) = on_a_disk_in_memory().await;
    insert(&cache, 0..31).await;
    let bytes = cache.usage().clean_disk;
    disk.set_full(true);
    insert(&cache, 31..32).await;
    assert_eq!(cache.usage().clean_disk, bytes);
    disk.set_full(false);
    cache.drop_clean().await;
    assert_eq!((cache.usage().clean_disk, disk.files().len()), (0, 0));
    assert!(!cache.has(file(0), BlockIndex(0), sealing(1)));
}

#[tokio::test]
async fn a_full_disk_leaves_no_files_behind_and_is_not_tried_for_all_that_waits() {
    let (disk, cache) = on_a_disk_in_memory().await;
    insert(&cache, 0..1).await;
    disk.set_full(true);
    insert(&cache, 1..20).await;
    assert_eq!(disk.files().len(), 1);
    assert_eq!(cache.usage().disk_queue, 0);
    disk.set_full(false);
    // It pauses, for so many blocks, and not for ever.
    for number in 0..4100 {
        cache.insert(file(1000 + number), BlockIndex(0), sealing(1), Bytes::from_static(b"small"));
    }
    cache.inner.clean.disk().unwrap().written().await;
    cache.drop_memory();
    assert!(!cache.has(file(1000), BlockIndex(0), sealing(1)));
    assert!(cache.has(file(1000 + 4099), BlockIndex(0), sealing(1)));
}

#[tokio::test]
async fn what_is_forgotten_does_not_come_back_from_the_queue() {
    for number in [1, 2] {
        let (disk, cache) = on_a_disk_in_memory().await;
        // Nothing has been written yet: that is done on another thread, or here, where nobody waits.
        let tier = cache.inner.clean.disk().unwrap().clone();
        let writing = tier.hold_writer();
        cache.insert(file(1), BlockIndex(0), sealing(1), content(1));
        cache.insert(file(2), BlockIndex(0), sealing(1), content(2));
        cache.evict(file(number));
        drop(writing);
        tier.written().await;
        cache.drop_memory();
        assert!(!cache.has(file(number), BlockIndex(0), sealing(1)));
        assert!(disk.files().len() <= 1);
        cache.drop_clean().await;
        assert_eq!((cache.usage().disk_queue, disk.files().len()), (0, 0));
    }
}

#[tokio::test]
async fn a_full_disk_is_only_a_miss() {
    let world = World::new(2 << 20, 8 << 20);
    // Nothing can be created in a directory that is gone.
    std::fs::remove_dir_all(world.folder().join("cache")).unwrap();
    fill(&world, 0..3).await;
    world.cache.drop_memory();
    assert!(!read(&world, 0).await);
}

#[tokio::test]
async fn a_version_number_that_came_back_after_a_crash_is_another_block() {
    let mut world = World::new(2 << 20, 8 << 20);
    let first = sealing(3);
    world.cache.insert(file(1), BlockIndex(0), first, Bytes::from_static(b"lost with its metadata"));
    world.cache.close().await;
    world.restart();
    let second = Sealing { seal: SealId(first.seal.0 + 1), ..first };
    assert!(world.cache.has(file(1), BlockIndex(0), first));
    assert!(!world.cache.has(file(1), BlockIndex(0), second));
    world.cache.insert(file(1), BlockIndex(0), second, Bytes::from_static(b"current"));
    world.cache.close().await;
    world.restart();
    let shift = BlockShift::MIN;
    let content = world.cache.stored_block(file(1), shift, BlockIndex(0), second, &world.loader()).await;
    assert_eq!(content.unwrap(), &b"current"[..]);
}
