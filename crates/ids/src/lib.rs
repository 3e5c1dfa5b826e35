//! Names and units shared by the storage crates.
//!
//! Every number that crosses a crate boundary has a type of its own here, so that a block index can never be
//! taken for a byte offset or a version for a time. The crate holds no behaviour beyond parsing, printing and
//! the fixed-width encodings that keys and associated data are built from.

#![deny(missing_docs)]

mod block;
mod gateway;
mod object;
mod time;
mod volume;

pub use block::{BlockIndex, BlockShift, Version};
pub use gateway::GatewayId;
pub use object::{ObjectId, ObjectNumber};
pub use time::Timestamp;
pub use volume::VolumeId;
