//! The table of callback operations.

use crate::NfsStatus;
use crate::callback::{notify::*, recall::*, sequence::*};
use crate::union_macro::operations;

operations! {
    /// Number of a callback operation (`nfs_cb_opnum4`).
    CbOpCode,
    /// A callback operation with its arguments (`nfs_cb_argop4`).
    NfsCbArgOp,
    /// A callback operation with its result (`nfs_cb_resop4`).
    NfsCbResOp;

    GetAttr = 3, "CB_GETATTR", (CbGetAttrArgs) -> CbGetAttrRes;
    Recall = 4, "CB_RECALL", (CbRecallArgs) -> NfsStatus;
    LayoutRecall = 5, "CB_LAYOUTRECALL", (CbLayoutRecallArgs) -> NfsStatus;
    Notify = 6, "CB_NOTIFY", (CbNotifyArgs) -> NfsStatus;
    PushDeleg = 7, "CB_PUSH_DELEG", (CbPushDelegArgs) -> NfsStatus;
    RecallAny = 8, "CB_RECALL_ANY", (CbRecallAnyArgs) -> NfsStatus;
    RecallableObjAvail = 9, "CB_RECALLABLE_OBJ_AVAIL", (CbRecallAnyArgs) -> NfsStatus;
    RecallSlot = 10, "CB_RECALL_SLOT", (CbRecallSlotArgs) -> NfsStatus;
    Sequence = 11, "CB_SEQUENCE", (CbSequenceArgs) -> CbSequenceRes;
    WantsCancelled = 12, "CB_WANTS_CANCELLED", (CbWantsCancelledArgs) -> NfsStatus;
    NotifyLock = 13, "CB_NOTIFY_LOCK", (CbNotifyLockArgs) -> NfsStatus;
    NotifyDeviceId = 14, "CB_NOTIFY_DEVICEID", (CbNotifyDeviceIdArgs) -> NfsStatus;
    Offload = 15, "CB_OFFLOAD", (CbOffloadArgs) -> NfsStatus;
    Illegal = 10044, "CB_ILLEGAL", () -> NfsStatus;
}

impl CbOpCode {
    /// The minor version the operation came with; in an earlier one it is `NFS4ERR_OP_ILLEGAL`.
    pub const fn first_minor_version(self) -> u32 {
        match self as u32 {
            5..=14 => 1,
            15 => 2,
            _ => 0,
        }
    }
}
