use std::hint::black_box;

use anyhow::{Context, Result};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use disperse::{Fragment, Scheme, SplitKeys, VerifiedFragment, split};
use environment::SystemEntropy;
use seal::BlockIdentity;

use crate::coding::processor_time;
use crate::sample::median;

/// What it takes of the processor, in nanoseconds for each block, to bind a block and its fragments to what they are: volume, file,
/// place, version, creator, epoch and sealing. That is how an old version is told from the current one. A gateway cannot do
/// without, so the steps that authenticate are measured by themselves, with such a context and with none, on blocks so short
/// that the difference shows; it does not grow with the block.
pub struct Binding {
    /// To seal a block and split it into the fragments of `rs:2+1`.
    pub stored: f64,
    /// To verify two of those, and the block.
    pub read: f64,
}

/// A sealed block authenticates this much with or without an identity.
const CLEAR: [u8; 64] = [3; 64];

impl Binding {
    pub fn measure() -> Result<Binding> {
        let (bound, unbound) = (Steps::new(&[7; BlockIdentity::LEN + 8])?, Steps::new(&[])?);
        bound.verify()?;
        unbound.verify()?;
        let seal = difference(|| bound.seal(), || unbound.seal());
        let open = difference(|| bound.open(), || unbound.open());
        let split = difference(|| bound.split(), || unbound.split());
        let verify = difference(|| bound.verify(), || unbound.verify());
        Ok(Binding { stored: seal + split, read: open + 2.0 * verify })
    }
}

struct Steps<'a> {
    context: &'a [u8],
    key: LessSafeKey,
    sealed: Vec<u8>,
    block: Bytes,
    scheme: Scheme,
    fragment: Bytes,
    entropy: SystemEntropy,
}

impl Steps<'_> {
    fn new(context: &[u8]) -> Result<Steps<'_>> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).ok().context("a key")?);
        let (block, scheme) = (Bytes::from_static(&[5; 64]), "rs:2+1".parse()?);
        let entropy = SystemEntropy::new();
        let mut steps =
            Steps { context, key, sealed: vec![], block, scheme, fragment: Bytes::new(), entropy };
        steps.sealed = steps.seal().context("a sealed block")?;
        steps.fragment = steps.split()[0].to_bytes();
        Ok(steps)
    }

    fn associated(&self) -> Aad<Vec<u8>> {
        Aad::from([&CLEAR, &self.context[..self.context.len().min(BlockIdentity::LEN)]].concat())
    }

    fn seal(&self) -> Option<Vec<u8>> {
        let mut block = self.block.to_vec();
        self.key.seal_in_place_append_tag(nonce(), self.associated(), &mut block).ok()?;
        Some(block)
    }

    fn open(&self) -> bool {
        self.key.open_in_place(nonce(), self.associated(), &mut self.sealed.clone()).is_ok()
    }

    fn split(&self) -> Vec<Fragment> {
        split(self.scheme, &self.block, KEYS, self.context, &self.entropy)
    }

    fn verify(&self) -> Result<VerifiedFragment> {
        let fragment = Fragment::from_bytes(self.fragment.clone())?;
        Ok(fragment.verify(KEYS.checksum, self.scheme, 0, self.context)?)
    }
}

const KEYS: SplitKeys<'static> = SplitKeys { checksum: &[1; 32], convergence: &[2; 32] };

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// How much longer the first takes: the median of many measurements of both by turns.
fn difference<T>(bound: impl Fn() -> T, unbound: impl Fn() -> T) -> f64 {
    let count = 1_000;
    let once = |work: &dyn Fn() -> T| {
        let start = processor_time();
        (0..count).for_each(|_| drop(black_box(work())));
        (processor_time() - start).as_nanos() as f64 / f64::from(count)
    };
    let pairs: Vec<f64> = (0..201).map(|_| once(&bound) - once(&unbound)).collect();
    median(&pairs).median
}
