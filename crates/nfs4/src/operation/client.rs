//! EXCHANGE_ID, DESTROY_CLIENTID and RECLAIM_COMPLETE (RFC 8881 §18.35, §18.50, §18.51).

use bytes::Bytes;
use xdr::{Decode, Encode};

use crate::{Bitmap, ClientId, ClientOwner, ImplementationId, Outcome, OwnerName, ServerOwner};

/// Operations that state protection covers (`state_protect_ops4`), as sets of operation numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct StateProtectOps {
    /// Only with the protecting credential.
    pub must_enforce: Bitmap,
    /// With the protecting credential too.
    pub must_allow: Bitmap,
}

/// Parameters of protection by a shared secret that a client proposes (`ssv_sp_parms4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SsvParms {
    /// Operations covered.
    pub ops: StateProtectOps,
    /// Hash algorithms, as object ids, best first.
    pub hash_algorithms: Vec<Bytes>,
    /// Encryption algorithms, as object ids, best first.
    pub encryption_algorithms: Vec<Bytes>,
    /// How many past secrets the server keeps.
    pub window: u32,
    /// How many GSS handles the client wants.
    pub handle_count: u32,
}

/// State protection a client asks for (`state_protect4_a`, RFC 8881 §2.10.8).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum StateProtectArgs {
    /// `SP4_NONE`.
    #[xdr(discriminant = 0)]
    None,
    /// `SP4_MACH_CRED`: by the machine credential.
    #[xdr(discriminant = 1)]
    MachineCredential(StateProtectOps),
    /// `SP4_SSV`: by a shared secret.
    #[xdr(discriminant = 2)]
    Ssv(SsvParms),
}

/// Arguments of EXCHANGE_ID (`EXCHANGE_ID4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ExchangeIdArgs {
    /// Who the client is.
    pub client_owner: ClientOwner,
    /// Bits of [`exchange_id`](crate::bits::exchange_id).
    pub flags: u32,
    /// State protection asked for.
    pub state_protect: StateProtectArgs,
    /// Which implementation the client is.
    pub implementation: Option<ImplementationId>,
}

/// Parameters of protection by a shared secret that a server chose (`ssv_prot_info4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SsvInfo {
    /// Operations covered.
    pub ops: StateProtectOps,
    /// Index into the proposed hash algorithms.
    pub hash_algorithm: u32,
    /// Index into the proposed encryption algorithms.
    pub encryption_algorithm: u32,
    /// Length of the secret in bytes.
    pub ssv_length: u32,
    /// How many past secrets the server keeps.
    pub window: u32,
    /// GSS handles.
    pub handles: Vec<Bytes>,
}

/// State protection a server grants (`state_protect4_r`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum StateProtectRes {
    /// `SP4_NONE`.
    #[xdr(discriminant = 0)]
    None,
    /// `SP4_MACH_CRED`: by the machine credential.
    #[xdr(discriminant = 1)]
    MachineCredential(StateProtectOps),
    /// `SP4_SSV`: by a shared secret.
    #[xdr(discriminant = 2)]
    Ssv(SsvInfo),
}

/// What EXCHANGE_ID returns (`EXCHANGE_ID4resok`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ExchangeIdOk {
    /// The server's name for the client.
    pub client: ClientId,
    /// First sequence id for CREATE_SESSION.
    pub sequence_id: u32,
    /// Bits of [`exchange_id`](crate::bits::exchange_id).
    pub flags: u32,
    /// State protection granted.
    pub state_protect: StateProtectRes,
    /// Who the server is.
    pub server_owner: ServerOwner,
    /// Servers of equal scope share client ids and handles.
    pub server_scope: OwnerName,
    /// Which implementation the server is.
    pub implementation: Option<ImplementationId>,
}

/// Result of EXCHANGE_ID (`EXCHANGE_ID4res`).
pub type ExchangeIdRes = Outcome<ExchangeIdOk>;

/// Arguments of DESTROY_CLIENTID (`DESTROY_CLIENTID4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct DestroyClientIdArgs {
    /// The client.
    pub client: ClientId,
}

/// Arguments of RECLAIM_COMPLETE (`RECLAIM_COMPLETE4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ReclaimCompleteArgs {
    /// Only the file system of the current filehandle.
    pub one_fs: bool,
}
