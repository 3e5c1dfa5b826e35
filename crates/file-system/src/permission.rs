use crate::{Attributes, Caller, FileKind};

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
