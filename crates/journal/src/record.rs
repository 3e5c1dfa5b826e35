use bytes::Bytes;

/// Log sequence number: the position of a record in the one order of all records of a node. The first record is
/// 1; every record's number is its predecessor's plus one, across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before the first record.
    pub const ZERO: Lsn = Lsn(0);

    /// The number after this one.
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

/// What is made durable as one unit: it is recovered whole or not at all.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The metadata batch; opaque here.
    pub body: Bytes,
    /// File data and its like, each readable alone by its [`PayloadRef`].
    pub attachments: Vec<Attachment>,
}

/// A payload that travels in a record.
#[derive(Debug, Clone, Default)]
pub struct Attachment {
    /// What the payload is; opaque here, given back at recovery. Short (hundreds of bytes).
    pub descriptor: Bytes,
    /// The bytes. Sealed and stored apart from the record's body.
    pub payload: Bytes,
}

/// Where a payload lies. Valid until its record is released; a segment number is never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadRef {
    /// Sequence number of the segment.
    pub segment: u64,
    /// Byte offset of the payload's first chunk in the segment.
    pub offset: u32,
    /// Plaintext length in bytes.
    pub length: u32,
}

/// The receipt of [`Journal::append`](crate::Journal::append): the record has its number and its place, and is not yet durable.
#[derive(Debug, Clone)]
#[must_use = "the record is not durable until Journal::durable(lsn) resolves"]
pub struct Appended {
    /// The record's number.
    pub lsn: Lsn,
    /// The places of the attachments' payloads, in their order.
    pub refs: Vec<PayloadRef>,
}

/// A record found at start.
#[derive(Debug, Clone)]
pub struct RecoveredRecord {
    /// Its number.
    pub lsn: Lsn,
    /// The metadata batch.
    pub body: Bytes,
    /// The attachments. Payloads are not read; use [`Journal::read`](crate::Journal::read).
    pub attachments: Vec<RecoveredAttachment>,
}

/// An attachment found at start.
#[derive(Debug, Clone)]
pub struct RecoveredAttachment {
    /// As it was appended.
    pub descriptor: Bytes,
    /// Where the payload lies and how long it is.
    pub place: PayloadRef,
}

/// Whose need for journal space it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Work that fills the journal: it waits while the space above the head-room is taken.
    #[default]
    Client,
    /// Work that empties the journal (write-back): it may use one half of the head-room as well.
    Upkeep,
    /// Moving what the oldest segment still holds, so that it can be released: may use all of the head-room.
    Move,
}
