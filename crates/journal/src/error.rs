use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Lsn, PayloadRef};

/// What can go wrong with a journal. Cheap to clone: one failed write is told to every waiter.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// A file of the journal could not be created, read or listed at start.
    #[error("journal: {what} {}: {cause}", path.display())]
    Open {
        /// What was being done.
        what: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What the operating system said.
        cause: Arc<io::Error>,
    },

    /// A write or sync failed. The journal has stopped for good: after a failed sync nobody knows what is on the
    /// disk, and trying again would only hide the loss. Repair the disk, then restart the node.
    #[error(
        "journal: stopped after a failed write or sync: {cause}; nothing more is acknowledged until the node is restarted"
    )]
    Failed {
        /// The first failure.
        cause: Arc<io::Error>,
    },

    /// The journal was closed while somebody waited for it.
    #[error("journal: closed")]
    Closed,

    /// No segment opens with the given node key.
    #[error("journal: {} was written under another node key; give the right key file", path.display())]
    WrongKey {
        /// A segment that has an intact header of another key.
        path: PathBuf,
    },

    /// The files were written by a newer version of this software.
    #[error("journal: {} has format {found}, this version knows formats up to {known}; run the newer version", path.display())]
    NewerFormat {
        /// The segment.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },

    /// Records that were durable are damaged or gone, and later ones exist, so this is no torn tail. Nothing was
    /// changed; restore the file from the disk's mirror, or restore the node from its backup.
    #[error("journal: {} is damaged at byte {offset}: {what}; later records are intact, so this is not an interrupted write", path.display())]
    Damaged {
        /// The segment, or the directory when a whole segment is missing.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What was expected there.
        what: &'static str,
    },

    /// The newest segment is missing, or neither copy of its header is intact, or its first batch is not: the one before it says that
    /// they were there. Nothing was changed; bring its file back, or restore the node from its backup.
    #[error(
        "journal: the newest segment, which follows {}, is missing or has lost its header or its first records, and with them what was \
         acknowledged last; bring its file back from the disk's mirror, or restore the node from its backup",
        before.display()
    )]
    NewestSegmentLost {
        /// The segment before it.
        before: PathBuf,
    },

    /// Two files begin as the same segment, which the journal never does: somebody copied one, or brought an old one
    /// back. Nothing was changed.
    #[error(
        "journal: {} and {} hold the same segment, and nobody can tell which one is current; move the one that was copied or \
         brought back out of the directory, and keep it until the gateway has started with all that it should have",
        path.display(), other.display()
    )]
    SameSegment {
        /// One of the files.
        path: PathBuf,
        /// The other one.
        other: PathBuf,
    },

    /// A payload does not verify.
    #[error("journal: the payload at {place:?} is damaged: {what}")]
    DamagedPayload {
        /// Where it lies.
        place: PayloadRef,
        /// What failed.
        what: &'static str,
    },

    /// The payload's segment has been released, or the place was never handed out by this journal.
    #[error("journal: nothing is kept at {place:?}")]
    NoSuchPayload {
        /// The place asked for.
        place: PayloadRef,
    },

    /// A payload could not be read from the disk.
    #[error("journal: reading the payload at {place:?}: {cause}")]
    Read {
        /// The place asked for.
        place: PayloadRef,
        /// What the operating system said.
        cause: Arc<io::Error>,
    },

    /// The record is larger than [`JournalConfig::max_record`](crate::JournalConfig::max_record).
    #[error("journal: a record of {bytes} bytes exceeds the limit of {limit}; split the change")]
    TooLarge {
        /// Bytes it would take.
        bytes: u64,
        /// The most that is allowed.
        limit: u64,
    },

    /// The record needs more than was reserved for it.
    #[error("journal: the record of LSN {lsn:?} takes {bytes} bytes, {reserved} were reserved")]
    ReservationTooSmall {
        /// The number it would have had.
        lsn: Lsn,
        /// Bytes it takes.
        bytes: u64,
        /// Bytes reserved.
        reserved: u64,
    },

    /// The configured sizes contradict each other.
    #[error("journal: {0}")]
    Config(&'static str),
}
