use std::time::Duration;

use super::*;
use crate::Reservation;

/// Fills the space of clients; the last number, and the reservation that waits.
async fn fill(journal: &Journal) -> Lsn {
    let mut last = Lsn::ZERO;
    loop {
        let record = record(last.0, 100, &[5000]);
        let Some(reservation) = try_reserve(journal, Journal::space_of(&record), Priority::Client).await
        else {
            return last;
        };
        last = journal.append(record, reservation).unwrap().lsn;
        journal.durable(last).await.unwrap();
    }
}

async fn try_reserve(journal: &Journal, bytes: u64, priority: Priority) -> Option<Reservation> {
    tokio::select! {
        biased;
        reservation = journal.reserve(bytes, priority) => Some(reservation.unwrap()),
        () = tokio::task::yield_now() => None,
    }
}

#[tokio::test]
async fn a_full_journal_holds_clients_back_until_a_release_and_upkeep_not() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let last = fill(&journal).await;
    let usage = journal.usage();
    assert!(usage.used <= usage.capacity && usage.used > usage.capacity / 2, "{usage:?}");
    let waiting = tokio::spawn(journal.reserve(100, Priority::Client));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    assert!(journal.usage().waiting > 0);
    let upkeep = journal.reserve(8000, Priority::Upkeep).await.unwrap();
    let upkeep = journal.append(record(0, 8000 - 100, &[]), upkeep).unwrap().lsn;
    journal.durable(upkeep).await.unwrap();
    assert!(!waiting.is_finished());
    journal.release(last.next());
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test]
async fn space_is_recycled_for_ever_and_the_files_never_grow() {
    let disk = MemoryDisk::new();
    let (mut journal, _) = open(&disk);
    let mut last = Lsn::ZERO;
    for round in 0..600u64 {
        let record = record(round, 200, &[(round as usize * 37) % 9000]);
        let appended = append(&journal, record).await.unwrap();
        journal.durable(appended.lsn).await.unwrap();
        last = appended.lsn;
        if round % 5 == 0 {
            journal.release(Lsn(last.0.saturating_sub(10)));
        }
        if round % 100 == 99 {
            let found;
            (journal, found) = open(&disk);
            assert!(lsns(&found).contains(&(last.0 - 9)));
        }
    }
    assert_eq!(last, Lsn(600));
    let sizes: u64 = disk.files().iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert!(sizes <= config().capacity, "{sizes}");
}

#[tokio::test]
async fn released_payloads_are_gone_and_never_other_bytes() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let old = append(&journal, record(1, 10, &[500])).await.unwrap();
    let last = fill(&journal).await;
    journal.release(last.next());
    let files = disk.files();
    let first = &files.iter().find(|(_, bytes)| bytes[24..32] == 1u64.to_be_bytes()).unwrap().0;
    for name in 0..54 {
        let lsn = append(&journal, record(name, 10, &[6000])).await.unwrap().lsn;
        journal.durable(lsn).await.unwrap();
        assert!(matches!(journal.read(old.refs[0]).await, Err(JournalError::NoSuchPayload { .. })));
    }
    let now = disk.files().into_iter().find(|file| file.0 == *first).unwrap().1;
    assert_ne!(now[24..32], 1u64.to_be_bytes(), "its place has other bytes now");
}

#[tokio::test]
async fn reservations_are_granted_in_order_so_that_large_ones_are_not_starved() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let last = fill(&journal).await;
    let large = tokio::spawn(journal.reserve(journal.max_record(), Priority::Client));
    tokio::task::yield_now().await;
    let small = tokio::spawn(journal.reserve(10, Priority::Client));
    tokio::task::yield_now().await;
    assert!(!large.is_finished() && !small.is_finished());
    journal.release(last.next());
    assert!(large.await.unwrap().is_ok());
    assert!(small.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_dropped_or_abandoned_reservation_gives_its_space_back() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let before = journal.usage();
    let held = journal.reserve(5000, Priority::Client).await.unwrap();
    assert!(journal.usage().free < before.free);
    drop(held);
    assert_eq!(journal.usage(), before);
    let _last = fill(&journal).await;
    let waiting = tokio::spawn(journal.reserve(100, Priority::Client));
    tokio::task::yield_now().await;
    waiting.abort();
    let _ = waiting.await;
    journal.release(_last.next());
    let unused = tokio::time::timeout(Duration::from_secs(5), journal.reserve(100, Priority::Client)).await;
    drop(unused.unwrap().unwrap());
    assert_eq!(journal.usage().reserved, 0);
}

