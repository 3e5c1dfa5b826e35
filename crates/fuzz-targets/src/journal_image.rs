//! Recovery of the journal from files that something happened to.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use journal::{
    Attachment, Journal, JournalConfig, JournalError, Lsn, Priority, Record, RecoveredRecord, WriterKind,
};
use seal::NodeKey;

use crate::image_disk::{Image, ImageDisk, damage};
use crate::machine::{HandClock, block_on, environment};
use crate::tape::Tape;

const DIRECTORY: &str = "/journal";
const RECORDS: u64 = 30;

fn config() -> JournalConfig {
    JournalConfig { writer: WriterKind::Task, ..JournalConfig::small(1 << 20) }
}

/// The record of this number.
fn record(lsn: u64) -> Record {
    let payload = vec![lsn as u8; (lsn as usize * 977) % 6000];
    let attachments = match lsn % 3 {
        0 => Vec::new(),
        attachments => (0..attachments)
            .map(|at| Attachment { descriptor: vec![at as u8; 9].into(), payload: payload.clone().into() })
            .collect(),
    };
    Record { body: Bytes::from(vec![lsn as u8; (lsn as usize * 331) % 2000]), attachments }
}

fn open(disk: &ImageDisk, process: u32) -> Result<(Journal, Vec<RecoveredRecord>), JournalError> {
    let environment = environment(&HandClock::new(), Arc::new(disk.clone()), process);
    let key = NodeKey::from_bytes([7; 32]);
    let (journal, recovery) = Journal::open(environment, Path::new(DIRECTORY), &key, config())?;
    Ok((journal, recovery.collect::<Result<_, _>>()?))
}

async fn append(journal: &Journal, lsn: u64) -> Result<(), JournalError> {
    let record = record(lsn);
    let reservation = journal.reserve(Journal::space_of(&record), Priority::Client).await?;
    let appended = journal.append(record, reservation)?;
    assert_eq!(appended.lsn, Lsn(lsn));
    journal.durable(appended.lsn).await
}

/// Journals as they are found: while it was written, after a clean end, after a restart.
fn images() -> &'static [Image] {
    static IMAGES: OnceLock<Vec<Image>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        block_on(async {
            let disk = ImageDisk::default();
            let (journal, _) = open(&disk, 1).unwrap();
            for lsn in 1..=RECORDS {
                append(&journal, lsn).await.unwrap();
            }
            let killed = disk.image();
            journal.close().await.unwrap();
            let closed = disk.image();
            let (journal, _) = open(&disk, 2).unwrap();
            append(&journal, RECORDS + 1).await.unwrap();
            journal.release(Lsn(9));
            append(&journal, RECORDS + 2).await.unwrap();
            journal.close().await.unwrap();
            vec![killed, closed, disk.image()]
        })
    })
}

/// Which image, then what happens to it. Recovery gives records, all of them as they were appended, or says what is
/// wrong; and what it accepted once it accepts again, with what was appended since.
pub(crate) fn recovery(data: &[u8]) {
    let mut tape = Tape::new(data);
    let mut image = tape.pick(images()).unwrap();
    while damage(&mut image, &mut tape) {}
    let disk = ImageDisk::new(image);
    block_on(async {
        let Ok((journal, found)) = open(&disk, 3) else { return };
        let numbers: Vec<u64> = found.iter().map(|record| record.lsn.0).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "gaps between {numbers:?}");
        for found in &found {
            let appended = record(found.lsn.0);
            assert_eq!(found.body, appended.body);
            assert_eq!(found.attachments.len(), appended.attachments.len());
            for (found, appended) in found.attachments.iter().zip(&appended.attachments) {
                assert_eq!(found.descriptor, appended.descriptor);
                if let Ok(payload) = journal.read(found.place).await {
                    assert_eq!(payload, appended.payload);
                }
            }
        }
        let Some(&last) = numbers.last() else { return };
        append(&journal, last + 1).await.unwrap();
        journal.close().await.unwrap();
        drop(journal);
        let (journal, again) = open(&disk, 4).unwrap();
        assert_eq!(again.last().map(|record| record.lsn.0), Some(last + 1));
        journal.close().await.unwrap();
    });
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..3).map(|image| vec![image]).collect();
    for kind in 0..9 {
        seeds.push(vec![kind % 3, kind, 0, 1, 3, 5, 7]);
        seeds.push(vec![1, kind, 2, 2, 0, 4, 0xf0, kind, 1, 1, 9, 9, 1]);
    }
    seeds
}
