//! Operations that only 4.0 has (RFC 7530 §16). 4.1 keeps their numbers: `NFS4ERR_NOTSUPP`, after decoding (RFC 8881
//! §2.8.5).

use xdr::{Decode, Encode};

use crate::{ClientId, NetAddress, NfsStatus, OpResult, Outcome, OwnerName, StateId, StateOwner, Verifier};

/// Arguments of SETCLIENTID (`SETCLIENTID4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetClientIdArgs {
    /// Changes with every boot of the client (`nfs_client_id4`).
    pub verifier: Verifier,
    /// The client's name for itself.
    pub id: OwnerName,
    /// RPC program number of callbacks (`cb_client4`).
    pub callback_program: u32,
    /// Where to call back.
    pub callback_location: NetAddress,
    /// Comes back in each callback.
    pub callback_ident: u32,
}

/// What SETCLIENTID returns (`SETCLIENTID4resok`), also the arguments of SETCLIENTID_CONFIRM
/// (`SETCLIENTID_CONFIRM4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SetClientIdConfirm {
    /// The client.
    pub client: ClientId,
    /// To be confirmed.
    pub verifier: Verifier,
}

/// Result of SETCLIENTID (`SETCLIENTID4res`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum SetClientIdRes {
    /// To be confirmed.
    #[xdr(discriminant = NfsStatus::Ok.code())]
    Ok(SetClientIdConfirm),
    /// `NFS4ERR_CLID_INUSE`: by this one.
    #[xdr(discriminant = NfsStatus::ClidInUse.code())]
    InUse(NetAddress),
    /// Any other error.
    #[xdr(default)]
    Err(NfsStatus),
}

impl OpResult for SetClientIdRes {
    fn status(&self) -> NfsStatus {
        match self {
            SetClientIdRes::Ok(_) => NfsStatus::Ok,
            SetClientIdRes::InUse(_) => NfsStatus::ClidInUse,
            SetClientIdRes::Err(status) => *status,
        }
    }

    fn from_error(error: NfsStatus) -> SetClientIdRes {
        match error {
            NfsStatus::ClidInUse => SetClientIdRes::InUse(NetAddress::default()),
            error => SetClientIdRes::Err(error),
        }
    }
}

/// Arguments of RENEW (`RENEW4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RenewArgs {
    /// The client.
    pub client: ClientId,
}

/// Arguments of OPEN_CONFIRM (`OPEN_CONFIRM4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct OpenConfirmArgs {
    /// The open.
    pub state_id: StateId,
    /// One more than the last of the open-owner.
    pub seqid: u32,
}

/// Result of OPEN_CONFIRM (`OPEN_CONFIRM4res`).
pub type OpenConfirmRes = Outcome<StateId>;

/// Arguments of RELEASE_LOCKOWNER (`RELEASE_LOCKOWNER4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReleaseLockOwnerArgs {
    /// The lock-owner.
    pub owner: StateOwner,
}
