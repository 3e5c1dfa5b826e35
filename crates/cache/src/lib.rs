//! The plaintext data of one node: dirty data, clean blocks in memory, clean blocks on the local disk.
//!
//! - **Dirty** data has been written and not yet stored in the clouds. Its bytes lie in the node's journal and,
//!   as far as the budget goes, in memory too. The cache keeps the books: which range of which file, from which
//!   journal record ([`DataOp`], [`meta::CommitObserver`]). It never drops dirty data and owns no second store
//!   for it; recovery is the replay of the journal (`K49`, `K50`).
//! - **Clean** blocks are what the clouds hold. They are keyed by file, block, version and seal id ([`Sealing`]), so an
//!   entry never changes and never has to be invalidated: a newer version is another key (`K51`), and so is a
//!   version number that a crash or an older copy of the metadata brought back. Memory follows a scan-resistant policy; the disk tier is sealed under the node key (decision D6) and survives restarts.
//!
//! # Reading
//!
//! In two steps, so that the caller's transaction can look up block versions in between. The order matters: the
//! dirty data is looked at first, the block map after it. Whatever write-back cleans in between is then found in
//! the newer map.
//!
//! ```text
//! let plan = cache.plan_read(&request);                       // dirty data, and which blocks to look up
//! let stored = look_up(transaction, plan.blocks()).await?;    // hole or version of each
//! let parts = cache.read(plan, &stored, &loader).await?;      // zero-copy parts, `length` bytes or up to the size
//! ```
//!
//! # Writing
//!
//! [`Cache::admit`] is where a writer waits while its volume has its share of the journal (decision 5). Then a
//! transaction attaches [`DataOp::Write`] with the bytes as payload. When the store publishes it, the cache
//! learns of it through [`meta::CommitObserver`], which [`Cache`] implements.
//!
//! # Writing back
//!
//! [`Cache::claim_dirty`] picks blocks, oldest first (`K52`, `K53`); [`Cache::snapshot`] fixes what is stored;
//! [`Cache::stage`] keeps it at hand as a clean block; the transaction that commits the new versions attaches
//! [`DataOp::Cleaned`] for each; when it is durable, [`StagedBlock::keep`] lets the disk tier have them.
//!
//! A file can be [held back](Cache::hold_back) as a whole, before a claim: its blocks leave the queue, and the others go on. That lasts until
//! it is [let through](Cache::let_through) up to some record, or nothing of it is dirty any more; it is in memory only.
//!
//! # Formats
//!
//! The journal's attachments: see [`DataOp`]. The disk tier is a directory of files `region-N` (N in 16 hexadecimal
//! digits), each appended to until it is full and never rewritten. All numbers are big-endian.
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 8 | `KURMACCH` |
//! | 8 | 4 | format 3 |
//! | 12 | 4 | zero |
//! | 16 | 8 | N |
//! | 24 | 32 | salt, random |
//! | 56 | 8 | zero |
//! | 64 | - | blocks, one behind the other |
//! | end - 32 - n | n | index, sealed |
//! | end - 32 | 32 | offset of the index 8, its length 4, its tag 16, `KIDX` |
//!
//! A block is a run of pieces of 16 KiB of plaintext (the last may be shorter), each sealed alone and followed by its
//! tag of 16 bytes. The key is the [`SegmentKey`](seal::SegmentKey) of the purpose `cache` and the salt; the
//! position of a piece is its offset in the file; its associated data: volume 16, object 18, block 8, version 8,
//! seal id 8, number of the piece 4, length of the block 4. An entry of the index: volume 16, object 18, block 8,
//! version 8, seal id 8, offset 8, length 4; it is sealed at its offset with the associated data `index`. A file without a valid
//! trailer is removed at start; a piece that does not verify is a miss.
//!
//! # Limits
//!
//! Memory as [`CacheConfig::memory`] says, plus [`CacheConfig::bookkeeping`], plus the disk tier's index (an eighth of the
//! memory at most). Reads hold what they return. Payloads of 16 KiB and more keep the buffer alive that they
//! arrived in. After a kill the disk tier loses what its last, unfinished region held.
//!
//! What it is not: it knows no clouds, no metadata and no permissions. Who may read what is decided above.

#![deny(missing_docs)]

mod admission;
mod block_key;
mod cache;
mod clean;
mod config;
mod data_op;
mod dirty;
mod dirty_file;
mod disk;
mod error;
mod extent_map;
mod fetch;
mod flush;
mod hold;
mod memory;
mod overlay;
mod payload;
mod queue;
mod read;
mod readahead;
mod region;
mod shares;
mod snapshot;
mod staged;
mod stats;
#[cfg(test)]
mod tests;
mod unread;
mod zeros;

pub use admission::Admission;
pub use block_key::{FileKey, Sealing};
pub use cache::Cache;
pub use config::CacheConfig;
pub use data_op::{DataOp, DataOpError, MAX_ZERO};
pub use error::{CacheError, LoadError};
pub use fetch::BlockLoader;
pub use flush::{Flush, Scope};
pub use hold::{HeldBack, Hold};
pub use payload::PayloadStore;
pub use queue::{DirtyBlock, Selection, Ticket};
pub use read::{ReadPlan, ReadRequest, Stored};
pub use snapshot::BlockSnapshot;
pub use staged::StagedBlock;
pub use stats::Usage;
pub use zeros::zeros;
