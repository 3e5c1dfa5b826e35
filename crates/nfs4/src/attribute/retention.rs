//! Retention of files (RFC 8881 §5.13).

use xdr::{Decode, Encode};

use crate::NfsTime;

/// How long a file is retained (`retention_get4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RetentionGet {
    /// Seconds; all ones for ever (`RET4_DURATION_INFINITE`).
    pub duration: u64,
    /// From when on, if retention has begun.
    pub begin_time: Option<NfsTime>,
}

/// Starts or prolongs retention (`retention_set4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RetentionSet {
    /// Whether to start it.
    pub enable: bool,
    /// Seconds, if they change.
    pub duration: Option<u64>,
}
