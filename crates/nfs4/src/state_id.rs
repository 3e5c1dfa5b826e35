//! State ids.

use xdr::{Decode, Encode};

/// Names a piece of state a client holds: an open, a lock, a delegation, a layout, a copy (`stateid4`, RFC 8881 §8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct StateId {
    /// Counts the changes of the state, from 1; 0 from a client means "the newest" (RFC 8881 §8.2.2).
    pub seqid: u32,
    /// The state's name; chosen by the server.
    pub other: [u8; 12],
}

impl StateId {
    /// All zeros: I/O without any open (RFC 8881 §8.2.3).
    pub const ANONYMOUS: StateId = StateId { seqid: 0, other: [0; 12] };
    /// All ones: READ that passes by locks (RFC 8881 §8.2.3).
    pub const READ_BYPASS: StateId = StateId { seqid: u32::MAX, other: [0xff; 12] };
    /// Stands for the state id that the operations before it in the compound left (RFC 8881 §8.2.3).
    pub const CURRENT: StateId = StateId { seqid: 1, other: [0; 12] };
    /// Never names any state (RFC 8881 §8.2.3).
    pub const INVALID: StateId = StateId { seqid: u32::MAX, other: [0; 12] };

    /// Whether `other` has one of the two reserved values. One that is none of the four constants above is
    /// `NFS4ERR_BAD_STATEID` (RFC 8881 §8.2.3).
    pub fn is_special(&self) -> bool {
        self.other == [0; 12] || self.other == [0xff; 12]
    }

    /// The same state with seqid 0: "whatever is newest".
    #[must_use]
    pub fn newest(self) -> StateId {
        StateId { seqid: 0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_special_ones_are_special() {
        for id in [StateId::ANONYMOUS, StateId::READ_BYPASS, StateId::CURRENT, StateId::INVALID] {
            assert!(id.is_special());
        }
        assert!(!StateId { seqid: 0, other: [1; 12] }.is_special());
    }
}
