use std::fmt;

use bytes::Bytes;

use crate::{FsError, FsResult};

/// Longest name of an extended attribute, in bytes: with `user.` in front it is as long as Linux allows (`xattr(7)`).
pub const MAX_XATTR_NAME: usize = 250;

/// A checked name of an extended attribute in the user's namespace, without `user.` (RFC 8276 §8.1): 1 to 250 bytes, no NUL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XattrName(Bytes);

impl XattrName {
    /// Checks `name`.
    ///
    /// # Errors
    /// [`FsError::NameTooLong`] over 250 bytes, [`FsError::InvalidArgument`] when empty, [`FsError::BadName`] with NUL.
    pub fn new(name: impl Into<Bytes>) -> FsResult<XattrName> {
        let name = name.into();
        match name.len() {
            0 => Err(FsError::InvalidArgument),
            1..=MAX_XATTR_NAME if name.contains(&0) => Err(FsError::BadName),
            1..=MAX_XATTR_NAME => Ok(XattrName(name)),
            _ => Err(FsError::NameTooLong),
        }
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

impl fmt::Debug for XattrName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_what_names_of_files_may_not() {
        for good in [".", "..", "a/b", "org.example/tag \u{e4}"] {
            assert!(XattrName::new(good).is_ok(), "{good}");
        }
        assert_eq!(XattrName::new(""), Err(FsError::InvalidArgument));
        assert_eq!(XattrName::new("a\0b"), Err(FsError::BadName));
        assert!(XattrName::new("x".repeat(250)).is_ok());
        assert_eq!(XattrName::new("x".repeat(251)), Err(FsError::NameTooLong));
    }
}
