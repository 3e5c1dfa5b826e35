//! The private operation of Kurma (`docs/protocol.md`): more than the RFCs promise for the compound it stands in.
//!
//! It is in no RFC. A server that does not have it answers `NFS4ERR_OP_ILLEGAL` and has done nothing.

use xdr::{Decode, Encode};

use crate::Outcome;

/// Arguments of COMPOUND_MODE, which stands directly behind SEQUENCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CompoundModeArgs {
    /// What is wanted of this compound: bits of [`compound_mode`](crate::bits::compound_mode). None: only asks what there is.
    pub flags: u32,
}

/// What COMPOUND_MODE returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CompoundModeOk {
    /// Every bit that this server has.
    pub flags: u32,
    /// Most operations of an atomic compound, SEQUENCE and COMPOUND_MODE among them.
    pub max_operations: u32,
    /// Most bytes of an atomic compound: of the encoded operations behind COMPOUND_MODE, and of what they copy.
    pub max_bytes: u64,
}

/// Result of COMPOUND_MODE.
pub type CompoundModeRes = Outcome<CompoundModeOk>;
