//! A group-committed, sealed write-ahead journal that also holds dirty file data.
#![deny(missing_docs)]

mod batch;
mod config;
mod error;
mod journal;
mod layout;
mod open;
mod record;
mod recovery;
mod sealing;
mod segment;
mod shared;
mod space;
mod writer;

pub use config::{JournalConfig, WriterKind};
pub use error::JournalError;
pub use journal::{Journal, Usage};
pub use record::{Appended, Attachment, Lsn, PayloadRef, Priority, Record, RecoveredAttachment, RecoveredRecord};
pub use recovery::Recovery;
pub use space::Reservation;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
