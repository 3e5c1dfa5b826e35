use crate::gcm::{GCM_NONCE_LEN, GcmKey};
use crate::secret::{derive, secret_key};
use crate::{OpenError, gcm};

/// Length of the tag of a sealed record.
pub const TAG_LEN: usize = gcm::TAG_LEN;

secret_key! {
    /// The key of one node: seals its journal and its disk cache (decision D6).
    NodeKey
}

/// Seals the records of one generation of one segment of a journal or cache.
///
/// A generation is what is written to a segment between two recyclings *by one process*: whoever opens a segment
/// for writing, after a restart too, begins a new generation with 32 fresh random bytes of salt, stores the salt
/// in the segment's clear header and derives a new key. Inside a generation a position is sealed at most once:
/// take the byte offset where writing is append-only, and a counter that never goes back where places are
/// rewritten (a cache slot). Breaking either rule breaks the encryption. Reading may derive the key of any
/// generation as often as it likes.
///
/// Sealing a record does no key set-up and no allocation; a 100-byte record takes some 100 ns.
pub struct SegmentKey(GcmKey);

impl SegmentKey {
    /// The key of the generation that `salt` began. `purpose` keeps users of one node key apart: `journal`, ...
    pub fn derive(node_key: &NodeKey, purpose: &str, salt: &[u8; 32]) -> SegmentKey {
        // The salt has a fixed length, so salt and purpose cannot be shifted into each other.
        SegmentKey(GcmKey::new(&derive(node_key.as_bytes(), "kurma segment", &[salt, purpose.as_bytes()])))
    }

    /// Encrypts `buffer` in place and returns its tag, bound to `position` and `aad`.
    #[must_use = "without its tag the record cannot be opened"]
    pub fn seal_at(&self, position: u64, aad: &[u8], buffer: &mut [u8]) -> [u8; TAG_LEN] {
        self.0.seal(nonce(position), aad, buffer)
    }

    /// Copies `parts` one after the other into `out` and seals them there: one pass from scattered payloads to a
    /// write buffer.
    ///
    /// # Panics
    ///
    /// If `out` is not exactly as long as the parts together.
    #[must_use = "without its tag the record cannot be opened"]
    pub fn seal_parts<P: AsRef<[u8]>>(
        &self,
        position: u64,
        aad: &[u8],
        parts: &[P],
        out: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let mut at = 0;
        for part in parts {
            let part = part.as_ref();
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        assert_eq!(at, out.len(), "the place for a record must be as long as its parts");
        self.seal_at(position, aad, out)
    }

    /// Verifies and decrypts `buffer` in place; its content is undefined after an error.
    ///
    /// [`OpenError::Forged`] when the record is damaged, torn, of another generation, or from another position.
    pub fn open_at(
        &self,
        position: u64,
        aad: &[u8],
        buffer: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), OpenError> {
        self.0.open(nonce(position), aad, buffer, tag)
    }

    /// As [`SegmentKey::open_at`], but from `sealed` into `out`.
    ///
    /// # Panics
    ///
    /// If the two differ in length.
    pub fn open_into(
        &self,
        position: u64,
        aad: &[u8],
        sealed: &[u8],
        tag: &[u8; TAG_LEN],
        out: &mut [u8],
    ) -> Result<(), OpenError> {
        assert_eq!(sealed.len(), out.len(), "a record's plaintext is as long as its ciphertext");
        self.0.open_into(nonce(position), aad, sealed, tag, out)
    }
}

impl std::fmt::Debug for SegmentKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SegmentKey(secret)")
    }
}

fn nonce(position: u64) -> [u8; GCM_NONCE_LEN] {
    let mut out = [0; GCM_NONCE_LEN];
    out[4..].copy_from_slice(&position.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(purpose: &str, salt: u8) -> SegmentKey {
        SegmentKey::derive(&NodeKey::from_bytes([5; 32]), purpose, &[salt; 32])
    }

    #[test]
    fn a_record_opens_only_at_its_position_with_its_purpose_salt_and_associated_data() {
        let mut sealed = *b"a record";
        let tag = key("journal", 1).seal_at(7, b"header", &mut sealed);
        assert_ne!(&sealed, b"a record");
        let open = |key: &SegmentKey, position, aad: &[u8]| {
            let mut copy = sealed;
            key.open_at(position, aad, &mut copy, &tag).map(|()| copy)
        };
        assert_eq!(open(&key("journal", 1), 7, b"header"), Ok(*b"a record"));
        assert_eq!(open(&key("journal", 1), 8, b"header"), Err(OpenError::Forged));
        assert_eq!(open(&key("journal", 2), 7, b"header"), Err(OpenError::Forged));
        assert_eq!(open(&key("cache", 1), 7, b"header"), Err(OpenError::Forged));
        assert_eq!(open(&key("journal", 1), 7, b"headeR"), Err(OpenError::Forged));
        let stranger = SegmentKey::derive(&NodeKey::from_bytes([6; 32]), "journal", &[1; 32]);
        assert_eq!(open(&stranger, 7, b"header"), Err(OpenError::Forged));
    }

    #[test]
    fn the_record_format_never_changes() {
        let mut sealed = *b"a record";
        let tag = key("journal", 1).seal_at(7, b"header", &mut sealed);
        let expected = "02f64834904b3ed27960df3a8810e727f704d476e6dea87a";
        assert_eq!(data_encoding::HEXLOWER.encode(&[&sealed[..], &tag].concat()), expected);
    }

    #[test]
    fn positions_and_generations_share_no_keystream() {
        let keystream = |purpose, salt, position| {
            let mut zeros = [0; 32];
            let _ = key(purpose, salt).seal_at(position, b"", &mut zeros);
            zeros
        };
        let mut seen = std::collections::HashSet::new();
        for purpose in ["journal", "cache"] {
            for salt in 0..4 {
                for position in [0, 1, 2, 16, 1 << 32, u64::MAX] {
                    let stream = keystream(purpose, salt, position);
                    assert!(seen.insert(stream[..16].to_owned()));
                    assert!(seen.insert(stream[16..].to_owned()));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn parts_seal_like_the_whole_and_any_flipped_bit_is_noticed(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5),
            position: u64,
            flip: prop::sample::Index,
        ) {
            let key = key("journal", 1);
            let whole = parts.concat();
            let mut sealed = vec![0; whole.len()];
            let tag = key.seal_parts(position, b"aad", &parts, &mut sealed);
            let mut same = whole.clone();
            prop_assert_eq!(key.seal_at(position, b"aad", &mut same), tag);
            prop_assert_eq!(&same, &sealed);
            let mut opened = vec![0; whole.len()];
            prop_assert_eq!(key.open_into(position, b"aad", &sealed, &tag, &mut opened), Ok(()));
            prop_assert_eq!(opened, whole);

            let mut bytes = [&sealed[..], &tag].concat();
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (body, tag) = bytes.split_last_chunk_mut().unwrap();
            prop_assert_eq!(key.open_at(position, b"aad", body, tag), Err(OpenError::Forged));
        }
    }
}
