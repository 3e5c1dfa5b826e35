use std::time::Duration;

use bytes::Bytes;
use cloud::{ErrorKind, Fault, Side};

use super::small_volume::object;
use super::world::{BLOCK, World, content};
use crate::ScrubCounts;

#[tokio::test(start_paused = true)]
async fn superseded_versions_are_deleted_and_current_ones_stay() {
    let world = World::new();
    for round in 1..=3 {
        world.volume.write(object(1), 0, content(round, 2));
        world.write_all().await;
    }
    assert_eq!(world.objects(), [9; 3]);
    let report = world.upkeep.garbage.once().await.unwrap();
    assert_eq!((report.versions, report.postponed), (6, 0));
    assert_eq!(world.objects(), [3; 3]);
    assert!(world.volume.rows.lock().garbage.is_empty());
    let world = world.restart();
    assert!(world.read(object(1)).await == content(3, 2));
}

#[tokio::test(start_paused = true)]
async fn garbage_that_a_cloud_does_not_delete_is_kept_in_the_queue() {
    let world = World::new();
    for round in 1..=2 {
        world.volume.write(object(1), 0, content(round, 1));
        world.write_all().await;
    }
    world.clouds[2].set(Side::Writes, Fault::Fail(ErrorKind::Refused));
    let report = world.upkeep.garbage.once().await.unwrap();
    assert_eq!((report.rows, report.postponed), (0, 2));
    assert_eq!(world.objects(), [2, 2, 4]);
    world.clouds[2].set(Side::Writes, Fault::None);
    assert_eq!(world.upkeep.garbage.once().await.unwrap().postponed, 0);
    assert_eq!(world.objects(), [2; 3]);
}

#[tokio::test(start_paused = true)]
async fn garbage_that_is_just_being_stored_is_deleted_when_it_is_there() {
    let world = World::new();
    world.volume.write(object(1), 0, content(1, 0));
    world.set_all(Side::Writes, &Fault::Delay(Duration::from_secs(3)));
    // The file is taken apart between plan and upload, and the garbage is due at once.
    *world.volume.meanwhile.lock() = Some(Box::new(|volume| volume.remove(object(1))));
    let collect = async {
        while world.volume.rows.lock().garbage.is_empty() {
            tokio::task::yield_now().await;
        }
        world.upkeep.garbage.once().await.unwrap()
    };
    let (_, report) = tokio::join!(world.write_all(), collect);
    assert_eq!(report.versions, 1);
    assert_eq!(world.objects(), [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_scrub_counts_what_it_finds_and_has_it_repaired() {
    let world = World::new();
    world.volume.write(object(1), 0, content(1, 9));
    world.write_all().await;
    let memory = world.clouds[1].inner();
    let names = memory.names();
    memory.poke(&names[0], None);
    memory.poke(&names[1], Some(Bytes::from_static(b"junk")));
    let swapped = (memory.peek(&names[2]), memory.peek(&names[3]));
    memory.poke(&names[2], swapped.1);
    memory.poke(&names[3], swapped.0);
    let report = world.upkeep.scrubber.once(100, 0).await.unwrap();
    assert_eq!(
        (report.blocks, report.total()),
        (10, ScrubCounts { good: 26, missing: 1, bad: 3, unreachable: 0 })
    );
    assert_eq!(report.clouds.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(report.clouds[&0], ScrubCounts { good: 10, ..ScrubCounts::default() });
    assert!(!report.is_clean());
    assert_eq!(world.upkeep.queued_repairs().await.unwrap(), 4);
    let repair = world.upkeep.repairer.once().await.unwrap();
    assert_eq!((repair.fragments, repair.done, repair.left), (4, 4, 0));
    assert!(world.upkeep.scrubber.once(100, 0).await.unwrap().is_clean());
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_cloud_is_counted_and_nothing_is_repaired() {
    let world = World::new();
    world.volume.write(object(1), 0, content(1, 3));
    world.write_all().await;
    world.clouds[0].set(Side::Reads, Fault::Fail(ErrorKind::Refused));
    let report = world.upkeep.scrubber.once(100, 0).await.unwrap();
    let ScrubCounts { good, unreachable, .. } = report.total();
    assert_eq!((good, unreachable, report.is_clean()), (8, 4, true));
    assert_eq!(world.upkeep.queued_repairs().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_scrub_keeps_to_its_sample_and_its_rate() {
    let world = World::new();
    for number in 0..20 {
        world.volume.write(object(number), 0, content(number as u64, 9));
    }
    world.write_all().await;
    let report = world.upkeep.scrubber.once(10, 0).await.unwrap();
    assert_eq!(report.blocks + report.skipped, 200);
    assert!((1..80).contains(&report.blocks), "{report:?}");
    let begun = world.env.clock.monotonic();
    world.upkeep.scrubber.once(100, BLOCK).await.unwrap();
    // Each block takes three halves; the last batch is fetched without waiting for the next one's turn.
    let took = world.env.clock.monotonic() - begun;
    assert!(took > Duration::from_secs(200) && took < Duration::from_secs(320), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_repair_of_a_version_that_is_not_current_is_dropped() {
    let world = World::new();
    world.clouds[1].set(Side::Writes, Fault::Fail(ErrorKind::Refused));
    world.volume.write(object(1), 0, content(1, 0));
    world.write_all().await;
    let key = *world.volume.rows.lock().repairs.keys().next().unwrap();
    world.clouds[1].set(Side::Writes, Fault::None);
    world.volume.write(object(1), 0, content(2, 0));
    world.upkeep.repairer.retry_now();
    world.write_all().await;
    world.volume.rows.lock().repairs.insert(key, vec![1]);
    let report = world.upkeep.repairer.once().await.unwrap();
    assert_eq!(
        (report.fragments, report.done, report.left),
        (0, world.volume.rows.lock().repairs.len() as u64 + 1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn the_reaper_works_until_nothing_is_left() {
    let world = World::new();
    for number in 0..3 {
        world.volume.write(object(number), 0, vec![1]);
        world.volume.remove(object(number));
    }
    assert_eq!(world.upkeep.reaper.once().await.unwrap(), 3);
    assert_eq!(world.upkeep.reaper.once().await.unwrap(), 0);
}
