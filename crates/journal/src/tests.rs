//! What the journal promises, on a disk that loses and tears what was not synced.

mod crash;
mod damage;
mod space;

use std::path::Path;

use bytes::Bytes;
use seal::NodeKey;

use crate::testing::MemoryDisk;
use crate::{
    Appended, Attachment, Journal, JournalConfig, JournalError, Lsn, Priority, Record, RecoveredRecord,
    WriterKind,
};

const DIRECTORY: &str = "/journal";

fn key() -> NodeKey {
    NodeKey::from_bytes([7; 32])
}

fn config() -> JournalConfig {
    JournalConfig { writer: WriterKind::Task, ..JournalConfig::small(1 << 20) }
}

/// Opens and reads everything that is there.
fn try_open(disk: &MemoryDisk) -> Result<(Journal, Vec<RecoveredRecord>), JournalError> {
    let (journal, recovery) = Journal::open(disk.environment(), Path::new(DIRECTORY), &key(), config())?;
    let records = recovery.collect::<Result<_, _>>()?;
    Ok((journal, records))
}

fn open(disk: &MemoryDisk) -> (Journal, Vec<RecoveredRecord>) {
    try_open(disk).unwrap()
}

/// A record with contents that tell it from others.
fn record(name: u64, body: usize, payloads: &[usize]) -> Record {
    let fill = |salt: u64, length: usize| -> Bytes {
        (0..length as u64).map(|i| (i.wrapping_mul(31) ^ (name * 7 + salt)) as u8).collect::<Vec<_>>().into()
    };
    let attachments = payloads
        .iter()
        .enumerate()
        .map(|(index, &length)| Attachment {
            descriptor: fill(index as u64, 9),
            payload: fill(100 + index as u64, length),
        })
        .collect();
    Record { body: fill(3, body), attachments }
}

async fn append(journal: &Journal, record: Record) -> Result<Appended, JournalError> {
    let reservation = journal.reserve(Journal::space_of(&record), Priority::Client).await?;
    journal.append(record, reservation)
}

async fn assert_same(journal: &Journal, found: &RecoveredRecord, expected: &Record) {
    assert_eq!(found.body, expected.body);
    assert_eq!(found.attachments.len(), expected.attachments.len());
    for (found, expected) in found.attachments.iter().zip(&expected.attachments) {
        assert_eq!(found.descriptor, expected.descriptor);
        assert_eq!(journal.read(found.place).await.unwrap(), expected.payload);
    }
}

fn lsns(records: &[RecoveredRecord]) -> Vec<u64> {
    records.iter().map(|record| record.lsn.0).collect()
}

#[tokio::test]
async fn a_record_comes_back_after_a_clean_end_with_its_payloads_and_the_next_number() {
    let disk = MemoryDisk::new();
    let (journal, found) = open(&disk);
    assert!(found.is_empty());
    let records = [record(1, 10, &[]), record(2, 0, &[100_000 / 8, 0, 1]), record(3, 3000, &[5])];
    for record in &records {
        let appended = append(&journal, record.clone()).await.unwrap();
        for (place, attachment) in appended.refs.iter().zip(&record.attachments) {
            assert_eq!(journal.read(*place).await.unwrap(), attachment.payload, "read while queued");
        }
        journal.durable(appended.lsn).await.unwrap();
        for (place, attachment) in appended.refs.iter().zip(&record.attachments) {
            assert_eq!(journal.read(*place).await.unwrap(), attachment.payload, "read from the disk");
        }
    }
    journal.close().await.unwrap();
    let (journal, found) = open(&disk);
    assert_eq!(lsns(&found), [1, 2, 3]);
    for (found, expected) in found.iter().zip(&records) {
        assert_same(&journal, found, expected).await;
    }
    assert_eq!(append(&journal, record(4, 1, &[])).await.unwrap().lsn, Lsn(4));
}

