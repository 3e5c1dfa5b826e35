//! Block versions stored as sealed, dispersed fragments in several clouds.
//!
//! A *block version* is the content of one block of one file at one version. [`BlockStore::store`] seals it,
//! splits the sealed block into *fragments* by the file's [`Placement`] and puts each fragment into its cloud;
//! [`BlockStore::load`] fetches as many fragments as are needed from the clouds that are expected to answer first, or from the cheapest
//! ones that are fast enough ([`Preference`]), verifies each one, falls over to the other clouds and opens the block. What a cloud returned changed, old, swapped or not at
//! all is told to an [`IncidentSink`] (such as the [`IncidentLog`]) and to the caller, who queues a
//! [`BlockStore::repair`]. [`BlockStore::verify`] and [`BlockStore::delete`] do the rest of the upkeep.
//!
//! The crate keeps no state of its own: which version of a block is current, its [`SealId`] and its placement come
//! from the caller, who has them from the metadata store. It knows nothing of files.
//!
//! Formats: blocks and fragments are those of crates `seal` and `disperse`; that of packs is in `pack.rs` and `docs/formats.md`.
//!
//! # Freshness and the seal id
//!
//! The names of the fragments and their checksums cover `identity ‖ seal id` (see crates `seal` and `disperse`). The
//! [`SealId`] is the caller's: committed with the version, asked for by every load. It is there because a store may
//! have to be repeated: after a crash the same version may be sealed again, with newer content, while uploads of
//! the dead process are still under way. Under another seal id they have other names and cannot replace anything;
//! and what a cloud returns of them does not verify. So **no pair of identity and seal id may ever be stored with
//! two contents**: a caller takes a random seal id at every start ([`SealId::random`]), and burns the version
//! numbers of failed attempts in memory.
//!
//! When the same content is stored twice under the same pair, fragments of two sealings may get mixed: every one
//! verifies, but together they do not open. `load` then looks for a set that does, and reports the others.
//!
//! A version that is superseded is deleted after a delay. Before a cloud is accused of a missing or bad fragment,
//! [`CurrentVersions`] is asked whether the version is still current; if not, nothing is reported, and whoever
//! cannot be served gets [`LoadError::Superseded`] and looks the version up again.
//!
//! # Degraded writes
//!
//! A store is complete at once when all fragments are in their clouds. With `needed + spare` of them it waits a
//! moment for the rest; with fewer, but at least `needed`, it waits longer. What is missing then is returned in
//! [`Stored::missing`]; the caller records it durably and has it repaired. With fewer than needed the store fails
//! and nothing may refer to the version.
//!
//! # Packs
//!
//! A small block costs as many requests as a large one. So the sealed blocks of many files can be put together into a
//! [`Pack`], which is stored as one block version of a file of its own: one object in each cloud, written once.
//! [`BlockStore::seal_for_pack`], [`PackBuilder`] and [`BlockStore::store_pack`] make one; [`BlockStore::load`], `repair`, `verify`,
//! `relocate` and `delete` treat it as they treat any block. A pack is sealed for integrity only: what is in it is encrypted already,
//! and so a part of it can be read where it lies.
//!
//! [`BlockStore::load_packed`] reads one block of a pack: with replicas and `rs:k+m` only its bytes, from the one cloud that has
//! them (two, when it lies on the border of two shards). When that cloud is down, slow or has lost them, the same columns of k other fragments
//! are decoded. What comes of that is proved by the block's name, a digest that the caller has with its [`PlaceInPack`]. If it is not
//! the block, some cloud lies, and the whole pack is loaded, whose fragments tell which one; so it is from the beginning with
//! `aont-rs` and `caont-rs`, of which no part can be read alone. Who wants several blocks of a pack asks by
//! [`BlockStore::load_packed_together`]: those that lie side by side are one request, and when they are most of the pack it is loaded
//! whole. The packs that were loaded whole last are kept for a while, up to 16 MiB of them, so that those who come one after
//! the other ask the clouds once.
//!
//! The footer of a pack names its blocks and has a certificate of its owner over all of them (`EX-1` to `EX-4`), so that a pack tells
//! what is in it without the metadata.
//!
//! # Limits
//!
//! Payload in memory is bounded by [`Limits::bytes_in_flight`]; operations at a time by the clouds' own limits. An
//! answer of a cloud is read only as far as a fragment of the file's block size can reach. A cloud that hangs
//! costs a read the hedge (the 95th percentile of the clouds in use, 20 ms to 1 s; what the bound leaves where cost counts) as long as others
//! suffice.

#![deny(missing_docs)]

mod block_store;
mod budget;
mod cloud_table;
mod current_versions;
mod error;
mod fault;
mod incident;
mod incident_log;
mod limits;
mod pack;
mod placement;
mod preference;
mod target;

pub use block_store::{
    BlockStore, FragmentState, Loaded, LoadedPack, LoadedTogether, PackReads, Protection, Redundancy,
    Relocated, Relocation, Repaired, Stored, StoredPack, Writing,
};
pub use cloud_table::CloudTable;
pub use current_versions::CurrentVersions;
pub use error::{LoadError, StoreError};
pub use fault::{Fault, FragmentFault};
pub use incident::{Incident, IncidentSink, Outcome};
pub use incident_log::{IncidentLog, IncidentLogLimits};
pub use limits::Limits;
pub use pack::{Pack, PackBuilder, PackVersion, PackedBlock, PlaceInPack};
pub use placement::{CloudId, InvalidPlacement, Placement};
pub use preference::Preference;
pub use seal::SealId;
