use std::sync::Arc;

use nfs4::{NfsStatus, OpCode};
use onc_rpc::RpcError;

/// Why a compound has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The call failed below NFS. Of a [`Session`](crate::Session): whether the compound was executed is unknown, and
    /// its slot is lost. Of a [`Client`](crate::Client): the server refuses the call itself, and executed nothing.
    #[error("the call failed; connect again")]
    Rpc(#[from] RpcError),
    /// The reply cannot be decoded.
    #[error("the server's reply is malformed")]
    Malformed(#[from] xdr::DecodeError),
    /// The attributes in the reply cannot be decoded.
    #[error("the server's attributes are malformed")]
    MalformedAttributes(#[from] nfs4::AttributeError),
    /// The reply is not that to the operations sent.
    #[error("the server's reply has no result of {expected} where it should be")]
    UnexpectedResult {
        /// The operation whose result is missing.
        expected: OpCode,
    },
    /// Nothing was executed: SEQUENCE failed, or the compound was refused as a whole.
    #[error("the server refuses the compound: {status:?}")]
    Refused {
        /// Why.
        status: NfsStatus,
    },
    /// An operation failed; those before it are executed, those after it are not.
    #[error("{operation} (operation {index} after SEQUENCE) failed: {status:?}")]
    Operation {
        /// Which one.
        operation: OpCode,
        /// Its place in the list of operations, from 0.
        index: usize,
        /// Why.
        status: NfsStatus,
    },
    /// Every slot is lost to calls that were never answered.
    #[error("no usable slot is left in this session; connect again")]
    NoSlots,
    /// [`Config::owner`](crate::Config::owner) is too long.
    #[error("the client's owner name is longer than 1024 bytes; choose a shorter one")]
    OwnerTooLong,
    /// A [`Client`](crate::Client) has no address to connect to.
    #[error("no address of a server is given")]
    NoAddress,
    /// Nothing was executed: no server was reached, or none that answers, for as long as
    /// [`Options::patience`](crate::Options::patience).
    #[error("the server cannot be reached: {}", last.as_ref().map_or("no answer in time".to_owned(), |last| last.to_string()))]
    Unreachable {
        /// Why the last attempt failed, if one did.
        #[source]
        last: Option<Arc<ClientError>>,
    },
    /// The compound may have been executed or not: the answer was lost, together with the session that could have
    /// repeated it. Look at what is there before it is done again; a server that was waiting for something, such as room on its
    /// disk, may still be about to execute it. At Kurma and Linux's server it is not any more once a client with the same
    /// [`owner`](crate::Options::owner) and another [`verifier`](crate::Options::verifier) has connected.
    #[error("the outcome of the operations is unknown: the server's answer is lost")]
    Unknown,
    /// Nothing was executed: the compound is larger than the server takes. [`Client::limits`](crate::Client::limits)
    /// has what it takes now: split the compound and send the parts.
    #[error("the server does not take compounds of this size: {status}; send smaller ones")]
    TooLarge {
        /// What the server said, or would have said.
        status: NfsStatus,
    },
    /// The server no longer knows this open, or its lock: others may have changed the file meanwhile. Open it again.
    #[error("the file is no longer open at the server: {status}; open it again")]
    OpenLost {
        /// How the server said so.
        status: NfsStatus,
    },
    /// The session ended under a compound of the recovery, which begins anew.
    #[error("the session ended before the client was back")]
    SessionLost,
    /// [`Client::close`](crate::Client::close) was called, or the last clone was dropped.
    #[error("the client is closed")]
    Closed,
}

impl ClientError {
    /// The status the server gave, if it answered.
    pub fn status(&self) -> Option<NfsStatus> {
        match self {
            ClientError::Refused { status }
            | ClientError::Operation { status, .. }
            | ClientError::TooLarge { status }
            | ClientError::OpenLost { status } => Some(*status),
            _ => None,
        }
    }

    /// Whether the server asks to repeat the compound later (`NFS4ERR_DELAY`, `NFS4ERR_GRACE`).
    pub fn asks_to_retry(&self) -> bool {
        matches!(self.status(), Some(NfsStatus::Delay | NfsStatus::Grace))
    }
}
