use std::fmt;

/// Tells apart the sealings of one block version; chosen by the caller, who commits it with the version. No pair of
/// identity and seal id may ever stand for two contents; see the crate's front page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SealId(pub u64);

impl fmt::Display for SealId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
