//! Instants.

use xdr::{Decode, Encode};

/// An instant or a span (`nfstime4`, RFC 8881 §3.3.1): seconds since 1970-01-01T00:00Z, before it negative, plus
/// nanoseconds, always forward. Nanoseconds of 10^9 and more decode, and are `NFS4ERR_INVAL` for the server to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode)]
pub struct NfsTime {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds, below 10^9 if valid.
    pub nanoseconds: u32,
}

impl NfsTime {
    /// Whether the nanoseconds are below 10^9.
    pub fn is_valid(&self) -> bool {
        self.nanoseconds < 1_000_000_000
    }
}

/// A time to set (`settime4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum SetTime {
    /// `SET_TO_SERVER_TIME4`: now, by the server's clock.
    #[xdr(discriminant = 0)]
    ServerTime,
    /// `SET_TO_CLIENT_TIME4`: this instant.
    #[xdr(discriminant = 1)]
    ClientTime(NfsTime),
}
