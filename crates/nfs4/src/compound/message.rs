//! Whole compounds, for whoever sends requests and reads replies.

use xdr::{Decode, Encode};

use crate::{NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsResOp, NfsStatus, Utf8String};

/// A request (`COMPOUND4args`). A server decodes it step by step instead, with
/// [`CompoundHeader`](crate::CompoundHeader).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CompoundArgs {
    /// Any text; comes back in the reply.
    pub tag: Utf8String,
    /// 0 for 4.0, 1 for 4.1, 2 for 4.2.
    pub minor_version: u32,
    /// The operations.
    pub ops: Vec<NfsArgOp>,
}

/// A reply (`COMPOUND4res`). A server builds it step by step instead, with [`CompoundReply`](crate::CompoundReply).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CompoundRes {
    /// The status of the last operation.
    pub status: NfsStatus,
    /// The tag of the request.
    pub tag: Utf8String,
    /// Results of the operations up to the first that failed.
    pub results: Vec<NfsResOp>,
}

/// A callback request (`CB_COMPOUND4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbCompoundArgs {
    /// Any text; comes back in the reply.
    pub tag: Utf8String,
    /// As that of the session; 0 without one.
    pub minor_version: u32,
    /// What the client gave with SETCLIENTID; not used since 4.1.
    pub callback_ident: u32,
    /// The operations.
    pub ops: Vec<NfsCbArgOp>,
}

/// A callback reply (`CB_COMPOUND4res`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbCompoundRes {
    /// The status of the last operation.
    pub status: NfsStatus,
    /// The tag of the request.
    pub tag: Utf8String,
    /// Results of the operations up to the first that failed.
    pub results: Vec<NfsCbResOp>,
}
