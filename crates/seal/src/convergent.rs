//! Sealing by which equal content becomes equal bytes, for those who share a content key, and for nobody else.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use ids::Timestamp;

use crate::block::{NONCE_LEN, open_under, parse_clear, seal_under};
use crate::secret::{KEY_LEN, derive};
use crate::{ContentKey, OpenError, OpenedBlock, Padding, SealOptions, SealedBlock, Suite};

/// What a block holds, as a number that only the accessor set can compute, and that no two contents share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId([u8; Self::LEN]);

impl ContentId {
    /// Length of [`ContentId::as_bytes`].
    pub const LEN: usize = NONCE_LEN;

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Takes bytes that were stored.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> ContentId {
        ContentId(bytes)
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}")).and_then(|()| f.write_str("..."))
    }
}

/// The id of the concatenation of `parts`, padded like that. One pass over them.
pub fn content_id<P: AsRef<[u8]>>(key: &ContentKey, parts: &[P], padding: Padding) -> ContentId {
    let key = derive::<KEY_LEN>(key.as_bytes(), "kurma content id", &[]);
    let mut hasher = blake3::Hasher::new_keyed(&key);
    for part in parts {
        hasher.update(part.as_ref());
    }
    let len = hasher.count() as usize;
    hasher.update(&(len as u64).to_be_bytes()).update(&(padding.padded_len(len) as u64).to_be_bytes());
    let mut id = [0; ContentId::LEN];
    hasher.finalize_xof().fill(&mut id);
    ContentId(id)
}

/// Seals one block so that the same plaintext and padding give the same bytes.
///
/// The nonce is the content id: the same keystream never meets two plaintexts, whatever is repeated, restored or forgotten.
/// Where the block belongs is *not* bound; whoever stores it sees to that.
///
/// # Panics
///
/// As [`seal`](crate::seal) does.
pub fn seal_convergent<P: AsRef<[u8]>>(key: &ContentKey, parts: &[P], padding: Padding) -> SealedBlock {
    let ContentId(nonce) = content_id(key, parts, padding);
    let options = SealOptions { suite: Suite::Convergent, padding, time: Timestamp::default() };
    seal_under(key.as_bytes(), &[], &nonce, parts, &options)
}

