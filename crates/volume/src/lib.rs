//! Volumes: trees of files over metadata, cache and clouds.

#![deny(missing_docs)]

mod check;
mod error;
mod garbage;
mod keys;
mod maintained;
mod node;
mod orphans;
mod references;
mod repair;
mod row;
mod stored_blocks;
#[cfg(test)]
mod tests;
mod transaction;
mod unsaved;
mod usage;
mod volume;
mod volumes;
mod why;
mod write_back;

pub use check::Finding;
pub use error::VolumeError;
pub use row::{BadRow, Policy, Tier};
pub use volume::Volume;
pub use volumes::{NewVolume, Volumes, VolumesOptions};
pub use why::{BlockReport, FileReport};
