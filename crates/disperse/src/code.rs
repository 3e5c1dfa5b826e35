use bytes::Bytes;
use environment::Entropy;

use crate::package::{self, PackageKey};
use crate::scheme::Kind;
use crate::{Fragment, Scheme, VerifiedFragment, reed_solomon};

/// Why verified fragments do not bring a block back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Not enough different fragments.
    #[error("{have} different fragments, but {needed} are needed; fetch more")]
    TooFew {
        /// Different fragments given.
        have: usize,
        /// Fragments needed; 1 when none was given that tells.
        needed: usize,
    },
    /// Fragments that were not made by one split: of blocks of different scheme or length, or parts of different packages.
    #[error("fragments do not belong together: they are of different splits")]
    Mixed,
    /// The scheme has no fragment of this number.
    #[error("there is no fragment {index} in {scheme}")]
    NoSuchFragment {
        /// The index asked for.
        index: u8,
        /// The scheme of the given fragments.
        scheme: Scheme,
    },
}

/// Secrets of the gateways that a split needs.
#[derive(Clone, Copy)]
pub struct SplitKeys<'a> {
    /// Goes into the checksums of the fragments.
    pub checksum: &'a [u8; 32],
    /// Makes the fragments of equal blocks equal, for `caont-rs`; whoever has it can tell whether a fragment is one of a
    /// block that he knows. Other schemes do without it.
    pub convergence: &'a [u8; 32],
}

/// Splits a sealed block into `scheme.total()` fragments, in the order of their indices.
///
/// Replicas and the data shards of `rs` share the buffer of `block`; only parity is new memory. `context`, what the block is,
/// goes into the checksums. `entropy` gives each package of `aont-rs` its key.
pub fn split(
    scheme: Scheme,
    block: &Bytes,
    keys: SplitKeys<'_>,
    context: &[u8],
    entropy: &dyn Entropy,
) -> Vec<Fragment> {
    let (needed, spare) = (scheme.needed(), scheme.spare());
    let shared = |key| {
        let (package, digests) = package::wrap(needed, block, &key);
        (reed_solomon::encode(needed, spare, &package), digests)
    };
    let (bodies, digests) = match scheme.kind() {
        Kind::Replicas => (vec![block.clone(); scheme.total()], vec![]),
        Kind::ReedSolomon => (reed_solomon::encode(needed, spare, block), vec![]),
        Kind::AontRs => shared(PackageKey::random(entropy)),
        Kind::CaontRs => shared(PackageKey::convergent(keys.convergence, block)),
    };
    let with_digest = |(index, body): (usize, Bytes)| (index as u8, body, digests.get(index).copied());
    let numbered = bodies.into_iter().enumerate().map(with_digest);
    Fragment::seal(scheme, numbered, block.len(), keys.checksum, context)
}

/// Brings back the block that was split. Takes any fragments of it, in any order, at least `scheme.needed()`
/// different ones; more than that do no harm.
///
/// No copy for replicas: given the only reference to the fragment, the block can be opened in place.
pub fn join(fragments: Vec<VerifiedFragment>) -> Result<Bytes, JoinError> {
    let (scheme, block_len) = check(&fragments)?;
    match scheme.kind() {
        Kind::Replicas => {
            let first = fragments.into_iter().next();
            Ok(first.map(VerifiedFragment::into_body).unwrap_or_default())
        }
        Kind::ReedSolomon => {
            Ok(reed_solomon::decode(scheme.needed(), &bodies(&chosen(scheme, &fragments)), block_len))
        }
        Kind::AontRs | Kind::CaontRs => {
            let (needed, chosen) = (scheme.needed(), chosen(scheme, &fragments));
            let package = reed_solomon::decode(needed, &bodies(&chosen), coded_len(scheme, block_len));
            let of = |shard: usize| chosen.iter().find(|fragment| usize::from(fragment.index()) == shard);
            let known: Vec<_> = (0..needed).map(|shard| of(shard)?.share_digest()).collect();
            package::unwrap(needed, package, block_len, &known).ok_or(JoinError::Mixed)
        }
    }
}

/// The length of what Reed-Solomon coding divides into shards.
fn coded_len(scheme: Scheme, block_len: usize) -> usize {
    match scheme.kind() {
        Kind::Replicas | Kind::ReedSolomon => block_len,
        Kind::AontRs | Kind::CaontRs => {
            package::shard_len(scheme.needed(), block_len as u64) as usize * scheme.needed()
        }
    }
}

