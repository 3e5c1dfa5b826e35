//! What the scenarios share: a real gateway process, its configuration, an NFS client, clouds that misbehave.
#![allow(dead_code, unused_imports)] // each scenario uses its part
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

pub mod bill;
mod clamd;
mod client;
mod fragments;
mod gateway;
mod random;
mod s3_server;
mod s3_stand_in;
mod settings;

pub use clamd::{Clamd, Icap, MALWARE, MALWARE_NAME, eicar};
pub use client::{Client, Entry, difference, split};
pub use fragments::{FragmentPlace, incidents, named_fragments, place_in_dir};
pub use gateway::{Gateway, KURMA, files_below, fragments_below, free_port, parallel};
pub use random::Random;
pub use s3_server::S3Server;
pub use s3_stand_in::{Mood, S3StandIn};
pub use settings::{DISPERSALS, Settings};
