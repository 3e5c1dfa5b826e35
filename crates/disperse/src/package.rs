//! The all-or-nothing package of a block: its content can be computed from the whole package, and from nothing less.
//!
//! A block is encrypted under a key that is used once; the key is hidden by a digest of all that was encrypted. Whoever lacks
//! as few as 32 bytes of the package cannot compute the digest, so he does not have the key, and the rest is noise to him.
//! It is a digest of digests of the shards, which the checksums of fragments need as well: each byte is hashed once.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use blake3::Hasher;
use bytes::Bytes;
use environment::Entropy;
use zeroize::Zeroizing;

use crate::share_digest::ShareDigest;

const TAG_LEN: usize = 16;
pub(crate) const KEY_LEN: usize = 32;
/// How much longer a package is than its block, but for padding.
const OVERHEAD: u64 = (TAG_LEN + KEY_LEN) as u64;
/// The shortest part of a package that makes a fragment: what it takes to guess a missing one is what it takes to guess a key.
const SHORTEST_SHARD: u64 = KEY_LEN as u64;
/// More than the padding of any package: the shortest shards of the largest number of them.
const MOST_PADDING: usize = 32 * KEY_LEN;

/// The key of one package. Never used for another content.
pub(crate) struct PackageKey(Zeroizing<[u8; KEY_LEN]>);

impl PackageKey {
    /// One that nobody can guess.
    pub fn random(entropy: &dyn Entropy) -> PackageKey {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        entropy.fill(&mut *key);
        PackageKey(key)
    }

    /// The one of this content, for all who know `secret`.
    pub fn convergent(secret: &[u8; 32], block: &[u8]) -> PackageKey {
        let key = Zeroizing::new(blake3::derive_key("kurma 2026 convergent package key", secret));
        PackageKey(Zeroizing::new(*blake3::keyed_hash(&key, block).as_bytes()))
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, &*self.0).expect("AES-256-GCM takes any 32 bytes as its key");
        LessSafeKey::new(key)
    }
}

/// The length of each of the `needed` equal parts of the package of a block of `block_len` bytes, which may be anything.
pub(crate) fn shard_len(needed: usize, block_len: u64) -> u64 {
    block_len.saturating_add(OVERHEAD).div_ceil(needed as u64).max(SHORTEST_SHARD)
}

fn package_len(needed: usize, block_len: usize) -> usize {
    shard_len(needed, block_len as u64) as usize * needed
}

/// Makes the package of a block, and the digests of its shards: one pass that encrypts, one that hashes.
pub(crate) fn wrap(needed: usize, block: &[u8], key: &PackageKey) -> (Bytes, Vec<ShareDigest>) {
    let mut package = vec![0; package_len(needed, block.len())];
    let tail_at = package.len() - KEY_LEN;
    let (content, rest) = package[..tail_at].split_at_mut(block.len());
    let padding = &[0; MOST_PADDING][..rest.len() - TAG_LEN];
    key.cipher()
        .seal_out_of_place_scatter(zero_nonce(), Aad::empty(), block, content, padding, rest)
        .expect("GCM seals anything up to 64 GiB, and no block comes near");
    let shards = package.chunks_exact(package.len() / needed);
    let mut digests: Vec<ShareDigest> = shards.map(ShareDigest::of).collect();
    let masked_key = mask(&digests, &key.0);
    package[tail_at..].copy_from_slice(&masked_key);
    if let Some(last) = digests.last_mut() {
        last.end = masked_key;
    }
    (Bytes::from(package), digests)
}

/// The block of `block_len` bytes that became this package; `None` if it is none. In place when this is the only reference.
/// `known` has the digests of its shards, of those that need not be hashed.
pub(crate) fn unwrap(
    needed: usize,
    package: Bytes,
    block_len: usize,
    known: &[Option<ShareDigest>],
) -> Option<Bytes> {
    if package.len() != package_len(needed, block_len) {
        return None;
    }
    let shards = package.chunks_exact(package.len() / needed).zip(known);
    let digests: Vec<_> =
        shards.map(|(shard, known)| known.unwrap_or_else(|| ShareDigest::of(shard))).collect();
    let key = PackageKey(Zeroizing::new(mask(&digests, &digests.last()?.end)));
    let mut package = package.try_into_mut().unwrap_or_else(|shared| shared[..].into());
    let encrypted = package.len() - KEY_LEN;
    let (content, tag) = package[..encrypted].split_at_mut(encrypted - TAG_LEN);
    key.cipher().open_in_place_separate_tag(zero_nonce(), Aad::empty(), tag, content).ok()?;
    if content[block_len..].iter().any(|byte| *byte != 0) {
        return None;
    }
    Some(package.freeze().slice(..block_len))
}

