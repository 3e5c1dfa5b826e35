//! What a cloud, or several that have put together what they store, can tell from fewer fragments than are needed: a
//! distinguisher names two blocks, gets fragments of one of them, and measures whatever might give it away (`K31`).

use std::collections::HashMap;

use bytes::Bytes;
use environment::Entropy;

use crate::{Scheme, SplitKeys, split};

const BLOCK: usize = 4096;
const ROUNDS: u64 = 48;
/// Standard deviations between two means that chance alone does not explain: once in some million measurements.
const TELLING: f64 = 5.2;

/// A generator that gives the same bytes in every run.
struct Seeded(parking_lot::Mutex<blake3::OutputReader>);

impl Seeded {
    fn new(seed: u64) -> Seeded {
        let mut hasher = blake3::Hasher::new();
        Seeded(parking_lot::Mutex::new(hasher.update(&seed.to_be_bytes()).finalize_xof()))
    }
}

impl Entropy for Seeded {
    fn fill(&self, out: &mut [u8]) {
        self.0.lock().fill(out);
    }
}

/// The bodies of the fragments `known` of a block, one after the other.
fn seen(scheme: Scheme, block: &Bytes, known: u32, round: u64) -> Vec<u8> {
    let mut secret = [0; 32];
    // Another volume in each round: within one, equal blocks have equal fragments, and are meant to.
    secret[..8].copy_from_slice(&round.to_be_bytes());
    let keys = SplitKeys { checksum: &[1; 32], convergence: &secret };
    let fragments = split(scheme, block, keys, b"", &Seeded::new(round));
    let chosen = fragments.iter().enumerate().filter(|(index, _)| known >> index & 1 == 1);
    chosen.flat_map(|(_, fragment)| fragment.segments()[1].to_vec()).collect()
}

/// Numbers that are the same on average for all noise of this length.
fn measure(bytes: &[u8]) -> Vec<f64> {
    let mut histogram = [0.0_f64; 256];
    bytes.iter().for_each(|byte| histogram[usize::from(*byte)] += 1.0);
    let expected = bytes.len() as f64 / 256.0;
    let uniformity = histogram.iter().map(|count| (count - expected).powi(2) / expected).sum();
    let mut words: HashMap<&[u8], u32> = HashMap::new();
    bytes.windows(2).for_each(|word| *words.entry(word).or_default() += 1);
    let repeated = words.values().map(|count| f64::from(count * count)).sum();
    let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    let distant = |by: usize| {
        bytes.iter().zip(&bytes[by..]).map(|(left, right)| f64::from((left ^ right).count_ones())).sum()
    };
    let half = bytes.len() / 2;
    let sign = |at: usize| bytes.iter().map(|byte| f64::from(byte >> at & 1)).sum::<f64>();
    let mut all = vec![uniformity, repeated, f64::from(ones), distant(1), distant(16), distant(half)];
    all.extend((0..8).map(sign));
    all.extend(bytes.iter().take(64).map(|byte| f64::from(*byte)));
    all.extend(bytes.iter().rev().take(64).map(|byte| f64::from(*byte)));
    all
}

/// How many standard deviations the measurement that tells most lies apart for two sorts of samples.
fn advantage(one: &[Vec<f64>], other: &[Vec<f64>]) -> f64 {
    let moments = |samples: &[Vec<f64>], at: usize| {
        let (count, values) = (samples.len() as f64, samples.iter().map(|sample| sample[at]));
        let mean = values.clone().sum::<f64>() / count;
        (mean, values.map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count)
    };
    let apart = (0..one[0].len()).map(|at| {
        let ((mean, variance), (other_mean, other_variance)) = (moments(one, at), moments(other, at));
        (mean - other_mean).abs() / (variance + other_variance).max(1e-9).sqrt()
    });
    apart.fold(0.0, f64::max)
}

/// What the best measurement says about which of two blocks `known` fragments are of; and of noise.
fn distinguish(scheme: Scheme, known: u32) -> f64 {
    let text: Vec<u8> =
        b"to be or not to be, that is the question; ".iter().copied().cycle().take(BLOCK).collect();
    let blocks = [Bytes::from(vec![0; BLOCK]), Bytes::from(text)];
    let sorts = [0, 1].map(|which| {
        let round = |round| measure(&seen(scheme, &blocks[which], known, round * 2 + which as u64));
        (0..ROUNDS).map(round).collect::<Vec<_>>()
    });
    let length = seen(scheme, &blocks[0], known, 0).len();
    let noise = |round| {
        let mut noise = vec![0; length];
        Seeded::new(u64::MAX - round).fill(&mut noise);
        measure(&noise)
    };
    let noise: Vec<_> = (0..ROUNDS).map(noise).collect();
    let [one, other] = &sorts;
    advantage(one, other).max(advantage(one, &noise)).max(advantage(other, &noise))
}

fn choices(scheme: Scheme, of: usize) -> impl Iterator<Item = u32> {
    (1..1 << scheme.total()).filter(move |choice: &u32| choice.count_ones() as usize == of)
}

#[test]
fn fewer_shares_than_needed_look_like_noise_whatever_the_block() {
    for scheme in
        [Scheme::aont_rs(3, 1), Scheme::caont_rs(3, 1), Scheme::aont_rs(4, 2), Scheme::caont_rs(4, 2)]
    {
        let scheme = scheme.unwrap();
        for known in choices(scheme, scheme.needed() - 1) {
            let advantage = distinguish(scheme, known);
            assert!(advantage < TELLING, "{scheme} {known:b}: {advantage:.1} standard deviations");
        }
    }
}

/// The distinguisher is worth something: where there is something to be told, it tells.
#[test]
fn a_single_fragment_of_a_code_that_hides_nothing_is_told_from_noise() {
    let scheme = Scheme::reed_solomon(3, 1).unwrap();
    for known in choices(scheme, 1) {
        let advantage = distinguish(scheme, known);
        assert!(advantage > 2.0 * TELLING, "{known:b}: {advantage:.1} standard deviations");
    }
}

/// What `caont-rs` cannot hide from whoever has the secret, and does hide from everybody else.
#[test]
fn convergent_shares_confirm_a_guess_only_to_those_who_have_the_secret() {
    let (scheme, block) = (Scheme::caont_rs(3, 1).unwrap(), Bytes::from(vec![0; BLOCK]));
    let first = |round| seen(scheme, &block, 1, round);
    assert_eq!(first(1), first(1));
    let differing: u32 = first(1).iter().zip(first(2)).map(|(left, right)| (left ^ right).count_ones()).sum();
    let bits = first(1).len() as f64 * 8.0;
    assert!((f64::from(differing) - bits / 2.0).abs() < 5.0 * bits.sqrt() / 2.0, "{differing} of {bits}");
}
