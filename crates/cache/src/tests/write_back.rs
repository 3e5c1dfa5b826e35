use std::time::Duration;

use futures::FutureExt;
use ids::{BlockIndex, VolumeId};
use meta::CommitObserver;

use super::world::{BLOCK, SHIFT, World, file};
use crate::{DataOp, DirtyBlock, Scope, Selection};

const PATIENT: Selection = Selection { bytes: u64::MAX, blocks: 100, hurry: false };

fn claim(world: &World, selection: &Selection) -> Vec<DirtyBlock> {
    world.cache.claim_dirty(VolumeId(7), selection)
}

fn names(blocks: &[DirtyBlock]) -> Vec<(u128, u64)> {
    blocks.iter().map(|dirty| (dirty.file.object.number.0, dirty.block.0)).collect()
}

/// Marks the claimed block as stored.
fn clean(world: &World, dirty: &DirtyBlock) {
    let up_to = world.cache.snapshot(dirty).unwrap().up_to();
    world.commit(DataOp::Cleaned { file: dirty.file, shift: SHIFT, block: dirty.block, up_to }, b"");
}

#[test]
fn a_block_rests_after_its_last_change_and_a_full_one_for_a_fifth_of_the_time() {
    let world = World::new(2 << 20, 0);
    world.write(file(1), 0, b"small");
    world.write(file(2), 0, &[1; BLOCK as usize]);
    assert!(claim(&world, &PATIENT).is_empty());
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(names(&claim(&world, &PATIENT)), [(2, 0)]);
    world.clock.advance(Duration::from_secs(3));
    world.write(file(1), 100, b"again");
    world.clock.advance(Duration::from_secs(4));
    assert_eq!(names(&claim(&world, &PATIENT)), [(2, 0)]);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(names(&claim(&world, &PATIENT)), [(2, 0), (1, 0)]);
}

#[test]
fn a_block_that_never_rests_is_written_back_at_last() {
    let world = World::new(2 << 20, 0);
    for _ in 0..10 {
        world.write(file(1), 0, b"busy");
        assert!(claim(&world, &PATIENT).is_empty());
        world.clock.advance(Duration::from_secs(3));
    }
    world.write(file(1), 0, b"busy");
    assert_eq!(names(&claim(&world, &PATIENT)), [(1, 0)]);
}

#[test]
fn small_sequential_writes_become_one_full_block() {
    let world = World::new(2 << 20, 0);
    let mut work = world.cache.work();
    for step in 0..16 {
        assert!(claim(&world, &PATIENT).is_empty());
        assert!(!work.has_changed().unwrap());
        world.write(file(1), step * 4096, &[step as u8; 4096]);
    }
    assert!(work.has_changed().unwrap());
    work.mark_unchanged();
    world.clock.advance(Duration::from_secs(1));
    let claimed = claim(&world, &PATIENT);
    assert_eq!(names(&claimed), [(1, 0)]);
    assert!(world.cache.snapshot(&claimed[0]).unwrap().covers(BLOCK));
}

#[test]
fn when_space_is_short_the_oldest_blocks_go_first() {
    let world = World::new(2 << 20, 0);
    for number in [3, 1, 2] {
        world.write(file(number), 0, b"x");
        world.write(file(number), 5 * BLOCK, b"x");
    }
    world.write(file(3), 1, b"more");
    let hurry = Selection { hurry: true, blocks: 4, ..PATIENT };
    assert_eq!(names(&claim(&world, &hurry)), [(3, 0), (3, 5), (1, 0), (1, 5)]);
    let bytes = Selection { hurry: true, bytes: 6, ..PATIENT };
    assert_eq!(names(&claim(&world, &bytes)), [(3, 0), (3, 5)]);
}

#[test]
fn a_claimed_block_is_given_to_nobody_else_and_comes_back_when_dropped() {
    let world = World::new(2 << 20, 0);
    let hurry = Selection { hurry: true, ..PATIENT };
    world.write(file(1), 0, b"x");
    let claimed = claim(&world, &hurry);
    assert_eq!(claimed.len(), 1);
    world.write(file(1), 1, b"y");
    assert!(claim(&world, &hurry).is_empty());
    drop(claimed);
    assert_eq!(claim(&world, &hurry).len(), 1);
}

