use std::time::Duration;

use bytes::Bytes;
use cloud::{ErrorKind, Fault, Operation, Side};
use tokio_util::sync::CancellationToken;

use super::small_volume::object;
use super::world::{BLOCK, World, content, pass};
use crate::UpkeepConfig;

const REFUSE: Fault = Fault::Fail(ErrorKind::Refused);

#[tokio::test(start_paused = true)]
async fn one_cloud_that_refuses_all_writes_costs_redundancy_until_it_is_back() {
    let world = World::new();
    world.clouds[1].set(Side::Writes, REFUSE);
    for number in 1..=4 {
        world.volume.write(object(number), 0, content(number as u64, 2));
    }
    let report = world.write_all().await;
    assert_eq!((report.blocks, report.degraded, report.failed), (12, 12, 0));
    assert_eq!((world.dirty(), world.objects()), (0, vec![12, 0, 12]));
    let world = world.restart();
    assert!(world.read(object(3)).await == content(3, 2));

    let repair = world.upkeep.repairer.once().await.unwrap();
    assert_eq!((repair.fragments, repair.left), (0, 12));
    // The first refusals were enough: not every block asks the cloud anew.
    let puts =
        || world.clouds[1].calls().iter().filter(|(operation, _)| *operation == Operation::Put).count();
    let before = puts();
    world.upkeep.repairer.once().await.unwrap();
    assert_eq!(puts(), before);

    world.clouds[1].set(Side::Writes, Fault::None);
    pass(Duration::from_secs(3600)).await;
    let repair = world.upkeep.repairer.once().await.unwrap();
    assert_eq!((repair.fragments, repair.done, repair.left), (12, 12, 0));
    assert_eq!(world.objects(), [12; 3]);
    let scrub = world.upkeep.scrubber.once(100, 0).await.unwrap();
    assert_eq!((scrub.total().good, scrub.is_clean()), (36, true));
    assert!(world.volume.rows.lock().repairs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn when_all_clouds_refuse_nothing_is_lost_and_few_attempts_are_made() {
    let world = World::new();
    world.set_all(Side::Writes, &REFUSE);
    for number in 0..40 {
        world.volume.write(object(number), 0, content(number as u64, 1));
    }
    let dirty = world.dirty();
    world.upkeep.start();
    let _flush = world.cache.flush(cache::Scope::All);
    for _ in 0..600 {
        pass(Duration::from_secs(1)).await;
    }
    assert_eq!(world.dirty(), dirty);
    assert!(world.upkeep.write_back.failures_in_a_row() > 4);
    // The first batch, and then a probe of two blocks about every minute.
    let calls: usize = world.clouds.iter().map(|cloud| cloud.calls().len()).sum();
    assert!(calls < 3 * 80 * 6, "{calls}");

    world.set_all(Side::Writes, &Fault::None);
    let flushed = world.upkeep.stop(Duration::from_secs(600)).await.unwrap();
    assert_eq!((flushed.left_dirty_bytes, world.dirty()), (0, 0));
    let world = world.restart();
    for number in 0..40 {
        assert!(world.read(object(number)).await == content(number as u64, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_clouds_are_away_ends_in_time_and_says_what_is_left() {
    let world = World::new();
    world.set_all(Side::Writes, &REFUSE);
    world.volume.write(object(1), 0, vec![1; 1000]);
    world.upkeep.start();
    let begun = world.env.clock.monotonic();
    let flushed = world.upkeep.stop(Duration::from_secs(5)).await.unwrap();
    assert_eq!(flushed.left_dirty_bytes, 1000);
    assert!(world.env.clock.monotonic() - begun <= Duration::from_secs(16));
    let world = world.restart();
    assert_eq!(world.read(object(1)).await, [1; 1000]);
}

#[tokio::test(start_paused = true)]
async fn a_block_whose_older_content_is_lost_does_not_keep_the_others_waiting() {
    let world = World::new();
    world.volume.write(object(1), 0, content(1, 1));
    world.write_all().await;
    for cloud in &world.clouds[..2] {
        for name in cloud.inner().names() {
            cloud.inner().poke(&name, None);
        }
    }
    let world = world.restart();
    world.volume.write(object(1), 5, b"needs its older content".to_vec());
    for number in 2..10 {
        world.volume.write(object(number), 0, content(number as u64, 1));
    }
    let report = world.write_all().await;
    assert_eq!((report.blocks, report.failed), (16, 1));
    assert_eq!(world.dirty(), 23);
    // It is held back, not forgotten.
    let again = world.write_all().await;
    assert_eq!((again.blocks, again.failed), (0, 1));
    // A whole new content needs no older one.
    world.volume.write(object(1), 0, content(5, 1));
    assert_eq!(world.write_all().await.failed, 0);
    assert_eq!(world.dirty(), 0);
}

#[tokio::test(start_paused = true)]
async fn blocks_in_flight_are_bounded() {
    let world = World::with(UpkeepConfig { in_flight: 4 * BLOCK, ..UpkeepConfig::default() });
    world.set_all(Side::Writes, &Fault::Hang);
    for number in 0..10 {
        world.volume.write(object(number), 0, content(number as u64, 1));
    }
    let _flush = world.cache.flush(cache::Scope::All);
    let stop = CancellationToken::new();
    let run = world.upkeep.write_back.run(&stop);
    tokio::pin!(run);
    for _ in 0..500 {
        assert!(futures::poll!(&mut run).is_pending());
        tokio::task::yield_now().await;
    }
    for cloud in &world.clouds {
        assert_eq!(cloud.calls().len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_fragment_that_a_read_meets_is_repaired_at_once() {
    let world = World::new();
    world.volume.write(object(1), 0, content(1, 0));
    world.write_all().await;
    world.upkeep.start();
    for cloud in &world.clouds[..2] {
        cloud.set(Side::Reads, Fault::Delay(Duration::from_millis(1)));
    }
    world.clouds[2].set(Side::Reads, Fault::Delay(Duration::from_millis(50)));
    let memory = world.clouds[0].inner();
    let name = memory.names()[0].clone();
    let good = memory.peek(&name).unwrap();
    let mut bad = good.to_vec();
    bad[40] ^= 1;
    memory.poke(&name, Some(Bytes::from(bad)));
    world.cache.drop_memory();
    assert!(world.read(object(1)).await == content(1, 0));
    for _ in 0..10 {
        pass(Duration::from_millis(100)).await;
    }
    assert_eq!(memory.peek(&name), Some(good));
    assert!(world.volume.rows.lock().repairs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_write_leaves_out_is_stored_at_once_when_its_cloud_takes_it_again() {
    let world = World::new();
    world.clouds[2].set(Side::Writes, Fault::Hang);
    world.upkeep.start();
    world.volume.write(object(1), 0, content(1, 0));
    // Both of its requests are lost.
    pass(Duration::from_secs(3)).await;
    world.clouds[2].set(Side::Writes, Fault::None);
    pass(Duration::from_secs(3)).await;
    assert_eq!(world.clouds[2].inner().names().len(), 1);
    assert!(world.volume.rows.lock().repairs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_dies_under_a_mixed_load_costs_no_read_and_is_whole_again_after_it_is_back() {
    let world = World::new();
    world.upkeep.start();
    let mut seeds = [0; 8];
    // Before, without the cloud, and with it again: files are written, and read from the clouds.
    for phase in 0..3_u64 {
        let (reads, writes) = match phase {
            1 => (Fault::Fail(ErrorKind::Transient), Fault::Fail(ErrorKind::Transient)),
            _ => (Fault::None, Fault::None),
        };
        world.clouds[0].set(Side::Reads, reads);
        world.clouds[0].set(Side::Writes, writes);
        for round in 0..10 {
            for (number, seed) in seeds.iter_mut().enumerate() {
                if (number as u64 + round).is_multiple_of(3) {
                    *seed = 1 + 100 * phase + round;
                    world.volume.write(object(number as u128), 0, content(*seed, 1));
                }
                world.cache.drop_clean().await;
                if *seed > 0 {
                    assert!(world.read(object(number as u128)).await == content(*seed, 1), "phase {phase}");
                }
            }
            pass(Duration::from_secs(10)).await;
        }
    }
    let flushed = world.upkeep.stop(Duration::from_secs(3600)).await.unwrap();
    assert_eq!((flushed.left_dirty_bytes, flushed.left_repairs), (0, 0));
    let scrub = world.upkeep.scrubber.once(100, 0).await.unwrap();
    assert!(scrub.is_clean() && scrub.total().good > 0);
}
