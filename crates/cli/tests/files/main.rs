//! The tools for files beside those that they are named after: the same text, the same exit status, the same result, on this
//! machine and on a server.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod archives;
mod copying;
mod finding;
mod full_disks;
mod ganesha;
#[path = "../../../vector-client/tests/wire/ganesha_server.rs"]
mod ganesha_server;
mod listing;
mod manners;
mod memory;
mod permissions;
mod progress;
mod real_tree;
#[path = "../../../vector-client/tests/wire/small_server.rs"]
mod small_server;
mod statistics;
#[path = "../support/mod.rs"]
mod support;
mod syncing;
mod vanishing;
mod world;
