//! Operations on layouts and devices (RFC 8881 §18.40 - §18.44, RFC 7862 §15.6, §15.7).

use xdr::{Decode, Encode};

use crate::layout::{DeviceAddress, Layout, LayoutIoMode, LayoutReturn, LayoutType, LayoutUpdate};
use crate::{Bitmap, DeviceId, NfsStatus, NfsTime, OpResult, Outcome, StateId, Verifier};

/// Arguments of GETDEVICEINFO (`GETDEVICEINFO4args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct GetDeviceInfoArgs {
    /// The device.
    pub device: DeviceId,
    /// Which type.
    pub layout_type: LayoutType,
    /// Most bytes of the address.
    pub max_count: u32,
    /// Notifications wanted: set of [`NotifyDeviceIdType`](crate::NotifyDeviceIdType).
    pub notify_types: Bitmap,
}

/// What GETDEVICEINFO returns (`GETDEVICEINFO4resok`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GetDeviceInfoOk {
    /// Its address.
    pub address: DeviceAddress,
    /// Notifications that will come.
    pub notification: Bitmap,
}

/// Result of GETDEVICEINFO (`GETDEVICEINFO4res`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum GetDeviceInfoRes {
    /// The device.
    #[xdr(discriminant = NfsStatus::Ok.code())]
    Ok(GetDeviceInfoOk),
    /// `NFS4ERR_TOOSMALL`: so many bytes are needed.
    #[xdr(discriminant = NfsStatus::TooSmall.code())]
    TooSmall(u32),
    /// Any other error.
    #[xdr(default)]
    Err(NfsStatus),
}

impl OpResult for GetDeviceInfoRes {
    fn status(&self) -> NfsStatus {
        match self {
            GetDeviceInfoRes::Ok(_) => NfsStatus::Ok,
            GetDeviceInfoRes::TooSmall(_) => NfsStatus::TooSmall,
            GetDeviceInfoRes::Err(status) => *status,
        }
    }

    fn from_error(error: NfsStatus) -> GetDeviceInfoRes {
        match error {
            NfsStatus::TooSmall => GetDeviceInfoRes::TooSmall(0),
            error => GetDeviceInfoRes::Err(error),
        }
    }
}

/// Arguments of GETDEVICELIST (`GETDEVICELIST4args`), of the current file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct GetDeviceListArgs {
    /// Which type.
    pub layout_type: LayoutType,
    /// Most devices.
    pub max_devices: u32,
    /// Where to go on; 0 for the start.
    pub cookie: u64,
    /// The verifier that came with the cookie.
    pub cookie_verifier: Verifier,
}

/// What GETDEVICELIST returns (`GETDEVICELIST4resok`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GetDeviceListOk {
    /// Where to go on.
    pub cookie: u64,
    /// Changes when cookies lose their meaning.
    pub cookie_verifier: Verifier,
    /// The devices.
    pub devices: Vec<DeviceId>,
    /// Whether there are no more.
    pub eof: bool,
}

/// Result of GETDEVICELIST (`GETDEVICELIST4res`).
pub type GetDeviceListRes = Outcome<GetDeviceListOk>;

/// Arguments of LAYOUTCOMMIT (`LAYOUTCOMMIT4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutCommitArgs {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whether it is reclaimed after a restart of the server.
    pub reclaim: bool,
    /// The layout.
    pub state_id: StateId,
    /// Last byte written (`newoffset4`), if any was.
    pub last_write_offset: Option<u64>,
    /// New modification time (`newtime4`), if the client suggests one.
    pub time_modify: Option<NfsTime>,
    /// By layout type.
    pub update: LayoutUpdate,
}

/// Result of LAYOUTCOMMIT (`LAYOUTCOMMIT4res`): the new size (`newsize4`), if it changed.
pub type LayoutCommitRes = Outcome<Option<u64>>;

/// Arguments of LAYOUTGET (`LAYOUTGET4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LayoutGetArgs {
    /// Whether to say later when one is available.
    pub signal_available: bool,
    /// Which type.
    pub layout_type: LayoutType,
    /// What for.
    pub io_mode: LayoutIoMode,
    /// First byte.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u64,
    /// Bytes needed.
    pub min_length: u64,
    /// An open, a lock, a delegation, or the layout so far.
    pub state_id: StateId,
    /// Most bytes of the result.
    pub max_count: u32,
}

/// What LAYOUTGET returns (`LAYOUTGET4resok`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutGetOk {
    /// Whether to return it before CLOSE.
    pub return_on_close: bool,
    /// The state of the layouts.
    pub state_id: StateId,
    /// The layouts.
    pub layouts: Vec<Layout>,
}

/// Result of LAYOUTGET (`LAYOUTGET4res`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum LayoutGetRes {
    /// The layouts.
    #[xdr(discriminant = NfsStatus::Ok.code())]
    Ok(LayoutGetOk),
    /// `NFS4ERR_LAYOUTTRYLATER`.
    #[xdr(discriminant = NfsStatus::LayoutTryLater.code())]
    TryLater {
        /// Whether the server will say when one is available.
        will_signal: bool,
    },
    /// Any other error.
    #[xdr(default)]
    Err(NfsStatus),
}

impl OpResult for LayoutGetRes {
    fn status(&self) -> NfsStatus {
        match self {
            LayoutGetRes::Ok(_) => NfsStatus::Ok,
            LayoutGetRes::TryLater { .. } => NfsStatus::LayoutTryLater,
            LayoutGetRes::Err(status) => *status,
        }
    }

    fn from_error(error: NfsStatus) -> LayoutGetRes {
        match error {
            NfsStatus::LayoutTryLater => LayoutGetRes::TryLater { will_signal: false },
            error => LayoutGetRes::Err(error),
        }
    }
}

/// Arguments of LAYOUTRETURN (`LAYOUTRETURN4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutReturnArgs {
    /// Whether it is from before a restart of the server.
    pub reclaim: bool,
    /// Which type.
    pub layout_type: LayoutType,
    /// Which layouts, by use.
    pub io_mode: LayoutIoMode,
    /// Which layouts.
    pub layout_return: LayoutReturn,
}

/// Result of LAYOUTRETURN (`LAYOUTRETURN4res`): the state of the layouts that remain (`layoutreturn_stateid`), if any.
pub type LayoutReturnRes = Outcome<Option<StateId>>;

/// What went wrong with a device (`device_error4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct DeviceError {
    /// The device.
    pub device: DeviceId,
    /// The error.
    pub status: NfsStatus,
    /// The operation that failed, as its number.
    pub operation: u32,
}

/// Arguments of LAYOUTERROR (`LAYOUTERROR4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutErrorArgs {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The layout.
    pub state_id: StateId,
    /// The errors.
    pub errors: Vec<DeviceError>,
}

/// How much I/O there was (`io_info4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct IoInfo {
    /// Operations.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Arguments of LAYOUTSTATS (`LAYOUTSTATS4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutStatsArgs {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The layout.
    pub state_id: StateId,
    /// Reads.
    pub read: IoInfo,
    /// Writes.
    pub write: IoInfo,
    /// The device.
    pub device: DeviceId,
    /// By layout type.
    pub update: LayoutUpdate,
}
