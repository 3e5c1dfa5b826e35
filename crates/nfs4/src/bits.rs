//! Flag bits, one module for each field that has some.

/// Rights in ACCESS (RFC 8881 §18.1, RFC 8276 §8.4.1).
pub mod access {
    /// `ACCESS4_READ`: read data, list a directory.
    pub const READ: u32 = 0x001;
    /// `ACCESS4_LOOKUP`: look up names in a directory.
    pub const LOOKUP: u32 = 0x002;
    /// `ACCESS4_MODIFY`: change data or entries.
    pub const MODIFY: u32 = 0x004;
    /// `ACCESS4_EXTEND`: append data, add entries.
    pub const EXTEND: u32 = 0x008;
    /// `ACCESS4_DELETE`: remove entries.
    pub const DELETE: u32 = 0x010;
    /// `ACCESS4_EXECUTE`: execute a file.
    pub const EXECUTE: u32 = 0x020;
    /// `ACCESS4_XAREAD`: read extended attributes.
    pub const XATTR_READ: u32 = 0x040;
    /// `ACCESS4_XAWRITE`: write extended attributes.
    pub const XATTR_WRITE: u32 = 0x080;
    /// `ACCESS4_XALIST`: list extended attributes.
    pub const XATTR_LIST: u32 = 0x100;
}

/// `share_access` of OPEN and wishes for a delegation (RFC 8881 §18.16, §18.49).
pub mod share_access {
    /// `OPEN4_SHARE_ACCESS_READ`.
    pub const READ: u32 = 0x1;
    /// `OPEN4_SHARE_ACCESS_WRITE`.
    pub const WRITE: u32 = 0x2;
    /// `OPEN4_SHARE_ACCESS_BOTH`.
    pub const BOTH: u32 = 0x3;
    /// `OPEN4_SHARE_ACCESS_WANT_DELEG_MASK`: the bits that hold one of the next six values.
    pub const WANT_DELEG_MASK: u32 = 0xff00;
    /// `OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE`.
    pub const WANT_NO_PREFERENCE: u32 = 0x0000;
    /// `OPEN4_SHARE_ACCESS_WANT_READ_DELEG`.
    pub const WANT_READ_DELEG: u32 = 0x0100;
    /// `OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG`.
    pub const WANT_WRITE_DELEG: u32 = 0x0200;
    /// `OPEN4_SHARE_ACCESS_WANT_ANY_DELEG`.
    pub const WANT_ANY_DELEG: u32 = 0x0300;
    /// `OPEN4_SHARE_ACCESS_WANT_NO_DELEG`.
    pub const WANT_NO_DELEG: u32 = 0x0400;
    /// `OPEN4_SHARE_ACCESS_WANT_CANCEL`.
    pub const WANT_CANCEL: u32 = 0x0500;
    /// `OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL`.
    pub const WANT_SIGNAL_WHEN_AVAILABLE: u32 = 0x1_0000;
    /// `OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED`.
    pub const WANT_PUSH_WHEN_UNCONTENDED: u32 = 0x2_0000;
    /// `OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS` (RFC 9754 §5).
    pub const WANT_DELEG_TIMESTAMPS: u32 = 0x10_0000;
    /// `OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION` (RFC 9754 §4).
    pub const WANT_OPEN_XOR_DELEGATION: u32 = 0x20_0000;
}

