//! Sessions: CREATE_SESSION, BIND_CONN_TO_SESSION, DESTROY_SESSION, SEQUENCE, SET_SSV, BACKCHANNEL_CTL
//! (RFC 8881 §18.33 - §18.37, §18.46, §18.47).

use bytes::Bytes;
use xdr::{BoundedOpaque, BoundedVec, Decode, Encode};

use crate::{ClientId, GssService, Outcome, SessionId};

/// Limits of one direction of a session (`channel_attrs4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ChannelAttrs {
    /// Padding before WRITE data, for RDMA.
    pub header_pad_size: u32,
    /// Largest request in bytes, RPC header included.
    pub max_request_size: u32,
    /// Largest reply in bytes, RPC header included.
    pub max_response_size: u32,
    /// Largest reply that is kept for retries.
    pub max_response_size_cached: u32,
    /// Most operations of a compound.
    pub max_operations: u32,
    /// Number of slots.
    pub max_requests: u32,
    /// Inbound RDMA read queue depth.
    pub rdma_ird: Option<u32>,
}

/// A Unix credential (`authsys_parms`, RFC 5531).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AuthSysParms {
    /// Any number.
    pub stamp: u32,
    /// Host name.
    pub machine_name: BoundedOpaque<255>,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub gids: BoundedVec<u32, 16>,
}

/// GSS contexts for the back channel (`gss_cb_handles4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GssCallbackHandles {
    /// How calls are protected.
    pub service: GssService,
    /// The context as the server (the caller) knows it.
    pub handle_from_server: Bytes,
    /// The context as the client (the callee) knows it.
    pub handle_from_client: Bytes,
}

/// How a server may authenticate its callbacks (`callback_sec_parms4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum CallbackSecParms {
    /// `AUTH_NONE`.
    #[xdr(discriminant = 0)]
    None,
    /// `AUTH_SYS` with this credential.
    #[xdr(discriminant = 1)]
    Sys(AuthSysParms),
    /// `RPCSEC_GSS` with these contexts.
    #[xdr(discriminant = 6)]
    Gss(GssCallbackHandles),
}

/// Arguments of CREATE_SESSION (`CREATE_SESSION4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CreateSessionArgs {
    /// The client.
    pub client: ClientId,
    /// As EXCHANGE_ID returned it, plus one for each session.
    pub sequence_id: u32,
    /// Bits of [`create_session`](crate::bits::create_session).
    pub flags: u32,
    /// Limits for requests of the client.
    pub fore_channel: ChannelAttrs,
    /// Limits for requests of the server.
    pub back_channel: ChannelAttrs,
    /// RPC program number of callbacks.
    pub callback_program: u32,
    /// How callbacks may be authenticated, best first.
    pub callback_security: Vec<CallbackSecParms>,
}

/// What CREATE_SESSION returns (`CREATE_SESSION4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CreateSessionOk {
    /// The session.
    pub session: SessionId,
    /// As in the arguments.
    pub sequence_id: u32,
    /// Bits of [`create_session`](crate::bits::create_session).
    pub flags: u32,
    /// Limits for requests of the client.
    pub fore_channel: ChannelAttrs,
    /// Limits for requests of the server.
    pub back_channel: ChannelAttrs,
}

/// Result of CREATE_SESSION (`CREATE_SESSION4res`).
pub type CreateSessionRes = Outcome<CreateSessionOk>;

/// Directions a client asks for (`channel_dir_from_client4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum ChannelDirFromClient {
    /// `CDFC4_FORE`.
    Fore = 1,
    /// `CDFC4_BACK`.
    Back = 2,
    /// `CDFC4_FORE_OR_BOTH`.
    ForeOrBoth = 3,
    /// `CDFC4_BACK_OR_BOTH`.
    BackOrBoth = 7,
}

/// Directions a server grants (`channel_dir_from_server4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum ChannelDirFromServer {
    /// `CDFS4_FORE`.
    Fore = 1,
    /// `CDFS4_BACK`.
    Back = 2,
    /// `CDFS4_BOTH`.
    Both = 3,
}

/// Arguments of BIND_CONN_TO_SESSION (`BIND_CONN_TO_SESSION4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct BindConnToSessionArgs {
    /// The session.
    pub session: SessionId,
    /// Directions of this connection.
    pub direction: ChannelDirFromClient,
    /// Whether to use it for RDMA.
    pub use_rdma: bool,
}

/// What BIND_CONN_TO_SESSION returns (`BIND_CONN_TO_SESSION4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct BindConnToSessionOk {
    /// The session.
    pub session: SessionId,
    /// Directions of this connection.
    pub direction: ChannelDirFromServer,
    /// Whether it is used for RDMA.
    pub use_rdma: bool,
}

/// Result of BIND_CONN_TO_SESSION (`BIND_CONN_TO_SESSION4res`).
pub type BindConnToSessionRes = Outcome<BindConnToSessionOk>;

/// Arguments of DESTROY_SESSION (`DESTROY_SESSION4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct DestroySessionArgs {
    /// The session.
    pub session: SessionId,
}

/// Arguments of SEQUENCE (`SEQUENCE4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SequenceArgs {
    /// The session.
    pub session: SessionId,
    /// One more than the last request of this slot.
    pub sequence_id: u32,
    /// The slot.
    pub slot: u32,
    /// Highest slot with a request outstanding.
    pub highest_slot: u32,
    /// Whether the reply must be kept for a retry.
    pub cache_this: bool,
}

/// What SEQUENCE returns (`SEQUENCE4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SequenceOk {
    /// The session.
    pub session: SessionId,
    /// As in the arguments.
    pub sequence_id: u32,
    /// The slot.
    pub slot: u32,
    /// Highest slot the server accepts now.
    pub highest_slot: u32,
    /// Highest slot the server wants the client to use.
    pub target_highest_slot: u32,
    /// Bits of [`sequence_status`](crate::bits::sequence_status).
    pub status_flags: u32,
}

/// Result of SEQUENCE (`SEQUENCE4res`).
pub type SequenceRes = Outcome<SequenceOk>;

/// Arguments of SET_SSV (`SET_SSV4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetSsvArgs {
    /// To be combined with the present secret by exclusive or.
    pub ssv: Bytes,
    /// Proves that the client knows the secret.
    pub digest: Bytes,
}

/// Result of SET_SSV (`SET_SSV4res`): proves that the server knows the secret.
pub type SetSsvRes = Outcome<Bytes>;

/// Arguments of BACKCHANNEL_CTL (`BACKCHANNEL_CTL4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct BackchannelCtlArgs {
    /// RPC program number of callbacks.
    pub callback_program: u32,
    /// How callbacks may be authenticated, best first.
    pub callback_security: Vec<CallbackSecParms>,
}