#[tokio::test]
async fn the_queue_in_memory_is_bounded() {
    let disk = MemoryDisk::new();
    let config =
        JournalConfig { queue: 128 << 10, writer: WriterKind::Task, ..JournalConfig::small(4 << 20) };
    let (journal, _) = Journal::open(disk.environment(), Path::new(DIRECTORY), &key(), config).unwrap();
    let mut queued = 0;
    // Nothing is written while this task does not yield.
    while queued < 64 {
        let record = record(queued, 10, &[8000]);
        let mut reserve = std::pin::pin!(journal.reserve(Journal::space_of(&record), Priority::Client));
        let polled =
            std::future::poll_fn(|context| std::task::Poll::Ready(reserve.as_mut().poll(context))).await;
        let std::task::Poll::Ready(reservation) = polled else { break };
        let _ = journal.append(record, reservation.unwrap()).unwrap();
        queued += 1;
    }
    assert!((8..=16).contains(&queued), "{queued}");
}

#[tokio::test]
async fn records_beyond_the_limit_or_the_reservation_are_refused() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let limit = journal.max_record();
    assert!(matches!(journal.reserve(limit + 1, Priority::Upkeep).await, Err(JournalError::TooLarge { .. })));
    let small = journal.reserve(10, Priority::Client).await.unwrap();
    let error = journal.append(record(1, 9000, &[]), small).unwrap_err();
    assert!(matches!(error, JournalError::ReservationTooSmall { .. }), "{error}");
    let largest = record(1, limit as usize - 28, &[]);
    assert_eq!(Journal::space_of(&largest), limit);
    let lsn = append(&journal, largest).await.unwrap().lsn;
    journal.durable(lsn).await.unwrap();
    assert_eq!(journal.usage().reserved, 0);
}

#[tokio::test]
async fn other_sizes_in_the_configuration_take_over_without_loss() {
    let disk = MemoryDisk::new();
    let mut expected = 0;
    for capacity in [1u64 << 20, 4 << 20, 1 << 20, 2 << 20] {
        let config = JournalConfig { writer: WriterKind::Task, ..JournalConfig::small(capacity) };
        let (journal, recovery) =
            Journal::open(disk.environment(), Path::new(DIRECTORY), &key(), config).unwrap();
        let found: Vec<_> = recovery.collect::<Result<_, _>>().unwrap();
        assert_eq!(found.last().map_or(0, |record| record.lsn.0), expected);
        for name in 0..100 {
            let appended = append(&journal, record(name, 10, &[3000])).await.unwrap();
            journal.durable(appended.lsn).await.unwrap();
            journal.release(Lsn(appended.lsn.0.saturating_sub(3)));
            expected = appended.lsn.0;
        }
    }
}

#[tokio::test]
async fn what_a_queued_record_makes_unneeded_is_kept_until_that_record_is_durable() {
    let mut partly = 0;
    for operations in 0..8 {
        let disk = MemoryDisk::new();
        let (journal, _) = open(&disk);
        // Fills two segments, durably.
        let mut last = Lsn::ZERO;
        while journal.usage().used < 2 * config().segment {
            last = append(&journal, record(last.0, 10, &[8000])).await.unwrap().lsn;
            journal.durable(last).await.unwrap();
        }
        // Nothing is written while this task does not wait. Each of these fills a batch.
        let before = append(&journal, record(1, 10, &[12000])).await.unwrap().lsn;
        let _ = append(&journal, record(2, 10, &[12000])).await.unwrap();
        let cause = append(&journal, record(3, 10, &[12000])).await.unwrap().lsn;
        journal.release(last);
        disk.cut_power_after(operations);
        let _gone = journal.durable(cause).await;
        for seed in 0..4 {
            let (_, found) = open(&disk.crash(seed));
            let found = lsns(&found);
            if !found.contains(&cause.0) {
                assert_eq!(found[0], 1, "forgotten because of record {}, which is lost", cause.0);
                partly += u32::from(found.contains(&before.0));
            }
        }
    }
    assert!(partly > 0);
}

#[tokio::test]
async fn a_waiter_that_gives_up_lets_those_behind_it_move_up() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let mut held = Vec::new();
    while let Some(reservation) = journal.try_reserve(journal.max_record(), Priority::Client).unwrap() {
        held.push(reservation);
    }
    let large = tokio::spawn(journal.reserve(journal.max_record(), Priority::Client));
    tokio::task::yield_now().await;
    let small = tokio::spawn(journal.reserve(10, Priority::Client));
    tokio::task::yield_now().await;
    assert!(!large.is_finished() && !small.is_finished());
    large.abort();
    let _ = large.await;
    assert!(small.await.unwrap().is_ok());
    assert_eq!(journal.usage().waiting, 0);
}

