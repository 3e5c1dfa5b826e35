use std::sync::Arc;

use ids::Timestamp;

use crate::FileId;
use crate::acl::Acl;

/// Kind of a file-system object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Ordinary file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Block device node.
    BlockDevice,
    /// Character device node.
    CharacterDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

/// Numbers of a device node; zero for everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// All attributes of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Identity.
    pub file: FileId,
    /// Kind; never changes.
    pub kind: FileKind,
    /// Permission bits with set-user-id, set-group-id and sticky: the low 12 bits.
    pub mode: u32,
    /// Hard links; for a directory 2 plus its sub-directories.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Decides in the place of the low nine mode bits, which follow from it.
    pub acl: Option<Arc<Acl>>,
    /// Length in bytes (regular files and links; for directories some number that grows with the entries).
    pub size: u64,
    /// Bytes of storage in use, holes excluded.
    pub space_used: u64,
    /// Numbers of a device node.
    pub device: Device,
    /// Last read, as far as it is recorded.
    pub accessed: Timestamp,
    /// Last change of the content.
    pub modified: Timestamp,
    /// Last change of content or attributes.
    pub changed: Timestamp,
    /// Creation.
    pub created: Timestamp,
    /// Grows with every change of content or attributes (`N22`).
    pub change: u64,
    /// Whether nobody may read or change the content, because malware was found in it. It can be looked at, renamed and removed.
    pub quarantined: bool,
}

/// The [`Attributes::change`] of a directory around an operation; always from the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeInfo {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The file system's current time. Anyone who may write may set this.
    Now,
    /// A given time. Only the owner and the superuser may.
    At(Timestamp),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits (low 12 bits). An access control list is changed with them.
    pub mode: Option<u32>,
    /// For new objects: bits of `mode` that are left out unless there is an access control list to inherit, which then limits
    /// the mode (RFC 8275).
    pub umask: Option<u32>,
    /// Access control list; with `mode` it is set after it.
    pub acl: Option<Arc<Acl>>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length: cut, or extended with a hole. Regular files only.
    pub size: Option<u64>,
    /// Last read.
    pub accessed: Option<SetTime>,
    /// Last change of the content.
    pub modified: Option<SetTime>,
    /// Creation time.
    pub created: Option<Timestamp>,
}

impl SetAttributes {
    /// Only the mode.
    pub fn with_mode(mode: u32) -> SetAttributes {
        SetAttributes { mode: Some(mode), ..SetAttributes::default() }
    }

    /// Only the size.
    pub fn with_size(size: u64) -> SetAttributes {
        SetAttributes { size: Some(size), ..SetAttributes::default() }
    }

    /// Nothing to change.
    pub fn is_empty(&self) -> bool {
        *self == SetAttributes::default()
    }
}

/// Room on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that could be stored in all.
    pub total_bytes: u64,
    /// Bytes still free.
    pub free_bytes: u64,
    /// Bytes that the caller may still store.
    pub available_bytes: u64,
    /// Objects that could exist in all.
    pub total_files: u64,
    /// Objects still to be made.
    pub free_files: u64,
    /// What clones of new files are made of, in bytes ([`crate::Transaction::clone_unit`]).
    pub clone_unit: u32,
}
