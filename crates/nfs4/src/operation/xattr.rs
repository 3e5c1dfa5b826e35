//! Extended attributes (RFC 8276).

use bytes::Bytes;
use xdr::{Decode, Encode};

use crate::{ChangeInfo, Component, Outcome};

/// Arguments of GETXATTR (`GETXATTR4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GetXattrArgs {
    /// Its name, without `user.`.
    pub name: Component,
}

/// Result of GETXATTR (`GETXATTR4res`): the value.
pub type GetXattrRes = Outcome<Bytes>;

/// Whether SETXATTR creates or replaces (`setxattr_option4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum SetXattrOption {
    /// `SETXATTR4_EITHER`.
    Either = 0,
    /// `SETXATTR4_CREATE`: `NFS4ERR_EXIST` if there is one.
    Create = 1,
    /// `SETXATTR4_REPLACE`: `NFS4ERR_NOXATTR` if there is none.
    Replace = 2,
}

/// Arguments of SETXATTR (`SETXATTR4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetXattrArgs {
    /// Whether it may or must exist.
    pub option: SetXattrOption,
    /// Its name, without `user.`.
    pub name: Component,
    /// Its value.
    pub value: Bytes,
}

/// Result of SETXATTR (`SETXATTR4res`): change of the object.
pub type SetXattrRes = Outcome<ChangeInfo>;

/// Arguments of LISTXATTRS (`LISTXATTRS4args`), on the current filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ListXattrsArgs {
    /// Where to go on; 0 for the start.
    pub cookie: u64,
    /// Most bytes of the result.
    pub max_count: u32,
}

/// What LISTXATTRS returns (`LISTXATTRS4resok`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ListXattrsOk {
    /// Where to go on.
    pub cookie: u64,
    /// The names, without `user.`.
    pub names: Vec<Component>,
    /// Whether there are no more.
    pub eof: bool,
}

/// Result of LISTXATTRS (`LISTXATTRS4res`).
pub type ListXattrsRes = Outcome<ListXattrsOk>;

/// Arguments of REMOVEXATTR (`REMOVEXATTR4args`), on the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RemoveXattrArgs {
    /// Its name, without `user.`.
    pub name: Component,
}

/// Result of REMOVEXATTR (`REMOVEXATTR4res`): change of the object.
pub type RemoveXattrRes = Outcome<ChangeInfo>;
