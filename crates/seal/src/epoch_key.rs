use environment::Entropy;
use ids::{ObjectId, VolumeId};

use crate::gcm::{GcmKey, TAG_LEN, gcm_nonce};
use crate::secret::{KEY_LEN, derive, secret_key};
use crate::{ContentKey, FileKey, KeyEpoch, OpenError};

const FORMAT: u8 = 0xC1;
const NONCE_LEN: usize = 24;

/// A set of gateways that may read the same files; numbered inside a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessorSetId(pub u32);

/// Which epoch key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpochIdentity {
    /// The volume of the accessor set.
    pub volume: VolumeId,
    /// The accessor set.
    pub accessors: AccessorSetId,
    /// Its generation.
    pub epoch: KeyEpoch,
}

impl EpochIdentity {
    /// Length of [`EpochIdentity::to_bytes`].
    pub const LEN: usize = 24;

    /// The fixed-width encoding that wraps are bound to.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..16].copy_from_slice(&self.volume.0.to_be_bytes());
        out[16..20].copy_from_slice(&self.accessors.0.to_be_bytes());
        out[20..].copy_from_slice(&self.epoch.0.to_be_bytes());
        out
    }
}

secret_key! {
    /// The secret part of an [`EpochKey`].
    EpochSecret
}

/// The key that file keys are wrapped under, shared by the gateways of one accessor set for one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochKey {
    identity: EpochIdentity,
    secret: EpochSecret,
}

impl EpochKey {
    /// A fresh key for a new accessor set or a new epoch of one.
    pub fn generate(identity: EpochIdentity, entropy: &dyn Entropy) -> EpochKey {
        EpochKey { identity, secret: EpochSecret::generate(entropy) }
    }

    /// Takes key bytes that were kept elsewhere.
    pub fn from_bytes(identity: EpochIdentity, bytes: [u8; KEY_LEN]) -> EpochKey {
        EpochKey { identity, secret: EpochSecret::from_bytes(bytes) }
    }

    /// Which key this is.
    pub fn identity(&self) -> EpochIdentity {
        self.identity
    }

    /// The key itself; the caller sees to its secrecy.
    pub fn as_bytes(&self) -> &[u8; KEY_LEN] {
        self.secret.as_bytes()
    }

    /// Under which the files of this set and epoch share content.
    fn content_key(&self) -> ContentKey {
        let identity = self.identity.to_bytes();
        ContentKey::from_bytes(*derive(self.as_bytes(), "kurma content key", &[&identity]))
    }
}

/// A file key under an epoch key: what the metadata of a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedFileKey([u8; Self::LEN]);

