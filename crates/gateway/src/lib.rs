//! One running gateway.
//!
//! Reads the configuration, opens keys, journal, metadata, cache and clouds, puts the volumes on them, serves
//! NFS and the admin interface, and takes all of it down again in order. The rules of the crates below are
//! theirs; nothing here decides about data.
//!
//! [`Config`] is the whole configuration with its defaults; [`Gateway`] is the running thing; the admin interface
//! (module `admin`) is what the `kurma` command talks to.

#![deny(missing_docs)]

mod admin;
mod background;
mod backups;
mod bill;
mod clean_stop;
mod clouds;
pub mod config;
mod config_file;
mod data_folder;
mod drain;
mod dump;
mod error;
mod gateway;
mod keys;
mod name_service;
mod nfs_security;
mod node;
mod node_rows;
mod orphans;
mod owner;
mod paths;
mod pins;
mod rebalance;
mod recovery_file;
mod reload;
mod restore;
mod rival;
mod scans;
mod scrubs;
mod shred;
pub mod statement;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)] // test code
mod test_node;

pub use config::{Config, ConfigError};
pub use data_folder::{ADMIN_ADDRESS_FILE, ADMIN_TOKEN_FILE, prepare_data_folder};
pub use dump::{LoadReport, load_dump};
pub use error::StartError;
pub use gateway::{Gateway, Left};
pub use recovery_file::{KeyForm, export_recovery, import_recovery};
pub use reload::{Pending, Reloaded};
pub use restore::{CloudState, LostData, RestoreOptions, Restored, restore};
pub use scrubs::verify_scrub_report;
pub use seal::VerifyingKey;
pub use shred::verify_shredding;
pub use statement::{StatementError, parse_signer, signer_of, signer_text};
