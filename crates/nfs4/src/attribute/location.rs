//! Where a file system is found (RFC 8881 §11).

use bytes::Bytes;
use xdr::{Decode, Encode};

use crate::{NfsTime, PathName, Utf8String};

/// Servers that have a file system under the same path (`fs_location4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FsLocation {
    /// Host names or addresses.
    pub servers: Vec<Utf8String>,
    /// Path on those servers.
    pub root_path: PathName,
}

/// All places of a file system (`fs_locations4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FsLocations {
    /// Its path on this server.
    pub fs_root: PathName,
    /// Where else it is.
    pub locations: Vec<FsLocation>,
}

/// One replica (`fs_locations_server4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FsLocationsServer {
    /// How up to date it is, in seconds behind; negative if unknown.
    pub currency: i32,
    /// Flags, classes and ranks, one byte each (RFC 8881 §11.17.1).
    pub info: Bytes,
    /// Host name or address.
    pub server: Utf8String,
}

/// Replicas under the same path (`fs_locations_item4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FsLocationsItem {
    /// The replicas.
    pub entries: Vec<FsLocationsServer>,
    /// Their path.
    pub root_path: PathName,
}

/// All replicas of a file system, in detail (`fs_locations_info4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FsLocationsInfo {
    /// `FSLI4IF_VAR_SUB` (1): paths contain variables.
    pub flags: u32,
    /// For how many seconds a client may rely on this.
    pub valid_for: i32,
    /// Its path on this server.
    pub fs_root: PathName,
    /// The replicas.
    pub items: Vec<FsLocationsItem>,
}

/// What kind of replica this is (`fs4_status_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[repr(u32)]
pub enum FsStatusType {
    /// `STATUS4_FIXED`: never changes.
    Fixed = 1,
    /// `STATUS4_UPDATED`: updated from elsewhere, continuously.
    Updated = 2,
    /// `STATUS4_VERSIONED`: updated from elsewhere, as a whole.
    Versioned = 3,
    /// `STATUS4_WRITABLE`: clients write here.
    Writable = 4,
    /// `STATUS4_REFERRAL`: it is elsewhere.
    Referral = 5,
}

/// Status of this replica (`fs4_status`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FsStatus {
    /// Whether it is absent.
    pub absent: bool,
    /// What kind of replica it is.
    pub status_type: FsStatusType,
    /// What it is a copy of.
    pub source: Utf8String,
    /// Which version it is.
    pub current: Utf8String,
    /// Seconds it may be out of date; negative if unknown.
    pub age: i32,
    /// Version, as an instant.
    pub version: NfsTime,
}
