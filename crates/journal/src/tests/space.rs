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
    for name in 0..60 {
        let lsn = append(&journal, record(name, 10, &[6000])).await.unwrap().lsn;
        journal.durable(lsn).await.unwrap();
        assert!(matches!(journal.read(old.refs[0]).await, Err(JournalError::NoSuchPayload { .. })));
    }
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
