//! Transactional metadata: optimistic transactions over an ordered key-value engine.
//!
//! [`MetaStore`] is the contract: strictly serializable transactions on an ordered map of byte strings, visible
//! at commit, durable a moment later (decision D1: one compound, one [`Transaction`]). Keys and values mean nothing
//! here; [`KeyBuilder`] makes keys that sort like their parts. A transaction can carry file data
//! ([`Transaction::attach`]) that becomes visible and durable with it; the [`CommitObserver`] keeps its books.
//!
//! [`LocalStore`] implements it for a node that stands alone. `conformance` (feature of the same name) is the
//! suite that every implementation passes.
//!
//! # The embedded store
//!
//! A commit validates what the transaction has read, appends one record to the node's journal, and publishes the writes in an
//! *overlay* in memory: all under one short lock, so the order of records is the order of transactions. Durability is
//! the journal's group commit. Later the *applier* moves durable transactions to the engine (redb) without syncing
//! it; a *checkpoint* now and then makes the engine durable and lets the journal go. After a crash the journal is
//! replayed on top of the last checkpoint.
//!
//! The journal is released from its oldest end only. When it runs short and that end is held by attachments alone, the
//! applier *moves* those: it appends them again, as the [`CommitObserver`] describes them, in a record without writes.
//! However few they are and however long they are needed, they never keep more than their own size
//! (`docs/decisions/0005`).
//!
//! Conflicts are found as in TL2: a table of 2^18 numbers holds, by hash of the key, the last transaction that wrote it. A
//! transaction remembers the snapshot it began with; reading something newer moves the snapshot forward if all that was
//! read still holds, and is a conflict otherwise. So a running transaction never sees a broken state.
//!
//! # Formats
//!
//! **Body of a journal record**: `1`, number of writes 4, then for each: key length 2, value length 4 (all ones: the key is removed), key,
//! value; big-endian.
//!
//! **`metadata.redb`**: a redb database with the table `rows` (key to value, as they are) and the table `header` with the numbers `format` (1) and `applied`
//! (the last transaction that the rows include). A newer format is refused. The file is sealed page by page under the node key (decision
//! D6):
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 8 | `KURMAMET` |
//! | 8 | 4 | format, 1 |
//! | 12 | 4 | zero |
//! | 16 | 32 | salt, random |
//! | 48 | 16 | tag over nothing, key of the salt, position 0, associated data = bytes 0 to 47: tells a wrong key |
//! | 64 | 4032 | zero |
//! | 4096 | 4096 | page 0 of redb in clear: geometry, root pointers and checksums, no data |
//! | 8192 + 4160 (n - 1) | 4160 | page n of redb, n > 0: ciphertext 4096, salt of the session 32, counter in the session 8, tag 16, zero 8; all zero if never written |
//!
//! A session is one opening of the file; its key is `SegmentKey::derive(node key, "metadata", salt)` of crate `seal`, position = counter,
//! associated data = page number 8. The counter never repeats in a session, so no nonce repeats.
//!
//! # Limits
//!
//! Keys of up to [`MAX_KEY`] bytes; a transaction must fit one journal record. Reads that miss the engine's cache block the
//! calling thread for the time of a disk read.

#![deny(missing_docs)]

mod applier;
mod batch;
mod changes;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod engine;
mod error;
mod key;
mod load;
mod local;
mod mover;
mod observer;
mod overlay;
mod redb_engine;
mod sealed_file;
mod snapshot;
mod store;
mod transaction;
mod versions;

pub use error::MetaError;
pub use journal::{Attachment, Lsn, PayloadRef, Priority};
pub use key::{KeyBuilder, KeyReader, MAX_KEY, prefix_end};
pub use load::put_durably;
pub use local::{Instant, LocalConfig, LocalStore, Status};
pub use observer::{CommitObserver, HeldPayload, NoObserver, PublishedAttachment, ReplayedAttachment};
pub use snapshot::copy_rows;
pub use store::{Committed, MetaStore, Mode, Scan, Snapshot, Transaction};
#[cfg(test)]
mod tests;
