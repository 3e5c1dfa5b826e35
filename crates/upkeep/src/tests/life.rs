use std::time::Duration;

use super::small_volume::object;
use super::world::{BLOCK, World, content, pass};

#[tokio::test(start_paused = true)]
async fn the_running_loops_write_back_what_has_rested_or_is_full() {
    let world = World::new();
    world.upkeep.start();
    world.volume.write(object(1), 0, vec![7; BLOCK as usize]);
    world.volume.write(object(2), 0, vec![7; 10]);
    pass(Duration::from_millis(900)).await;
    assert_eq!(world.dirty(), BLOCK + 10);
    pass(Duration::from_millis(1200)).await;
    assert_eq!(world.dirty(), 10);
    for _ in 0..8 {
        pass(Duration::from_secs(1)).await;
    }
    assert_eq!(world.dirty(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_flush_takes_what_has_not_rested() {
    let world = World::new();
    world.upkeep.start();
    for number in 0..30 {
        world.volume.write(object(number), 0, content(number as u64, 1));
    }
    let begun = world.env.clock.monotonic();
    let flushed = world.upkeep.flush(Duration::from_secs(60)).await.unwrap();
    assert_eq!((flushed.left_dirty_bytes, flushed.left_repairs), (0, 0));
    assert!(world.env.clock.monotonic() - begun < Duration::from_secs(3));
    assert_eq!(world.objects(), [60; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_flush_is_not_late_because_of_what_is_written_meanwhile() {
    let world = World::new();
    world.upkeep.start();
    world.volume.write(object(1), 0, content(1, 1));
    let write = async { world.volume.write(object(2), 0, vec![7; 10]) };
    let (flushed, ()) = tokio::join!(world.upkeep.flush(Duration::from_secs(60)), write);
    assert_eq!((flushed.unwrap(), world.dirty()), (crate::Flushed::default(), 10));
}

#[tokio::test(start_paused = true)]
async fn a_stop_flushes_first() {
    let world = World::new();
    world.upkeep.start();
    world.volume.write(object(1), 0, content(1, 0));
    let flushed = world.upkeep.stop(Duration::from_secs(60)).await.unwrap();
    assert_eq!(flushed, crate::Flushed::default());
    world.volume.write(object(1), 0, content(2, 0));
    pass(Duration::from_secs(60)).await;
    assert_eq!(world.dirty(), 100);
}
