use std::path::PathBuf;

use journal::{JournalError, Lsn};

/// What can go wrong with a store. Only `Conflict` is worth a retry.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// Something that the transaction read has been changed by another one. Run it again, a bounded number of
    /// times, then in [`Mode::Exclusive`](crate::Mode::Exclusive).
    #[error("metadata: the transaction conflicts with one that committed meanwhile; run it again")]
    Conflict,

    /// A transaction beyond the limits of the store; split it.
    #[error("metadata: the transaction has {found} {what}, the limit is {limit}; split it")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: u64,
        /// The limit.
        limit: u64,
    },

    /// The journal failed or refused.
    #[error(transparent)]
    Journal(#[from] JournalError),

    /// The storage engine failed.
    #[error("metadata: {what}: {cause}")]
    Engine {
        /// What was being done.
        what: &'static str,
        /// What the engine said.
        cause: String,
    },

    /// The store's files were written by a newer version of this software.
    #[error("metadata: {} has format {found}, this version knows formats up to {known}; run the newer version", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that this version reads.
        known: u64,
    },

    /// The engine's file was written under another node key.
    #[error("metadata: {} was written under another node key; give the right key file", path.display())]
    WrongKey {
        /// The file.
        path: PathBuf,
    },

    /// A file that is no store, or has lost its first bytes.
    #[error("metadata: {} is no metadata store; restore it from the node's backup", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },

    /// The engine's file and the journal do not belong together.
    #[error(
        "metadata: the store has applied transactions up to {applied:?}, the journal {journal}; both must come from the same moment: restore them together"
    )]
    Apart {
        /// The last transaction that the engine's file holds.
        applied: Lsn,
        /// What the journal has.
        journal: String,
    },

    /// A metadata batch in the journal does not decode although its seal is intact.
    #[error("metadata: the batch of record {lsn:?} does not decode: {what}")]
    BadBatch {
        /// The record.
        lsn: Lsn,
        /// What is wrong with it.
        what: &'static str,
    },

    /// The store was closed.
    #[error("metadata: the store is closed")]
    Closed,
}
