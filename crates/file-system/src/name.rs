use std::fmt;

use bytes::Bytes;

use crate::{FsError, FsResult};

/// Longest name of a directory entry, in bytes.
pub const MAX_NAME: usize = 255;

/// Longest target of a symbolic link, in bytes.
pub const MAX_LINK_TARGET: usize = 4095;

/// A checked name of a directory entry: 1 to 255 bytes, no NUL, no `/`, neither `.` nor `..`. Names are bytes;
/// no character set is enforced and case counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Bytes);

impl Name {
    /// Checks `name`.
    ///
    /// # Errors
    /// [`FsError::NameTooLong`] over 255 bytes, [`FsError::InvalidArgument`] when empty, [`FsError::BadName`]
    /// for everything else that is not allowed.
    pub fn new(name: impl Into<Bytes>) -> FsResult<Name> {
        let name = name.into();
        if name.is_empty() {
            return Err(FsError::InvalidArgument);
        }
        if name.len() > MAX_NAME {
            return Err(FsError::NameTooLong);
        }
        if &name[..] == b"." || &name[..] == b".." || name.iter().any(|&b| b == 0 || b == b'/') {
            return Err(FsError::BadName);
        }
        Ok(Name(name))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, without copying.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_directory_can_hold_are_refused() {
        assert!(Name::new(&b"a b\xff"[..]).is_ok());
        assert_eq!(Name::new(""), Err(FsError::InvalidArgument));
        for bad in [".", "..", "a/b", "a\0b"] {
            assert_eq!(Name::new(bad), Err(FsError::BadName), "{bad}");
        }
        assert!(Name::new("x".repeat(255)).is_ok());
        assert_eq!(Name::new("x".repeat(256)), Err(FsError::NameTooLong));
    }
}
