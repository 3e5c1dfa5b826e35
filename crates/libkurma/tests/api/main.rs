//! The calls from C: every case of `tests/suite` over NFS and on this machine, under the address sanitizer; the header, the
//! examples, and what is installed.

#![allow(clippy::unwrap_used)] // tests, helpers included

mod cases;
mod compiler;
mod encrypted;
mod header;
mod installed;
mod restart;
mod silence;
#[path = "../../../vector-client/tests/wire/small_server.rs"]
mod small_server;
mod world;
