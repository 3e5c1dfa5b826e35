//! LOCK, LOCKT and LOCKU (RFC 8881 §18.10 - §18.12).

use xdr::{Decode, Encode};

use crate::{ClientId, NfsStatus, OpResult, Outcome, OwnerName, StateId, StateOwner};

/// Kind of byte-range lock (`nfs_lock_type4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum LockType {
    /// `READ_LT`.
    Read = 1,
    /// `WRITE_LT`.
    Write = 2,
    /// `READW_LT`: the client would wait.
    ReadWait = 3,
    /// `WRITEW_LT`: the client would wait.
    WriteWait = 4,
}

impl LockType {
    /// Whether it excludes all others.
    pub fn is_write(self) -> bool {
        matches!(self, LockType::Write | LockType::WriteWait)
    }

    /// Whether the client would wait for it.
    pub fn is_blocking(self) -> bool {
        matches!(self, LockType::ReadWait | LockType::WriteWait)
    }
}

/// Who locks (`locker4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Locker {
    /// A lock-owner's first lock of this file (`open_to_lock_owner4`).
    #[xdr(discriminant = 1)]
    New {
        /// Of the owner (RFC 7530 §9.1.9); not used since 4.1.
        open_seqid: u32,
        /// The open.
        open_state_id: StateId,
        /// Of the owner (RFC 7530 §9.1.9); not used since 4.1.
        lock_seqid: u32,
        /// The lock-owner.
        owner: StateOwner,
    },
    /// A further lock (`exist_lock_owner4`).
    #[xdr(discriminant = 0)]
    Existing {
        /// The state of the locks so far.
        lock_state_id: StateId,
        /// Of the owner (RFC 7530 §9.1.9); not used since 4.1.
        lock_seqid: u32,
    },
}

/// Arguments of LOCK (`LOCK4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LockArgs {
    /// Which kind.
    pub lock_type: LockType,
    /// Whether it is reclaimed after a restart of the server.
    pub reclaim: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes; all ones up to the end whatever it is.
    pub length: u64,
    /// Who locks.
    pub locker: Locker,
}

/// The lock that is in the way (`LOCK4denied`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LockDenied {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Which kind.
    pub lock_type: LockType,
    /// Its holder.
    pub owner: StateOwner,
}

impl LockDenied {
    /// Stands in where only the status is known.
    fn unspecified() -> LockDenied {
        let owner = StateOwner { client: ClientId(0), owner: OwnerName::default() };
        LockDenied { offset: 0, length: u64::MAX, lock_type: LockType::Write, owner }
    }
}

/// Result of LOCK (`LOCK4res`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum LockRes {
    /// The state of the lock-owner's locks.
    #[xdr(discriminant = NfsStatus::Ok.code())]
    Ok(StateId),
    /// `NFS4ERR_DENIED`: somebody else has a lock.
    #[xdr(discriminant = NfsStatus::Denied.code())]
    Denied(LockDenied),
    /// Any other error.
    #[xdr(default)]
    Err(NfsStatus),
}

/// Result of LOCKT (`LOCKT4res`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum LockTestRes {
    /// Nothing is in the way.
    #[xdr(discriminant = NfsStatus::Ok.code())]
    Ok,
    /// `NFS4ERR_DENIED`: somebody else has a lock.
    #[xdr(discriminant = NfsStatus::Denied.code())]
    Denied(LockDenied),
    /// Any other error.
    #[xdr(default)]
    Err(NfsStatus),
}

impl OpResult for LockRes {
    fn status(&self) -> NfsStatus {
        match self {
            LockRes::Ok(_) => NfsStatus::Ok,
            LockRes::Denied(_) => NfsStatus::Denied,
            LockRes::Err(status) => *status,
        }
    }

    fn from_error(error: NfsStatus) -> LockRes {
        match error {
            NfsStatus::Denied => LockRes::Denied(LockDenied::unspecified()),
            error => LockRes::Err(error),
        }
    }
}

impl OpResult for LockTestRes {
    fn status(&self) -> NfsStatus {
        match self {
            LockTestRes::Ok => NfsStatus::Ok,
            LockTestRes::Denied(_) => NfsStatus::Denied,
            LockTestRes::Err(status) => *status,
        }
    }

    fn from_error(error: NfsStatus) -> LockTestRes {
        match error {
            NfsStatus::Denied => LockTestRes::Denied(LockDenied::unspecified()),
            error => LockTestRes::Err(error),
        }
    }
}

/// Arguments of LOCKT (`LOCKT4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LockTestArgs {
    /// Which kind.
    pub lock_type: LockType,
    /// First byte.
    pub offset: u64,
    /// Bytes; all ones up to the end whatever it is.
    pub length: u64,
    /// Whose own locks are not in the way.
    pub owner: StateOwner,
}

/// Arguments of LOCKU (`LOCKU4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct UnlockArgs {
    /// Any kind; without meaning.
    pub lock_type: LockType,
    /// Of the owner (RFC 7530 §9.1.9); not used since 4.1.
    pub seqid: u32,
    /// The state of the locks.
    pub lock_state_id: StateId,
    /// First byte.
    pub offset: u64,
    /// Bytes; all ones up to the end whatever it is.
    pub length: u64,
}

/// Result of LOCKU (`LOCKU4res`).
pub type UnlockRes = Outcome<StateId>;
