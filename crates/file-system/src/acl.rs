//! Access control lists (RFC 8881 §6): who has which rights to an object, finer than mode bits say it.
//!
//! An object has either mode bits alone or also a list. Then the list decides, and the low nine mode bits are always those
//! that follow from it ([`Acl::mode`], §6.3.2): a new list changes the mode, a new mode changes the list
//! ([`Acl::with_mode`], §6.4.1). New objects inherit entries from their directory ([`Acl::inherited`], §6.4.3).
//!
//! Only entries that allow and deny exist; nothing is audited.

mod entry;
mod evaluate;
mod inherit;
mod mode;

pub use entry::{Ace, Who, flag, right};
pub use evaluate::Verdict;
pub(crate) use mode::bits_of;

use crate::{FileKind, FsError, FsResult};

/// Most entries of a list that is set.
pub const MAX_ENTRIES: usize = 128;

/// Most entries of a list that is kept. What [`Acl::with_mode`] adds stays below: it divides each inheritable entry into
/// two once, and adds at most one entry for each right and each user or group that is named.
pub const MAX_KEPT_ENTRIES: usize = 1024;

/// A list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// Bits [`AUTO_INHERIT`](Acl::AUTO_INHERIT), [`PROTECTED`](Acl::PROTECTED), [`DEFAULTED`](Acl::DEFAULTED).
    pub flags: u8,
    /// In the order of evaluation.
    pub entries: Vec<Ace>,
}

impl Acl {
    /// Changes of the directory's inheritable entries are carried down here by clients (`ACL4_AUTO_INHERIT`).
    pub const AUTO_INHERIT: u8 = 1;
    /// But they stop at this list (`ACL4_PROTECTED`).
    pub const PROTECTED: u8 = 2;
    /// Nobody chose this list (`ACL4_DEFAULTED`).
    pub const DEFAULTED: u8 = 4;

    /// Whether an object of this kind can get the list.
    ///
    /// # Errors
    /// `TooLarge` over [`MAX_ENTRIES`], `InvalidArgument` for a symbolic link, whose mode nobody asks for, and for unknown
    /// flags.
    pub fn check(&self, kind: FileKind) -> FsResult<()> {
        if self.entries.len() > MAX_ENTRIES {
            return Err(FsError::TooLarge);
        }
        let known = Acl::AUTO_INHERIT | Acl::PROTECTED | Acl::DEFAULTED;
        if kind == FileKind::Symlink || self.flags & !known != 0 {
            return Err(FsError::InvalidArgument);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
