use environment::Entropy;
use ids::{ObjectId, VolumeId};
use zeroize::Zeroizing;

use crate::gcm::{GcmKey, TAG_LEN, gcm_nonce};
use crate::secret::{KEY_LEN, derive, secret_key};
use crate::{ContentKey, FileKey, KeyEpoch, NameKey, OpenError};

const FILE: u8 = 0xC1;
/// In the place of a file's key, when that was shredded: what tells its fragments' names.
const NAMES: u8 = 0xC2;
const CONTENT: u8 = 0xC3;
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

    /// Tells which key it is, to those who may read the records of a gateway; tells nothing else about it.
    pub fn id(&self) -> [u8; 16] {
        *derive(self.as_bytes(), "kurma key id", &[])
    }

    /// What is sealed in this epoch depends on, and nothing else: under it the files of this set and epoch share content, and
    /// from it come their keys for the epoch. It outlives the epoch key, see [`wrap_content_key`].
    pub fn content_key(&self) -> ContentKey {
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

    /// Whether stored bytes are what is left of the key of a shredded file.
    pub fn is_of_shredded(wrapped: &[u8]) -> bool {
        wrapped.first() == Some(&NAMES)
    }
}

/// A content key of an earlier epoch under the present epoch key.
pub type WrappedContentKey = [u8; WrappedFileKey::LEN];

/// Wraps the key of the file `object`; costs well under a microsecond, so it may be done at every create (`K16`). What is left of a
/// shredded key is wrapped as that.
pub fn wrap_file_key(
    epoch_key: &EpochKey,
    file_key: &FileKey,
    object: ObjectId,
    entropy: &dyn Entropy,
) -> WrappedFileKey {
    WrappedFileKey(match file_key.is_shredded() {
        false => wrap(epoch_key, (FILE, &object.to_bytes()), file_key.as_bytes(), entropy),
        true => wrap(epoch_key, (NAMES, &object.to_bytes()), file_key.name_key().as_bytes(), entropy),
    })
}

/// Unwraps the key of the file `object`, for the epoch of `epoch_key`.
///
/// [`OpenError::Forged`] when it was wrapped under another epoch key or for another file, or is damaged.
pub fn unwrap_file_key(epoch_key: &EpochKey, object: ObjectId, wrapped: &[u8]) -> Result<FileKey, OpenError> {
    let what = "a wrapped file key";
    let kind = if wrapped.first() == Some(&NAMES) { NAMES } else { FILE };
    let key = unwrap(epoch_key, (kind, &object.to_bytes()), wrapped, what)?;
    Ok(match kind {
        NAMES => FileKey::of_shredded(NameKey::from_bytes(*key)),
        _ => FileKey::from_bytes(*key).among(epoch_key.content_key()),
    })
}

/// Wraps the content key of the epoch `of`, whose epoch key is about to be destroyed.
pub fn wrap_content_key(
    epoch_key: &EpochKey,
    of: KeyEpoch,
    content: &ContentKey,
    entropy: &dyn Entropy,
) -> WrappedContentKey {
    wrap(epoch_key, (CONTENT, &of.0.to_be_bytes()), content.as_bytes(), entropy)
}

/// Unwraps the content key of the epoch `of`; errors as for [`unwrap_file_key`].
pub fn unwrap_content_key(
    epoch_key: &EpochKey,
    of: KeyEpoch,
    wrapped: &[u8],
) -> Result<ContentKey, OpenError> {
    let key = unwrap(epoch_key, (CONTENT, &of.0.to_be_bytes()), wrapped, "a wrapped content key")?;
    Ok(ContentKey::from_bytes(*key))
}