/// Makes fragment `missing` anew from others of the same block, as [`split`] made it.
pub fn rebuild(
    have: &[VerifiedFragment],
    missing: u8,
    key: &[u8; 32],
    context: &[u8],
) -> Result<Fragment, JoinError> {
    let (scheme, block_len) = check(have)?;
    if usize::from(missing) >= scheme.total() {
        return Err(JoinError::NoSuchFragment { index: missing, scheme });
    }
    let (body, digest) = match (scheme.kind(), have.iter().find(|fragment| fragment.index() == missing)) {
        (_, Some(same)) => (same.body().clone(), same.share_digest()),
        (Kind::Replicas, None) => (have[0].body().clone(), None),
        (_, None) => {
            let (needed, shards) = (scheme.needed(), bodies(&chosen(scheme, have)));
            let coded_len = coded_len(scheme, block_len);
            (reed_solomon::rebuild(needed, &shards, usize::from(missing), coded_len), None)
        }
    };
    let mut made = Fragment::seal(scheme, [(missing, body, digest)].into_iter(), block_len, key, context);
    Ok(made.remove(0))
}

/// Scheme and block length of fragments that suffice and belong together.
fn check(fragments: &[VerifiedFragment]) -> Result<(Scheme, usize), JoinError> {
    let first = fragments.first().ok_or(JoinError::TooFew { have: 0, needed: 1 })?;
    let (scheme, block_len) = (first.scheme(), first.block_len());
    if fragments.iter().any(|other| (other.scheme(), other.block_len()) != (scheme, block_len)) {
        return Err(JoinError::Mixed);
    }
    let different = fragments.iter().fold(0u32, |seen, fragment| seen | 1 << fragment.index());
    let have = different.count_ones() as usize;
    if have < scheme.needed() {
        return Err(JoinError::TooFew { have, needed: scheme.needed() });
    }
    Ok((scheme, block_len))
}

/// Exactly as many different fragments as are needed, data shards first, since they need no decoding.
fn chosen(scheme: Scheme, fragments: &[VerifiedFragment]) -> Vec<&VerifiedFragment> {
    let mut out: Vec<_> = fragments.iter().collect();
    out.sort_by_key(|fragment| fragment.index());
    out.dedup_by_key(|fragment| fragment.index());
    out.truncate(scheme.needed());
    out
}

