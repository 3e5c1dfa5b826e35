//! Work behind the scenes of a gateway's volumes: write-back, garbage collection, scrub and repair.
//!
//! Seven loops per volume, each a struct of its own with `run(stop)` for service and `once()` for tests and
//! administrators; [`Upkeep`] starts and stops them together.
//!
//! - [`WriteBack`] moves dirty data from the cache to the clouds: fragments first, then one metadata transaction
//!   for many blocks (decision D3). A cloud that fails slows it down and loses nothing; when the clouds stay away, the
//!   journal fills up and writers wait.
//! - [`Repairer`] stores missing and bad fragments anew (`K63`, `K65`): what is in the durable repair queue, at once
//!   when a read has just put something there.
//! - [`GarbageCollector`] deletes block versions that nobody refers to any more (`K47`).
//! - [`Cleaner`] takes what is still held out of packs that are mostly garbage.
//! - [`Scrubber`] fetches and proves every fragment once in a period, at a bounded rate; a period goes on over restarts, and keeps
//!   books of what it found.
//! - [`Reaper`] takes removed files apart once they are closed.
//! - [`Migrator`] has write-back store blocks once more whose file has another policy now (decision 28).
//!
//! A [`Drainer`] empties a cloud when somebody asks for that. A [`Gate`] before write-back may hold files back, as a scanner for malware does (crate `scan`).
//!
//! What it is not: it decides nothing about files. What is to be stored, deleted or repaired comes from the volume
//! ([`MaintainedVolume`]), and how from the block store.

#![deny(missing_docs)]

mod backoff;
mod bundle;
mod clean;
mod config;
mod drain;
mod error;
mod garbage;
mod gate;
mod loader;
mod maintained_volume;
mod migration;
mod pace;
mod reaper;
mod repair;
mod scrub;
#[cfg(test)]
mod tests;
mod write_back;

pub use bundle::{Flushed, Upkeep};
pub use clean::{CleanReport, Cleaner, CleaningCosts, PacksSeen};
pub use config::UpkeepConfig;
pub use drain::{DrainOwner, DrainProgress, Drainer};
pub use error::UpkeepError;
pub use garbage::{GarbageCollector, GarbageReport};
pub use gate::Gate;
pub use maintained_volume::{
    Base, BlockVersion, GarbageRow, InPack, MaintainedVolume, MovedBlock, NewBlock, NewPack, Packed, Plan,
    Plans, RepairRow, Repaired, Rewrite, Rewrites, UsedPack, VolumeFailure, Written, WrittenAs,
};
pub use migration::{Migrator, Offered};
pub use pace::Pace;
pub use reaper::Reaper;
pub use repair::{RepairReport, Repairer};
pub use scrub::{ScrubCounts, ScrubNotes, ScrubPeriod, ScrubReport, ScrubSchedule, Scrubber};
pub use write_back::{WriteBack, WriteBackReport};
