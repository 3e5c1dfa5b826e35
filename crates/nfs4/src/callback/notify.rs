//! Callbacks that tell something: CB_NOTIFY, CB_NOTIFY_LOCK, CB_NOTIFY_DEVICEID, CB_OFFLOAD.

use bytes::Bytes;
use xdr::{Decode, Encode};

use crate::layout::LayoutType;
use crate::{
    Bitmap, Component, DeviceId, Fattr, FileHandle, NfsStatus, StateId, StateOwner, Verifier, WriteResponse,
};

/// Kind of directory notification (`notify_type4`, RFC 8881 §20.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum NotifyType {
    /// `NOTIFY4_CHANGE_CHILD_ATTRS`, with [`NotifyEntry`].
    ChangeChildAttrs = 0,
    /// `NOTIFY4_CHANGE_DIR_ATTRS`, with [`NotifyEntry`].
    ChangeDirAttrs = 1,
    /// `NOTIFY4_REMOVE_ENTRY`, with [`NotifyRemove`].
    RemoveEntry = 2,
    /// `NOTIFY4_ADD_ENTRY`, with [`NotifyAdd`].
    AddEntry = 3,
    /// `NOTIFY4_RENAME_ENTRY`, with [`NotifyRename`].
    RenameEntry = 4,
    /// `NOTIFY4_CHANGE_COOKIE_VERIFIER`, with [`NotifyVerifier`].
    ChangeCookieVerifier = 5,
}

/// An entry (`notify_entry4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NotifyEntry {
    /// Its name.
    pub file: Component,
    /// Its attributes.
    pub attributes: Fattr,
}

/// The entry before another one (`prev_entry4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PrevEntry {
    /// The entry.
    pub entry: NotifyEntry,
    /// Its cookie in READDIR.
    pub cookie: u64,
}

/// An entry was removed (`notify_remove4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NotifyRemove {
    /// The entry.
    pub old_entry: NotifyEntry,
    /// Its cookie in READDIR.
    pub cookie: u64,
}

/// An entry was added (`notify_add4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NotifyAdd {
    /// The entry it replaced.
    pub old_entry: Option<NotifyRemove>,
    /// The entry.
    pub new_entry: NotifyEntry,
    /// Its cookie in READDIR.
    pub new_entry_cookie: Option<u64>,
    /// The entry before it.
    pub prev_entry: Option<PrevEntry>,
    /// Whether it is the last.
    pub last_entry: bool,
}

/// An entry was renamed (`notify_rename4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NotifyRename {
    /// The old name.
    pub old_entry: NotifyRemove,
    /// The new name.
    pub new_entry: NotifyAdd,
}

/// The cookie verifier changed (`notify_verifier4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct NotifyVerifier {
    /// From.
    pub old: Verifier,
    /// To.
    pub new: Verifier,
}

/// Notifications (`notify4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Notify {
    /// Which ones: set of [`NotifyType`] or of [`NotifyDeviceIdType`].
    pub mask: Bitmap,
    /// Their XDR forms, ascending by number.
    pub values: Bytes,
}

/// Arguments of CB_NOTIFY (`CB_NOTIFY4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbNotifyArgs {
    /// The directory delegation.
    pub state_id: StateId,
    /// The directory.
    pub file_handle: FileHandle,
    /// What happened, in order.
    pub changes: Vec<Notify>,
}

/// Arguments of CB_NOTIFY_LOCK (`CB_NOTIFY_LOCK4args`): a lock waited for may be free.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbNotifyLockArgs {
    /// The file.
    pub file_handle: FileHandle,
    /// Who waits.
    pub lock_owner: StateOwner,
}

/// Kind of device notification (`notify_deviceid_type4`, RFC 8881 §20.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum NotifyDeviceIdType {
    /// `NOTIFY_DEVICEID4_CHANGE`, with [`NotifyDeviceIdChange`].
    Change = 1,
    /// `NOTIFY_DEVICEID4_DELETE`, with [`NotifyDeviceIdDelete`].
    Delete = 2,
}

/// A device is gone (`notify_deviceid_delete4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct NotifyDeviceIdDelete {
    /// Which type.
    pub layout_type: LayoutType,
    /// The device.
    pub device: DeviceId,
}

/// A device changed (`notify_deviceid_change4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct NotifyDeviceIdChange {
    /// Which type.
    pub layout_type: LayoutType,
    /// The device.
    pub device: DeviceId,
    /// Whether the change is in force already.
    pub immediate: bool,
}

/// Arguments of CB_NOTIFY_DEVICEID (`CB_NOTIFY_DEVICEID4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbNotifyDeviceIdArgs {
    /// What happened, in order.
    pub changes: Vec<Notify>,
}

/// How an asynchronous copy ended (`offload_info4`, RFC 7862 §16.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum OffloadInfo {
    /// It is done.
    #[xdr(discriminant = NfsStatus::Ok.code())]
    Ok(WriteResponse),
    /// It failed.
    #[xdr(default)]
    Failed {
        /// Why.
        status: NfsStatus,
        /// Bytes copied until then.
        bytes_copied: u64,
    },
}

/// Arguments of CB_OFFLOAD (`CB_OFFLOAD4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbOffloadArgs {
    /// The destination.
    pub file_handle: FileHandle,
    /// The operation.
    pub state_id: StateId,
    /// How it ended.
    pub info: OffloadInfo,
}
