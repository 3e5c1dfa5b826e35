//! Backups of a metadata store in clouds that nobody has to trust (decision 24).
//!
//! A *chain* is a base, which has all rows as they were at one instant, and increments, each with what has changed since
//! the one before. Both are stored as *objects* of some MiB. A *head* names them all, with the instants (*marks*) that
//! they end at. Every cloud gets the same objects, and the head only after it has all of them: a cloud that has a head is
//! enough to get everything back that the head names.
//!
//! A *branch* is what one gateway has written without ever being restored. Whoever goes on after a restore begins a new
//! branch, whose head says where it comes from; heads of other branches are never overwritten.
//!
//! A *claim* is what the latest start of a gateway leaves in each cloud: that it goes on with a branch. By it two gateways with one
//! identity find out about each other ([`Rival`], decision 33): whoever sees a claim of a later branch, or of a later start of its own, must stop.
//!
//! [`Writer`] makes chains; [`Maker`] has it make the backups of a store, and knows the order of steps. [`Survey`] reads the heads of all clouds and says of each what
//! it is against the newest; [`Fetch`] brings the objects back, from whichever cloud has them right; [`Chosen`] puts their rows into a store.
//!
//! What it is not: it knows neither gateways nor what keys and values mean, keeps nothing on a disk, and runs no loop.
//!
//! # What a cloud can do
//!
//! It sees objects with names of 40 random characters, as fragments have, their padded sizes, one that is replaced again and
//! again, the head, and one that is replaced at every start, the claim. It can lose and withhold; it can give back an old head, which shows as soon as another cloud has a newer one. It cannot
//! change, swap, reorder or mix anything without being found out: objects and heads are sealed and bound to their place,
//! the checksum of each object covers the one before, and each head covers the head before.
//!
//! # Formats
//!
//! Numbers are big-endian. All objects are sealed blocks of crate `seal` under a key that is derived from the gateway's key file,
//! padded to 16 KiB or a power of two.
//!
//! **Object**: items one after the other, see [`Item`].
//!
//! | item | |
//! |---|---|
//! | `0` row | length of the key 2, length of the value 4, key, value |
//! | `1` row that is gone | length of the key 2, key |
//! | `2` unsaved | volume 16, object 18, number of ranges 4, for each first byte 8, byte behind the last 8 |
//! | `3` configuration | length 4, text |
//! | `4` end of a backup | its number 8, last transaction 8, seconds 8 and nanoseconds 4 of its time |
//!
//! What is unsaved and the configuration hold until the next end says otherwise: each backup tells all that is unsaved.
//!
//! **Claim**: format 1 (1), gateway 2, branch 4, id of the branch 16, starts 8, start 8, seconds 8, nanoseconds 4.
//!
//! **Head**: format 1 (1), gateway 2, branch 4, id of the branch 16, whether it has a parent 1 (and then branch 4, id 16, backup
//! 8, link 32), checksum before the first object 32, number of objects 4, for each: start 8, number 4, length 4, checksum 32; number of marks 4, for each:
//! backup 8, transaction 8, seconds 8, nanoseconds 4, objects 4; number of links 4, for each: backup 8, link 32; link before 32.
//! The last mark and the last link are the head's own.

#![deny(missing_docs)]

mod chosen;
mod claim;
mod error;
mod head;
mod item;
mod keys;
mod maker;
mod place;
mod reader;
mod survey;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)] // test code
mod tests;
mod writer;

pub use chosen::Chosen;
pub use claim::{Claim, Known, Rival, Who};
pub use error::BackupError;
pub use head::{Head, Mark, ObjectEntry, Parent};
pub use item::{Item, Items, Unsaved};
pub use keys::BackupKeys;
pub use maker::{Content, Maker};
pub use place::Place;
pub use survey::{Fetch, Finding, Standing, Survey};
pub use writer::{Check, Kind, Lacking, Looked, Notes, Numbers, Progress, Retired, Source, State, Writer};
