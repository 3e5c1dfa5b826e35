use std::fmt;

use environment::mutant::{Mutant, is_broken};
use ids::{BlockIndex, GatewayId, ObjectId, Version, VolumeId};

/// Generation of an accessor set's epoch key; a gateway that leaves the set starts a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyEpoch(pub u32);

/// What a sealed block is: authenticated with it, never stored in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockIdentity {
    /// The volume of the file.
    pub volume: VolumeId,
    /// The file.
    pub object: ObjectId,
    /// Which block of the file.
    pub block: BlockIndex,
    /// Which version of the block.
    pub version: Version,
    /// The gateway that made this version: two gateways may make the same version number (`K12`).
    pub creator: GatewayId,
    /// The key epoch under which the file key is wrapped.
    pub epoch: KeyEpoch,
}

impl BlockIdentity {
    /// Length of [`BlockIdentity::to_bytes`].
    pub const LEN: usize = 56;

    /// The fixed-width encoding that goes into associated data, names and fragment checksums.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..16].copy_from_slice(&self.volume.0.to_be_bytes());
        out[16..34].copy_from_slice(&self.object.to_bytes());
        out[34..42].copy_from_slice(&self.block.0.to_be_bytes());
        out[42..50].copy_from_slice(&self.version.0.to_be_bytes());
        out[50..52].copy_from_slice(&self.creator.0.to_be_bytes());
        out[52..].copy_from_slice(&self.epoch.0.to_be_bytes());
        out
    }

    /// What is authenticated with a block and its fragments: all of it.
    pub fn proved(&self) -> [u8; Self::LEN] {
        match is_broken(Mutant::VersionUnchecked) {
            true => BlockIdentity { version: Version(0), ..*self }.to_bytes(),
            false => self.to_bytes(),
        }
    }
}

impl fmt::Display for KeyEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for BlockIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockIdentity { volume, object, block, version, creator, epoch } = self;
        write!(
            f,
            "volume {volume} object {object} block {block} version {version} of gateway {creator}, epoch {epoch}"
        )
    }
}
