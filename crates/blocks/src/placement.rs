use std::fmt;

use disperse::{HEADER_LEN, Scheme};
use ids::BlockShift;
use seal::SEAL_OVERHEAD;

/// A configured cloud: a small number that is never given to another one, since files record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloudId(pub u16);

impl fmt::Display for CloudId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// How and where the blocks of a file are stored; fixed when the file is made (`K33`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    scheme: Scheme,
    clouds: Vec<CloudId>,
    block_shift: BlockShift,
}

/// The parts do not make a [`Placement`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPlacement {
    /// Every fragment needs a cloud.
    #[error("{scheme} needs {} clouds and not {clouds}", scheme.total())]
    WrongNumber {
        /// The scheme.
        scheme: Scheme,
        /// The clouds given.
        clouds: usize,
    },
    /// Two fragments in one cloud fail together.
    #[error("cloud {cloud} is named twice; every fragment needs a cloud of its own")]
    Twice {
        /// The cloud.
        cloud: CloudId,
    },
}

impl Placement {
    /// Fragment `i` of `scheme` goes to `clouds[i]`, of which there must be as many, all different. No plaintext
    /// is longer than a block of `block_shift`.
    pub fn new(
        scheme: Scheme,
        clouds: Vec<CloudId>,
        block_shift: BlockShift,
    ) -> Result<Placement, InvalidPlacement> {
        if clouds.len() != scheme.total() {
            return Err(InvalidPlacement::WrongNumber { scheme, clouds: clouds.len() });
        }
        match clouds.iter().enumerate().find(|(at, cloud)| clouds[..*at].contains(cloud)) {
            Some((_, cloud)) => Err(InvalidPlacement::Twice { cloud: *cloud }),
            None => Ok(Placement { scheme, clouds, block_shift }),
        }
    }

    /// Into how many fragments blocks are split, and how many are needed.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The cloud of every fragment, by fragment number.
    pub fn clouds(&self) -> &[CloudId] {
        &self.clouds
    }

    /// The block size.
    pub fn block_shift(&self) -> BlockShift {
        self.block_shift
    }

    /// Whether blocks of both can lie in one pack: they are split alike, over the same clouds.
    pub fn shares_packs(&self, other: &Placement) -> bool {
        (self.scheme, &self.clouds) == (other.scheme, &other.clouds)
    }

    /// The numbers of all fragments.
    pub(crate) fn fragments(&self) -> impl DoubleEndedIterator<Item = u8> + Clone + use<> {
        0..self.scheme.total() as u8
    }

    /// The longest padded plaintext that is stored and looked for: twice the block size, so that every padding
    /// fits that does not blow a block up beyond that.
    pub(crate) fn longest_padded(&self) -> u64 {
        2 * self.block_shift.bytes()
    }

    /// The longest fragment that a block can have.
    pub(crate) fn longest_fragment(&self) -> u64 {
        HEADER_LEN as u64 + self.scheme.longest_body(SEAL_OVERHEAD as u64 + self.longest_padded())
    }

    /// Bytes of a full block's fragment, for choosing clouds.
    pub(crate) fn usual_fragment(&self) -> u64 {
        HEADER_LEN as u64 + self.scheme.longest_body(SEAL_OVERHEAD as u64 + self.block_shift.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_has_a_cloud_of_its_own() {
        let scheme: Scheme = "rs:2+1".parse().unwrap();
        let placement = |clouds: &[u16]| {
            Placement::new(scheme, clouds.iter().copied().map(CloudId).collect(), BlockShift::DEFAULT)
        };
        assert_eq!(placement(&[5, 3, 9]).unwrap().clouds()[1], CloudId(3));
        assert_eq!(placement(&[1, 2]), Err(InvalidPlacement::WrongNumber { scheme, clouds: 2 }));
        assert_eq!(placement(&[1, 2, 1]), Err(InvalidPlacement::Twice { cloud: CloudId(1) }));
    }
}
