//! The table of operations.

use crate::NfsStatus;
use crate::operation::{
    access::*, attributes::*, client::*, compound_mode::*, copy::*, directory::*, io::*, layout::*,
    legacy::*, lock::*, open::*, readdir::*, security::*, session::*, space::*, state::*, xattr::*,
};
use crate::union_macro::operations;

operations! {
    /// Number of an operation (`nfs_opnum4`).
    OpCode,
    /// An operation with its arguments (`nfs_argop4`).
    NfsArgOp,
    /// An operation with its result (`nfs_resop4`).
    NfsResOp;

    Access = 3, "ACCESS", (AccessArgs) -> AccessRes;
    Close = 4, "CLOSE", (CloseArgs) -> CloseRes;
    Commit = 5, "COMMIT", (CommitArgs) -> CommitRes;
    Create = 6, "CREATE", (CreateArgs) -> CreateRes;
    DelegPurge = 7, "DELEGPURGE", (DelegPurgeArgs) -> NfsStatus;
    DelegReturn = 8, "DELEGRETURN", (DelegReturnArgs) -> NfsStatus;
    GetAttr = 9, "GETATTR", (GetAttrArgs) -> GetAttrRes;
    GetFh = 10, "GETFH", () -> GetFhRes;
    Link = 11, "LINK", (LinkArgs) -> LinkRes;
    Lock = 12, "LOCK", (LockArgs) -> LockRes;
    LockTest = 13, "LOCKT", (LockTestArgs) -> LockTestRes;
    Unlock = 14, "LOCKU", (UnlockArgs) -> UnlockRes;
    Lookup = 15, "LOOKUP", (LookupArgs) -> NfsStatus;
    LookupParent = 16, "LOOKUPP", () -> NfsStatus;
    Nverify = 17, "NVERIFY", (VerifyArgs) -> NfsStatus;
    Open = 18, "OPEN", (OpenArgs) -> OpenRes;
    OpenAttr = 19, "OPENATTR", (OpenAttrArgs) -> NfsStatus;
    OpenConfirm = 20, "OPEN_CONFIRM", (OpenConfirmArgs) -> OpenConfirmRes;
    OpenDowngrade = 21, "OPEN_DOWNGRADE", (OpenDowngradeArgs) -> OpenDowngradeRes;
    PutFh = 22, "PUTFH", (PutFhArgs) -> NfsStatus;
    PutPubFh = 23, "PUTPUBFH", () -> NfsStatus;
    PutRootFh = 24, "PUTROOTFH", () -> NfsStatus;
    Read = 25, "READ", (ReadArgs) -> ReadRes;
    ReadDir = 26, "READDIR", (ReadDirArgs) -> ReadDirRes;
    ReadLink = 27, "READLINK", () -> ReadLinkRes;
    Remove = 28, "REMOVE", (RemoveArgs) -> RemoveRes;
    Rename = 29, "RENAME", (RenameArgs) -> RenameRes;
    Renew = 30, "RENEW", (RenewArgs) -> NfsStatus;
    RestoreFh = 31, "RESTOREFH", () -> NfsStatus;
    SaveFh = 32, "SAVEFH", () -> NfsStatus;
    SecInfo = 33, "SECINFO", (SecInfoArgs) -> SecInfoRes;
    SetAttr = 34, "SETATTR", (SetAttrArgs) -> SetAttrRes;
    SetClientId = 35, "SETCLIENTID", (SetClientIdArgs) -> SetClientIdRes;
    SetClientIdConfirm = 36, "SETCLIENTID_CONFIRM", (SetClientIdConfirm) -> NfsStatus;
    Verify = 37, "VERIFY", (VerifyArgs) -> NfsStatus;
    Write = 38, "WRITE", (WriteArgs) -> WriteRes;
    ReleaseLockOwner = 39, "RELEASE_LOCKOWNER", (ReleaseLockOwnerArgs) -> NfsStatus;
    BackchannelCtl = 40, "BACKCHANNEL_CTL", (BackchannelCtlArgs) -> NfsStatus;
    BindConnToSession = 41, "BIND_CONN_TO_SESSION", (BindConnToSessionArgs) -> BindConnToSessionRes;
    ExchangeId = 42, "EXCHANGE_ID", (ExchangeIdArgs) -> ExchangeIdRes;
    CreateSession = 43, "CREATE_SESSION", (CreateSessionArgs) -> CreateSessionRes;
    DestroySession = 44, "DESTROY_SESSION", (DestroySessionArgs) -> NfsStatus;
    FreeStateId = 45, "FREE_STATEID", (FreeStateIdArgs) -> NfsStatus;
    GetDirDelegation = 46, "GET_DIR_DELEGATION", (GetDirDelegationArgs) -> GetDirDelegationRes;
    GetDeviceInfo = 47, "GETDEVICEINFO", (GetDeviceInfoArgs) -> GetDeviceInfoRes;
    GetDeviceList = 48, "GETDEVICELIST", (GetDeviceListArgs) -> GetDeviceListRes;
    LayoutCommit = 49, "LAYOUTCOMMIT", (LayoutCommitArgs) -> LayoutCommitRes;
    LayoutGet = 50, "LAYOUTGET", (LayoutGetArgs) -> LayoutGetRes;
    LayoutReturn = 51, "LAYOUTRETURN", (LayoutReturnArgs) -> LayoutReturnRes;
    SecInfoNoName = 52, "SECINFO_NO_NAME", (SecInfoStyle) -> SecInfoRes;
    Sequence = 53, "SEQUENCE", (SequenceArgs) -> SequenceRes;
    SetSsv = 54, "SET_SSV", (SetSsvArgs) -> SetSsvRes;
    TestStateId = 55, "TEST_STATEID", (TestStateIdArgs) -> TestStateIdRes;
    WantDelegation = 56, "WANT_DELEGATION", (WantDelegationArgs) -> WantDelegationRes;
    DestroyClientId = 57, "DESTROY_CLIENTID", (DestroyClientIdArgs) -> NfsStatus;
    ReclaimComplete = 58, "RECLAIM_COMPLETE", (ReclaimCompleteArgs) -> NfsStatus;
    Allocate = 59, "ALLOCATE", (AllocateArgs) -> NfsStatus;
    Copy = 60, "COPY", (CopyArgs) -> CopyRes;
    CopyNotify = 61, "COPY_NOTIFY", (CopyNotifyArgs) -> CopyNotifyRes;
    Deallocate = 62, "DEALLOCATE", (AllocateArgs) -> NfsStatus;
    IoAdvise = 63, "IO_ADVISE", (IoAdviseArgs) -> IoAdviseRes;
    LayoutError = 64, "LAYOUTERROR", (LayoutErrorArgs) -> NfsStatus;
    LayoutStats = 65, "LAYOUTSTATS", (LayoutStatsArgs) -> NfsStatus;
    OffloadCancel = 66, "OFFLOAD_CANCEL", (OffloadArgs) -> NfsStatus;
    OffloadStatus = 67, "OFFLOAD_STATUS", (OffloadArgs) -> OffloadStatusRes;
    ReadPlus = 68, "READ_PLUS", (ReadArgs) -> ReadPlusRes;
    Seek = 69, "SEEK", (SeekArgs) -> SeekRes;
    WriteSame = 70, "WRITE_SAME", (WriteSameArgs) -> WriteSameRes;
    Clone = 71, "CLONE", (CloneArgs) -> NfsStatus;
    GetXattr = 72, "GETXATTR", (GetXattrArgs) -> GetXattrRes;
    SetXattr = 73, "SETXATTR", (SetXattrArgs) -> SetXattrRes;
    ListXattrs = 74, "LISTXATTRS", (ListXattrsArgs) -> ListXattrsRes;
    RemoveXattr = 75, "REMOVEXATTR", (RemoveXattrArgs) -> RemoveXattrRes;
    Illegal = 10044, "ILLEGAL", () -> NfsStatus;
    CompoundMode = 0x4b55_0001, "COMPOUND_MODE", (CompoundModeArgs) -> CompoundModeRes;
}

impl OpCode {
    /// The minor version the operation came with; in an earlier one it is `NFS4ERR_OP_ILLEGAL`.
    pub const fn first_minor_version(self) -> u32 {
        match self as u32 {
            3..=39 => 0,
            40..=58 => 1,
            59..=75 => 2,
            0x4b55_0001.. => 1,
            _ => 0,
        }
    }

    /// Whether the operation is in no RFC.
    pub const fn is_private(self) -> bool {
        self as u32 > OpCode::Illegal as u32
    }

    /// Whether the operation exists in 4.0 only; later it is `NFS4ERR_NOTSUPP` (RFC 8881 §2.8.5).
    pub const fn is_obsolete(self) -> bool {
        matches!(
            self,
            OpCode::OpenConfirm
                | OpCode::Renew
                | OpCode::SetClientId
                | OpCode::SetClientIdConfirm
                | OpCode::ReleaseLockOwner
        )
    }
}
