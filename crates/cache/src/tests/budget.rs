use bytes::Bytes;
use futures::FutureExt;
use ids::{BlockIndex, VolumeId};
use journal::{JournalError, Lsn};
use meta::{CommitObserver, HeldPayload};

use super::world::{BLOCK, SHIFT, World, file, sealing};
use crate::{DataOp, FileKey, Scope};

#[tokio::test]
async fn dirty_data_beyond_the_memory_budget_is_read_back_from_the_journal() {
    let world = World::new(2 << 20, 0);
    let limit = world.config.dirty_memory();
    for block in 0..64 {
        world.write(file(1), block * BLOCK, &[block as u8; BLOCK as usize]);
        assert!(world.cache.usage().dirty_memory <= limit);
    }
    assert_eq!(world.cache.usage().dirty, 64 * BLOCK);
    for block in 0..64 {
        let got = world.read(file(1), 64 * BLOCK, block * BLOCK + 5, 10, &[]).await;
        assert_eq!(got, [block as u8; 10]);
        assert!(world.cache.usage().dirty_memory <= limit);
    }
    assert!(world.records.reads.load(std::sync::atomic::Ordering::Relaxed) >= 40);
}

#[test]
fn overwritten_and_removed_data_frees_its_memory() {
    let world = World::new(2 << 20, 0);
    for _ in 0..5000 {
        world.write(file(1), 0, &[1; 4096]);
        world.write(file(2), 0, &[1; 100]);
        world.commit(DataOp::Forget { file: file(2) }, b"");
    }
    let usage = world.cache.usage();
    assert_eq!((usage.dirty, usage.dirty_memory), (4096, 4096));
    assert!(usage.bookkeeping < 1000);
}

