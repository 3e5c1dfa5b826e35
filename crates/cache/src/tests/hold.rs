use ids::VolumeId;

use super::world::{BLOCK, SHIFT, World, file};
use crate::{DataOp, HeldBack, Hold, Scope, Selection};

const VOLUME: VolumeId = VolumeId(7);

/// What would be written back at once: file and block, and whether it may pass.
fn claimed(world: &World) -> Vec<(u128, u64, bool)> {
    let selection = Selection { bytes: u64::MAX, blocks: 100, hurry: true };
    let blocks = world.cache.claim_dirty(VOLUME, &selection);
    let mut found: Vec<_> = blocks
        .iter()
        .map(|dirty| {
            (dirty.file.object.number.0, dirty.block.0, world.cache.snapshot(dirty).unwrap().may_pass())
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn a_file_that_is_held_back_is_not_claimed_and_others_are() {
    let world = World::new(2 << 20, 0);
    world.write(file(1), 0, b"first");
    world.write(file(2), 0, b"other");
    world.cache.hold_back(file(1), Hold::Waiting);
    world.write(file(1), BLOCK, b"later");
    assert_eq!(claimed(&world), [(2, 0, false)]);
    let held = HeldBack { waiting_files: 1, waiting_bytes: 10, ..HeldBack::default() };
    assert_eq!(world.cache.held_back(VOLUME), held);

    // What is written from here on is another matter.
    let seen = world.cache.applied_up_to();
    world.write(file(1), BLOCK + 3, b"newest");
    world.cache.let_through(file(1), seen);
    assert_eq!(claimed(&world), [(1, 0, true), (1, 1, false), (2, 0, false)]);
    world.cache.let_through(file(1), world.cache.applied_up_to());
    assert_eq!(claimed(&world), [(1, 0, true), (1, 1, true), (2, 0, false)]);
    assert_eq!(world.cache.held_back(VOLUME), HeldBack::default());
}

#[test]
fn a_file_without_dirty_data_cannot_be_held_back_and_leave_does_not_outlast_it() {
    let world = World::new(2 << 20, 0);
    world.cache.hold_back(file(1), Hold::Kept);
    let written = world.write(file(1), 0, b"text");
    world.cache.let_through(file(1), written);
    world.commit(
        DataOp::Cleaned { file: file(1), shift: SHIFT, block: ids::BlockIndex(0), up_to: written },
        b"",
    );
    world.write(file(1), 0, b"more");
    assert_eq!(claimed(&world), [(1, 0, false)]);
}

#[test]
fn a_flush_waits_for_what_waits_and_not_for_what_is_kept() {
    let world = World::new(2 << 20, 0);
    world.write(file(1), 0, b"kept");
    let waiting = world.write(file(2), 0, b"waiting");
    world.cache.hold_back(file(1), Hold::Kept);
    world.cache.hold_back(file(2), Hold::Waiting);
    assert!(world.cache.flush(Scope::File(file(1))).is_done());
    let flush = world.cache.flush(Scope::Volume(VOLUME));
    assert!(!flush.is_done());
    assert!(world.cache.is_waited_for(file(2)));
    // It is urgent as soon as it may go.
    world.cache.let_through(file(2), waiting);
    let urgent = Selection { bytes: u64::MAX, blocks: 100, hurry: false };
    assert_eq!(world.cache.claim_dirty(VOLUME, &urgent).len(), 1);
    world.commit(
        DataOp::Cleaned { file: file(2), shift: SHIFT, block: ids::BlockIndex(0), up_to: waiting },
        b"",
    );
    assert!(flush.is_done());
    assert_eq!(world.cache.dirty_bytes(Scope::All), 4);
}

#[test]
fn a_restart_knows_of_no_hold() {
    let mut world = World::new(2 << 20, 0);
    world.write(file(1), 0, b"text");
    world.cache.hold_back(file(1), Hold::Kept);
    assert_eq!(claimed(&world), []);
    world.restart();
    assert_eq!(claimed(&world), [(1, 0, false)]);
}
