//! One seeded world of a gateway, its clients, clouds, disks and network, in which everything goes wrong (decision D12).
//!
//! A *life* follows from its seed: how the gateway is set up, what three clients do at the same time, and what happens meanwhile.
//! In two of three lives clients come over the network, by NFSv4.2 and the vectorized client; in the others they are inside of the gateway.
//! Streams are late, end anywhere in a message, or lead nowhere for a while in one direction or both. Clouds refuse, throttle, hang, are slow, do things and say that they failed; the owner of one of them flips bits, gives back
//! older or other objects, parts of them or nothing, shows the past, drops what it has confirmed. Wall clocks go wrong and jump.
//! The disk of the journal is full for a while, or slow. Machines are killed or lose their power, anywhere or at a named failpoint, and what
//! was not synced is torn or lost, that of the disk cache with it, which also decays; the next one starts from what is left. Sites burn down; the next one starts from what the clouds have. Clouds
//! are emptied into new ones.
//!
//! What must hold, whatever happens:
//!
//! - **Durable.** After an end of the machine each client finds one of the states that it may find: nothing older than what was
//!   acknowledged as durable, no half of a transaction, no transaction without those before it.
//! - **Backed up.** When a site has burnt down, each client finds what there was at the instant of a backup, not older than the newest that was said to be complete;
//!   files that a restore does not name are whole, and none is named of which was said that it is safe.
//! - **Fresh and right.** A read shows what its client wrote last, byte by byte, or fails with an excuse.
//! - **One at a time.** Numbers that clients draw from shared files are drawn once each, and two files that change together are
//!   never seen apart.
//! - **Close to open.** Who opens a file that others write finds what was there when the last of them closed it, or something later, and all of
//!   it of one write.
//! - **Secret.** No object in a cloud holds a part of what clients wrote or a name, and no nonce seals two things.
//! - **Nothing leaks, nothing is missing.** When all is quiet, clouds hold exactly what the metadata name, and backups of them.
//! - **Bounded.** Dirty data, clean data, their books, the journal, its queue and the metadata that wait for the engine keep to
//!   their bounds. Clients that nothing hinders go on.
//!
//! The machine is made of the parts of a real one (crates `volume`, `upkeep`, `cache`, `meta`, `journal`, `blocks`, `seal`,
//! `disperse`, `cloud`, `backup`; `nfs4-server` in front of them, and `nfs4-client` and `vector-client` at the other end), put together as `gateway::Node`
//! does. What is simulated are clocks, entropy, the disk (the traits of `environment`), the stores behind the trait `cloud::Cloud` and the streams
//! behind `onc_rpc::Network`. A life runs in one thread of a process of its own (those that make a failure small follow it there), on tokio's paused clock, and is the same each time: the trace of
//! everything that crosses a border of the machine is hashed, and a test compares traces and hashes.
//!
//! ```text
//! cargo test -p sim                                 50 lives of 10,000 operations
//! SIM_SEED=17 cargo test -p sim whatever            that life alone; a failure is made small, and printed
//! SEEDS=1000 tests/soak sim                         a thousand lives
//! FIRST_SEED=1000 SEEDS=500 tests/soak sim          five hundred others
//! SIM_OPERATIONS, SIM_SHRINKS                       operations of a life, lives spent on making a failure small
//! SIM_TRACE=FILE                                    everything that happened in the life of SIM_SEED
//! ```
//!
//! That the simulator would notice is tested, too: each of the mutants in `environment::mutant` breaks one promise, and is found.
//!
//! What it is not: it has one gateway, and its clients end with every machine: what they reclaim after a restart is tested elsewhere
//! (`nfs4-client`, and the histories of real clients). There is nothing in this crate but tests.

#![deny(missing_docs)]

/// A life is a lot of small pieces of memory.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(test)]
mod life;
#[cfg(test)]
mod site;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
