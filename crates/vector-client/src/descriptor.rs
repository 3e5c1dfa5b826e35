use std::fmt;

/// An open file of one [`Client`](crate::Client), until it is closed. A closed one is never used again for another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Descriptor(pub(crate) u64);

impl Descriptor {
    /// As a number, for interfaces in other languages.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The descriptor with this number, which [`number`](Self::number) gave.
    pub fn from_number(number: u64) -> Descriptor {
        Descriptor(number)
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "descriptor {}", self.0)
    }
}