#[test]
fn a_stale_cleaned_record_keeps_newer_data() {
    let world = World::new(2 << 20, 0);
    world.write(file(1), 0, &[1; 100]);
    let claimed = claim(&world, &Selection { hurry: true, ..PATIENT });
    let up_to = world.cache.snapshot(&claimed[0]).unwrap().up_to();
    let newer = world.write(file(1), 50, &[2; 10]);
    world.commit(DataOp::Cleaned { file: file(1), shift: SHIFT, block: BlockIndex(0), up_to }, b"");
    assert_eq!(world.cache.dirty_ranges(file(1), 0..1000), vec![50_u64..60]);
    assert_eq!(world.cache.oldest_needed(), Some(newer));
}

#[test]
fn the_journal_keeps_a_record_while_a_part_of_it_is_dirty_or_being_stored() {
    let world = World::new(2 << 20, 0);
    assert_eq!(world.cache.oldest_needed(), None);
    let first = world.write(file(1), BLOCK - 50, &[1; 100]);
    let second = world.write(file(1), BLOCK - 50, &[2; 50]);
    assert_eq!(world.cache.oldest_needed(), Some(first));
    let snapshots: Vec<_> = {
        let claimed = claim(&world, &Selection { hurry: true, ..PATIENT });
        let snapshots = claimed.iter().map(|dirty| world.cache.snapshot(dirty).unwrap()).collect();
        claimed.iter().for_each(|dirty| clean(&world, dirty));
        snapshots
    };
    assert_eq!(world.cache.dirty_bytes(Scope::All), 0);
    assert_eq!(world.cache.oldest_needed(), Some(first));
    drop(snapshots.into_iter().rev().next_back());
    assert_eq!(world.cache.oldest_needed(), None);
    assert!(second > first);
}

#[test]
fn a_flush_puts_its_data_first_and_waits_for_no_newer_data() {
    let world = World::new(2 << 20, 0);
    world.write(file(1), 0, b"old");
    world.write(file(2), 0, b"flushed");
    let mut flush = Box::pin(world.cache.flush(Scope::File(file(2))).done());
    assert!((&mut flush).now_or_never().is_none());
    world.write(file(2), 9 * BLOCK, b"newer");
    let claimed = claim(&world, &PATIENT);
    assert_eq!(names(&claimed), [(2, 0)]);
    clean(&world, &claimed[0]);
    assert!(flush.now_or_never().is_some());

    let all = world.cache.flush(Scope::All);
    drop(claimed);
    assert!(!all.is_done());
    let claimed = claim(&world, &PATIENT);
    assert_eq!(names(&claimed), [(1, 0), (2, 9)]);
    world.commit(DataOp::Forget { file: file(1) }, b"");
    clean(&world, &claimed[1]);
    assert!(all.done().now_or_never().is_some());
}

#[test]
fn a_flush_covers_what_changed_while_its_block_was_being_written_back() {
    let world = World::new(2 << 20, 0);
    world.write(file(1), 0, b"one");
    let claimed = claim(&world, &Selection { hurry: true, ..PATIENT });
    let up_to = world.cache.snapshot(&claimed[0]).unwrap().up_to();
    world.write(file(1), 10, b"two");
    let flush = world.cache.flush(Scope::Volume(VolumeId(7)));
    world.commit(DataOp::Cleaned { file: file(1), shift: SHIFT, block: BlockIndex(0), up_to }, b"");
    drop(claimed);
    assert!(!flush.is_done());
    let claimed = claim(&world, &PATIENT);
    clean(&world, &claimed[0]);
    assert!(flush.is_done());
}

#[test]
fn a_truncation_makes_snapshots_out_of_date() {
    let world = World::new(2 << 20, 0);
    world.write(file(1), 0, &[1; 100]);
    let claimed = claim(&world, &Selection { hurry: true, ..PATIENT });
    let snapshot = world.cache.snapshot(&claimed[0]).unwrap();
    world.write(file(1), 0, &[2; 100]);
    assert!(snapshot.is_current());
    world.commit(DataOp::truncate(file(1), 0), b"");
    world.write(file(1), 50, &[3; 10]);
    assert!(!snapshot.is_current());
    assert!(world.cache.snapshot(&claimed[0]).unwrap().is_current());
}

