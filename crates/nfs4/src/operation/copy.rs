//! COPY, CLONE, COPY_NOTIFY, OFFLOAD_CANCEL and OFFLOAD_STATUS (RFC 7862 §4, §15).

use xdr::{Decode, Encode};

use crate::{NetAddress, NfsStatus, NfsTime, OpResult, Outcome, StateId, Utf8String, WriteResponse};

/// Where a server is (`netloc4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum NetLocation {
    /// `NL4_NAME`: host name.
    #[xdr(discriminant = 1)]
    Name(Utf8String),
    /// `NL4_URL`: URL.
    #[xdr(discriminant = 2)]
    Url(Utf8String),
    /// `NL4_NETADDR`: address.
    #[xdr(discriminant = 3)]
    Address(NetAddress),
}

/// Arguments of COPY (`COPY4args`): saved filehandle into the current one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CopyArgs {
    /// Open of the source.
    pub source_state_id: StateId,
    /// Open of the destination.
    pub destination_state_id: StateId,
    /// First byte in the source.
    pub source_offset: u64,
    /// First byte in the destination.
    pub destination_offset: u64,
    /// Bytes; 0 up to the end.
    pub count: u64,
    /// Whether the copy must proceed in ascending order.
    pub consecutive: bool,
    /// Whether the copy must be done before the reply.
    pub synchronous: bool,
    /// Where the source is; empty for this server.
    pub source_servers: Vec<NetLocation>,
}

/// How the server copies (`copy_requirements4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CopyRequirements {
    /// In ascending order.
    pub consecutive: bool,
    /// Done before the reply.
    pub synchronous: bool,
}

/// What COPY returns (`COPY4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CopyOk {
    /// How far it got.
    pub response: WriteResponse,
    /// How it was or is being done.
    pub requirements: CopyRequirements,
}

/// Result of COPY (`COPY4res`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum CopyRes {
    /// Done or under way.
    #[xdr(discriminant = NfsStatus::Ok.code())]
    Ok(CopyOk),
    /// `NFS4ERR_OFFLOAD_NO_REQS`: the server can do it only like this.
    #[xdr(discriminant = NfsStatus::OffloadNoReqs.code())]
    NoRequirements(CopyRequirements),
    /// Any other error.
    #[xdr(default)]
    Err(NfsStatus),
}

impl OpResult for CopyRes {
    fn status(&self) -> NfsStatus {
        match self {
            CopyRes::Ok(_) => NfsStatus::Ok,
            CopyRes::NoRequirements(_) => NfsStatus::OffloadNoReqs,
            CopyRes::Err(status) => *status,
        }
    }

    fn from_error(error: NfsStatus) -> CopyRes {
        match error {
            NfsStatus::OffloadNoReqs => {
                CopyRes::NoRequirements(CopyRequirements { consecutive: true, synchronous: true })
            }
            error => CopyRes::Err(error),
        }
    }
}

/// Arguments of CLONE (`CLONE4args`): saved filehandle into the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CloneArgs {
    /// Open of the source.
    pub source_state_id: StateId,
    /// Open of the destination.
    pub destination_state_id: StateId,
    /// First byte in the source; a multiple of `clone_blksize`.
    pub source_offset: u64,
    /// First byte in the destination; a multiple of `clone_blksize`.
    pub destination_offset: u64,
    /// Bytes; 0 up to the end.
    pub count: u64,
}

/// Arguments of COPY_NOTIFY (`COPY_NOTIFY4args`), on the source.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CopyNotifyArgs {
    /// Open of the source.
    pub source_state_id: StateId,
    /// Who will read.
    pub destination_server: NetLocation,
}

/// What COPY_NOTIFY returns (`COPY_NOTIFY4resok`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CopyNotifyOk {
    /// For how long the copy may take until it begins.
    pub lease_time: NfsTime,
    /// What the destination reads with.
    pub state_id: StateId,
    /// Where it can read.
    pub source_servers: Vec<NetLocation>,
}

/// Result of COPY_NOTIFY (`COPY_NOTIFY4res`).
pub type CopyNotifyRes = Outcome<CopyNotifyOk>;

/// Arguments of OFFLOAD_CANCEL and OFFLOAD_STATUS (`OFFLOAD_CANCEL4args`, `OFFLOAD_STATUS4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct OffloadArgs {
    /// The operation, as its `callback_id` named it.
    pub state_id: StateId,
}

/// What OFFLOAD_STATUS returns (`OFFLOAD_STATUS4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct OffloadStatusOk {
    /// Bytes copied so far.
    pub count: u64,
    /// How it ended, if it has.
    pub complete: Option<NfsStatus>,
}

/// Result of OFFLOAD_STATUS (`OFFLOAD_STATUS4res`).
pub type OffloadStatusRes = Outcome<OffloadStatusOk>;