/// The key, hidden by all that the shards hold but itself, which is the end of the last one; or brought out again.
fn mask(shards: &[ShareDigest], key: &[u8; KEY_LEN]) -> [u8; KEY_LEN] {
    let mut hasher = Hasher::new_derive_key("kurma 2026 package digest");
    for (index, shard) in shards.iter().enumerate() {
        hasher.update(&shard.hash);
        if index + 1 < shards.len() {
            hasher.update(&shard.end);
        }
    }
    let mut masked = *hasher.finalize().as_bytes();
    masked.iter_mut().zip(key).for_each(|(digest, key)| *digest ^= key);
    masked
}

/// A key is used once, so that the nonce says nothing.
fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(byte: u8) -> PackageKey {
        PackageKey(Zeroizing::new([byte; KEY_LEN]))
    }

    fn differing_bits(left: &[u8], right: &[u8]) -> u32 {
        left.iter().zip(right).map(|(left, right)| (left ^ right).count_ones()).sum()
    }

    #[test]
    fn packages_divide_into_shards_none_of_which_can_be_guessed() {
        for needed in 2..=32 {
            for len in (0..200).chain([4096, 65_535, 1 << 20]) {
                let shard = shard_len(needed, len);
                assert!(shard >= 32 && shard * needed as u64 >= len + OVERHEAD);
                assert_eq!(package_len(needed, len as usize), shard as usize * needed);
            }
            assert!(shard_len(needed, u64::MAX) <= u64::MAX / 2 + 1);
        }
    }

    /// Whoever lacks a shard and fills in what he likes gets a key that has nothing to do with the right one.
    #[test]
    fn one_wrong_bit_anywhere_changes_every_bit_of_the_key_at_random() {
        // Of shards that are hashed but for their ends, and of some that are all end.
        for block in [&[0x55; 1000][..], &[0x55; 10]] {
            let (package, _) = wrap(3, block, &key(9));
            for bit in (0..(package.len() - KEY_LEN) * 8).step_by(61) {
                let mut changed = package.to_vec();
                changed[bit / 8] ^= 1 << (bit % 8);
                let shards: Vec<_> = changed.chunks_exact(package.len() / 3).map(ShareDigest::of).collect();
                let differing = differing_bits(&mask(&shards, &shards[2].end), &[9; KEY_LEN]);
                assert!((70..=186).contains(&differing), "{differing} of 256 bits after bit {bit}");
                assert_eq!(unwrap(3, Bytes::from(changed), block.len(), &[None; 3]), None);
            }
        }
    }

    #[test]
    fn convergent_keys_are_those_of_content_and_secret() {
        let of = |secret: u8, block: &[u8]| *PackageKey::convergent(&[secret; 32], block).0;
        assert_eq!(of(1, b"content"), of(1, b"content"));
        assert_ne!(of(1, b"content"), of(1, b"contenT"));
        assert_ne!(of(1, b"content"), of(2, b"content"));
        assert_ne!(of(1, b""), of(1, b"\0"));
    }

    proptest! {
        #[test]
        fn blocks_come_back_from_their_package_and_from_no_other(
            block in prop::collection::vec(any::<u8>(), 0..3000),
            needed in 2usize..33,
            change in any::<prop::sample::Index>(),
            known in prop::array::uniform32(any::<bool>()),
        ) {
            let (package, digests) = wrap(needed, &block, &key(3));
            prop_assert_eq!(package.len(), package_len(needed, block.len()));
            let of_shards = package.chunks_exact(package.len() / needed).map(ShareDigest::of);
            prop_assert!(of_shards.eq(digests.iter().copied()));
            let some: Vec<_> = digests.into_iter().zip(known).map(|(digest, is)| is.then_some(digest)).collect();
            let back = unwrap(needed, package.clone(), block.len(), &some);
            prop_assert_eq!(back.as_deref(), Some(&block[..]));
            let mut changed = package.to_vec();
            changed[change.index(package.len())] ^= 1;
            prop_assert_eq!(unwrap(needed, Bytes::from(changed), block.len(), &[None; 32]), None);
        }
    }
}
