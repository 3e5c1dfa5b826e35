use std::fmt;

use ids::{ObjectId, VolumeId};

/// Identity of a file, directory, link or special node: stable over restarts, renames and migration, never
/// reused (D10). Servers encode it into their handles and authenticate those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The volume.
    pub volume: VolumeId,
    /// The object in it.
    pub object: ObjectId,
}

impl FileId {
    /// Length of [`FileId::to_bytes`].
    pub const LEN: usize = 16 + ObjectId::LEN;

    /// Volume (16 bytes, big-endian), then object.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..16].copy_from_slice(&self.volume.0.to_be_bytes());
        out[16..].copy_from_slice(&self.object.to_bytes());
        out
    }

    /// The inverse of [`FileId::to_bytes`].
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> FileId {
        let (mut volume, mut object) = ([0; 16], [0; ObjectId::LEN]);
        volume.copy_from_slice(&bytes[..16]);
        object.copy_from_slice(&bytes[16..]);
        FileId { volume: VolumeId(u128::from_be_bytes(volume)), object: ObjectId::from_bytes(object) }
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.volume, self.object)
    }
}
