//! OPEN, OPEN_DOWNGRADE and CLOSE (RFC 8881 §18.16, §18.18, §18.2).

use xdr::{Decode, Encode};

use crate::{Ace, Bitmap, ChangeInfo, Component, Fattr, Outcome, StateId, StateOwner, Verifier};

/// How to create (`createhow4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum CreateHow {
    /// `UNCHECKED4`: an existing file is opened.
    #[xdr(discriminant = 0)]
    Unchecked(Fattr),
    /// `GUARDED4`: an existing file is an error.
    #[xdr(discriminant = 1)]
    Guarded(Fattr),
    /// `EXCLUSIVE4`: an existing file is an error unless created with this verifier.
    #[xdr(discriminant = 2)]
    Exclusive(Verifier),
    /// `EXCLUSIVE4_1`: the same, with attributes.
    #[xdr(discriminant = 3)]
    Exclusive41 {
        /// Recognises a repetition.
        verifier: Verifier,
        /// Attributes, of `suppattr_exclcreat` only.
        attributes: Fattr,
    },
}

/// Whether to create (`openflag4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum OpenHow {
    /// `OPEN4_NOCREATE`: the file must exist.
    #[xdr(discriminant = 0)]
    NoCreate,
    /// `OPEN4_CREATE`: create it.
    #[xdr(discriminant = 1)]
    Create(CreateHow),
}

/// Kind of delegation (`open_delegation_type4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum DelegationType {
    /// `OPEN_DELEGATE_NONE`.
    None = 0,
    /// `OPEN_DELEGATE_READ`.
    Read = 1,
    /// `OPEN_DELEGATE_WRITE`.
    Write = 2,
    /// `OPEN_DELEGATE_NONE_EXT`.
    NoneExt = 3,
}

/// By what right, and which file (`open_claim4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum OpenClaim {
    /// `CLAIM_NULL`: this name in the current filehandle.
    #[xdr(discriminant = 0)]
    Null(Component),
    /// `CLAIM_PREVIOUS`: reclaim of the current filehandle with a delegation of this kind.
    #[xdr(discriminant = 1)]
    Previous(DelegationType),
    /// `CLAIM_DELEGATE_CUR`: by a delegation, by name.
    #[xdr(discriminant = 2)]
    DelegateCurrent {
        /// The delegation.
        state_id: StateId,
        /// Name in the current filehandle.
        file: Component,
    },
    /// `CLAIM_DELEGATE_PREV`: by a delegation from before the client's boot, by name.
    #[xdr(discriminant = 3)]
    DelegatePrevious(Component),
    /// `CLAIM_FH`: the current filehandle.
    #[xdr(discriminant = 4)]
    FileHandle,
    /// `CLAIM_DELEG_CUR_FH`: by this delegation, the current filehandle.
    #[xdr(discriminant = 5)]
    DelegateCurrentFileHandle(StateId),
    /// `CLAIM_DELEG_PREV_FH`: by a delegation from before the client's boot, the current filehandle.
    #[xdr(discriminant = 6)]
    DelegatePreviousFileHandle,
}

/// Arguments of OPEN (`OPEN4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct OpenArgs {
    /// Of the owner (RFC 7530 §9.1.9); not used since 4.1.
    pub seqid: u32,
    /// Access and wishes for a delegation: bits of [`share_access`](crate::bits::share_access).
    pub share_access: u32,
    /// What others may not: bits of [`share_deny`](crate::bits::share_deny).
    pub share_deny: u32,
    /// Who opens.
    pub owner: StateOwner,
    /// Whether to create.
    pub how: OpenHow,
    /// Which file.
    pub claim: OpenClaim,
}

/// How much a holder of a write delegation may write without asking (`nfs_space_limit4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum SpaceLimit {
    /// `NFS_LIMIT_SIZE`: up to this file size in bytes.
    #[xdr(discriminant = 1)]
    Size(u64),
    /// `NFS_LIMIT_BLOCKS`: so many blocks.
    #[xdr(discriminant = 2)]
    Blocks {
        /// Number of blocks.
        count: u32,
        /// Size of a block.
        bytes_per_block: u32,
    },
}

/// A read delegation (`open_read_delegation4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReadDelegation {
    /// Its name.
    pub state_id: StateId,
    /// Whether it is recalled already (reclaims only).
    pub recall: bool,
    /// Who needs no ACCESS to open for reading.
    pub permissions: Ace,
}

