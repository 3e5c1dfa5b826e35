use std::collections::BTreeMap;

use environment::Entropy;
use seal::KeyFile;
use vsss_rs::Gf256;
use zeroize::Zeroizing;

use crate::{CustodyError, Share, ShareSet};

/// The most shares of one key.
pub const MAX_SHARES: usize = 64;
/// Tells what was split from what other shares make.
const PROOF: usize = 8;

fn proof(set: ShareSet, key: &[u8]) -> [u8; PROOF] {
    let mut hasher = blake3::Hasher::new_derive_key("kurma 2026 key shares");
    hasher.update(&set.0).update(key);
    let mut proof = [0; PROOF];
    proof.copy_from_slice(&hasher.finalize().as_bytes()[..PROOF]);
    proof
}

/// Makes `total` shares of a key, `needed` of which are enough.
///
/// # Errors
/// There is no such split.
pub fn split(
    key: &KeyFile,
    needed: usize,
    total: usize,
    entropy: &dyn Entropy,
) -> Result<Vec<Share>, CustodyError> {
    let impossible = || CustodyError::Impossible { needed, total, max: MAX_SHARES };
    if needed < 2 || needed > total || total > MAX_SHARES {
        return Err(impossible());
    }
    let mut set = ShareSet([0; 4]);
    entropy.fill(&mut set.0);
    let mut secret = key.to_bytes();
    let proof = proof(set, &secret);
    secret.extend_from_slice(&proof);
    let made = Gf256::split_bytes(needed, total, &secret[..], Random(entropy)).map_err(|_| impossible())?;
    let share = |bytes: Vec<u8>| {
        let bytes = Zeroizing::new(bytes);
        let (number, value) = bytes.split_first().ok_or_else(impossible)?;
        Ok(Share {
            set,
            needed: needed as u8,
            total: total as u8,
            number: *number,
            gateway: key.gateway().0,
            key: key.id(),
            value: Zeroizing::new(value.to_vec()),
        })
    };
    made.into_iter().map(share).collect()
}

/// The key that these are shares of. More than are needed do no harm, nor does one that comes twice.
///
/// # Errors
/// They are too few, not of one set, or one of them is wrong.
pub fn combine(shares: &[Share]) -> Result<KeyFile, CustodyError> {
    let first = shares.first().ok_or_else(|| CustodyError::Malformed("there is none".into()))?;
    let set = first.set;
    let mut known: BTreeMap<u8, &Share> = BTreeMap::new();
    for share in shares {
        check_together(first, share)?;
        let other = known.insert(share.number, share);
        if other.is_some_and(|other| other != share) {
            return Err(CustodyError::Conflicting { set: set.to_string(), number: share.number });
        }
    }
    let needed = usize::from(first.needed);
    if known.len() < needed {
        let numbers: Vec<String> = known.keys().map(ToString::to_string).collect();
        let (set, found) = (set.to_string(), known.len());
        return Err(CustodyError::TooFew { set, needed, found, numbers: numbers.join(", ") });
    }
    let whole = |share: &&Share| [&[share.number], &share.value[..]].concat();
    let parts: Zeroizing<Vec<Vec<u8>>> = Zeroizing::new(known.values().map(whole).collect());
    let unproved = || CustodyError::Unproved { set: set.to_string() };
    let secret = Zeroizing::new(Gf256::combine_bytes(&parts[..]).map_err(|_| unproved())?);
    let (bytes, found) = secret.split_at_checked(secret.len().saturating_sub(PROOF)).ok_or_else(unproved)?;
    if found != proof(set, bytes) {
        return Err(unproved());
    }
    let key = KeyFile::from_bytes(bytes)?;
    if (key.gateway().0, key.id()) == (first.gateway, first.key) { Ok(key) } else { Err(unproved()) }
}

fn check_together(first: &Share, share: &Share) -> Result<(), CustodyError> {
    let differ = |what: &str, one: &dyn std::fmt::Display, other: &dyn std::fmt::Display| {
        let (a, b) = (first.number, share.number);
        Err(CustodyError::Mixed(format!("share {a} is of {what} {one}, share {b} of {what} {other}")))
    };
    if first.key != share.key || first.gateway != share.gateway {
        return differ("key", &first.key, &share.key);
    }
    if first.set != share.set {
        return differ("set", &first.set, &share.set);
    }
    let shape = |share: &Share| (share.needed, share.total, share.value.len());
    if shape(first) != shape(share) {
        return Err(CustodyError::Mixed(format!(
            "shares {} and {} say different things about set {}",
            first.number, share.number, first.set
        )));
    }
    Ok(())
}

/// The randomness of the environment, as the crate wants it.
struct Random<'a>(&'a dyn Entropy);

impl rand_core::TryRng for Random<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.0.next_u64() as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
        self.0.fill(out);
        Ok(())
    }
}

