//! The metadata store, from files that something happened to, and from journal records of any content.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use journal::{Journal, JournalConfig, Record, WriterKind};
use meta::{LocalConfig, LocalStore, MetaError, MetaStore, Mode, NoObserver, Priority, Scan};
use seal::NodeKey;

use crate::image_disk::{Image, ImageDisk, damage};
use crate::machine::{HandClock, block_on, environment};
use crate::tape::Tape;

const KEYS: u8 = 12;

fn key(number: u8) -> Bytes {
    Bytes::from(vec![b'k', number])
}

fn value(number: u8) -> Bytes {
    Bytes::from(vec![number; usize::from(number) * 400])
}

fn journal(disk: &ImageDisk, process: u32) -> Result<(Journal, journal::Recovery), MetaError> {
    let environment = environment(&HandClock::new(), Arc::new(disk.clone()), process);
    let config = JournalConfig { writer: WriterKind::Task, ..JournalConfig::small(1 << 20) };
    Ok(Journal::open(environment, Path::new("/journal"), &NodeKey::from_bytes([7; 32]), config)?)
}

fn open(disk: &ImageDisk, process: u32) -> Result<LocalStore, MetaError> {
    let (journal, recovery) = journal(disk, process)?;
    let environment = environment(&HandClock::new(), Arc::new(disk.clone()), process + 100);
    let config = LocalConfig { cache: 1 << 20, inline: true, ..LocalConfig::default() };
    LocalStore::open(environment, Path::new("/meta"), config, journal, recovery, Arc::new(NoObserver))
}

async fn put(store: &LocalStore, number: u8) -> Result<(), MetaError> {
    let mut tx = store.begin(Mode::Optimistic).await?;
    tx.put(key(number), value(number));
    tx.commit(Priority::Client).await?.durable().await
}

async fn rows(store: &LocalStore) -> Result<Vec<(Bytes, Bytes)>, MetaError> {
    let mut tx = store.begin(Mode::Optimistic).await?;
    tx.scan(Scan { start: &[], end: &[0xff], guard: None, limit: 1000 }).await
}

/// Half of the rows in the engine's file, all of them in the journal.
fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        block_on(async {
            let disk = ImageDisk::default();
            for process in 1..3 {
                let store = open(&disk, process).unwrap();
                for number in 0..KEYS / 2 {
                    put(&store, number + KEYS / 2 * (process as u8 - 1)).await.unwrap();
                }
                if process == 1 {
                    store.close().await.unwrap();
                }
            }
            disk.image()
        })
    })
}

/// What happens to the files. Opening and reading give what was written, or say what is wrong.
pub(crate) fn files(data: &[u8]) {
    let mut tape = Tape::new(data);
    let mut image = image().clone();
    while damage(&mut image, &mut tape) {}
    let disk = ImageDisk::new(image);
    block_on(async {
        let Ok(store) = open(&disk, 3) else { return };
        if let Ok(rows) = rows(&store).await {
            for (found, content) in rows {
                assert!(
                    (0..KEYS).any(|number| found == key(number) && content == value(number)),
                    "{found:?}"
                );
            }
        }
        let _may_fail = put(&store, 1).await;
        let _may_fail = store.close().await;
    });
}

pub(crate) fn file_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for kind in 0..9 {
        // Files are in the order of their names: the journal's, then the engine's.
        seeds.push(vec![kind, 0, 0, 2, 3, 5, 7]);
        seeds.push(vec![kind, 1, 1, 1, 3, 5, 7]);
        seeds.push(vec![kind, 1, 0, 4, 30, 4, kind, 0, 1, 3, 9, 1]);
    }
    seeds
}

/// A record of the journal whose body is these bytes. Replay takes it as a batch of writes or refuses it.
pub(crate) fn replay(data: &[u8]) {
    let disk = ImageDisk::new(image().clone());
    block_on(async {
        let (journal, recovery) = journal(&disk, 3).unwrap();
        assert!(recovery.last().unwrap().is_ok());
        let record = Record { body: Bytes::copy_from_slice(data), attachments: Vec::new() };
        let reservation = journal.reserve(Journal::space_of(&record), Priority::Client).await.unwrap();
        let appended = journal.append(record, reservation).unwrap();
        journal.durable(appended.lsn).await.unwrap();
        journal.close().await.unwrap();
        drop(journal);
        match open(&disk, 4) {
            Ok(store) => {
                rows(&store).await.unwrap();
                store.close().await.unwrap();
            }
            Err(error) => assert!(matches!(error, MetaError::BadBatch { .. }), "{error}"),
        }
    });
}

pub(crate) fn replay_seeds() -> Vec<Vec<u8>> {
    let write = |key: &[u8], value: Option<&[u8]>| {
        let length = value.map_or(u32::MAX, |value| value.len() as u32);
        [&(key.len() as u16).to_be_bytes(), &length.to_be_bytes()[..], key, value.unwrap_or_default()]
            .concat()
    };
    let batch =
        |writes: &[Vec<u8>]| [&[1], &(writes.len() as u32).to_be_bytes()[..], &writes.concat()].concat();
    vec![
        batch(&[]),
        batch(&[write(b"key", Some(b"value"))]),
        batch(&[write(b"k\0", None), write(b"a", Some(b"")), write(b"b", Some(&[7; 100]))]),
    ]
}
