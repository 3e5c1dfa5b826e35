//! Operations on names: CREATE, LINK, LOOKUP, REMOVE, RENAME, READLINK, and the filehandle operations.

use xdr::{Decode, Encode};

use crate::{Bitmap, Component, Fattr, FileHandle, LinkText, Outcome, SpecData};

/// How a directory changed in an operation (`change_info4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct ChangeInfo {
    /// Whether nothing else changed in between.
    pub atomic: bool,
    /// The `change` attribute before.
    pub before: u64,
    /// The `change` attribute after.
    pub after: u64,
}

/// What CREATE creates (`createtype4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum CreateType {
    /// `NF4LNK`: a symbolic link to this.
    #[xdr(discriminant = 5)]
    SymbolicLink(LinkText),
    /// `NF4BLK`: a block device.
    #[xdr(discriminant = 3)]
    BlockDevice(SpecData),
    /// `NF4CHR`: a character device.
    #[xdr(discriminant = 4)]
    CharacterDevice(SpecData),
    /// `NF4SOCK`: a socket.
    #[xdr(discriminant = 6)]
    Socket,
    /// `NF4FIFO`: a named pipe.
    #[xdr(discriminant = 7)]
    Fifo,
    /// `NF4DIR`: a directory.
    #[xdr(discriminant = 2)]
    Directory,
    /// Anything else, such as a regular file: `NFS4ERR_BADTYPE`.
    #[xdr(default)]
    Other(u32),
}

/// Arguments of CREATE (`CREATE4args`), in the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CreateArgs {
    /// What to create.
    pub object_type: CreateType,
    /// Its name.
    pub name: Component,
    /// Its attributes.
    pub attributes: Fattr,
}

/// What CREATE returns (`CREATE4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CreateOk {
    /// Change of the directory.
    pub change_info: ChangeInfo,
    /// Attributes that were set.
    pub attributes_set: Bitmap,
}

/// Result of CREATE (`CREATE4res`).
pub type CreateRes = Outcome<CreateOk>;

/// Arguments of LINK (`LINK4args`): saved filehandle into the current one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LinkArgs {
    /// The new name.
    pub new_name: Component,
}

/// Result of LINK (`LINK4res`): change of the directory.
pub type LinkRes = Outcome<ChangeInfo>;

/// Arguments of LOOKUP (`LOOKUP4args`), in the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LookupArgs {
    /// The name.
    pub name: Component,
}

/// Arguments of REMOVE (`REMOVE4args`), in the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RemoveArgs {
    /// The name.
    pub target: Component,
}

/// Result of REMOVE (`REMOVE4res`): change of the directory.
pub type RemoveRes = Outcome<ChangeInfo>;

/// Arguments of RENAME (`RENAME4args`): from the saved filehandle to the current one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RenameArgs {
    /// Name in the saved filehandle.
    pub old_name: Component,
    /// Name in the current filehandle.
    pub new_name: Component,
}

/// What RENAME returns (`RENAME4resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RenameOk {
    /// Change of the source directory.
    pub source: ChangeInfo,
    /// Change of the target directory.
    pub target: ChangeInfo,
}

/// Result of RENAME (`RENAME4res`).
pub type RenameRes = Outcome<RenameOk>;

/// Result of READLINK (`READLINK4res`).
pub type ReadLinkRes = Outcome<LinkText>;

/// Result of GETFH (`GETFH4res`).
pub type GetFhRes = Outcome<FileHandle>;

/// Arguments of PUTFH (`PUTFH4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PutFhArgs {
    /// The new current filehandle.
    pub file_handle: FileHandle,
}