/// A write delegation (`open_write_delegation4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WriteDelegation {
    /// Its name.
    pub state_id: StateId,
    /// Whether it is recalled already (reclaims only).
    pub recall: bool,
    /// When data must be written at CLOSE.
    pub space_limit: SpaceLimit,
    /// Who needs no ACCESS to open.
    pub permissions: Ace,
}

/// Why there is no delegation (`open_none_delegation4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum NoDelegation {
    /// `WND4_CONTENTION`: conflicting use.
    #[xdr(discriminant = 1)]
    Contention {
        /// Whether the server will push one later.
        will_push: bool,
    },
    /// `WND4_RESOURCE`: the server is short of something.
    #[xdr(discriminant = 2)]
    Resource {
        /// Whether the server will say when it no longer is.
        will_signal: bool,
    },
    /// Another reason: `WND4_NOT_WANTED` (0), `NOT_SUPP_FTYPE` (3), `WRITE_DELEG_NOT_SUPP_FTYPE` (4),
    /// `NOT_SUPP_UPGRADE` (5), `NOT_SUPP_DOWNGRADE` (6), `CANCELLED` (7), `IS_DIR` (8).
    #[xdr(default)]
    Other(u32),
}

impl NoDelegation {
    /// `WND4_NOT_WANTED`.
    pub const NOT_WANTED: NoDelegation = NoDelegation::Other(0);
    /// `WND4_NOT_SUPP_FTYPE`.
    pub const NOT_SUPPORTED_FOR_TYPE: NoDelegation = NoDelegation::Other(3);
    /// `WND4_WRITE_DELEG_NOT_SUPP_FTYPE`.
    pub const WRITE_NOT_SUPPORTED_FOR_TYPE: NoDelegation = NoDelegation::Other(4);
    /// `WND4_NOT_SUPP_UPGRADE`.
    pub const UPGRADE_NOT_SUPPORTED: NoDelegation = NoDelegation::Other(5);
    /// `WND4_NOT_SUPP_DOWNGRADE`.
    pub const DOWNGRADE_NOT_SUPPORTED: NoDelegation = NoDelegation::Other(6);
    /// `WND4_CANCELLED`.
    pub const CANCELLED: NoDelegation = NoDelegation::Other(7);
    /// `WND4_IS_DIR`.
    pub const IS_DIRECTORY: NoDelegation = NoDelegation::Other(8);
}

/// A delegation or why there is none (`open_delegation4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum OpenDelegation {
    /// `OPEN_DELEGATE_NONE`.
    #[xdr(discriminant = 0)]
    None,
    /// `OPEN_DELEGATE_READ`.
    #[xdr(discriminant = 1)]
    Read(ReadDelegation),
    /// `OPEN_DELEGATE_WRITE`.
    #[xdr(discriminant = 2)]
    Write(WriteDelegation),
    /// `OPEN_DELEGATE_NONE_EXT`: none, and why; only to a client that said what it wants.
    #[xdr(discriminant = 3)]
    NoneExt(NoDelegation),
}

/// What OPEN returns (`OPEN4resok`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct OpenOk {
    /// The open.
    pub state_id: StateId,
    /// Change of the directory.
    pub change_info: ChangeInfo,
    /// Bits of [`open_result`](crate::bits::open_result).
    pub flags: u32,
    /// Attributes that were set.
    pub attributes_set: Bitmap,
    /// The delegation, if any.
    pub delegation: OpenDelegation,
}

/// Result of OPEN (`OPEN4res`).
pub type OpenRes = Outcome<OpenOk>;

/// Arguments of OPEN_DOWNGRADE (`OPEN_DOWNGRADE4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct OpenDowngradeArgs {
    /// The open.
    pub state_id: StateId,
    /// Of the owner (RFC 7530 §9.1.9); not used since 4.1.
    pub seqid: u32,
    /// What access remains.
    pub share_access: u32,
    /// What denial remains.
    pub share_deny: u32,
}

/// Result of OPEN_DOWNGRADE (`OPEN_DOWNGRADE4res`).
pub type OpenDowngradeRes = Outcome<StateId>;

/// Arguments of CLOSE (`CLOSE4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CloseArgs {
    /// Of the owner (RFC 7530 §9.1.9); not used since 4.1.
    pub seqid: u32,
    /// The open.
    pub state_id: StateId,
}

/// Result of CLOSE (`CLOSE4res`): a state id without meaning.
pub type CloseRes = Outcome<StateId>;
