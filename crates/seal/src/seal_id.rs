use std::fmt;

use environment::Entropy;

/// Tells apart the sealings of one block version; chosen at random at every start of a store and committed with the
/// version. No pair of identity and seal id ever stands for two contents, and no two sealings share the names of
/// their fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SealId(pub u64);

impl SealId {
    /// One that was never used before, and that nobody can guess.
    pub fn random(entropy: &dyn Entropy) -> SealId {
        SealId(entropy.next_u64())
    }
}

impl fmt::Display for SealId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