#[test]
fn writers_wait_while_the_books_are_full() {
    let mut world = World::new(2 << 20, 0);
    world.config.bookkeeping = 32 << 10;
    world.restart();
    let volume = file(0).volume;
    assert!(world.cache.admit(volume, 1).now_or_never().is_some());
    let mut writes = 0;
    while world.cache.admit(volume, 1).now_or_never().is_some() {
        world.write(file(writes), 0, b"x");
        writes += 1;
        assert!(writes < 10_000);
    }
    assert!(world.cache.is_crowded(volume));
    let waiting = world.cache.admit(volume, 1);
    tokio::pin!(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    for number in 0..writes / 2 + 1 {
        world.commit(DataOp::Forget { file: file(number) }, b"");
    }
    assert!(waiting.now_or_never().is_some());
    assert_eq!(world.cache.dirty_bytes(Scope::All), (writes - writes / 2 - 1) as u64);
}

#[test]
fn a_volume_that_fills_its_share_of_the_books_does_not_stop_the_writers_of_others() {
    let mut world = World::new(2 << 20, 0);
    world.config.bookkeeping = 1000 * 320;
    world.restart();
    let volumes: Vec<_> = (0..5).map(|number| VolumeId(100 + number)).collect();
    let name = |volume, number| FileKey { volume, ..file(number) };
    let mut filled = Vec::new();
    for volume in volumes.iter().copied() {
        assert!(!world.cache.is_crowded(volume));
        let mut writes = 0;
        while let Some(_admission) = world.cache.try_admit(volume, 1) {
            world.write(name(volume, writes), 0, b"x");
            writes += 1;
            assert!(writes < 1000);
        }
        assert!(world.cache.is_crowded(volume));
        filled.push(writes);
    }
    // Three quarters of what was left, one after the other.
    assert!(filled[0].abs_diff(750) < 5 && filled[1].abs_diff(187) < 5 && filled[4] > 0, "{filled:?}");

    let waiting = world.cache.admit(volumes[0], 1);
    tokio::pin!(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    for number in 0..filled[0] {
        world.commit(DataOp::Forget { file: name(volumes[0], number) }, b"");
    }
    assert!(waiting.now_or_never().is_some());
}

#[test]
fn what_is_admitted_and_not_yet_dirty_counts_in_the_books() {
    let mut world = World::new(2 << 20, 0);
    world.config.bookkeeping = 100 * 320;
    world.restart();
    let admitted: Vec<_> = std::iter::from_fn(|| world.cache.try_admit(file(0).volume, 0)).collect();
    assert_eq!(admitted.len(), 75);
    drop(admitted);
    assert_eq!(world.cache.usage().bookkeeping, 0);
}

#[test]
fn a_write_over_many_small_ones_lets_those_go_on_who_wait_for_the_books() {
    let mut world = World::new(2 << 20, 0);
    world.config.bookkeeping = 100 * 320;
    world.restart();
    let volume = file(0).volume;
    let mut writes = 0;
    while world.cache.try_admit(volume, 1).is_some() {
        world.write(file(0), 2 * writes, b"x");
        writes += 1;
    }
    let waiting = world.cache.admit(volume, 1);
    tokio::pin!(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    // More dirty bytes than before, in fewer pieces.
    world.write(file(0), 0, &vec![1; 2 * writes as usize]);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_ready());
}

#[test]
fn writers_of_a_volume_wait_at_its_share_of_the_journal_and_others_do_not() {
    let mut world = World::new(2 << 20, 0);
    world.config.journal = 1 << 20;
    world.restart();
    let (full, other) = (file(0).volume, VolumeId(8));
    // Zeros lie in no journal.
    world.commit(DataOp::Zero { file: file(9), shift: SHIFT, offset: 0, length: 1 << 24 }, b"");
    let mut admitted = 0;
    while let Some(_admission) = world.cache.try_admit(full, BLOCK) {
        world.write(file(1), admitted * BLOCK, &[1; BLOCK as usize]);
        admitted += 1;
    }
    assert_eq!(admitted, 12, "three quarters");
    assert!(world.cache.is_crowded(full) && !world.cache.is_crowded(other));
    world.restart();
    let waiting = world.cache.admit(full, BLOCK);
    tokio::pin!(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(world.cache.usage().waiting, 1);
    let mut held = world.cache.admit(other, 100).now_or_never().unwrap();
    held.grow(1 << 20);
    assert!(world.cache.try_admit(other, 1).is_none(), "what is admitted and not yet dirty counts");
    world.commit(DataOp::Discard { file: file(1), offset: 0, length: 2 * BLOCK }, b"");
    assert!((&mut waiting).now_or_never().is_none());
    drop(held);
    assert!(waiting.now_or_never().is_some());
    assert_eq!(world.cache.usage().waiting, 0);
    world.commit(DataOp::Forget { file: file(1) }, b"");
    world.commit(DataOp::Forget { file: file(9) }, b"");
    assert_eq!(world.cache.usage().journal, 0);
}

#[test]
fn dirty_data_that_cannot_be_read_is_named_once_until_it_is_written_again_or_removed() {
    let world = World::new(2 << 20, 0);
    world.write(file(1), 5, &[1; 100]);
    world.write(file(2), 0, &[2; 100]);
    let held = world.cache.held_below(Lsn(u64::MAX), 1 << 20);
    let tell = |held: &HeldPayload| {
        let what = "the tag is wrong";
        CommitObserver::unreadable(
            &world.cache,
            held,
            &JournalError::DamagedPayload { place: held.place, what },
        );
    };
    held.iter().chain(&held).for_each(tell);
    let mut ranges = world.cache.unreadable_ranges();
    ranges.sort_by_key(|(file, _)| *file);
    assert_eq!(ranges, [(file(1), 5..105), (file(2), 0..100)]);
    world.write(file(1), 0, &[3; 200]);
    assert_eq!(world.cache.unreadable_ranges(), [(file(2), 0..100)]);
    held.iter().for_each(tell);
    assert_eq!(world.cache.unreadable_ranges(), [(file(2), 0..100)], "not what was written again");
    world.commit(DataOp::Forget { file: file(2) }, b"");
    assert!(world.cache.unreadable_ranges().is_empty());

    for number in 0..100 {
        world.write(file(number), 0, b"x");
    }
    world.cache.held_below(Lsn(u64::MAX), 1 << 20).iter().for_each(tell);
    assert_eq!(world.cache.unreadable_ranges().len(), 64);
}

#[tokio::test]
async fn clean_data_stays_within_its_memory_and_disk() {
    let world = World::new(4 << 20, 8 << 20);
    for round in 0..400 {
        let content = Bytes::from(vec![round as u8; BLOCK as usize]);
        world.cache.insert(file(round), BlockIndex(0), sealing(1), content);
        if round % 8 == 0 {
            tokio::task::yield_now().await;
            world.cache.inner.clean.disk().unwrap().written().await;
        }
        let usage = world.cache.usage();
        assert!(usage.clean_memory <= world.config.clean_memory(), "{usage:?}");
        assert!(usage.disk_queue <= world.config.disk_queue_memory(), "{usage:?}");
        assert!(usage.clean_disk <= world.config.disk, "{usage:?}");
    }
    let on_disk: u64 = std::fs::read_dir(&world.config.directory)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(on_disk > world.config.disk / 2 && on_disk <= world.config.disk, "{on_disk}");
}
