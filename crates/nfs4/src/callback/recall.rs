//! Callbacks that take or give state: CB_GETATTR, CB_RECALL, CB_LAYOUTRECALL, CB_PUSH_DELEG, CB_RECALL_ANY,
//! CB_RECALLABLE_OBJ_AVAIL, CB_RECALL_SLOT, CB_WANTS_CANCELLED (RFC 8881 §20).

use xdr::{Decode, Encode};

use crate::layout::{LayoutIoMode, LayoutRecall, LayoutType};
use crate::{Bitmap, Fattr, FileHandle, OpenDelegation, Outcome, StateId};

/// Arguments of CB_GETATTR (`CB_GETATTR4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbGetAttrArgs {
    /// The file, under a write delegation.
    pub file_handle: FileHandle,
    /// Attributes asked for: size and change.
    pub request: Bitmap,
}

/// Result of CB_GETATTR (`CB_GETATTR4res`).
pub type CbGetAttrRes = Outcome<Fattr>;

/// Arguments of CB_RECALL (`CB_RECALL4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbRecallArgs {
    /// The delegation.
    pub state_id: StateId,
    /// Whether the file is about to be truncated, so that dirty data need not be written.
    pub truncate: bool,
    /// The file.
    pub file_handle: FileHandle,
}

/// Arguments of CB_LAYOUTRECALL (`CB_LAYOUTRECALL4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbLayoutRecallArgs {
    /// Which type.
    pub layout_type: LayoutType,
    /// Which layouts, by use.
    pub io_mode: LayoutIoMode,
    /// Whether the layout changed, so that the client should not write to the old place.
    pub changed: bool,
    /// Which layouts.
    pub recall: LayoutRecall,
}

/// Arguments of CB_PUSH_DELEG (`CB_PUSH_DELEG4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbPushDelegArgs {
    /// The file.
    pub file_handle: FileHandle,
    /// The delegation.
    pub delegation: OpenDelegation,
}

/// Arguments of CB_RECALL_ANY and CB_RECALLABLE_OBJ_AVAIL (`CB_RECALL_ANY4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CbRecallAnyArgs {
    /// How many objects the client may keep, or how many it may ask for.
    pub objects_to_keep: u32,
    /// Kinds of object: set of [`recall_any`](crate::bits::recall_any).
    pub type_mask: Bitmap,
}

/// Arguments of CB_RECALL_SLOT (`CB_RECALL_SLOT4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CbRecallSlotArgs {
    /// Highest slot the client should use.
    pub target_highest_slot: u32,
}

/// Arguments of CB_WANTS_CANCELLED (`CB_WANTS_CANCELLED4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CbWantsCancelledArgs {
    /// Whether "push when uncontended" no longer holds.
    pub contended: bool,
    /// Whether "signal when available" no longer holds.
    pub resourced: bool,
}
