use std::fmt;
use std::sync::Arc;

/// Name of an object in a cloud: 2 to 200 characters of `a`-`z`, `0`-`9`, `-`, `_` and, between others, `/`.
///
/// Every store can hold such a name as it is, also stores that fold case. Stores spread objects by the first
/// characters, so names of many objects should begin randomly. Cheap to clone; sorts in byte order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(Arc<str>);

/// The text is no [`ObjectName`].
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no object name: 2 to 200 characters of a-z, 0-9, '-', '_' and single '/' between them")]
pub struct InvalidName(String);

impl ObjectName {
    /// Longest name in characters.
    pub const MAX: usize = 200;

    /// Checks and takes `text`.
    pub fn new(text: &str) -> Result<ObjectName, InvalidName> {
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_' | b'/');
        let fits = (2..=Self::MAX).contains(&text.len()) && text.bytes().all(allowed);
        if fits && text.split('/').all(|segment| !segment.is_empty()) {
            Ok(ObjectName(text.into()))
        } else {
            Err(InvalidName(text.chars().take(Self::MAX + 1).collect()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_every_store_can_hold_pass() {
        for good in ["ab", "a/b", "0-_z/9", &"x".repeat(200)] {
            assert_eq!(ObjectName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a", "/a", "a/", "a//b", "..", "a.b", "A1", "ü1", "a b", &"x".repeat(201)] {
            assert!(ObjectName::new(bad).is_err(), "{bad}");
        }
    }
}
