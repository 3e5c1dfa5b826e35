//! Access control lists (RFC 8881 §6.2).

use xdr::{Decode, Encode};

use crate::Utf8String;

/// One entry of a list (`nfsace4`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Ace {
    /// What it does: one of [`ALLOWED`], [`DENIED`], [`AUDIT`], [`ALARM`]. Others decode, and are for the server to
    /// refuse.
    pub ace_type: u32,
    /// Inheritance and such: `acl::flag`.
    pub flags: u32,
    /// Which accesses: `acl::mask`.
    pub access_mask: u32,
    /// Whose: `user@domain`, `OWNER@`, `GROUP@`, `EVERYONE@`, ...
    pub who: Utf8String,
}

/// A list with flags (`nfsacl41`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Acl41 {
    /// `ACL4_AUTO_INHERIT` (1), `ACL4_PROTECTED` (2), `ACL4_DEFAULTED` (4).
    pub flags: u32,
    /// The entries, in order of evaluation.
    pub aces: Vec<Ace>,
}

/// `ACE4_ACCESS_ALLOWED_ACE_TYPE`.
pub const ALLOWED: u32 = 0;
/// `ACE4_ACCESS_DENIED_ACE_TYPE`.
pub const DENIED: u32 = 1;
/// `ACE4_SYSTEM_AUDIT_ACE_TYPE`.
pub const AUDIT: u32 = 2;
/// `ACE4_SYSTEM_ALARM_ACE_TYPE`.
pub const ALARM: u32 = 3;

/// `ACL4_SUPPORT_ALLOW_ACL`, a bit of the `aclsupport` attribute.
pub const SUPPORT_ALLOW: u32 = 1;
/// `ACL4_SUPPORT_DENY_ACL`.
pub const SUPPORT_DENY: u32 = 2;
/// `ACL4_SUPPORT_AUDIT_ACL`.
pub const SUPPORT_AUDIT: u32 = 4;
/// `ACL4_SUPPORT_ALARM_ACL`.
pub const SUPPORT_ALARM: u32 = 8;

/// Bits of [`Ace::flags`] (`aceflag4`).
pub mod flag {
    /// `ACE4_FILE_INHERIT_ACE`.
    pub const FILE_INHERIT: u32 = 0x01;
    /// `ACE4_DIRECTORY_INHERIT_ACE`.
    pub const DIRECTORY_INHERIT: u32 = 0x02;
    /// `ACE4_NO_PROPAGATE_INHERIT_ACE`.
    pub const NO_PROPAGATE_INHERIT: u32 = 0x04;
    /// `ACE4_INHERIT_ONLY_ACE`.
    pub const INHERIT_ONLY: u32 = 0x08;
    /// `ACE4_SUCCESSFUL_ACCESS_ACE_FLAG`.
    pub const SUCCESSFUL_ACCESS: u32 = 0x10;
    /// `ACE4_FAILED_ACCESS_ACE_FLAG`.
    pub const FAILED_ACCESS: u32 = 0x20;
    /// `ACE4_IDENTIFIER_GROUP`: `who` is a group.
    pub const IDENTIFIER_GROUP: u32 = 0x40;
    /// `ACE4_INHERITED_ACE`.
    pub const INHERITED: u32 = 0x80;
}

/// Bits of [`Ace::access_mask`] (`acemask4`).
pub mod mask {
    /// `ACE4_READ_DATA`, for directories `ACE4_LIST_DIRECTORY`.
    pub const READ_DATA: u32 = 0x0000_0001;
    /// `ACE4_WRITE_DATA`, for directories `ACE4_ADD_FILE`.
    pub const WRITE_DATA: u32 = 0x0000_0002;
    /// `ACE4_APPEND_DATA`, for directories `ACE4_ADD_SUBDIRECTORY`.
    pub const APPEND_DATA: u32 = 0x0000_0004;
    /// `ACE4_READ_NAMED_ATTRS`.
    pub const READ_NAMED_ATTRS: u32 = 0x0000_0008;
    /// `ACE4_WRITE_NAMED_ATTRS`.
    pub const WRITE_NAMED_ATTRS: u32 = 0x0000_0010;
    /// `ACE4_EXECUTE`.
    pub const EXECUTE: u32 = 0x0000_0020;
    /// `ACE4_DELETE_CHILD`.
    pub const DELETE_CHILD: u32 = 0x0000_0040;
    /// `ACE4_READ_ATTRIBUTES`.
    pub const READ_ATTRIBUTES: u32 = 0x0000_0080;
    /// `ACE4_WRITE_ATTRIBUTES`.
    pub const WRITE_ATTRIBUTES: u32 = 0x0000_0100;
    /// `ACE4_WRITE_RETENTION`.
    pub const WRITE_RETENTION: u32 = 0x0000_0200;
    /// `ACE4_WRITE_RETENTION_HOLD`.
    pub const WRITE_RETENTION_HOLD: u32 = 0x0000_0400;
    /// `ACE4_DELETE`.
    pub const DELETE: u32 = 0x0001_0000;
    /// `ACE4_READ_ACL`.
    pub const READ_ACL: u32 = 0x0002_0000;
    /// `ACE4_WRITE_ACL`.
    pub const WRITE_ACL: u32 = 0x0004_0000;
    /// `ACE4_WRITE_OWNER`.
    pub const WRITE_OWNER: u32 = 0x0008_0000;
    /// `ACE4_SYNCHRONIZE`.
    pub const SYNCHRONIZE: u32 = 0x0010_0000;
    /// `ACE4_GENERIC_READ`.
    pub const GENERIC_READ: u32 = 0x0012_0081;
    /// `ACE4_GENERIC_WRITE`.
    pub const GENERIC_WRITE: u32 = 0x0016_0106;
    /// `ACE4_GENERIC_EXECUTE`.
    pub const GENERIC_EXECUTE: u32 = 0x0012_00a0;
}
