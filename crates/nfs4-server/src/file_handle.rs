//! Filehandles (decision D10).

use file_system::FileId;
use nfs4::{FileHandle, NfsStatus};

/// What a filehandle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handle {
    /// The directory above all exports.
    PseudoRoot,
    /// An object of a volume.
    File(FileId),
}

const VERSION_PSEUDO_ROOT: u8 = 1;
const VERSION_FILE: u8 = 2;
const MAC_LEN: usize = 16;
const FILE_LEN: usize = 1 + FileId::LEN + MAC_LEN;

/// Makes and checks handles: a version byte, the identity, 128 bits of a keyed BLAKE3 over both. Nothing in a
/// handle depends on memory or on the process, so that it survives restarts, fail-over and migration; the key
/// keeps clients from making handles of files that they were never led to.
pub struct HandleKey([u8; 32]);

impl HandleKey {
    /// The same key must be given after every restart.
    pub fn new(key: [u8; 32]) -> HandleKey {
        HandleKey(key)
    }

    /// The handle of `target`.
    pub fn seal(&self, target: Handle) -> FileHandle {
        let mut bytes = Vec::with_capacity(FILE_LEN);
        match target {
            Handle::PseudoRoot => bytes.push(VERSION_PSEUDO_ROOT),
            Handle::File(file) => {
                bytes.push(VERSION_FILE);
                bytes.extend_from_slice(&file.to_bytes());
            }
        }
        let mac = self.mac(&bytes);
        bytes.extend_from_slice(&mac);
        #[allow(clippy::expect_used)] // FILE_LEN is below 128
        FileHandle::new(bytes).expect("a handle has at most FILE_LEN bytes")
    }

    /// What `handle` stands for; `NFS4ERR_BADHANDLE` if it was not made with this key.
    pub fn open(&self, handle: &FileHandle) -> Result<Handle, NfsStatus> {
        let bytes = handle.as_bytes();
        let (body, mac) = bytes.split_last_chunk::<MAC_LEN>().ok_or(NfsStatus::BadHandle)?;
        // Comparing `blake3::Hash`es takes the same time wherever they differ.
        let (mut given, mut wanted) = ([0; 32], [0; 32]);
        given[..MAC_LEN].copy_from_slice(mac);
        wanted[..MAC_LEN].copy_from_slice(&self.mac(body));
        if blake3::Hash::from_bytes(given) != blake3::Hash::from_bytes(wanted) {
            return Err(NfsStatus::BadHandle);
        }
        match body {
            [VERSION_PSEUDO_ROOT] => Ok(Handle::PseudoRoot),
            [VERSION_FILE, file @ ..] => match <[u8; FileId::LEN]>::try_from(file) {
                Ok(file) => Ok(Handle::File(FileId::from_bytes(file))),
                Err(_) => Err(NfsStatus::BadHandle),
            },
            _ => Err(NfsStatus::BadHandle),
        }
    }

    fn mac(&self, body: &[u8]) -> [u8; MAC_LEN] {
        let mut mac = [0; MAC_LEN];
        mac.copy_from_slice(&blake3::keyed_hash(&self.0, body).as_bytes()[..MAC_LEN]);
        mac
    }
}

#[cfg(test)]
mod tests {
    use ids::{GatewayId, ObjectId, ObjectNumber, VolumeId};

    use super::*;

    fn file() -> Handle {
        Handle::File(FileId {
            volume: VolumeId(77),
            object: ObjectId { creator: GatewayId(3), number: ObjectNumber(1 << 90) },
        })
    }

    #[test]
    fn handles_come_back_as_they_were() {
        let key = HandleKey::new([5; 32]);
        for target in [Handle::PseudoRoot, file()] {
            assert_eq!(key.open(&key.seal(target)), Ok(target));
            assert_eq!(HandleKey::new([5; 32]).seal(target), key.seal(target), "also after a restart");
        }
    }

    #[test]
    fn no_changed_handle_is_accepted() {
        let key = HandleKey::new([5; 32]);
        let good = key.seal(file()).into_bytes();
        for bit in 0..good.len() * 8 {
            let mut bad = good.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(&FileHandle::new(bad).unwrap()), Err(NfsStatus::BadHandle), "bit {bit}");
        }
        for length in 0..good.len() {
            let cut = FileHandle::new(good.slice(..length)).unwrap();
            assert_eq!(key.open(&cut), Err(NfsStatus::BadHandle), "{length} bytes");
        }
        assert_eq!(HandleKey::new([6; 32]).open(&key.seal(file())), Err(NfsStatus::BadHandle));
    }
}
