//! State ids and delegations: FREE_STATEID, TEST_STATEID, DELEGPURGE, DELEGRETURN, WANT_DELEGATION,
//! GET_DIR_DELEGATION.

use xdr::{Decode, Encode};

use crate::{
    Bitmap, ClientId, DelegationType, NfsStatus, NfsTime, OpenDelegation, Outcome, StateId, Verifier,
};

/// Arguments of FREE_STATEID (`FREE_STATEID4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct FreeStateIdArgs {
    /// The state.
    pub state_id: StateId,
}

/// Arguments of TEST_STATEID (`TEST_STATEID4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TestStateIdArgs {
    /// The states.
    pub state_ids: Vec<StateId>,
}

/// Result of TEST_STATEID (`TEST_STATEID4res`): one status for each state id.
pub type TestStateIdRes = Outcome<Vec<NfsStatus>>;

/// Arguments of DELEGPURGE (`DELEGPURGE4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct DelegPurgeArgs {
    /// Ignored: the session says it.
    pub client: ClientId,
}

/// Arguments of DELEGRETURN (`DELEGRETURN4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct DelegReturnArgs {
    /// The delegation.
    pub state_id: StateId,
}

/// By what right a delegation is wanted (`deleg_claim4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum DelegationClaim {
    /// `CLAIM_FH`: none.
    #[xdr(discriminant = 4)]
    FileHandle,
    /// `CLAIM_DELEG_PREV_FH`: a delegation from before the client's boot.
    #[xdr(discriminant = 6)]
    DelegatePreviousFileHandle,
    /// `CLAIM_PREVIOUS`: a delegation of this kind from before the server's restart.
    #[xdr(discriminant = 1)]
    Previous(DelegationType),
}

/// Arguments of WANT_DELEGATION (`WANT_DELEGATION4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct WantDelegationArgs {
    /// Which kind: the `WANT` bits of [`share_access`](crate::bits::share_access).
    pub want: u32,
    /// By what right.
    pub claim: DelegationClaim,
}

/// Result of WANT_DELEGATION (`WANT_DELEGATION4res`).
pub type WantDelegationRes = Outcome<OpenDelegation>;

/// Arguments of GET_DIR_DELEGATION (`GET_DIR_DELEGATION4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct GetDirDelegationArgs {
    /// Whether to say later when one is available.
    pub signal_available: bool,
    /// Notifications wanted: set of [`NotifyType`](crate::NotifyType).
    pub notification_types: Bitmap,
    /// Longest delay of notifications on entries.
    pub child_attribute_delay: NfsTime,
    /// Longest delay of notifications on the directory.
    pub directory_attribute_delay: NfsTime,
    /// Attributes of entries wanted.
    pub child_attributes: Bitmap,
    /// Attributes of the directory wanted.
    pub directory_attributes: Bitmap,
}

/// A directory delegation (`GET_DIR_DELEGATION4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct DirDelegation {
    /// As of READDIR.
    pub cookie_verifier: Verifier,
    /// Its name.
    pub state_id: StateId,
    /// Notifications that will come.
    pub notification_types: Bitmap,
    /// Attributes of entries that will come.
    pub child_attributes: Bitmap,
    /// Attributes of the directory that will come.
    pub directory_attributes: Bitmap,
}

/// A directory delegation or none (`GET_DIR_DELEGATION4res_non_fatal`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum GetDirDelegationOk {
    /// `GDD4_OK`.
    #[xdr(discriminant = 0)]
    Granted(DirDelegation),
    /// `GDD4_UNAVAIL`.
    #[xdr(discriminant = 1)]
    Unavailable {
        /// Whether the server will say when one is.
        will_signal: bool,
    },
}

/// Result of GET_DIR_DELEGATION (`GET_DIR_DELEGATION4res`).
pub type GetDirDelegationRes = Outcome<GetDirDelegationOk>;
