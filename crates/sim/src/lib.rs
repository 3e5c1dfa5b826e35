//! One seeded world of a gateway, its clients, clouds and disks, in which everything goes wrong (decision D12).
//!
//! A *life* follows from its seed: how the gateway is set up, what three clients do at the same time, and what happens meanwhile.
//! Clouds refuse, throttle, hang, are slow, do things and say that they failed; the owner of one of them flips bits, gives back
//! older or other objects, parts of them or nothing, shows the past, drops what it has confirmed. Wall clocks go wrong and jump.
//! The disk of the journal is full for a while. Machines are killed or lose their power, anywhere or at a named failpoint, and what
//! was not synced is torn or lost; the next one starts from what is left.
//!
//! What must hold, whatever happens:
//!
//! - **Durable.** After an end of the machine each client finds one of the states that it may find: nothing older than what was
//!   acknowledged as durable, no half of a transaction, no transaction without those before it.
//! - **Fresh and right.** A read shows what its client wrote last, byte by byte, or fails with an excuse.
//! - **One at a time.** Numbers that clients draw from shared files are drawn once each, and two files that change together are
//!   never seen apart.
//! - **Secret.** No object in a cloud holds a part of what clients wrote or a name, and no nonce seals two things.
//! - **Nothing leaks, nothing is missing.** When all is quiet, clouds hold exactly what the metadata name.
//! - **Bounded.** Dirty data, clean data, their books, the journal, its queue and the metadata that wait for the engine keep to
//!   their bounds. Clients that nothing hinders go on.
//!
//! The machine is made of the parts of a real one (crates `volume`, `upkeep`, `cache`, `meta`, `journal`, `blocks`, `seal`,
//! `disperse`, `cloud`), put together as `gateway::Node` does. What is simulated are clocks, entropy, the disk (the traits
//! of `environment`) and the stores behind the trait `cloud::Cloud`. A life runs in one thread, on tokio's paused clock, and is the same
//! each time: the trace of everything that crosses a border of the machine is hashed, and a test compares the hashes.
//!
//! ```text
//! cargo test -p sim                                 50 lives of 10,000 operations
//! SIM_SEED=17 cargo test -p sim whatever            that life alone; a failure is made small, and printed
//! SEEDS=1000 tests/soak sim                         a thousand lives
//! SIM_OPERATIONS, SIM_SHRINKS                       operations of a life, lives spent on making a failure small
//! SIM_TRACE=FILE                                    everything that happened in a life that failed
//! ```
//!
//! That the simulator would notice is tested, too: each of the mutants in `environment::mutant` breaks one promise, and is found.
//!
//! What it is not: it has no network between clients and gateway, so the protocol is not in it; and it has one gateway. There is
//! nothing in this crate but tests.

#![deny(missing_docs)]

#[cfg(test)]
mod life;
#[cfg(test)]
mod site;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
