use std::path::PathBuf;

use super::*;
use crate::layout::{BLOCK, RUN_HEADER};
use environment::Disk;

/// A journal of several segments with a record in each batch; the first offset of each record's batch.
async fn filled(disk: &MemoryDisk, records: u64) -> Vec<(u64, u32)> {
    let (journal, _) = open(disk);
    let mut places = Vec::new();
    for name in 0..records {
        let appended = append(&journal, record(name, 3000, &[4000])).await.unwrap();
        journal.durable(appended.lsn).await.unwrap();
        places.push((appended.refs[0].segment, appended.refs[0].offset));
    }
    places
}

/// The file that holds a segment, by the place of its header.
fn file_of(disk: &MemoryDisk, segment: u64) -> PathBuf {
    let found = disk.files().into_iter().find(|(_, bytes)| bytes[24..32] == segment.to_be_bytes());
    found.unwrap().0
}

#[tokio::test]
async fn a_flipped_bit_in_any_batch_but_the_last_is_reported_and_nothing_is_changed() {
    let disk = MemoryDisk::new();
    let places = filled(&disk, 40).await;
    assert!(places.last().unwrap().0 >= 4, "several segments");
    // Heads, lengths, bodies; not payloads, which are verified when they are read.
    for &(segment, payload) in &places[..39] {
        let head = u64::from(payload) / BLOCK * BLOCK;
        for offset in [head, head + 63, head + 65, head + 72, head + 2000] {
            let disk = disk.kill();
            let path = file_of(&disk, segment);
            disk.damage(&path, |bytes| bytes[offset as usize] ^= 4);
            let before = disk.files();
            let error = try_open(&disk).err().unwrap_or_else(|| panic!("segment {segment} byte {offset}"));
            assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
            assert_eq!(disk.files(), before);
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_last_batch_looks_torn_unless_the_journal_was_closed() {
    let disk = MemoryDisk::new();
    let places = filled(&disk, 5).await;
    let (segment, payload) = places[4];
    let flip =
        |disk: &MemoryDisk| disk.damage(&file_of(disk, segment), |bytes| bytes[payload as usize - 50] ^= 1);
    let torn = disk.kill();
    flip(&torn);
    assert_eq!(lsns(&open(&torn).1), [1, 2, 3, 4]);

    let (journal, _) = open(&disk);
    journal.close().await.unwrap();
    flip(&disk);
    assert!(matches!(try_open(&disk), Err(JournalError::Damaged { .. })));
}

#[tokio::test]
async fn a_batch_whose_payload_is_torn_was_never_durable() {
    let disk = MemoryDisk::new();
    let places = filled(&disk, 5).await;
    let (segment, payload) = places[4];
    disk.damage(&file_of(&disk, segment), |bytes| bytes[payload as usize + 3900] ^= 1);
    let (journal, found) = open(&disk);
    assert_eq!(lsns(&found), [1, 2, 3, 4]);
    let lsn = append(&journal, record(9, 10, &[])).await.unwrap().lsn;
    assert_eq!(lsn, Lsn(5));
    journal.durable(lsn).await.unwrap();
    assert_eq!(lsns(&open(&disk).1), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_damaged_payload_is_reported_when_it_is_read() {
    let disk = MemoryDisk::new();
    let places = filled(&disk, 5).await;
    let (segment, payload) = places[2];
    disk.damage(&file_of(&disk, segment), |bytes| bytes[payload as usize + 10] ^= 1);
    let (journal, found) = open(&disk);
    let error = journal.read(found[2].attachments[0].place).await.unwrap_err();
    assert!(matches!(error, JournalError::DamagedPayload { .. }), "{error}");
    assert!(journal.read(found[1].attachments[0].place).await.is_ok());
}

#[tokio::test]
async fn one_damaged_copy_of_a_header_does_no_harm_and_two_are_reported() {
    let disk = MemoryDisk::new();
    let places = filled(&disk, 40).await;
    let middle = places[20].0;
    for copies in [&[0][..], &[BLOCK], &[0, BLOCK]] {
        let disk = disk.kill();
        let path = file_of(&disk, middle);
        disk.damage(&path, |bytes| copies.iter().for_each(|&copy| bytes[copy as usize + 45] ^= 1));
        match copies.len() {
            1 => assert_eq!(open(&disk).1.len(), 40),
            _ => assert!(matches!(try_open(&disk), Err(JournalError::Damaged { .. }))),
        }
    }
}

/// Takes what says that another segment follows, the last that was written.
fn take_mark(bytes: &mut [u8]) {
    let header = bytes[..8].to_vec();
    let mut blocks = bytes.chunks_mut(BLOCK as usize).rev();
    let mark = blocks.find(|block| block.iter().any(|byte| *byte != 0)).unwrap();
    assert!(mark.starts_with(&header));
    mark.fill(0);
}

#[tokio::test]
async fn the_newest_segment_is_missed_however_much_of_it_is_lost() {
    let whole = MemoryDisk::new();
    let places = filled(&whole, 40).await;
    let newest = places[39].0;
    let lose_header = |disk: &MemoryDisk, with: u8| {
        disk.damage(&file_of(disk, newest), |bytes| bytes[..RUN_HEADER as usize].fill(with));
    };
    for lose in [
        &|disk: &MemoryDisk| disk.remove(&file_of(disk, newest)).unwrap(),
        &|disk: &MemoryDisk| lose_header(disk, 0),
        &|disk: &MemoryDisk| lose_header(disk, 0xa5),
        &|disk: &MemoryDisk| disk.damage(&file_of(disk, newest), |bytes| bytes.fill(0)),
    ] as [&dyn Fn(&MemoryDisk); 4]
    {
        let disk = whole.kill();
        lose(&disk);
        let before = disk.files();
        let error = try_open(&disk).err().expect("what was acknowledged last is lost");
        assert!(matches!(error, JournalError::NewestSegmentLost { .. }), "{error}");
        assert_eq!(disk.files(), before);
        // Not so if it was never begun: everything before is there.
        disk.damage(&file_of(&disk, newest - 1), take_mark);
        let expected: Vec<u64> = (1..=40).filter(|lsn| places[*lsn as usize - 1].0 < newest).collect();
        assert_eq!(lsns(&open(&disk).1), expected);
    }
}

/// As many records as [`filled`] writes before the next one begins the third segment.
async fn records_before_the_third() -> u64 {
    let places = filled(&MemoryDisk::new(), 40).await;
    places.iter().position(|place| place.0 == 3).unwrap() as u64
}

#[tokio::test]
async fn a_segment_says_that_another_follows_when_that_is_durable_and_before_anybody_is_told() {
    let records = records_before_the_third().await;
    let (mut told, mut missed) = (0, 0);
    for operations in 0..12 {
        for seed in 0..20 {
            let disk = MemoryDisk::new();
            filled(&disk, records).await;
            let disk = disk.crash(seed);
            let (journal, _) = open(&disk);
            disk.cut_power_after(operations);
            let appended = append(&journal, record(records, 3000, &[4000])).await.unwrap();
            let is_told = journal.durable(appended.lsn).await.is_ok();
            let disk = disk.crash(seed);
            let (_, found) = open(&disk);
            assert!(found.len() as u64 >= records + u64::from(is_told), "{operations} {seed}");
            let begun = disk.files().into_iter().any(|file| file.1[24..32] == 3u64.to_be_bytes());
            if begun {
                let disk = disk.kill();
                disk.remove(&file_of(&disk, 3)).unwrap();
                match try_open(&disk) {
                    Err(JournalError::NewestSegmentLost { .. }) => missed += 1,
                    Err(error) => panic!("{operations} {seed}: {error}"),
                    Ok((_, found)) => assert!(!is_told && found.len() as u64 == records),
                }
            }
            told += u64::from(is_told);
        }
    }
    assert!(told >= 20 && missed >= told, "{told} {missed}");
}

#[tokio::test]
async fn what_a_process_said_and_did_not_make_durable_is_said_again() {
    let records = records_before_the_third().await;
    let (mut begun, mut seed) = (0, 0);
    for operations in 0..12 {
        let disk = MemoryDisk::new();
        filled(&disk, records).await;
        let disk = disk.kill();
        let (journal, _) = open(&disk);
        disk.cut_power_after(operations);
        let _ = append(&journal, record(records, 3000, &[4000])).await;
        let _ = journal.durable(Lsn(records + 1)).await;
        // What this one wrote is in the page cache.
        let disk = disk.kill();
        let (journal, _) = open(&disk);
        let appended = append(&journal, record(100, 10, &[10])).await.unwrap();
        journal.durable(appended.lsn).await.unwrap();
        if appended.refs[0].segment == 3 {
            begun += 1;
            for _ in 0..10 {
                seed += 1;
                let disk = disk.crash(seed);
                assert_eq!(open(&disk).1.last().unwrap().lsn, appended.lsn);
                disk.remove(&file_of(&disk, 3)).unwrap();
                assert!(
                    matches!(try_open(&disk), Err(JournalError::NewestSegmentLost { .. })),
                    "{operations}"
                );
            }
        }
    }
    assert!(begun > 4, "{begun}");
}

#[tokio::test]
async fn the_first_batch_of_a_segment_of_which_another_says_that_it_was_begun_is_no_interrupted_write() {
    let whole = MemoryDisk::new();
    let records = records_before_the_third().await + 1;
    let (segment, payload) = filled(&whole, records).await[records as usize - 1];
    assert_eq!(segment, 3);
    for offset in [RUN_HEADER as usize + 3, payload as usize - 50, payload as usize + 3900] {
        let disk = whole.kill();
        disk.damage(&file_of(&disk, 3), |bytes| bytes[offset] ^= 1);
        let before = disk.files();
        assert!(matches!(try_open(&disk), Err(JournalError::NewestSegmentLost { .. })), "{offset}");
        assert_eq!(disk.files(), before);
        // Nobody says so.
        disk.damage(&file_of(&disk, 2), take_mark);
        assert_eq!(open(&disk).1.len() as u64, records - 1);
    }
}

#[tokio::test]
async fn what_a_process_was_interrupted_in_saying_is_said_by_the_next_one() {
    let whole = MemoryDisk::new();
    filled(&whole, records_before_the_third().await + 1).await;
    // The segment before may be let go of meanwhile.
    for release in [false, true] {
        let disk = whole.kill();
        disk.damage(&file_of(&disk, 2), take_mark);
        let (journal, found) = open(&disk);
        let last = found.last().unwrap().lsn;
        if release {
            journal.release(last);
        }
        let next = append(&journal, record(100, 10, &[])).await.unwrap();
        assert_eq!((next.lsn, next.refs.len()), (last.next(), 0));
        journal.durable(next.lsn).await.unwrap();
        drop(journal);
        let disk = disk.crash(release.into());
        assert_eq!(*lsns(&open(&disk).1).last().unwrap(), next.lsn.0);
        disk.remove(&file_of(&disk, 3)).unwrap();
        assert!(matches!(try_open(&disk), Err(JournalError::NewestSegmentLost { .. })));
    }
}

#[tokio::test]
async fn a_process_that_leaves_a_segment_at_once_says_that_another_follows() {
    let disk = MemoryDisk::new();
    let records = records_before_the_third().await;
    filled(&disk, records).await;
    let disk = disk.kill();
    let (journal, _) = open(&disk);
    let appended = append(&journal, record(records, 3000, &[4000])).await.unwrap();
    journal.durable(appended.lsn).await.unwrap();
    assert_eq!(appended.refs[0].segment, 3);
    let disk = disk.crash(1);
    // Damage in front of what it says is damage.
    let torn = disk.kill();
    torn.damage(&file_of(&torn, 2), |bytes| {
        let mark =
            bytes.chunks(BLOCK as usize).rposition(|block| block.iter().any(|byte| *byte != 0)).unwrap();
        bytes[(mark - 2) * BLOCK as usize..][..100].fill(0x3c);
    });
    for disk in [&disk, &torn] {
        disk.remove(&file_of(disk, 3)).unwrap();
    }
    assert!(matches!(try_open(&disk), Err(JournalError::NewestSegmentLost { .. })));
    assert!(matches!(try_open(&torn), Err(JournalError::Damaged { .. })));
}

#[tokio::test]
async fn a_segment_that_is_full_to_its_end_says_that_another_follows() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let mut newest = 0;
    // In the first segment, with its two headers, one block after the other, as far as it goes.
    for name in 0.. {
        let appended = append(&journal, record(name, 10, &[10])).await.unwrap();
        journal.durable(appended.lsn).await.unwrap();
        newest = appended.refs[0].segment;
        if newest > 1 {
            break;
        }
    }
    drop(journal);
    let disk = disk.kill();
    let first = disk.files().into_iter().find(|file| file.0 == file_of(&disk, 1)).unwrap().1;
    let last = &first[first.len() - BLOCK as usize..];
    assert!(last.starts_with(&first[..8]), "up to its last block");
    disk.remove(&file_of(&disk, newest)).unwrap();
    assert!(matches!(try_open(&disk), Err(JournalError::NewestSegmentLost { .. })));
}

#[tokio::test]
async fn a_missing_segment_is_reported() {
    use environment::Disk;
    let disk = MemoryDisk::new();
    let places = filled(&disk, 40).await;
    disk.remove(&file_of(&disk, places[15].0)).unwrap();
    assert!(matches!(try_open(&disk), Err(JournalError::Damaged { .. })));
}

#[tokio::test]
async fn two_files_with_the_same_segment_are_reported_and_nothing_is_changed() {
    let disk = MemoryDisk::new();
    // One segment, as after a release of all others: neither copy is missed in a row of segments.
    let (segment, _) = *filled(&disk, 1).await.last().unwrap();
    let path = file_of(&disk, segment);
    let old = disk.files().into_iter().find(|file| file.0 == path).unwrap().1;
    let (journal, _) = open(&disk);
    let lsn = append(&journal, record(1, 10, &[])).await.unwrap().lsn;
    journal.durable(lsn).await.unwrap();
    drop(journal);
    for name in ["segment-00000000.journal", "segment-00000099.journal"] {
        let disk = disk.kill();
        let file = disk.open(&path.with_file_name(name), true).unwrap();
        file.write_all_at(&[std::io::IoSlice::new(&old)], 0).unwrap();
        file.sync_data().unwrap();
        let before = disk.files();
        let error = try_open(&disk).err().expect("an old copy is not to be mistaken for the segment");
        assert!(matches!(error, JournalError::SameSegment { .. }), "{error}");
        assert_eq!(disk.files(), before);
        disk.remove(&path.with_file_name(name)).unwrap();
        assert_eq!(lsns(&open(&disk).1), [1, 2]);
    }
}

#[tokio::test]
async fn damage_before_a_later_run_of_the_same_segment_is_reported() {
    let disk = MemoryDisk::new();
    for name in 0..3 {
        let (journal, _) = open(&disk);
        let lsn = append(&journal, record(name, 10, &[])).await.unwrap().lsn;
        journal.durable(lsn).await.unwrap();
    }
    let path = disk.files()[0].0.clone();
    // First batch of the second run: behind header and batch of the first, and its own header. The run that marks
    // the journal's beginning has a header and no batch.
    let offset = RUN_HEADER + RUN_HEADER + BLOCK + RUN_HEADER;
    disk.damage(&path, |bytes| bytes[offset as usize + 3] ^= 1);
    assert!(matches!(try_open(&disk), Err(JournalError::Damaged { .. })));
}

#[tokio::test]
async fn a_file_that_lost_its_header_is_not_used_again_with_what_it_still_holds() {
    let disk = MemoryDisk::new();
    filled(&disk, 8).await;
    // A restart leaves the header of a run inside a segment, and more segments follow.
    let (journal, found) = open(&disk);
    let mut name = found.len() as u64;
    let mut restarted_in = None;
    let newest = loop {
        let appended = append(&journal, record(name, 3000, &[4000])).await.unwrap();
        journal.durable(appended.lsn).await.unwrap();
        let segment = appended.refs[0].segment;
        let first = *restarted_in.get_or_insert(segment);
        if segment > first {
            break segment;
        }
        name += 1;
    };
    drop(journal);
    let disk = disk.kill();
    disk.remove(&file_of(&disk, newest)).unwrap();
    disk.damage(&file_of(&disk, newest - 1), |bytes| {
        let start = bytes[..8].to_vec();
        let runs = bytes.chunks(BLOCK as usize).filter(|block| block.starts_with(&start)).count();
        assert_eq!(runs, 5, "both copies of two headers, and what says that another segment follows");
        bytes[..RUN_HEADER as usize].fill(0);
    });

    assert!(matches!(try_open(&disk), Err(JournalError::NewestSegmentLost { .. })));
    // As if its process had been interrupted before it said so.
    disk.damage(&file_of(&disk, newest - 2), take_mark);

    // Which records were in the two is nowhere to be seen; what is appended from now on must stay.
    let (journal, found) = open(&disk);
    let before = lsns(&found);
    let appended = append(&journal, record(name, 100, &[])).await.unwrap();
    journal.durable(appended.lsn).await.unwrap();
    drop(journal);
    let (_, found) = try_open(&disk.kill()).unwrap();
    assert_eq!(found.len(), before.len() + 1);
}

#[tokio::test]
async fn a_file_that_a_torn_write_would_have_made_another_segment_is_not_used_again_with_that_header() {
    let disk = MemoryDisk::new();
    filled(&disk, 38).await;
    let (journal, _) = open(&disk);
    // All but the current segment can be used again.
    let last = append(&journal, record(38, 10, &[10])).await.unwrap();
    let (lsn, current) = (last.lsn, last.refs[0].segment);
    journal.durable(lsn).await.unwrap();
    journal.release(lsn);
    journal.close().await.unwrap();
    let before = disk.kill();

    // The next segment takes one of their files.
    let (journal, found) = open(&disk);
    let mut name = found.last().unwrap().lsn.0;
    let begun = loop {
        let appended = append(&journal, record(name, 3000, &[4000])).await.unwrap();
        journal.durable(appended.lsn).await.unwrap();
        name += 1;
        if appended.refs[0].segment > current {
            break appended.refs[0].segment;
        }
    };
    let path = file_of(&disk, begun);
    let header = disk.files().into_iter().find(|file| file.0 == path).unwrap().1;
    let second_copy = BLOCK as usize..RUN_HEADER as usize;

    // Of the header only the second copy arrived.
    assert!(before.files().iter().any(|(other, bytes)| *other == path && bytes.starts_with(&header[..8])));
    before.damage(&path, |bytes| bytes[second_copy.clone()].copy_from_slice(&header[second_copy.clone()]));
    let (journal, found) = open(&before);
    assert_eq!(found.last().unwrap().lsn, lsn);
    drop(journal);
    let left = before.files().into_iter().find(|file| file.0 == path);
    assert!(left.is_none_or(|(_, bytes)| bytes[second_copy.clone()] != header[second_copy]));
}