/// What Reed-Solomon decoding takes.
fn bodies(fragments: &[&VerifiedFragment]) -> Vec<(usize, Bytes)> {
    fragments.iter().map(|fragment| (usize::from(fragment.index()), fragment.body().clone())).collect()
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;
    use proptest::prelude::*;

    use super::*;

    const KEY: [u8; 32] = [3; 32];
    const CONTEXT: &[u8] = b"volume, object, block, version";

    fn split(scheme: Scheme, block: &Bytes) -> Vec<Fragment> {
        let keys = SplitKeys { checksum: &KEY, convergence: &[4; 32] };
        super::split(scheme, block, keys, CONTEXT, &SystemEntropy::new())
    }

    fn verified(scheme: Scheme, fragments: &[Fragment]) -> Vec<VerifiedFragment> {
        let verify = |(i, fragment): (usize, &Fragment)| {
            let stored = Fragment::from_bytes(fragment.to_bytes()).unwrap();
            stored.verify(&KEY, scheme, i as u8, CONTEXT).unwrap()
        };
        fragments.iter().enumerate().map(verify).collect()
    }

    fn any_scheme() -> impl Strategy<Value = Scheme> {
        let replicas = (1u8..=16).prop_map(|copies| Scheme::replicas(copies).unwrap());
        let coded = (1u8..=32)
            .prop_flat_map(|data| (Just(data), 0..=32 - data))
            .prop_map(|(data, parity)| Scheme::reed_solomon(data, parity).unwrap());
        let shared = (2u8..=32, any::<bool>())
            .prop_flat_map(|(data, convergent)| (Just(data), 0..=32 - data, Just(convergent)))
            .prop_map(|(data, parity, convergent)| match convergent {
                true => Scheme::caont_rs(data, parity).unwrap(),
                false => Scheme::aont_rs(data, parity).unwrap(),
            });
        prop_oneof![replicas, coded, shared]
    }

    #[test]
    fn every_choice_of_needed_fragments_brings_the_block_back() {
        let block = Bytes::from((0..1000u32).map(|i| (i * 7) as u8).collect::<Vec<_>>());
        let coded = ["rs:1+3", "rs:2+2", "rs:3+1", "rs:4+2", "rs:5+3"];
        let shared = ["aont-rs:2+2", "aont-rs:3+1", "caont-rs:3+1", "caont-rs:4+3"];
        for text in ["replicas:3"].iter().chain(&coded).chain(&shared) {
            let scheme: Scheme = text.parse().unwrap();
            let fragments = verified(scheme, &split(scheme, &block));
            for choice in 1u32..1 << scheme.total() {
                let some: Vec<VerifiedFragment> =
                    fragments.iter().filter(|f| choice >> f.index() & 1 == 1).cloned().collect();
                let (have, needed) = (some.len(), scheme.needed());
                let expected =
                    if have < needed { Err(JoinError::TooFew { have, needed }) } else { Ok(block.clone()) };
                assert_eq!(join(some), expected, "{scheme} {choice:b}");
            }
        }
    }

    #[test]
    fn replicas_and_data_shards_share_the_memory_of_the_block() {
        let block = Bytes::from(vec![1; 3000]);
        let range = block.as_ptr_range();
        let replicas = split(Scheme::replicas(3).unwrap(), &block);
        let coded = split(Scheme::reed_solomon(3, 1).unwrap(), &block);
        for fragment in replicas.iter().chain(&coded[..3]) {
            assert!(range.contains(&fragment.segments()[1].as_ptr()));
        }
        let scheme = Scheme::replicas(1).unwrap();
        let stored = split(scheme, &block)[0].to_bytes();
        let place = stored[crate::HEADER_LEN..].as_ptr();
        let fragment = Fragment::from_bytes(stored).unwrap().verify(&KEY, scheme, 0, CONTEXT).unwrap();
        let joined = join(vec![fragment]).unwrap();
        assert_eq!(joined.as_ptr(), place);
        assert!(joined.try_into_mut().is_ok(), "the only reference, so it can be opened in place");
    }

    #[test]
    fn the_same_fragment_twice_counts_once() {
        let scheme = Scheme::reed_solomon(2, 1).unwrap();
        let fragments = verified(scheme, &split(scheme, &Bytes::from_static(b"block")));
        let twice = vec![fragments[1].clone(), fragments[1].clone()];
        assert_eq!(join(twice.clone()), Err(JoinError::TooFew { have: 1, needed: 2 }));
        let enough = [twice, vec![fragments[2].clone()]].concat();
        assert_eq!(join(enough), Ok(Bytes::from_static(b"block")));
        assert_eq!(join(vec![]), Err(JoinError::TooFew { have: 0, needed: 1 }));
    }

    #[test]
    fn fragments_of_different_splits_are_not_mixed() {
        let scheme = Scheme::reed_solomon(2, 1).unwrap();
        let one = verified(scheme, &split(scheme, &Bytes::from_static(b"block")));
        let other = verified(scheme, &split(scheme, &Bytes::from_static(b"longer block")));
        assert_eq!(join(vec![one[0].clone(), other[1].clone()]), Err(JoinError::Mixed));
    }

    #[test]
    fn shares_of_two_packages_of_one_block_are_told_apart() {
        let (scheme, block) = (Scheme::aont_rs(3, 1).unwrap(), Bytes::from(vec![7; 500]));
        let one = verified(scheme, &split(scheme, &block));
        let other = verified(scheme, &split(scheme, &block));
        assert_eq!(join(vec![one[0].clone(), one[1].clone(), other[2].clone()]), Err(JoinError::Mixed));
    }

    /// K32.
    #[test]
    fn equal_blocks_have_equal_shares_under_one_secret_and_others_under_another() {
        let scheme = Scheme::caont_rs(3, 2).unwrap();
        let shares = |scheme, block: &[u8], secret: u8| {
            let keys = SplitKeys { checksum: &KEY, convergence: &[secret; 32] };
            let block = Bytes::copy_from_slice(block);
            super::split(scheme, &block, keys, CONTEXT, &SystemEntropy::new())
        };
        assert_eq!(shares(scheme, b"the same block", 1), shares(scheme, b"the same block", 1));
        let strange = [shares(scheme, b"the same block", 2), shares(scheme, b"the same blocK", 1)];
        for (share, strange) in shares(scheme, b"the same block", 1).iter().zip(strange.iter().flatten()) {
            assert_ne!(share.segments()[1], strange.segments()[1]);
        }
        let random = Scheme::aont_rs(3, 2).unwrap();
        assert_ne!(shares(random, b"the same block", 1), shares(random, b"the same block", 1));
    }

    #[test]
    fn a_fragment_that_the_scheme_does_not_have_is_not_rebuilt() {
        let scheme = Scheme::reed_solomon(2, 1).unwrap();
        let have = verified(scheme, &split(scheme, &Bytes::from_static(b"block")));
        let error = JoinError::NoSuchFragment { index: 3, scheme };
        assert_eq!(rebuild(&have, 3, &KEY, CONTEXT), Err(error));
    }

    proptest! {
        #[test]
        fn any_needed_fragments_suffice_and_every_lost_one_is_rebuilt_as_it_was(
            scheme in any_scheme(),
            block in prop::collection::vec(any::<u8>(), 0..2000),
            order in Just((0..32u8).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let block = Bytes::from(block);
            let stored = split(scheme, &block);
            prop_assert_eq!(stored.len(), scheme.total());
            let mut fragments = verified(scheme, &stored);
            fragments.sort_by_key(|fragment| order[usize::from(fragment.index())]);
            fragments.truncate(scheme.needed());
            for (index, lost) in stored.iter().enumerate() {
                let rebuilt = rebuild(&fragments, index as u8, &KEY, CONTEXT).unwrap();
                prop_assert_eq!(rebuilt.to_bytes(), lost.to_bytes());
            }
            prop_assert_eq!(join(fragments), Ok(block));
        }
    }
}