#[test]
fn an_unknown_record_is_reported_before_serving() {
    let world = World::new(2 << 20, 0);
    let place = journal::PayloadRef { segment: 0, offset: 0, length: 0 };
    let attachment = meta::ReplayedAttachment { descriptor: b"\x02from the future"[..].into(), place };
    world.cache.replay(journal::Lsn(1), vec![attachment]);
    assert!(world.cache.check_replay().unwrap_err().to_string().contains("format 2"));
}

#[test]
fn half_of_a_transaction_is_never_written_back() {
    let world = World::new(2 << 20, 0);
    let lsn = journal::Lsn(7);
    let dirty = &world.cache.inner.dirty;
    let half = |offset: u64| {
        let place = journal::PayloadRef { segment: offset, offset: 0, length: 100 };
        let bytes = bytes::Bytes::from(vec![1; 100]);
        dirty.apply(lsn, DataOp::Write { file: file(1), shift: SHIFT, offset }, place, Some(bytes));
    };
    half(0);
    let claimed = claim(&world, &Selection { hurry: true, ..PATIENT });
    assert!(world.cache.snapshot(&claimed[0]).is_none());
    half(500);
    dirty.applied(lsn);
    let snapshot = world.cache.snapshot(&claimed[0]).unwrap();
    assert_eq!(snapshot.up_to(), lsn);
    assert!(snapshot.covers(100) && !snapshot.covers(600));
    let up_to = snapshot.up_to();
    world.commit(DataOp::Cleaned { file: file(1), shift: SHIFT, block: BlockIndex(0), up_to }, b"");
    assert_eq!(world.cache.dirty_bytes(Scope::All), 0);
}

#[test]
fn a_block_that_is_clean_can_be_claimed_once_and_is_forgotten_with_the_claim() {
    let world = World::new(2 << 20, 0);
    let ticket = std::sync::Arc::new(());
    let claim_clean = || world.cache.claim_clean(file(1), SHIFT, BlockIndex(3), Box::new(ticket.clone()));
    let (dirty, snapshot) = claim_clean().unwrap();
    assert!(snapshot.is_clean() && snapshot.is_current() && !snapshot.covers(BLOCK));
    assert!(claim_clean().is_none(), "somebody has it");
    assert!(world.cache.flush(Scope::All).is_done(), "nothing is dirty");
    drop(dirty);
    assert_eq!(std::sync::Arc::strong_count(&ticket), 1);
    world.write(file(1), 3 * BLOCK, b"dirty");
    assert!(claim_clean().is_none(), "it is stored anew anyway");
}

#[test]
fn what_is_written_to_a_clean_block_that_is_claimed_waits_for_the_end_of_the_claim() {
    let world = World::new(2 << 20, 0);
    let (dirty, snapshot) = world.cache.claim_clean(file(1), SHIFT, BlockIndex(3), Box::new(())).unwrap();
    world.write(file(1), 3 * BLOCK, b"dirty");
    world.clock.advance(Duration::from_secs(5));
    assert!(claim(&world, &PATIENT).is_empty());
    assert!(!world.cache.flush(Scope::All).is_done());
    // The commit of the claim leaves it alone.
    let up_to = snapshot.up_to();
    world.commit(DataOp::Cleaned { file: file(1), shift: SHIFT, block: BlockIndex(3), up_to }, b"");
    drop(dirty);
    let claimed = claim(&world, &PATIENT);
    assert_eq!(names(&claimed), [(1, 3)]);
    assert!(!world.cache.snapshot(&claimed[0]).unwrap().is_clean());
}

#[test]
fn a_cut_makes_the_snapshot_of_a_clean_block_out_of_date() {
    let world = World::new(2 << 20, 0);
    let (_dirty, snapshot) = world.cache.claim_clean(file(1), SHIFT, BlockIndex(3), Box::new(())).unwrap();
    world.commit(DataOp::truncate(file(1), BLOCK), b"");
    assert!(!snapshot.is_current());
    assert!(world.cache.claim_clean(file(1), SHIFT, BlockIndex(3), Box::new(())).is_none());
}
