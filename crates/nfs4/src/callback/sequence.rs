//! CB_SEQUENCE (RFC 8881 §20.9).

use xdr::{Decode, Encode};

use crate::{Outcome, SessionId};

/// A request of the client that led to state this callback is about (`referring_call4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ReferringCall {
    /// Its sequence id.
    pub sequence_id: u32,
    /// Its slot.
    pub slot: u32,
}

/// Such requests of one session (`referring_call_list4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReferringCallList {
    /// The session.
    pub session: SessionId,
    /// The requests.
    pub calls: Vec<ReferringCall>,
}

/// Arguments of CB_SEQUENCE (`CB_SEQUENCE4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbSequenceArgs {
    /// The session.
    pub session: SessionId,
    /// One more than the last callback of this slot.
    pub sequence_id: u32,
    /// The slot.
    pub slot: u32,
    /// Highest slot with a callback outstanding.
    pub highest_slot: u32,
    /// Whether the reply must be kept for a retry.
    pub cache_this: bool,
    /// Requests whose replies the client should await first.
    pub referring_call_lists: Vec<ReferringCallList>,
}

/// What CB_SEQUENCE returns (`CB_SEQUENCE4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CbSequenceOk {
    /// The session.
    pub session: SessionId,
    /// As in the arguments.
    pub sequence_id: u32,
    /// The slot.
    pub slot: u32,
    /// Highest slot the client accepts now.
    pub highest_slot: u32,
    /// Highest slot the client wants the server to use.
    pub target_highest_slot: u32,
}

/// Result of CB_SEQUENCE (`CB_SEQUENCE4res`).
pub type CbSequenceRes = Outcome<CbSequenceOk>;
