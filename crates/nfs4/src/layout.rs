//! Layouts and devices of pNFS (RFC 8881 §12), as plain data.

use bytes::Bytes;
use xdr::{Decode, Encode};

use crate::{Bitmap, DeviceId, FileHandle, Fsid, NetAddress, StateId};

/// Kind of layout (`layouttype4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum LayoutType {
    /// `LAYOUT4_NFSV4_1_FILES`.
    Files = 1,
    /// `LAYOUT4_OSD2_OBJECTS` (RFC 5664).
    Osd2Objects = 2,
    /// `LAYOUT4_BLOCK_VOLUME` (RFC 5663).
    BlockVolume = 3,
    /// `LAYOUT4_FLEX_FILES` (RFC 8435).
    FlexFiles = 4,
    /// `LAYOUT4_SCSI` (RFC 8154).
    Scsi = 5,
    /// A kind this crate has no name for.
    #[xdr(other)]
    Other(u32),
}

/// What a layout is for (`layoutiomode4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum LayoutIoMode {
    /// `LAYOUTIOMODE4_READ`.
    Read = 1,
    /// `LAYOUTIOMODE4_RW`.
    ReadWrite = 2,
    /// `LAYOUTIOMODE4_ANY`: in returns and recalls only.
    Any = 3,
}

/// Content of a layout, by its type (`layout_content4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutContent {
    /// Which type.
    pub layout_type: LayoutType,
    /// For [`LayoutType::Files`] the XDR form of [`FileLayout`].
    pub body: Bytes,
}

/// A part of a file and where its data is (`layout4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Layout {
    /// First byte.
    pub offset: u64,
    /// Bytes; all ones up to the end of the file.
    pub length: u64,
    /// What it may be used for.
    pub io_mode: LayoutIoMode,
    /// Where the data is.
    pub content: LayoutContent,
}

/// Wish for the layout of a new file (`layouthint4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutHint {
    /// Which type.
    pub layout_type: LayoutType,
    /// The wish, by type.
    pub body: Bytes,
}

/// What a client tells about a layout it used (`layoutupdate4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutUpdate {
    /// Which type.
    pub layout_type: LayoutType,
    /// The update, by type; empty for [`LayoutType::Files`].
    pub body: Bytes,
}

/// Address of a device (`device_addr4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DeviceAddress {
    /// Which type.
    pub layout_type: LayoutType,
    /// For [`LayoutType::Files`] the XDR form of [`FileLayoutDevice`].
    pub body: Bytes,
}

/// When I/O should pass by the metadata server, for one layout type (`threshold_item4`, RFC 8881 §5.12.4).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ThresholdItem {
    /// Which type.
    pub layout_type: LayoutType,
    /// Which hints follow: read size (0), write size (1), read I/O size (2), write I/O size (3).
    pub hint_set: Bitmap,
    /// The hints, each the XDR form of a 64-bit number of bytes.
    pub hint_list: Bytes,
}

/// Content of a file layout (`nfsv4_1_file_layout4`, RFC 8881 §13.3).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FileLayout {
    /// The device with the data servers.
    pub device: DeviceId,
    /// Stripe unit size in bytes (the upper 26 bits) and flags: dense (1), commit through the metadata server (2),
    /// IO_ADVISE through the metadata server (4).
    pub util: u32,
    /// Index of the first stripe in the device's stripe indices.
    pub first_stripe_index: u32,
    /// Where in the file the pattern begins.
    pub pattern_offset: u64,
    /// Filehandles on the data servers.
    pub file_handles: Vec<FileHandle>,
}

/// Data servers of a file layout (`nfsv4_1_file_layout_ds_addr4`, RFC 8881 §13.2).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FileLayoutDevice {
    /// Which data server has which stripe.
    pub stripe_indices: Vec<u32>,
    /// The addresses of each data server.
    pub data_servers: Vec<Vec<NetAddress>>,
}

/// Wish for a file layout (`nfsv4_1_file_layouthint4`, RFC 8881 §13.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct FileLayoutHint {
    /// Which fields matter: dense (0x1), commit through the metadata server (0x2), IO_ADVISE through it (0x4),
    /// stripe unit size (0x40), stripe count (0x80).
    pub care: u32,
    /// As [`FileLayout::util`].
    pub util: u32,
    /// Number of stripes.
    pub stripe_count: u32,
}

/// Which layouts a client returns (`layoutreturn4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum LayoutReturn {
    /// `LAYOUTRETURN4_FILE`: layouts of the current file.
    #[xdr(discriminant = 1)]
    File(LayoutReturnFile),
    /// `LAYOUTRETURN4_FSID`: all of the current file system.
    #[xdr(discriminant = 2)]
    FileSystem,
    /// `LAYOUTRETURN4_ALL`: all.
    #[xdr(discriminant = 3)]
    All,
}

/// A part of a file whose layout is returned (`layoutreturn_file4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutReturnFile {
    /// First byte.
    pub offset: u64,
    /// Bytes; all ones up to the end of the file.
    pub length: u64,
    /// The layout.
    pub state_id: StateId,
    /// By layout type.
    pub body: Bytes,
}

/// Which layouts a server recalls (`layoutrecall4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum LayoutRecall {
    /// `LAYOUTRECALL4_FILE`: layouts of one file.
    #[xdr(discriminant = 1)]
    File(LayoutRecallFile),
    /// `LAYOUTRECALL4_FSID`: all of one file system.
    #[xdr(discriminant = 2)]
    FileSystem(Fsid),
    /// `LAYOUTRECALL4_ALL`: all.
    #[xdr(discriminant = 3)]
    All,
}

/// A part of a file whose layout is recalled (`layoutrecall_file4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LayoutRecallFile {
    /// The file.
    pub file_handle: FileHandle,
    /// First byte.
    pub offset: u64,
    /// Bytes; all ones up to the end of the file.
    pub length: u64,
    /// The layout.
    pub state_id: StateId,
}
