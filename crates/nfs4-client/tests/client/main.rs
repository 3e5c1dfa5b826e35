//! What a client promises, whatever becomes of connections, sessions and the server: against the real server behind a
//! proxy that cuts connections, and against a scripted one that does what the real one does not.

#![allow(clippy::unwrap_used)] // test code, though not all inside of test functions

mod chaos;
mod clock;
mod exactly_once;
mod hostile;
mod leases;
mod limits;
mod proxy;
mod recalls;
mod restarts;
mod scripted;
mod sessions;
mod trunking;
mod world;
