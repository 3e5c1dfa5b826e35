use std::sync::Arc;

use cache::{BlockSnapshot, Cache, Hold, Scope};

use super::small_volume::{VOLUME, file, object};
use super::world::{World, content};
use crate::{Gate, WriteBack};

/// Lets no file through that has not been let through.
struct Closed(Cache);

impl Gate for Closed {
    fn admits(&self, snapshot: &BlockSnapshot) -> bool {
        if !snapshot.may_pass() {
            self.0.hold_back(snapshot.file(), Hold::Waiting);
        }
        snapshot.may_pass()
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_the_gate_admits_goes_to_the_clouds() {
    let world = World::new();
    let gate: Arc<dyn Gate> = Arc::new(Closed(world.cache.clone()));
    let (volume, cache, blocks) = (world.volume.clone(), world.cache.clone(), world.blocks.clone());
    let write_back =
        WriteBack::new(volume, cache, blocks, world.env.clone(), world.config.clone(), Some(gate));
    // More blocks of files that wait than are claimed at a time.
    for number in 1..=100 {
        world.volume.write(object(number), 0, content(number as u64, 2));
    }
    world.cache.let_through(file(object(77)), world.cache.applied_up_to());
    let _flush = world.cache.flush(Scope::Volume(VOLUME));
    assert_eq!(write_back.once().await.blocks, 3);
    assert_eq!(world.cache.held_back(VOLUME).waiting_files, 99);
    assert_eq!(world.cache.dirty_bytes(Scope::File(file(object(77)))), 0);
    assert_eq!(write_back.once().await.blocks, 0);

    for number in 1..=100 {
        world.cache.let_through(file(object(number)), world.cache.applied_up_to());
    }
    assert_eq!(write_back.once().await.blocks, 3 * 99);
    assert_eq!(world.dirty(), 0);
    let world = world.restart();
    assert!(world.read(object(50)).await == content(50, 2));
}