#[tokio::test]
async fn one_half_of_the_head_room_is_for_moving_alone_and_holds_a_segment() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let _last = fill(&journal).await;
    assert!(journal.is_short());
    let mut moved = 0;
    for priority in [Priority::Upkeep, Priority::Move] {
        while let Some(reservation) = journal.try_reserve(4000, priority).unwrap() {
            let lsn = journal.append(record(1, 10, &[3500]), reservation).unwrap().lsn;
            journal.durable(lsn).await.unwrap();
            moved += u64::from(priority == Priority::Move) * 4096;
        }
    }
    assert!(moved >= config().segment, "{moved}");
    assert!(journal.try_reserve(10, Priority::Client).unwrap().is_none());
    assert_eq!(journal.usage().waiting, 0, "whoever only tries leaves nothing in the queue");
}

#[tokio::test]
async fn a_journal_without_any_room_opens_with_the_head_room_and_shrinks_again() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let mut last = fill(&journal).await;
    while let Some(reservation) = journal.try_reserve(4000, Priority::Move).unwrap() {
        last = journal.append(record(1, 10, &[3500]), reservation).unwrap().lsn;
        journal.durable(last).await.unwrap();
    }
    let files = |disk: &MemoryDisk| disk.files().len() as u64;
    let (journal, found) = open(&disk.kill());
    assert_eq!(found.last().unwrap().lsn, last);
    assert!(journal.usage().free >= config().headroom);
    assert!(journal.try_reserve(10, Priority::Client).unwrap().is_none(), "what is added is not for clients");
    drop(journal);
    // As little as that is enough to write back what a journal of four times the size held.
    let small = JournalConfig { writer: WriterKind::Task, ..JournalConfig::small(256 << 10) };
    let small = JournalConfig { segment: config().segment, max_record: config().max_record, ..small };
    let small = JournalConfig { capacity: 11 * small.segment, headroom: config().headroom, ..small };
    let disk = disk.kill();
    let (journal, recovery) =
        Journal::open(disk.environment(), Path::new(DIRECTORY), &key(), small.clone()).unwrap();
    assert_eq!(recovery.count() as u64, last.0);
    let upkeep = journal.reserve(4000, Priority::Upkeep).await.unwrap();
    let before = files(&disk);
    let end = journal.append(record(2, 10, &[]), upkeep).unwrap().lsn;
    journal.durable(end).await.unwrap();
    journal.release(end);
    let client = journal.reserve(4000, Priority::Client).await.unwrap();
    let lsn = journal.append(record(3, 10, &[]), client).unwrap().lsn;
    journal.durable(lsn).await.unwrap();
    assert!(before > 11 && files(&disk) <= 11, "{before} {}", files(&disk));
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_makes_writers_wait_and_stops_nothing() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let _first = append(&journal, record(1, 10, &[])).await.unwrap();
    disk.set_full(true);
    let writer = tokio::spawn({
        let journal = journal.clone();
        async move {
            for name in 0..40 {
                let lsn = append(&journal, record(name, 10, &[7000])).await.unwrap().lsn;
                journal.durable(lsn).await.unwrap();
            }
        }
    });
    disk.environment().clock.sleep(Duration::from_secs(60)).await;
    assert!(!writer.is_finished() && journal.failed().is_none() && journal.usage().disk_full);
    let files = disk.files();
    assert_eq!(files.len(), 1, "what could not be filled is removed");
    disk.set_full(false);
    writer.await.unwrap();
    assert!(!journal.usage().disk_full);
    assert_eq!(open(&disk).1.len(), 41);
}

#[test]
fn on_a_full_disk_upkeep_goes_on_with_the_files_that_there_are() {
    let disk = MemoryDisk::new();
    let config = JournalConfig::small(1 << 20);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (journal, _) =
        Journal::open(disk.environment(), Path::new(DIRECTORY), &key(), config.clone()).unwrap();
    let files = || disk.files().iter().filter(|(_, bytes)| bytes.len() as u64 == config.segment).count();
    while files() < 7 {
        std::thread::yield_now(); // the filler makes them
    }
    disk.set_full(true);
    let append = |priority| {
        let reservation = journal.try_reserve(4000, priority).unwrap()?;
        let lsn = journal.append(record(1, 10, &[3500]), reservation).unwrap().lsn;
        runtime.block_on(journal.durable(lsn)).unwrap();
        Some(lsn)
    };
    let mut last = Lsn::ZERO;
    while !journal.usage().disk_full || append(Priority::Client).is_some() {
        last = append(Priority::Client).unwrap_or(last);
    }
    let upkeep = append(Priority::Upkeep).expect("upkeep has its part of the head-room");
    journal.release(upkeep);
    // Released space comes back without the disk having any.
    let space = runtime.block_on(journal.reserve(4000, Priority::Client)).unwrap();
    drop(space);
    assert!(journal.usage().disk_full && last > Lsn::ZERO);
    disk.set_full(false);
    while journal.usage().disk_full {
        std::thread::yield_now(); // the filler tries again
    }
}
