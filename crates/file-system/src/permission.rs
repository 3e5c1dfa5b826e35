//! Who may do what (POSIX mode bits, ownership, the sticky bit; access control lists): pure functions that every
//! implementation shares. An access control list decides in the place of the mode bits where there is one; owners can
//! always change list, mode and times, so that nobody locks himself out.

use crate::acl::{Acl, Verdict, bits_of, right};
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

/// Which access `caller` has. The superuser gets everything, but may run a regular file only if somebody may. By a
/// list, write permission takes the rights to change and to extend. Nobody has any to what is quarantined.
pub fn permitted(attributes: &Attributes, caller: &Caller) -> Access {
    if attributes.quarantined {
        return Access(0);
    }
    let mode = attributes.mode;
    let acl = attributes.acl.as_deref();
    if caller.is_superuser() {
        let somebody = mode & 0o111 != 0 || acl.is_some_and(|acl| acl.gives_anybody(right::EXECUTE));
        let execute = attributes.kind == FileKind::Directory || somebody;
        return Access(if execute { 7 } else { 6 });
    }
    if let Some(acl) = acl {
        return Access(bits_of(acl.verdict(attributes, caller).allowed));
    }
    let shift = match () {
        () if caller.uid == attributes.uid => 6,
        () if caller.in_group(attributes.gid) => 3,
        () => 0,
    };
    Access((mode >> shift) & 7)
}

/// Ends in [`FsError::AccessDenied`] unless `caller` has all of `access`.
pub fn require(attributes: &Attributes, caller: &Caller, access: Access) -> FsResult<()> {
    if permitted(attributes, caller).contains(access) { Ok(()) } else { Err(FsError::AccessDenied) }
}

/// What the list says about `caller`, who is not the superuser; without a list nothing.
fn verdict(attributes: &Attributes, caller: &Caller) -> Verdict {
    let verdict = |acl: &Acl| acl.verdict(attributes, caller);
    attributes.acl.as_deref().map(verdict).unwrap_or_default()
}

/// Whether a list gives `caller` one of the `rights` that the mode bits give to nobody.
pub fn is_granted(attributes: &Attributes, caller: &Caller, rights: u32) -> bool {
    verdict(attributes, caller).allowed & rights != 0
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
    if attributes.quarantined {
        // Also of those who had it open before.
        return Err(FsError::AccessDenied);
    }
    if authority == Authority::Opened || caller.uid == attributes.uid {
        return Ok(());
    }
    require(attributes, caller, access)
}

/// Whether `caller` may add an entry for a `kind` of object to `directory`: write permission or, by a list, the right to
/// add files or directories.
pub fn may_add(directory: &Attributes, kind: FileKind, caller: &Caller) -> FsResult<()> {
    require_directory(directory)?;
    let adds = match kind {
        FileKind::Directory => right::APPEND_DATA,
        _ => right::WRITE_DATA,
    };
    let needed =
        if is_granted(directory, caller, adds) { Access::EXECUTE } else { Access::WRITE | Access::EXECUTE };
    require(directory, caller, needed)
}

/// Whether `caller` may take the entry that leads to `victim` out of `directory` (RFC 8881 §6.2.1.3.2): write permission
/// and, in a sticky directory, ownership of one of the two. The list of `victim` can allow it to others. The list of
/// `directory` can, too, but does not overrule the sticky bit; if neither list says anything of removing, the right to
/// add files counts.
pub fn may_remove(directory: &Attributes, victim: &Attributes, caller: &Caller) -> FsResult<()> {
    require_directory(directory)?;
    require(directory, caller, Access::EXECUTE)?;
    if caller.is_superuser() {
        return Ok(());
    }
    let of_victim = verdict(victim, caller);
    if of_victim.allowed & right::DELETE != 0 {
        return Ok(());
    }
    require_removal(directory, caller, of_victim.denied & right::DELETE != 0)?;
    let owner = caller.uid == directory.uid || caller.uid == victim.uid;
    if directory.mode & STICKY != 0 && !owner {
        return Err(FsError::NotPermitted);
    }
    Ok(())
}

/// Whether `caller` may take out of `directory` what neither its own list nor the sticky bit protects.
pub fn may_remove_some(directory: &Attributes, caller: &Caller) -> bool {
    permitted(directory, caller).contains(Access::EXECUTE)
        && (caller.is_superuser() || require_removal(directory, caller, false).is_ok())
}

/// What the directory says of removing, `denied` being whether the list of what is removed denies it.
fn require_removal(directory: &Attributes, caller: &Caller, denied: bool) -> FsResult<()> {
    if directory.acl.is_none() {
        return require(directory, caller, Access::WRITE);
    }
    let verdict = verdict(directory, caller);
    let denied = denied || verdict.denied & right::DELETE_CHILD != 0;
    let enough = if denied { right::DELETE_CHILD } else { right::DELETE_CHILD | right::WRITE_DATA };
    if verdict.allowed & enough == 0 { Err(FsError::AccessDenied) } else { Ok(()) }
}

/// Whether `caller` may move `moved` from directory `from` to directory `to`, apart from what it replaces. A
/// directory that changes its parent must itself be writable, because its `..` changes.
pub fn may_move(from: &Attributes, moved: &Attributes, to: &Attributes, caller: &Caller) -> FsResult<()> {
    may_remove(from, moved, caller)?;
    may_add(to, moved.kind, caller)?;
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
