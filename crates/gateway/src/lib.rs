//! One running gateway.
//!
//! Reads the configuration, opens keys, journal, metadata, cache and clouds, puts the volumes on them, serves
//! NFS and the admin interface, and takes all of it down again in order. The rules of the crates below are
//! theirs; nothing here decides about data.
//!
//! [`Config`] is the whole configuration with its defaults; [`Gateway`] is the running thing; [`admin`] is what
//! the `kurma` command talks to.

#![deny(missing_docs)]

pub mod config;

pub use config::{Config, ConfigError};