/// Verifies that `sealed` was sealed under this content key, and that its nonce is the id of its content.
pub fn open_convergent(key: &ContentKey, sealed: SealedBlock) -> Result<OpenedBlock, OpenError> {
    let (suite, nonce) = parse_clear(sealed.as_bytes())?;
    if suite != Suite::Convergent {
        return Err(OpenError::UnknownSuite { suite: sealed.as_bytes()[1] });
    }
    let padded = sealed.as_bytes().len() - crate::SEAL_OVERHEAD;
    let opened = open_under(key.as_bytes(), &[], sealed)?;
    let mut hasher = blake3::Hasher::new_keyed(&derive::<KEY_LEN>(key.as_bytes(), "kurma content id", &[]));
    hasher.update(&opened.plaintext).update(&(opened.plaintext.len() as u64).to_be_bytes());
    let mut id = [0; ContentId::LEN];
    hasher.update(&(padded as u64).to_be_bytes()).finalize_xof().fill(&mut id);
    verify_slices_are_equal(&id, &nonce).map_err(|_| OpenError::Forged)?;
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use environment::SystemEntropy;
    use ids::{BlockIndex, GatewayId, ObjectId, ObjectNumber, Version, VolumeId};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        AccessorSetId, BlockIdentity, EpochIdentity, EpochKey, FileKey, KeyEpoch, open, unwrap_file_key,
        wrap_file_key,
    };

    const KEY: [u8; KEY_LEN] = [5; KEY_LEN];

    fn key() -> ContentKey {
        ContentKey::from_bytes(KEY)
    }

    fn seal(plaintext: &[u8]) -> SealedBlock {
        seal_convergent(&key(), &[plaintext], Padding::Bucket(64))
    }

    fn identity() -> BlockIdentity {
        BlockIdentity {
            volume: VolumeId(1),
            object: ObjectId { creator: GatewayId(1), number: ObjectNumber(2) },
            block: BlockIndex(3),
            version: Version(4),
            creator: GatewayId(1),
            epoch: KeyEpoch(1),
        }
    }

    #[test]
    fn equal_content_gives_equal_bytes_and_nothing_else_does() {
        let sealed = seal(b"content");
        assert_eq!(seal_convergent(&key(), &[&b"con"[..], b"tent"], Padding::Bucket(64)), sealed);
        let other_key = ContentKey::from_bytes([6; KEY_LEN]);
        let others = [
            seal(b"contenT"),
            seal(b"content\0"),
            seal_convergent(&key(), &[b"content"], Padding::Bucket(128)),
            seal_convergent(&other_key, &[b"content"], Padding::Bucket(64)),
        ];
        for other in others {
            // Nonce, commitment, and what is encrypted.
            for range in [8..32, 32..64, 64..80] {
                assert_ne!(other.as_bytes()[range.clone()], sealed.as_bytes()[range]);
            }
        }
    }

    /// Files of one accessor set and epoch share content; another set, another epoch, or a file alone does not.
    #[test]
    fn content_is_shared_inside_one_accessor_set_and_epoch() {
        let entropy = SystemEntropy::new();
        let id_in = |set: u32, epoch: u32, number: u128| {
            let identity =
                EpochIdentity { volume: VolumeId(1), accessors: AccessorSetId(set), epoch: KeyEpoch(epoch) };
            let epoch_key = EpochKey::from_bytes(identity, [9; KEY_LEN]);
            let object = ObjectId { creator: GatewayId(1), number: ObjectNumber(number) };
            let file = FileKey::generate(&entropy);
            let wrapped = wrap_file_key(&epoch_key, &file, object, &entropy);
            let file = unwrap_file_key(&epoch_key, object, wrapped.as_bytes()).unwrap();
            content_id(file.content_key(), &[b"content"], Padding::None)
        };
        assert_eq!(id_in(1, 1, 7), id_in(1, 1, 8));
        assert_ne!(id_in(1, 1, 7), id_in(2, 1, 7));
        assert_ne!(id_in(1, 1, 7), id_in(1, 2, 7));
        let alone = || FileKey::generate(&entropy);
        let of = |file: FileKey| content_id(file.content_key(), &[b"content"], Padding::None);
        assert_ne!(of(alone()), of(alone()));
    }

    #[test]
    fn a_convergent_block_does_not_pass_for_one_that_is_bound_to_its_place_nor_the_other_way_round() {
        let file = FileKey::from_bytes([1; KEY_LEN]);
        let sealed = seal_convergent(file.content_key(), &[b"content"], Padding::None);
        assert!(sealed.is_convergent());
        assert!(matches!(open(&file, &identity(), sealed), Err(OpenError::UnknownSuite { suite: 3 })));
        let options = SealOptions::at(Timestamp::default());
        let bound = crate::seal(&file, &identity(), &[b"content"], &options, &SystemEntropy::new());
        assert!(!bound.is_convergent());
        assert!(matches!(
            open_convergent(file.content_key(), bound),
            Err(OpenError::UnknownSuite { suite: 1 })
        ));
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_refused() {
        let sealed = seal(b"what the program wrote").into_bytes();
        let opens = |bytes: &[u8]| {
            open_convergent(&key(), SealedBlock::from_untrusted(Bytes::copy_from_slice(bytes))).is_ok()
        };
        assert!(opens(&sealed));
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(&changed), "bit {bit}");
        }
        for len in 0..sealed.len() {
            assert!(!opens(&sealed[..len]), "{len} bytes");
        }
        assert!(open_convergent(&ContentKey::from_bytes([6; KEY_LEN]), seal(b"content")).is_err());
    }

    /// Somebody with the key who seals under a nonce that is not the content's: nonces would repeat.
    #[test]
    fn a_nonce_that_is_not_the_id_of_the_content_is_refused() {
        let options =
            SealOptions { suite: Suite::Convergent, padding: Padding::None, time: Timestamp::default() };
        let sealed = seal_under(&KEY, &[], &[7; NONCE_LEN], &[b"content"], &options);
        assert!(matches!(open_convergent(&key(), sealed), Err(OpenError::Forged)));
    }

    /// The bytes were computed from the description of the format by another implementation.
    #[test]
    fn suite_3_never_changes() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(seal_convergent(&key(), &[b"block"], Padding::None).as_bytes()), VECTOR);
    }

    const VECTOR: &str = "b10300000000000029dafcaefbc555506af02d4fced187cf04134d8d5a2ea819742356f636cbe771c141d9087e1580a750c78fc0e55dd41d2fc541e427f03d2da2015afcb541d822b172142005a3acea82d8f82136c8401022802cd144c1a1ae522aca5a00";

    proptest! {
        #[test]
        fn what_was_sealed_opens(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..4)) {
            let sealed = seal_convergent(&key(), &parts, Padding::Padme);
            let opened = open_convergent(&key(), sealed).unwrap();
            prop_assert_eq!(&opened.plaintext[..], &parts.concat()[..]);
        }
    }
}
