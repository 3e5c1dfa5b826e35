use std::sync::atomic::Ordering;

use super::small_volume::object;
use super::world::{BLOCK, World, content};

#[tokio::test(start_paused = true)]
async fn dirty_blocks_reach_the_clouds_in_few_commits_and_read_back_without_the_cache() {
    let world = World::new();
    for number in 1..=5 {
        world.volume.write(object(number), 0, content(number as u64, 3));
    }
    let report = world.write_all().await;
    assert_eq!((report.blocks, report.bytes, report.failed), (20, 5 * (3 * BLOCK + 100), 0));
    assert_eq!(world.dirty(), 0);
    assert_eq!(world.objects(), [20; 3]);
    assert!(world.volume.commits.load(Ordering::Relaxed) <= 5, "{:?}", world.volume.commits);
    let world = world.restart();
    for number in 1..=5 {
        assert!(world.read(object(number)).await == content(number as u64, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_written_back_block_is_read_without_a_cloud() {
    let world = World::new();
    world.volume.write(object(1), 0, content(1, 2));
    world.write_all().await;
    let before = world.cache.usage().fetches;
    assert!(world.read(object(1)).await == content(1, 2));
    assert_eq!(world.cache.usage().fetches, before);
}

#[tokio::test(start_paused = true)]
async fn a_partly_dirty_block_is_completed_from_the_clouds() {
    let world = World::new();
    let mut expected = content(1, 2);
    world.volume.write(object(1), 0, expected.clone());
    world.write_all().await;
    let world = world.restart();
    for at in [5, BLOCK as usize + 7, 2 * BLOCK as usize + 50] {
        world.volume.write(object(1), at as u64, b"patch".to_vec());
        expected[at..at + 5].copy_from_slice(b"patch");
    }
    assert_eq!(world.write_all().await.blocks, 3);
    let world = world.restart();
    assert!(world.read(object(1)).await == expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_overwritten_during_write_back_stays_dirty_and_follows() {
    let world = World::new();
    let mut expected = content(1, 1);
    world.volume.write(object(1), 0, expected.clone());
    *world.volume.meanwhile.lock() = Some(Box::new(|volume| volume.write(object(1), 10, b"newer".to_vec())));
    expected[10..15].copy_from_slice(b"newer");
    let report = world.write_all().await;
    assert_eq!(report.blocks, 2);
    assert_eq!(world.dirty(), 5);
    assert!(world.read(object(1)).await == expected);
    world.write_all().await;
    assert_eq!(world.dirty(), 0);
    let world = world.restart();
    assert!(world.read(object(1)).await == expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_truncated_during_write_back_does_not_come_back() {
    let world = World::new();
    world.volume.write(object(1), 0, content(1, 2));
    *world.volume.meanwhile.lock() = Some(Box::new(|volume| {
        volume.truncate(object(1), 0);
        volume.write(object(1), BLOCK + 5, b"after".to_vec());
    }));
    let report = world.write_all().await;
    assert_eq!((report.overtaken, report.failed), (3, 0));
    let mut expected = vec![0; BLOCK as usize + 10];
    expected[BLOCK as usize + 5..].copy_from_slice(b"after");
    assert!(world.read(object(1)).await == expected);
    world.write_all().await;
    let world = world.restart();
    assert_eq!(world.dirty(), 0);
    assert!(world.read(object(1)).await == expected);
    world.upkeep.garbage.once().await.unwrap();
    assert_eq!(world.objects(), [1; 3]);
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_during_write_back_leaves_nothing_behind() {
    let world = World::new();
    world.volume.write(object(1), 0, content(1, 2));
    *world.volume.meanwhile.lock() = Some(Box::new(|volume| volume.remove(object(1))));
    let report = world.write_all().await;
    assert_eq!((report.blocks, report.failed), (0, 0));
    assert_eq!(world.dirty(), 0);
    assert_eq!(world.objects(), [3; 3]);
    world.upkeep.garbage.once().await.unwrap();
    assert_eq!(world.objects(), [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_between_the_fragments_and_the_commit_nothing_half_done_is_seen() {
    let world = World::new();
    let old = content(1, 2);
    world.volume.write(object(1), 0, old.clone());
    world.write_all().await;
    let new = content(2, 2);
    world.volume.write(object(1), 0, new.clone());
    world.volume.fail_commits.store(u64::MAX, Ordering::Relaxed);
    let report = world.write_all().await;
    assert_eq!((report.blocks, report.failed), (0, 3));
    assert_eq!(world.objects(), [6; 3]);
    // The journal still has the new data, the clouds have both, and the map knows the old.
    let world = world.restart();
    assert!(world.read(object(1)).await == new);
    let versions: Vec<_> =
        world.volume.rows.lock().files[&object(1)].map.iter().map(|entry| entry.version).collect();
    assert_eq!(versions, [1, 1, 1]);
    let newest = content(3, 2);
    world.volume.write(object(1), 0, newest.clone());
    assert_eq!(world.write_all().await.blocks, 3);
    let world = world.restart();
    assert!(world.read(object(1)).await == newest);
    world.upkeep.garbage.once().await.unwrap();
    // Beside the current ones there are those that the dead process has stored: under names that nobody else uses.
    assert_eq!(world.objects(), [6; 3]);
    assert!(world.upkeep.scrubber.once(100, 0).await.unwrap().is_clean());
}

#[tokio::test(start_paused = true)]
async fn blocks_with_damaged_metadata_are_passed_over_and_counted() {
    let world = World::new();
    // More of them than one look at the metadata takes, and all of them older.
    for number in 1..=300 {
        world.volume.write(object(number), 0, vec![1; 10]);
        world.volume.damaged.lock().push(object(number));
    }
    world.volume.write(object(1000), 0, content(1, 1));
    let report = world.write_all().await;
    assert_eq!((report.blocks, report.failed, report.damaged), (2, 300, 300));
    assert_eq!(world.upkeep.write_back.failures_in_a_row(), 0, "the clouds are well");
    assert_eq!(world.dirty(), 3000);
    world.volume.damaged.lock().clear();
    assert_eq!(world.write_all().await.blocks, 300);
    assert_eq!(world.dirty(), 0);
}
