use journal::{Attachment, Lsn, PayloadRef, Priority};
use parking_lot::Mutex;

use super::*;
use crate::{Mode, PublishedAttachment, ReplayedAttachment};

#[derive(Default)]
struct Books {
    published: Mutex<Vec<(Lsn, Bytes, Bytes, PayloadRef)>>,
    replayed: Mutex<Vec<(Lsn, Bytes, PayloadRef)>>,
    oldest: Mutex<Option<Lsn>>,
}

impl CommitObserver for Books {
    fn published(&self, lsn: Lsn, attachments: Vec<PublishedAttachment>) {
        let entries = attachments.into_iter().map(|a| (lsn, a.descriptor, a.payload, a.place));
        self.published.lock().extend(entries);
    }

    fn replay(&self, lsn: Lsn, attachments: Vec<ReplayedAttachment>) {
        self.replayed.lock().extend(attachments.into_iter().map(|a| (lsn, a.descriptor, a.place)));
    }

    fn oldest_needed(&self) -> Option<Lsn> {
        *self.oldest.lock()
    }
}

async fn write(store: &LocalStore, name: &str, length: usize) -> Lsn {
    let mut transaction = store.begin(Mode::Optimistic).await.unwrap();
    transaction.put(bytes(name), bytes("row"));
    let payload = Bytes::from(vec![name.len() as u8; length]);
    transaction.attach(Attachment { descriptor: bytes(name), payload });
    assert_eq!(transaction.attached_bytes(), length as u64);
    let committed = transaction.commit(Priority::Client).await.unwrap();
    let lsn = committed.lsn.unwrap();
    committed.durable().await.unwrap();
    lsn
}

#[tokio::test]
async fn attachments_are_published_in_order_readable_at_once_and_replayed_after_a_restart() {
    let disk = MemoryDisk::new();
    let books = Arc::new(Books { oldest: Mutex::new(Some(Lsn(1))), ..Books::default() });
    let store = try_open(&disk, books.clone()).unwrap();
    for round in 0..20usize {
        write(&store, &"x".repeat(round + 1), round * 100).await;
    }
    let published = books.published.lock().clone();
    assert_eq!(published.len(), 20);
    assert!(published.is_sorted_by_key(|entry| entry.0));
    for (_, _, payload, place) in &published {
        assert_eq!(store.journal().read(*place).await.unwrap(), payload);
    }
    store.close().await.unwrap();
    assert_eq!(store.applied(), Lsn(20), "metadata needs no replay");

    let again = Arc::new(Books { oldest: Mutex::new(Some(Lsn(1))), ..Books::default() });
    let store = try_open(&disk.kill(), again.clone()).unwrap();
    let replayed = again.replayed.lock().clone();
    assert_eq!(replayed, published.iter().map(|(l, d, _, p)| (*l, d.clone(), *p)).collect::<Vec<_>>());
    for (_, _, payload, place) in &published {
        assert_eq!(store.journal().read(*place).await.unwrap(), payload);
    }
}

#[tokio::test]
async fn the_journal_is_trimmed_as_far_as_checkpoints_and_the_observer_allow() {
    let disk = MemoryDisk::new();
    let books = Arc::new(Books::default());
    let store = try_open(&disk, books.clone()).unwrap();
    *books.oldest.lock() = Some(Lsn(1));
    let mut last = Lsn::ZERO;
    while store.journal().usage().free > 1 << 20 {
        last = write(&store, "name", 5000).await;
    }
    let kept = books.published.lock()[0].3;
    assert!(store.journal().read(kept).await.is_ok());
    *books.oldest.lock() = Some(last);
    // More than the capacity: possible only if space comes back.
    for _ in 0..600 {
        let lsn = write(&store, "name", 5000).await;
        *books.oldest.lock() = Some(lsn);
    }
    assert!(store.journal().read(kept).await.is_err());
}
