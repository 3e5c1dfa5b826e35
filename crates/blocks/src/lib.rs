//! Block versions stored as sealed, dispersed fragments in several clouds.
//!
//! A *block version* is the content of one block of one file at one version. [`BlockStore::store`] seals it,
//! splits the sealed block into *fragments* by the file's [`Placement`] and puts each fragment into its cloud;
//! [`BlockStore::load`] fetches as many fragments as are needed from the clouds that answer fastest, verifies each
//! one, falls over to the other clouds and opens the block. What a cloud returned changed, old, swapped or not at
//! all is told to an [`IncidentSink`] (such as the [`IncidentLog`]) and to the caller, who queues a
//! [`BlockStore::repair`]. [`BlockStore::verify`] and [`BlockStore::delete`] do the rest of the upkeep.
//!
//! The crate keeps no state of its own: which version of a block is current, its [`SealId`] and its placement come
//! from the caller, who has them from the metadata store. It knows nothing of files.
//!
//! # Freshness and the seal id
//!
//! The checksum of a fragment covers the 64 bytes `identity ‖ seal id` (big-endian) as its context (see crates
//! `seal` and `disperse`). The [`SealId`] is the caller's: committed with the version, asked for by every load. It
//! is there because a store may have to be repeated: after a failure or a crash the same version may be sealed
//! again, with newer content. The fragments of the repetition have the same names and overwrite those of the
//! first, but a cloud may have kept the first, or an upload that was given up may arrive late; and all of these
//! verify for the identity alone. So **no pair of identity and seal id may ever be stored with two contents**. Two
//! ways to see to that: a version number is burnt durably before every attempt (then the seal id may be constant);
//! or it is burnt in memory, and the seal id is the number of starts of the node, which costs a metadata row nearly
//! nothing. A fragment of an abandoned sealing then counts as bad, is reported, and is repaired like any other.
//!
//! When the same content is stored twice under the same pair, fragments of two sealings may get mixed: every one
//! verifies, but together they do not open. `load` then looks for a set that does, and reports the others.
//!
//! # Degraded writes
//!
//! A store is complete at once when all fragments are in their clouds. With `needed + spare` of them it waits a
//! moment for the rest; with fewer, but at least `needed`, it waits longer. What is missing then is returned in
//! [`Stored::missing`]; the caller records it durably and has it repaired. With fewer than needed the store fails
//! and nothing may refer to the version.
//!
//! # Limits
//!
//! Payload in memory is bounded by [`Limits::bytes_in_flight`]; operations at a time by the clouds' own limits. An
//! answer of a cloud is read only as far as a fragment of the file's block size can reach. A cloud that hangs
//! costs a read the hedge (the 95th percentile of the clouds in use, 20 ms to 1 s) as long as others suffice.

#![deny(missing_docs)]

mod block_store;
mod budget;
mod error;
mod fault;
mod incident;
mod incident_log;
mod limits;
mod placement;
mod seal_id;
mod target;

pub use block_store::{BlockStore, FragmentState, Loaded, Protection, Repaired, Stored};
pub use error::{LoadError, StoreError};
pub use fault::{Fault, FragmentFault};
pub use incident::{Incident, IncidentSink, Outcome};
pub use incident_log::{IncidentLog, IncidentLogLimits};
pub use limits::Limits;
pub use placement::{CloudId, InvalidPlacement, Placement};
pub use seal_id::SealId;