impl rand_core::TryCryptoRng for Random<'_> {}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;
    use ids::GatewayId;
    use proptest::prelude::*;

    use super::*;

    fn key() -> KeyFile {
        KeyFile::generate(GatewayId(1), &SystemEntropy::new())
    }

    #[test]
    fn one_share_alone_and_impossible_splits_are_refused() {
        for (needed, total) in [(1, 3), (0, 2), (4, 3), (2, 65)] {
            let refused = split(&key(), needed, total, &SystemEntropy::new());
            assert!(matches!(refused, Err(CustodyError::Impossible { .. })), "{needed}/{total}");
        }
    }

    #[test]
    fn too_few_mixed_and_wrong_shares_get_errors_that_say_so() {
        let entropy = SystemEntropy::new();
        let key = key();
        let shares = split(&key, 3, 5, &entropy).unwrap();
        let error = |shares: &[Share]| combine(shares).unwrap_err().to_string();
        let few = error(&[shares[0].clone(), shares[4].clone(), shares[0].clone()]);
        assert!(few.contains("3 shares") && few.contains("there are 2 (numbers 1, 5)"), "{few}");
        let again = split(&key, 3, 5, &entropy).unwrap();
        let mixed = error(&[shares[0].clone(), shares[1].clone(), again[2].clone()]);
        assert!(mixed.contains("set"), "{mixed}");
        let other = split(&super::tests::key(), 3, 5, &entropy).unwrap();
        let mixed = error(&[shares[0].clone(), shares[1].clone(), other[2].clone()]);
        assert!(mixed.contains("is of key"), "{mixed}");
        let mut wrong = shares.clone();
        wrong[1].value[70] ^= 1;
        assert!(error(&wrong[..3]).contains("one of them is wrong"));
        wrong.push(shares[1].clone());
        assert!(error(&wrong).contains("two different shares 2"));
        assert!(combine(&[]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn any_k_of_n_shares_make_the_key(
            total in 2_usize..10, needed in 2_usize..10, order in Just((0..10_usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let needed = needed.min(total);
            let key = key();
            let shares = split(&key, needed, total, &SystemEntropy::new()).unwrap();
            let chosen: Vec<Share> =
                order.into_iter().filter(|at| *at < total).take(needed).map(|at| shares[at].clone()).collect();
            prop_assert_eq!(combine(&chosen).unwrap(), key);
            let refused = matches!(combine(&chosen[1..]), Err(CustodyError::TooFew { .. }));
            prop_assert!(refused);
        }
    }

    /// Who has one share less than are needed learns nothing: for every byte of what was split, every value is as likely as
    /// any other. A distinguisher between two keys that differ in all bits, counting what it sees of a byte, finds nothing.
    #[test]
    fn one_share_less_than_needed_looks_the_same_whatever_was_split() {
        const RUNS: usize = 4096;
        let entropy = SystemEntropy::new();
        let bytes = |fill: u8| {
            let mut bytes = vec![2, 0, 1];
            bytes.extend_from_slice(&[fill; 32]);
            bytes.extend_from_slice(&[0, 0, 0, 1]);
            bytes.extend_from_slice(&[fill; 32]);
            KeyFile::from_bytes(&bytes).unwrap()
        };
        for fill in [0x00, 0xff] {
            let key = bytes(fill);
            let mut counts = [[0_usize; 256]; 2];
            for _ in 0..RUNS {
                let shares = split(&key, 3, 4, &entropy).unwrap();
                for (share, counts) in shares.iter().zip(&mut counts) {
                    counts[usize::from(share.value[10])] += 1;
                }
                // And both together: what two of three needed shares would be, if the key had been another one, fits as well.
                counts[0][usize::from(shares[0].value[20] ^ shares[1].value[20])] += 1;
            }
            for (counts, runs) in counts.iter().zip([2 * RUNS, RUNS]) {
                let expected = runs as f64 / 256.0;
                let chi: f64 = counts.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
                // 255 degrees of freedom: mean 255, deviation 22.6; nine deviations.
                assert!((255.0 - 204.0..255.0 + 204.0).contains(&chi), "{fill}: {chi}");
            }
        }
    }

    /// The same by algebra: to two of three needed shares, for every other key there is exactly one third share that would make it.
    #[test]
    fn two_of_three_needed_shares_fit_every_key() {
        let entropy = SystemEntropy::new();
        let shares = split(&key(), 3, 4, &entropy).unwrap();
        let part = |share: &Share, byte: u8| vec![share.number, byte];
        let mut seen = [false; 256];
        for guess in 0..=255_u8 {
            let parts =
                [part(&shares[0], shares[0].value[5]), part(&shares[1], shares[1].value[5]), vec![3, guess]];
            seen[usize::from(Gf256::combine_bytes(&parts[..]).unwrap()[0])] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }
}