fn wrap(
    epoch_key: &EpochKey,
    (kind, of): (u8, &[u8]),
    key: &[u8; KEY_LEN],
    entropy: &dyn Entropy,
) -> [u8; WrappedFileKey::LEN] {
    let mut nonce = [0; NONCE_LEN];
    entropy.fill(&mut nonce);
    let mut out = [0; WrappedFileKey::LEN];
    let (head, body) = out.split_at_mut(1 + NONCE_LEN);
    head[0] = kind;
    head[1..].copy_from_slice(&nonce);
    let (sealed, tag) = body.split_at_mut(KEY_LEN);
    sealed.copy_from_slice(key);
    let aad = associated_data(epoch_key.identity, kind, of);
    tag.copy_from_slice(&wrapping_key(epoch_key, &nonce).seal(gcm_nonce(&nonce), &aad, sealed));
    out
}

fn unwrap(
    epoch_key: &EpochKey,
    (kind, of): (u8, &[u8]),
    wrapped: &[u8],
    what: &'static str,
) -> Result<Zeroizing<[u8; KEY_LEN]>, OpenError> {
    let wrapped: &[u8; WrappedFileKey::LEN] = wrapped.try_into().map_err(|_| OpenError::WrongLength {
        what,
        len: wrapped.len(),
        needed: WrappedFileKey::LEN,
    })?;
    if wrapped[0] != kind {
        return Err(OpenError::UnknownFormat { what, byte: wrapped[0] });
    }
    let (head, body) = wrapped.split_at(1 + NONCE_LEN);
    let (sealed, tag) = body.split_at(KEY_LEN);
    let mut nonce = [0; NONCE_LEN];
    nonce.copy_from_slice(&head[1..]);
    let mut key = Zeroizing::new([0; KEY_LEN]);
    let aad = associated_data(epoch_key.identity, kind, of);
    wrapping_key(epoch_key, &nonce).open_into(gcm_nonce(&nonce), &aad, sealed, tag, &mut *key)?;
    Ok(key)
}

fn wrapping_key(epoch_key: &EpochKey, nonce: &[u8; NONCE_LEN]) -> GcmKey {
    GcmKey::new(&derive(epoch_key.as_bytes(), "kurma file key wrap", &[nonce]))
}

fn associated_data(identity: EpochIdentity, kind: u8, of: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + EpochIdentity::LEN + ObjectId::LEN);
    out.push(kind);
    out.extend_from_slice(&identity.to_bytes());
    out.extend_from_slice(of);
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
    fn what_is_left_of_a_shredded_key_is_wrapped_as_that() {
        let entropy = SystemEntropy::new();
        let epoch_key = EpochKey::generate(IDENTITY, &entropy);
        let file_key = FileKey::generate(&entropy);
        let left = FileKey::of_shredded(file_key.name_key());
        let wrapped = wrap_file_key(&epoch_key, &left, OBJECT, &entropy);
        let back = unwrap_file_key(&epoch_key, OBJECT, wrapped.as_bytes()).unwrap();
        assert!(back.is_shredded() && back.name_key() == file_key.name_key());
        let mut as_file = *wrapped.as_bytes();
        as_file[0] = FILE;
        assert_eq!(unwrap_file_key(&epoch_key, OBJECT, &as_file), Err(OpenError::Forged));
    }

    #[test]
    fn a_content_key_outlives_its_epoch_under_the_next_one() {
        let entropy = SystemEntropy::new();
        let old = EpochKey::generate(IDENTITY, &entropy);
        let new = EpochKey::generate(EpochIdentity { epoch: KeyEpoch(4), ..IDENTITY }, &entropy);
        let wrapped = wrap_content_key(&new, KeyEpoch(3), &old.content_key(), &entropy);
        assert_eq!(unwrap_content_key(&new, KeyEpoch(3), &wrapped), Ok(old.content_key()));
        assert_eq!(unwrap_content_key(&new, KeyEpoch(2), &wrapped), Err(OpenError::Forged));
        assert_eq!(unwrap_content_key(&old, KeyEpoch(3), &wrapped), Err(OpenError::Forged));
        assert!(unwrap_file_key(&new, OBJECT, &wrapped).is_err());
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