#[tokio::test]
async fn part_of_a_payload_of_many_chunks_reads_as_that_part() {
    let disk = MemoryDisk::new();
    let config = JournalConfig { writer: WriterKind::Task, ..JournalConfig::small(32 << 20) };
    let (journal, _) = Journal::open(disk.environment(), Path::new(DIRECTORY), &key(), config).unwrap();
    let record = record(1, 10, &[300_000]);
    let payload = record.attachments[0].payload.clone();
    let appended = append(&journal, record).await.unwrap();
    for when in ["queued", "on the disk"] {
        for (from, length) in
            [(0, 300_000), (0, 1), (65_535, 2), (65_536, 65_536), (100_000, 150_000), (299_999, 1), (5, 0)]
        {
            let part = journal.read_range(appended.refs[0], from, length).await.unwrap();
            assert_eq!(part, payload[from as usize..(from + length) as usize], "{when} {from} {length}");
        }
        assert!(journal.read_range(appended.refs[0], 299_999, 2).await.is_err());
        journal.durable(appended.lsn).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_that_was_appended_stands_in_clear_in_the_files() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let canary = Bytes::from_static(b"the canary sings in plain text");
    let attachment = Attachment { descriptor: canary.clone(), payload: canary.clone() };
    let record = Record { body: canary.clone(), attachments: vec![attachment] };
    let lsn = append(&journal, record).await.unwrap().lsn;
    journal.durable(lsn).await.unwrap();
    let mut sizes = 0;
    for (_, bytes) in disk.files() {
        sizes += bytes.iter().filter(|&&byte| byte != 0).count();
        assert!(!bytes.windows(8).any(|window| canary.windows(8).any(|part| part == window)));
    }
    assert!(sizes > 3 * canary.len(), "the record is in the files");
}

#[tokio::test]
async fn another_node_key_is_refused_and_changes_nothing() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let lsn = append(&journal, record(1, 10, &[])).await.unwrap().lsn;
    journal.durable(lsn).await.unwrap();
    journal.close().await.unwrap();
    let before = disk.files();
    let other = NodeKey::from_bytes([8; 32]);
    let error = Journal::open(disk.environment(), Path::new(DIRECTORY), &other, config()).err().unwrap();
    assert!(matches!(error, JournalError::WrongKey { .. }), "{error}");
    assert_eq!(disk.files(), before);
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    journal.close().await.unwrap();
    let path = disk.files()[0].0.clone();
    disk.damage(&path, |bytes| {
        for block in [0, 4096] {
            bytes[block + 11] = 2;
            let check = blake3::hash(&bytes[block..block + 112]);
            bytes[block + 112..block + 120].copy_from_slice(&check.as_bytes()[..8]);
        }
    });
    let error = try_open(&disk).err().unwrap();
    assert!(matches!(error, JournalError::NewerFormat { found: 2, .. }), "{error}");
}

#[test]
fn the_thread_serves_many_waiters_and_writes_everything_before_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let config = JournalConfig::small(4 << 20);
    let open =
        || Journal::open(environment::Environment::real(), folder.path(), &key(), config.clone()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (journal, _) = open();
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let journal = journal.clone();
            runtime.spawn(async move {
                for step in 0..20 {
                    let appended = append(&journal, record(task * 100 + step, 100, &[200])).await.unwrap();
                    journal.durable(appended.lsn).await.unwrap();
                    assert!(journal.durable_lsn() >= appended.lsn);
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    // Nobody waits for these.
    for step in 0..10 {
        let _ = runtime.block_on(append(&journal, record(step, 50, &[]))).unwrap();
    }
    drop(journal);
    let (_journal, recovery) = open();
    let found: Vec<_> = recovery.collect::<Result<_, _>>().unwrap();
    assert_eq!(lsns(&found), (1..=330).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_appended_is_written_once_somebody_asks_for_it() {
    let disk = MemoryDisk::new();
    let (journal, _) = open(&disk);
    let quiet = async || {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    };
    quiet().await; // the writer has begun
    let first = append(&journal, record(1, 100, &[])).await.unwrap().lsn;
    quiet().await;
    assert!(journal.durable_lsn() < first);
    journal.nudge();
    quiet().await;
    assert_eq!(journal.durable_lsn(), first);
    let second = append(&journal, record(2, 100, &[])).await.unwrap().lsn;
    drop(journal.durable(second));
    quiet().await;
    assert_eq!(journal.durable_lsn(), second);
}
