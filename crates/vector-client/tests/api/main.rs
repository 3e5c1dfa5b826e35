//! The vector calls over NFS and on this machine: what they do, and in how many round trips.

#![allow(clippy::unwrap_used)] // tests, helpers included

mod atomic;
mod attributes;
mod blocking;
mod cache;
mod data;
mod descriptors;
mod full;
mod limits;
mod listing;
mod local;
mod names;
mod permissions;
mod restart;
mod same;
mod scalars;
#[path = "../wire/small_server.rs"]
mod small_server;
mod symbolic_links;
mod transactions;
mod trees;
mod world;
mod writer;
