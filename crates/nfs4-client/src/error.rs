use nfs4::{NfsStatus, OpCode};
use onc_rpc::RpcError;

/// Why a compound has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The call failed below NFS. Whether the compound was executed is unknown; its slot is lost.
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
}

impl ClientError {
    /// The status the server gave, if it answered.
    pub fn status(&self) -> Option<NfsStatus> {
        match self {
            ClientError::Refused { status } | ClientError::Operation { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the server asks to repeat the compound later (`NFS4ERR_DELAY`, `NFS4ERR_GRACE`).
    pub fn asks_to_retry(&self) -> bool {
        matches!(self.status(), Some(NfsStatus::Delay | NfsStatus::Grace))
    }
}