/// Wishes that [`OpenArguments`](crate::OpenArguments) may list (`open_args_share_access_want4`, RFC 9754 §3).
pub mod open_want {
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_ANY_DELEG`.
    pub const ANY_DELEG: u32 = 3;
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_NO_DELEG`.
    pub const NO_DELEG: u32 = 4;
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_CANCEL`.
    pub const CANCEL: u32 = 5;
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL`.
    pub const SIGNAL_WHEN_AVAILABLE: u32 = 17;
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED`.
    pub const PUSH_WHEN_UNCONTENDED: u32 = 18;
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS`.
    pub const DELEG_TIMESTAMPS: u32 = 20;
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION`.
    pub const OPEN_XOR_DELEGATION: u32 = 21;
}

/// `share_deny` of OPEN.
pub mod share_deny {
    /// `OPEN4_SHARE_DENY_NONE`.
    pub const NONE: u32 = 0x0;
    /// `OPEN4_SHARE_DENY_READ`.
    pub const READ: u32 = 0x1;
    /// `OPEN4_SHARE_DENY_WRITE`.
    pub const WRITE: u32 = 0x2;
    /// `OPEN4_SHARE_DENY_BOTH`.
    pub const BOTH: u32 = 0x3;
}

/// Result flags of OPEN.
pub mod open_result {
    /// `OPEN4_RESULT_CONFIRM`: 4.0 only.
    pub const CONFIRM: u32 = 0x02;
    /// `OPEN4_RESULT_LOCKTYPE_POSIX`: locks behave as in POSIX.
    pub const LOCKTYPE_POSIX: u32 = 0x04;
    /// `OPEN4_RESULT_PRESERVE_UNLINKED`: the file lives on if removed while open.
    pub const PRESERVE_UNLINKED: u32 = 0x08;
    /// `OPEN4_RESULT_NO_OPEN_STATEID`: there is a delegation instead of an open (RFC 9754 §4).
    pub const NO_OPEN_STATE_ID: u32 = 0x10;
    /// `OPEN4_RESULT_MAY_NOTIFY_LOCK`: CB_NOTIFY_LOCK may come.
    pub const MAY_NOTIFY_LOCK: u32 = 0x20;
}

/// `fh_expire_type` attribute (RFC 8881 §4.2.3).
pub mod fh_expire {
    /// `FH4_PERSISTENT`.
    pub const PERSISTENT: u32 = 0x0;
    /// `FH4_NOEXPIRE_WITH_OPEN`.
    pub const NO_EXPIRE_WITH_OPEN: u32 = 0x1;
    /// `FH4_VOLATILE_ANY`.
    pub const VOLATILE_ANY: u32 = 0x2;
    /// `FH4_VOL_MIGRATION`.
    pub const VOLATILE_MIGRATION: u32 = 0x4;
    /// `FH4_VOL_RENAME`.
    pub const VOLATILE_RENAME: u32 = 0x8;
}

/// Flags of EXCHANGE_ID (RFC 8881 §18.35).
pub mod exchange_id {
    /// `EXCHGID4_FLAG_SUPP_MOVED_REFER`.
    pub const SUPP_MOVED_REFER: u32 = 0x0000_0001;
    /// `EXCHGID4_FLAG_SUPP_MOVED_MIGR`.
    pub const SUPP_MOVED_MIGR: u32 = 0x0000_0002;
    /// `EXCHGID4_FLAG_SUPP_FENCE_OPS` (RFC 7862).
    pub const SUPP_FENCE_OPS: u32 = 0x0000_0004;
    /// `EXCHGID4_FLAG_BIND_PRINC_STATEID`.
    pub const BIND_PRINC_STATEID: u32 = 0x0000_0100;
    /// `EXCHGID4_FLAG_USE_NON_PNFS`.
    pub const USE_NON_PNFS: u32 = 0x0001_0000;
    /// `EXCHGID4_FLAG_USE_PNFS_MDS`.
    pub const USE_PNFS_MDS: u32 = 0x0002_0000;
    /// `EXCHGID4_FLAG_USE_PNFS_DS`.
    pub const USE_PNFS_DS: u32 = 0x0004_0000;
    /// `EXCHGID4_FLAG_MASK_PNFS`.
    pub const MASK_PNFS: u32 = 0x0007_0000;
    /// `EXCHGID4_FLAG_UPD_CONFIRMED_REC_A`: in arguments only.
    pub const UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
    /// `EXCHGID4_FLAG_CONFIRMED_R`: in results only.
    pub const CONFIRMED_R: u32 = 0x8000_0000;
    /// Every bit that a client may set; another one is `NFS4ERR_INVAL`.
    pub const ARGUMENTS: u32 = SUPP_MOVED_REFER
        | SUPP_MOVED_MIGR
        | SUPP_FENCE_OPS
        | BIND_PRINC_STATEID
        | MASK_PNFS
        | UPD_CONFIRMED_REC_A;
}

/// Flags of CREATE_SESSION (RFC 8881 §18.36).
pub mod create_session {
    /// `CREATE_SESSION4_FLAG_PERSIST`: the reply cache survives restarts.
    pub const PERSIST: u32 = 0x1;
    /// `CREATE_SESSION4_FLAG_CONN_BACK_CHAN`: this connection serves callbacks too.
    pub const CONN_BACK_CHAN: u32 = 0x2;
    /// `CREATE_SESSION4_FLAG_CONN_RDMA`: switch to RDMA.
    pub const CONN_RDMA: u32 = 0x4;
}

/// Status flags of SEQUENCE (RFC 8881 §18.46).
pub mod sequence_status {
    /// `SEQ4_STATUS_CB_PATH_DOWN`: no connection for callbacks to this client.
    pub const CB_PATH_DOWN: u32 = 0x0001;
    /// `SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING`.
    pub const CB_GSS_CONTEXTS_EXPIRING: u32 = 0x0002;
    /// `SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED`.
    pub const CB_GSS_CONTEXTS_EXPIRED: u32 = 0x0004;
    /// `SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED`.
    pub const EXPIRED_ALL_STATE_REVOKED: u32 = 0x0008;
    /// `SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED`.
    pub const EXPIRED_SOME_STATE_REVOKED: u32 = 0x0010;
    /// `SEQ4_STATUS_ADMIN_STATE_REVOKED`.
    pub const ADMIN_STATE_REVOKED: u32 = 0x0020;
    /// `SEQ4_STATUS_RECALLABLE_STATE_REVOKED`: delegations or layouts were revoked.
    pub const RECALLABLE_STATE_REVOKED: u32 = 0x0040;
    /// `SEQ4_STATUS_LEASE_MOVED`.
    pub const LEASE_MOVED: u32 = 0x0080;
    /// `SEQ4_STATUS_RESTART_RECLAIM_NEEDED`: the server restarted; reclaim.
    pub const RESTART_RECLAIM_NEEDED: u32 = 0x0100;
    /// `SEQ4_STATUS_CB_PATH_DOWN_SESSION`: no connection for callbacks of this session.
    pub const CB_PATH_DOWN_SESSION: u32 = 0x0200;
    /// `SEQ4_STATUS_BACKCHANNEL_FAULT`.
    pub const BACKCHANNEL_FAULT: u32 = 0x0400;
    /// `SEQ4_STATUS_DEVID_CHANGED`.
    pub const DEVID_CHANGED: u32 = 0x0800;
    /// `SEQ4_STATUS_DEVID_DELETED`.
    pub const DEVID_DELETED: u32 = 0x1000;
}

/// Bits of the `mode` attribute.
pub mod mode {
    /// `MODE4_SUID`.
    pub const SET_UID: u32 = 0o4000;
    /// `MODE4_SGID`.
    pub const SET_GID: u32 = 0o2000;
    /// `MODE4_SVTX`.
    pub const STICKY: u32 = 0o1000;
    /// All bits a mode can have.
    pub const ALL: u32 = 0o7777;
}

/// Numbers in the bitmap of CB_RECALL_ANY (RFC 8881 §20.6).
pub mod recall_any {
    /// `RCA4_TYPE_MASK_RDATA_DLG`: read delegations.
    pub const READ_DELEGATIONS: u32 = 0;
    /// `RCA4_TYPE_MASK_WDATA_DLG`: write delegations.
    pub const WRITE_DELEGATIONS: u32 = 1;
    /// `RCA4_TYPE_MASK_DIR_DLG`: directory delegations.
    pub const DIR_DELEGATIONS: u32 = 2;
    /// `RCA4_TYPE_MASK_FILE_LAYOUT`: file layouts.
    pub const FILE_LAYOUTS: u32 = 3;
    /// `RCA4_TYPE_MASK_BLK_LAYOUT`: block layouts.
    pub const BLOCK_LAYOUTS: u32 = 4;
    /// `RCA4_TYPE_MASK_OBJ_LAYOUT_MIN`: first of object layouts.
    pub const OBJECT_LAYOUTS_MIN: u32 = 8;
    /// `RCA4_TYPE_MASK_OBJ_LAYOUT_MAX`: last of object layouts.
    pub const OBJECT_LAYOUTS_MAX: u32 = 9;
    /// `RCA4_TYPE_MASK_OTHER_LAYOUT_MIN`: first of other layouts.
    pub const OTHER_LAYOUTS_MIN: u32 = 12;
    /// `RCA4_TYPE_MASK_OTHER_LAYOUT_MAX`: last of other layouts.
    pub const OTHER_LAYOUTS_MAX: u32 = 15;
}

/// `flags` of COMPOUND_MODE, a private operation (`docs/protocol.md`).
pub mod compound_mode {
    /// All operations are done, or none of them.
    pub const ATOMIC: u32 = 0x1;
    /// WRITE at the offset 2^64-1 writes at the end of the file.
    pub const APPEND: u32 = 0x2;
    /// All bits that there are.
    pub const ALL: u32 = ATOMIC | APPEND;
}
