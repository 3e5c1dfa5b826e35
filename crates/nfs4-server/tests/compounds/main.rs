//! Whole requests over RPC, from a client to a server over a file system in memory.

#![allow(clippy::unwrap_used)] // tests, helpers included

mod access_control_lists;
mod appends;
mod atomic;
mod back_channels;
mod client_records;
mod conflicting;
mod conflicts;
mod copies;
mod delegations;
mod documentation;
mod durability;
mod evictions;
mod exactly_once;
mod exports;
mod far_reads;
mod harness;
mod hostile;
mod limits;
mod locking;
mod minor0;
mod names;
mod offloads;
mod opens;
mod order;
mod overview;
mod owner_names;
mod principals;
mod pseudo_root;
mod referrals;
mod restarts;
mod security;
mod sparse_files;
mod stricter_exports;
mod write_delegations;
mod xattrs;
