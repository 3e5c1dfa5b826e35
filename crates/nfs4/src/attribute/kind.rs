//! Small types that attributes are made of.

use bytes::Bytes;
use xdr::{Decode, Encode};

/// Type of a file-system object (`nfs_ftype4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum FileType {
    /// `NF4REG`: regular file.
    Regular = 1,
    /// `NF4DIR`: directory.
    Directory = 2,
    /// `NF4BLK`: block device.
    BlockDevice = 3,
    /// `NF4CHR`: character device.
    CharacterDevice = 4,
    /// `NF4LNK`: symbolic link.
    SymbolicLink = 5,
    /// `NF4SOCK`: socket.
    Socket = 6,
    /// `NF4FIFO`: named pipe.
    Fifo = 7,
    /// `NF4ATTRDIR`: directory of named attributes.
    AttributeDirectory = 8,
    /// `NF4NAMEDATTR`: named attribute.
    NamedAttribute = 9,
}

/// Names a file system of a server (`fsid4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct Fsid {
    /// First half.
    pub major: u64,
    /// Second half.
    pub minor: u64,
}

/// Device numbers (`specdata4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct SpecData {
    /// `specdata1`.
    pub major: u32,
    /// `specdata2`.
    pub minor: u32,
}

/// Changes with the policy of a file system (`change_policy4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct ChangePolicy {
    /// First half.
    pub major: u64,
    /// Second half.
    pub minor: u64,
}

/// Some bits of a mode to set or clear (`mode_masked4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct ModeMasked {
    /// Their new values.
    pub value: u32,
    /// Which bits are meant.
    pub mask: u32,
}

/// Mode of a new object before the umask, and the umask, for directories whose default ACL overrides it
/// (`mode_umask4`, RFC 8275).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct ModeUmask {
    /// The mode asked for.
    pub mode: u32,
    /// The umask of the process.
    pub umask: u32,
}

/// How the `change` attribute grows (`change_attr_type4`, RFC 7862 §12.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum ChangeAttrType {
    /// `NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR`: never falls.
    MonotonicIncr = 0,
    /// `NFS4_CHANGE_TYPE_IS_VERSION_COUNTER`: plus one for each change.
    VersionCounter = 1,
    /// `NFS4_CHANGE_TYPE_IS_VERSION_COUNTER_NOPNFS`: the same, except with pNFS.
    VersionCounterNoPnfs = 2,
    /// `NFS4_CHANGE_TYPE_IS_TIME_METADATA`: is `time_metadata`.
    TimeMetadata = 3,
    /// `NFS4_CHANGE_TYPE_IS_UNDEFINED`: nothing is promised.
    Undefined = 4,
}

/// Security label (`sec_label4`, RFC 7862 §12.2.4).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct SecurityLabel {
    /// Label format specifier (`lfs_lfs`).
    pub format: u32,
    /// Policy identifier (`lfs_pi`).
    pub policy: u32,
    /// The label.
    pub data: Bytes,
}

/// Bits of the `fs_charset_cap` attribute.
#[derive(Debug)]
pub enum FsCharset {}

impl FsCharset {
    /// `FSCHARSET_CAP4_CONTAINS_NON_UTF8`.
    pub const CONTAINS_NON_UTF8: u32 = 0x1;
    /// `FSCHARSET_CAP4_ALLOWS_ONLY_UTF8`.
    pub const ALLOWS_ONLY_UTF8: u32 = 0x2;
}