impl WrappedFileKey {
    /// Its length.
    pub const LEN: usize = 1 + NONCE_LEN + KEY_LEN + TAG_LEN;

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

/// Wraps the key of the file `object`; costs well under a microsecond, so it may be done at every create (`K16`).
pub fn wrap_file_key(
    epoch_key: &EpochKey,
    file_key: &FileKey,
    object: ObjectId,
    entropy: &dyn Entropy,
) -> WrappedFileKey {
    let mut nonce = [0; NONCE_LEN];
    entropy.fill(&mut nonce);
    let mut out = [0; WrappedFileKey::LEN];
    let (head, body) = out.split_at_mut(1 + NONCE_LEN);
    head[0] = FORMAT;
    head[1..].copy_from_slice(&nonce);
    let (sealed, tag) = body.split_at_mut(KEY_LEN);
    sealed.copy_from_slice(file_key.as_bytes());
    let key = wrapping_key(epoch_key, &nonce);
    tag.copy_from_slice(&key.seal(gcm_nonce(&nonce), &associated_data(epoch_key.identity, object), sealed));
    WrappedFileKey(out)
}

/// Unwraps the key of the file `object`.
///
/// [`OpenError::Forged`] when it was wrapped under another epoch key or for another file, or is damaged.
pub fn unwrap_file_key(epoch_key: &EpochKey, object: ObjectId, wrapped: &[u8]) -> Result<FileKey, OpenError> {
    let what = "a wrapped file key";
    let wrapped: &[u8; WrappedFileKey::LEN] = wrapped.try_into().map_err(|_| OpenError::WrongLength {
        what,
        len: wrapped.len(),
        needed: WrappedFileKey::LEN,
    })?;
    if wrapped[0] != FORMAT {
        return Err(OpenError::UnknownFormat { what, byte: wrapped[0] });
    }
    let (head, body) = wrapped.split_at(1 + NONCE_LEN);
    let (sealed, tag) = body.split_at(KEY_LEN);
    let mut nonce = [0; NONCE_LEN];
    nonce.copy_from_slice(&head[1..]);
    let mut key = zeroize::Zeroizing::new([0; KEY_LEN]);
    wrapping_key(epoch_key, &nonce).open_into(
        gcm_nonce(&nonce),
        &associated_data(epoch_key.identity, object),
        sealed,
        tag,
        &mut *key,
    )?;
    Ok(FileKey::from_bytes(*key).among(epoch_key.content_key()))
}

fn wrapping_key(epoch_key: &EpochKey, nonce: &[u8; NONCE_LEN]) -> GcmKey {
    GcmKey::new(&derive(epoch_key.as_bytes(), "kurma file key wrap", &[nonce]))
}

fn associated_data(
    identity: EpochIdentity,
    object: ObjectId,
) -> [u8; 1 + EpochIdentity::LEN + ObjectId::LEN] {
    let mut out = [0; 1 + EpochIdentity::LEN + ObjectId::LEN];
    out[0] = FORMAT;
    out[1..1 + EpochIdentity::LEN].copy_from_slice(&identity.to_bytes());
    out[1 + EpochIdentity::LEN..].copy_from_slice(&object.to_bytes());
    out
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;
    use ids::{GatewayId, ObjectNumber};

    use super::*;

    const IDENTITY: EpochIdentity =
        EpochIdentity { volume: VolumeId(1), accessors: AccessorSetId(2), epoch: KeyEpoch(3) };
    const OBJECT: ObjectId = ObjectId { creator: GatewayId(4), number: ObjectNumber(5) };

    #[test]
    fn a_wrapped_key_comes_back_only_for_its_file_and_under_its_epoch_key() {
        let entropy = SystemEntropy::new();
        let epoch_key = EpochKey::generate(IDENTITY, &entropy);
        let file_key = FileKey::generate(&entropy);
        let wrapped = wrap_file_key(&epoch_key, &file_key, OBJECT, &entropy);
        assert_eq!(unwrap_file_key(&epoch_key, OBJECT, wrapped.as_bytes()), Ok(file_key));

        let other = ObjectId { number: ObjectNumber(6), ..OBJECT };
        assert_eq!(unwrap_file_key(&epoch_key, other, wrapped.as_bytes()), Err(OpenError::Forged));
        let bytes = *epoch_key.as_bytes();
        for identity in [
            EpochIdentity { volume: VolumeId(2), ..IDENTITY },
            EpochIdentity { accessors: AccessorSetId(3), ..IDENTITY },
            EpochIdentity { epoch: KeyEpoch(4), ..IDENTITY },
        ] {
            let renamed = EpochKey::from_bytes(identity, bytes);
            assert_eq!(unwrap_file_key(&renamed, OBJECT, wrapped.as_bytes()), Err(OpenError::Forged));
        }
        let stranger = EpochKey::generate(IDENTITY, &entropy);
        assert_eq!(unwrap_file_key(&stranger, OBJECT, wrapped.as_bytes()), Err(OpenError::Forged));
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_of_a_wrap_is_refused() {
        let entropy = SystemEntropy::new();
        let epoch_key = EpochKey::generate(IDENTITY, &entropy);
        let wrapped = wrap_file_key(&epoch_key, &FileKey::generate(&entropy), OBJECT, &entropy);
        for bit in 0..WrappedFileKey::LEN * 8 {
            let mut bytes = *wrapped.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(unwrap_file_key(&epoch_key, OBJECT, &bytes).is_err(), "bit {bit}");
        }
        for len in 0..WrappedFileKey::LEN {
            let error = unwrap_file_key(&epoch_key, OBJECT, &wrapped.as_bytes()[..len]);
            assert!(matches!(error, Err(OpenError::WrongLength { .. })));
        }
    }

    #[test]
    fn two_wraps_of_one_key_differ() {
        let entropy = SystemEntropy::new();
        let epoch_key = EpochKey::generate(IDENTITY, &entropy);
        let file_key = FileKey::generate(&entropy);
        let wrap = || wrap_file_key(&epoch_key, &file_key, OBJECT, &entropy);
        assert_ne!(wrap().as_bytes()[25..57], wrap().as_bytes()[25..57]);
    }
}
