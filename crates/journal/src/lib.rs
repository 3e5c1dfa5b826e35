//! A group-committed, sealed write-ahead journal that also holds dirty file data.
//!
//! A node has one [`Journal`], and it is the node's single durability point (spec K50): a small stable write is
//! acknowledged when the [`Record`] that carries its metadata *and* its data has been synced. File data stays in the
//! journal, readable by its [`PayloadRef`], until it has been written back; there is no second place for dirty data.
//!
//! Appending has three steps. [`Journal::reserve`] sets space aside and is where back-pressure is felt;
//! [`Journal::append`] gives the record its number ([`Lsn`]) and its place and never waits; [`Journal::durable`]
//! resolves after the sync that covers it. The writer's thread writes whatever has been queued while its last sync ran, so
//! one sync serves many; who waits alone writes and syncs itself. When a write or a sync fails, the journal stops for good: nobody can know what is on the disk.
//!
//! Space has three classes ([`Priority`]): clients leave the head-room, upkeep leaves one half of it, and all of it is for
//! moving what the oldest segment still holds. Together with [`JournalConfig::most_kept`] that keeps a journal
//! from ever being stuck (`docs/decisions/0005`). On a full disk it makes do with the segments that it has.
//!
//! What it is not: it does not know what records mean, never applies anything, and frees space only when told
//! ([`Journal::release`]), in whole segments.
//!
//! ```
//! use environment::Environment;
//! use journal::{Attachment, Journal, JournalConfig, Priority, Record};
//! use seal::NodeKey;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let directory = folder.path();
//! let key = NodeKey::from_bytes([1; 32]);
//! let (journal, recovery) = Journal::open(Environment::real(), directory, &key, JournalConfig::small(1 << 20))?;
//! for record in recovery {
//!     let _replay = record?;
//! }
//! let data = Attachment { descriptor: "file 7, offset 0".into(), payload: "hello".into() };
//! let record = Record { body: "size of file 7 is 5".into(), attachments: vec![data] };
//! let space = journal.reserve(Journal::space_of(&record), Priority::Client).await?;
//! let appended = journal.append(record, space)?;
//! journal.durable(appended.lsn).await?;
//! assert_eq!(journal.read(appended.refs[0]).await?, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//!
//! `segment-NNNNNNNN.journal`: preallocated, filled with zeros, overwritten in place and recycled, so that a commit
//! never changes a file's length or block map. The number in the name means nothing. All numbers are big-endian.
//! Nothing but lengths, salts and sequence numbers stands in clear.
//!
//! A segment is a sequence of *runs*; a run is what one process wrote to the segment without a pause. It begins with a
//! header and is sealed under a key of its own, `SegmentKey::derive(node key, "journal", salt)` of crate `seal`. Every sealed
//! piece is bound to its byte offset in the segment, and no offset is written twice in a run, so no nonce
//! repeats. Run headers and batches begin at multiples of 4,096: no write touches a block that holds anything
//! durable.
//!
//! **Run header** (two copies, 4,096 bytes apart; the rest of both blocks is zero):
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 8 | `KURMAJNL` |
//! | 8 | 4 | format, 1 |
//! | 12 | 4 | zero |
//! | 16 | 8 | size of the segment file |
//! | 24 | 8 | sequence number of the segment |
//! | 32 | 8 | number of the run |
//! | 40 | 32 | salt, random |
//! | 72 | 24 | sealed: number of the first record 8, end of the run before 8, oldest segment still needed 8 |
//! | 96 | 16 | tag; position = offset of this copy, associated data = bytes 0 to 71 |
//! | 112 | 8 | first bytes of BLAKE3 of bytes 0 to 111: tells a wrong key from a torn write |
//!
//! **Batch** (what one sync makes durable):
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 48 | sealed: number of the batch in its run 8, number of its first record 8, bytes of the batch 8, records in it 8, oldest segment still needed 8, zero 8 |
//! | 48 | 16 | tag; position = offset of the batch, associated data = `batch` |
//! | 64 | | the records, then zeros up to the next multiple of 4,096 |
//!
//! **Record**:
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 4 | length b of the sealed body, without its tag |
//! | 4 | 4 | length p of the sealed payloads, with their tags |
//! | 8 | b | sealed: number of attachments 4; for each: descriptor length 4, payload length 4, descriptor; then the record's body |
//! | 8 + b | 16 | tag; position = offset of the record, associated data = bytes 0 to 7 ‖ record number 8 |
//! | 24 + b | p | the payloads one after the other, each in chunks of 65,536 bytes (the last is shorter): ciphertext, tag 16; position = offset of the chunk, associated data = `payload` |
//!
//! # Recovery
//!
//! Segments are sorted by sequence number, which no two files share. In the newest one, batches and run headers are followed to the first place where neither
//! stands: the tail. A batch is written only when the one before it is durable, so a valid later batch or run
//! beyond the tail means damage, not a torn write, and is refused. In older segments the end is known from the
//! header of the next one, and everything up to it must be intact. A torn batch is dropped whole. The last batch is
//! written again and synced before it counts. The first run of a new process begins at the tail, with a new key. A journal
//! that was closed ends with a batch without records: so damage of the very last batch is told from a torn write as well.
//!
//! When the first batch of a segment is durable, and before the writer tells anybody, it writes one copy of a header with the same
//! numbers behind the last batch of the segment before, sealed for that place under a key of its own. Where recovery meets it, the
//! next segment and a batch of it were there. Without it the loss of the newest segment would leave no gap in the row of numbers, and a
//! header of which nothing is left looks as if it had never been written. An interrupted process may not have said it: the next
//! one says it with its first batch, as long as the segment before is needed.
//!
//! A released segment is overwritten only when a durable batch says that it is not needed.

#![deny(missing_docs)]

mod batch;
mod config;
mod error;
mod files;
mod journal;
mod layout;
mod open;
mod pen;
mod record;
mod recovery;
mod sealing;
mod segment;
mod shared;
mod space;
mod walk;
mod writer;

pub use config::{JournalConfig, WriterKind};
pub use error::JournalError;
pub use journal::{Journal, Usage};
pub use record::{
    Appended, Attachment, Lsn, PayloadRef, Priority, Record, RecoveredAttachment, RecoveredRecord,
};
pub use recovery::Recovery;
pub use space::Reservation;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
