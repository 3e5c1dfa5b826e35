//! ACCESS (RFC 8881 §18.1).

use xdr::{Decode, Encode};

use crate::Outcome;

/// Arguments of ACCESS (`ACCESS4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct AccessArgs {
    /// Which rights are asked for: bits of [`access`](crate::bits::access).
    pub access: u32,
}

/// What ACCESS returns (`ACCESS4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct AccessOk {
    /// Which of the rights asked for the server can judge.
    pub supported: u32,
    /// Which of those the caller has.
    pub access: u32,
}

/// Result of ACCESS (`ACCESS4res`).
pub type AccessRes = Outcome<AccessOk>;
