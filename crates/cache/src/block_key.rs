use std::fmt;

use ids::{BlockIndex, ObjectId, ObjectNumber, Version, VolumeId};
use seal::SealId;

/// A file of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// Its volume.
    pub volume: VolumeId,
    /// Its object.
    pub object: ObjectId,
}

impl FileKey {
    /// Length of the encoding: volume 16, object 18, big-endian.
    pub(crate) const LEN: usize = 16 + ObjectId::LEN;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..16].copy_from_slice(&self.volume.0.to_be_bytes());
        out[16..].copy_from_slice(&self.object.to_bytes());
        out
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::LEN]) -> FileKey {
        let mut volume = [0; 16];
        volume.copy_from_slice(&bytes[..16]);
        let mut object = [0; ObjectId::LEN];
        object.copy_from_slice(&bytes[16..]);
        FileKey { volume: VolumeId(u128::from_be_bytes(volume)), object: ObjectId::from_bytes(object) }
    }

    /// Spreads files over `shards` (a power of two).
    pub(crate) fn shard(self, shards: usize) -> usize {
        let ObjectNumber(number) = self.object.number;
        let mixed = (number as u64 ^ (number >> 64) as u64 ^ u64::from(self.object.creator.0))
            .wrapping_add(self.volume.0 as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as usize & (shards - 1)
    }
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {} of volume {}", self.object, self.volume)
    }
}

/// One sealing of a block version: what content it is, whatever else was ever stored under that version. A number
/// comes back when the metadata did not keep it (a crash, an older copy); a seal id does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sealing {
    /// Which version.
    pub version: Version,
    /// Which sealing of it.
    pub seal: SealId,
}

/// The key of a clean block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockKey {
    pub file: FileKey,
    pub block: BlockIndex,
    pub sealing: Sealing,
}

impl BlockKey {
    /// Length of the encoding: file, block 8, version 8, seal id 8, big-endian.
    pub const LEN: usize = FileKey::LEN + 24;

    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..FileKey::LEN].copy_from_slice(&self.file.to_bytes());
        out[FileKey::LEN..FileKey::LEN + 8].copy_from_slice(&self.block.0.to_be_bytes());
        out[FileKey::LEN + 8..FileKey::LEN + 16].copy_from_slice(&self.sealing.version.0.to_be_bytes());
        out[FileKey::LEN + 16..].copy_from_slice(&self.sealing.seal.0.to_be_bytes());
        out
    }

    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> BlockKey {
        let mut file = [0; FileKey::LEN];
        file.copy_from_slice(&bytes[..FileKey::LEN]);
        let number = |at: usize| {
            let mut out = [0; 8];
            out.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(out)
        };
        BlockKey {
            file: FileKey::from_bytes(&file),
            block: BlockIndex(number(FileKey::LEN)),
            sealing: Sealing {
                version: Version(number(FileKey::LEN + 8)),
                seal: SealId(number(FileKey::LEN + 16)),
            },
        }
    }
}
