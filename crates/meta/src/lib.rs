//! Transactional metadata: optimistic transactions over an ordered key-value engine.
//!
//! [`MetaStore`] is the contract: strictly serializable transactions on an ordered map of byte strings, visible
//! at commit, durable a moment later. Keys and values mean nothing here. A transaction can carry file data
//! ([`Transaction::attach`]) that becomes visible and durable with it; the [`CommitObserver`] keeps its books.

#![deny(missing_docs)]

mod applier;
mod batch;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod engine;
mod error;
mod key;
mod local;
mod observer;
mod overlay;
mod redb_engine;
mod store;
mod transaction;
mod versions;

pub use error::MetaError;
pub use journal::{Attachment, Lsn, PayloadRef, Priority};
pub use key::{KeyBuilder, KeyReader, MAX_KEY, prefix_end};
pub use local::{LocalConfig, LocalStore};
pub use observer::{CommitObserver, NoObserver, PublishedAttachment, ReplayedAttachment};
pub use store::{Committed, MetaStore, Mode, Scan, Transaction};
#[cfg(test)]
mod tests;
