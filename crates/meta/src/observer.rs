use bytes::Bytes;
use journal::{JournalError, Lsn, PayloadRef};

/// An attachment of a transaction that has just become visible.
#[derive(Debug, Clone)]
pub struct PublishedAttachment {
    /// As it was attached.
    pub descriptor: Bytes,
    /// The bytes.
    pub payload: Bytes,
    /// Where the journal keeps them; readable at once.
    pub place: PayloadRef,
}

/// An attachment that was found in the journal at start. Its payload lies in the journal.
#[derive(Debug, Clone)]
pub struct ReplayedAttachment {
    /// As it was attached.
    pub descriptor: Bytes,
    /// Where the journal keeps the payload, and its length.
    pub place: PayloadRef,
}

/// A needed part of a payload, and how a record that takes it over describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPayload {
    /// Descriptor of the attachment that takes it over.
    pub descriptor: Bytes,
    /// Where the journal keeps it now.
    pub place: PayloadRef,
    /// First byte of the part.
    pub from: u32,
    /// Bytes of the part; none for an attachment without payload.
    pub length: u32,
}

/// Who keeps the books of the attachments (the cache).
///
/// The store calls `published` at the instant a transaction becomes visible, under the lock that every read of the store
/// takes. So nobody can see the new metadata with the old data or the other way round and still commit. The
/// price: implementations are quick (no disk, no waiting), do not call the store, and take no lock that
/// is ever held during a call of the store.
pub trait CommitObserver: Send + Sync {
    /// A transaction with attachments has become visible. Called in the order of `lsn`; it is not yet durable.
    fn published(&self, lsn: Lsn, attachments: Vec<PublishedAttachment>);

    /// A record with attachments that the journal still holds, at start, in the order of `lsn`, before any
    /// transaction runs. May have been written back already: the metadata of the store tells.
    fn replay(&self, lsn: Lsn, attachments: Vec<ReplayedAttachment>);

    /// The oldest record whose attachments are still needed; `None` when none is. The journal is trimmed below it
    /// at any time, from the moment the store is open: what was replayed counts as needed until it is known not
    /// to be.
    fn oldest_needed(&self) -> Option<Lsn>;

    /// Bytes of all payloads that are needed, with what their attachments take beside them.
    fn kept(&self) -> u64 {
        0
    }

    /// What is needed of records before `end`, cut so that one record of about `bytes` holds it; empty when nothing
    /// is. Called when the journal runs short: the store appends it again, and lets `published` know.
    fn held_below(&self, _end: Lsn, _bytes: u64) -> Vec<HeldPayload> {
        Vec::new()
    }

    /// Whether exactly this is still needed, and still there. Called under the lock of `published`, right before it: what
    /// has changed in the meantime must not be brought back.
    fn still_holds(&self, _held: &HeldPayload) -> bool {
        false
    }

    /// What is held cannot be read, so it can neither be moved nor be stored; until nobody needs it any more, the
    /// journal keeps its segment, and all that come behind it. Told again each time the store tries to move it.
    fn unreadable(&self, _held: &HeldPayload, _error: &JournalError) {}
}

/// For stores whose transactions carry no attachments.
pub struct NoObserver;

impl CommitObserver for NoObserver {
    fn published(&self, _lsn: Lsn, _attachments: Vec<PublishedAttachment>) {}

    fn replay(&self, _lsn: Lsn, _attachments: Vec<ReplayedAttachment>) {}

    fn oldest_needed(&self) -> Option<Lsn> {
        None
    }
}
