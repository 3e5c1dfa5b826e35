//! Who may do what (POSIX mode bits, ownership, the sticky bit): pure functions that every implementation shares.

use crate::{Attributes, Authority, Caller, FileKind, FsError, FsResult};

/// Kinds of access, combined with `|`; the values are those of the mode bits (POSIX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// Read the content, list the directory.
    pub const READ: Access = Access(4);
    /// Change the content, add and remove entries.
    pub const WRITE: Access = Access(2);
    /// Run the file, look names up in the directory.
    pub const EXECUTE: Access = Access(1);

    /// Whether all of `other` is in this.
    pub fn contains(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// The sticky bit: only owners remove entries of such a directory.
const STICKY: u32 = 0o1000;

/// Which access the mode bits give `caller`. The superuser gets everything, but may run a regular file only if
/// somebody may.
pub fn permitted(attributes: &Attributes, caller: &Caller) -> Access {
    let mode = attributes.mode;
    if caller.is_superuser() {
        let execute = attributes.kind == FileKind::Directory || mode & 0o111 != 0;
        return Access(if execute { 7 } else { 6 });
    }
    let shift = match () {
        () if caller.uid == attributes.uid => 6,
        () if caller.in_group(attributes.gid) => 3,
        () => 0,
    };
    Access((mode >> shift) & 7)
}

/// Ends in [`FsError::AccessDenied`] unless the mode bits give `caller` all of `access`.
pub fn require(attributes: &Attributes, caller: &Caller, access: Access) -> FsResult<()> {
    if permitted(attributes, caller).contains(access) { Ok(()) } else { Err(FsError::AccessDenied) }
}

/// `NotDirectory` unless it is one.
pub fn require_directory(attributes: &Attributes) -> FsResult<()> {
    if attributes.kind == FileKind::Directory { Ok(()) } else { Err(FsError::NotDirectory) }
}

/// `IsDirectory`, `IsSymlink` or `WrongKind` unless it is a regular file.
pub fn require_regular(attributes: &Attributes) -> FsResult<()> {
    match attributes.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(FsError::IsDirectory),
        FileKind::Symlink => Err(FsError::IsSymlink),
        _ => Err(FsError::WrongKind),
    }
}

/// Whether content may be read. Without an open, permission to run is as good as permission to read, because
/// whoever runs a file on a client reads it here (RFC 8881 §18.22.4).
pub fn may_read(attributes: &Attributes, caller: &Caller, authority: Authority) -> FsResult<()> {
    may_use(attributes, caller, authority, Access::READ)
        .or_else(|e| if permitted(attributes, caller).contains(Access::EXECUTE) { Ok(()) } else { Err(e) })
}

/// Whether content may be written or cut.
pub fn may_write(attributes: &Attributes, caller: &Caller, authority: Authority) -> FsResult<()> {
    may_use(attributes, caller, authority, Access::WRITE)
}

fn may_use(attributes: &Attributes, caller: &Caller, authority: Authority, access: Access) -> FsResult<()> {
    if authority == Authority::Opened || caller.uid == attributes.uid {
        return Ok(());
    }
    require(attributes, caller, access)
}

/// Whether `caller` may add and remove entries of `directory`.
pub fn may_change_entries(directory: &Attributes, caller: &Caller) -> FsResult<()> {
    require_directory(directory)?;
    require(directory, caller, Access::WRITE | Access::EXECUTE)
}

/// Whether `caller` may take the entry that leads to `victim` out of `directory`: write permission and, in a
/// sticky directory, ownership of one of the two.
pub fn may_remove(directory: &Attributes, victim: &Attributes, caller: &Caller) -> FsResult<()> {
    may_change_entries(directory, caller)?;
    let owner = caller.is_superuser() || caller.uid == directory.uid || caller.uid == victim.uid;
    if directory.mode & STICKY != 0 && !owner {
        return Err(FsError::NotPermitted);
    }
    Ok(())
}

/// Whether `caller` may move `moved` from directory `from` to directory `to`, apart from what it replaces. A
/// directory that changes its parent must itself be writable, because its `..` changes.
pub fn may_move(from: &Attributes, moved: &Attributes, to: &Attributes, caller: &Caller) -> FsResult<()> {
    may_remove(from, moved, caller)?;
    may_change_entries(to, caller)?;
    if moved.kind == FileKind::Directory && from.file != to.file {
        require(moved, caller, Access::WRITE)?;
    }
    Ok(())
}

/// Whether a rename may put `moved` in the place of `replaced`, which is empty if it is a directory and
/// `replaced_is_empty`.
pub fn may_replace(
    to: &Attributes,
    moved: &Attributes,
    replaced: &Attributes,
    replaced_is_empty: bool,
    caller: &Caller,
) -> FsResult<()> {
    may_remove(to, replaced, caller)?;
    match (moved.kind == FileKind::Directory, replaced.kind == FileKind::Directory) {
        (true, false) => Err(FsError::NotDirectory),
        (false, true) => Err(FsError::IsDirectory),
        (true, true) if !replaced_is_empty => Err(FsError::NotEmpty),
        _ => Ok(()),
    }
}

/// Whether extended attributes may be read (`access` READ) or changed (WRITE). Only regular files and
/// directories have them; those of a sticky directory only its owner changes (Linux `xattr(7)`).
pub fn may_use_xattrs(attributes: &Attributes, caller: &Caller, access: Access) -> FsResult<()> {
    match attributes.kind {
        FileKind::Regular => {}
        FileKind::Directory => {
            let sticky = attributes.mode & STICKY != 0 && access == Access::WRITE;
            if sticky && !caller.is_superuser() && caller.uid != attributes.uid {
                return Err(FsError::NotPermitted);
            }
        }
        _ => return Err(FsError::NotPermitted),
    }
    require(attributes, caller, access)
}
