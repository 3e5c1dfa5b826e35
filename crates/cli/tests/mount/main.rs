//! `kurma mount`: a gateway as a file system of this machine, for programs that know nothing of it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod caching;
mod delegations;
mod ends;
mod failures;
mod files;
mod leases;
mod locks;
mod programs;
mod restarts;
#[path = "../../../vector-client/tests/wire/small_server.rs"]
mod small_server;
#[path = "../support/mod.rs"]
mod support;
mod users;
mod world;
