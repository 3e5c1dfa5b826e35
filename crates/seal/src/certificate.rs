//! What the owner of a sequence of blocks certifies of all of them at once (`EX-2`).
//!
//! The mechanism is that of extents (Eaton, "Improving Access to Remote Storage for Weakly Connected Users", 6.2): blocks are named by
//! their digests, a chain over the names stands for the sequence, and one proof covers the end of the chain. So many blocks cost
//! one proof, more can be appended without the old ones being read, and each block can be proved alone by its name.

use std::fmt;

use ids::{GatewayId, Timestamp};

use crate::secret::{derive, secret_key};
use crate::{FileKey, GatewayPublicKey, OpenError};

const FORMAT: u8 = 0xD1;
const WHAT: &str = "a certificate";
/// The owner's proof is a keyed BLAKE3: it convinces whoever has the key. A signature would be 2.
const MAC: u8 = 1;
const DIGEST: usize = 32;
/// Everything but the proof.
const CLAIM: usize = 96;

secret_key! {
    /// Makes and checks certificates, as long as gateways have no keys to sign with.
    CertificateKey
}

impl FileKey {
    /// The key for certificates of what is stored in this file.
    pub fn certificate_key(&self) -> CertificateKey {
        CertificateKey::from_bytes(*derive(self.as_bytes(), "kurma certificate key", &[]))
    }
}

/// The name of a sealed block by its content (`EX-3`): the same in whatever sequence it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockName([u8; DIGEST]);

impl BlockName {
    /// Length of [`BlockName::as_bytes`].
    pub const LEN: usize = DIGEST;

    /// The name of these bytes.
    pub fn of(sealed: &[u8]) -> BlockName {
        BlockName(*blake3::hash(sealed).as_bytes())
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Takes bytes that were stored.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> BlockName {
        BlockName(bytes)
    }
}

impl fmt::Debug for BlockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}")).and_then(|()| f.write_str("..."))
    }
}

/// Stands for a sequence of blocks of one owner (`EX-4`): the end of a chain over their names. No two sequences, and no two
/// owners, have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verifier([u8; DIGEST]);

impl Verifier {
    /// Of the empty sequence.
    pub fn of_nothing(owner: &GatewayPublicKey) -> Verifier {
        let mut hasher = blake3::Hasher::new_derive_key("kurma 2026 extent owner");
        hasher.update(&owner_bytes(owner));
        Verifier(*hasher.finalize().as_bytes())
    }

    /// Of the same sequence with one block more.
    pub fn followed_by(self, block: &BlockName) -> Verifier {
        let mut hasher = blake3::Hasher::new_derive_key("kurma 2026 extent chain");
        hasher.update(&self.0).update(&block.0);
        Verifier(*hasher.finalize().as_bytes())
    }
}

/// What is certified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Which blocks, in which order.
    pub verifier: Verifier,
    /// How many.
    pub blocks: u32,
    /// Bytes of all of them together.
    pub size: u64,
    /// When it was made, by the owner's wall clock.
    pub made: Timestamp,
    /// For how many seconds it holds; 0 as long as the blocks are there.
    pub ttl: u32,
    /// Whose blocks they are.
    pub owner: GatewayPublicKey,
}

impl Certificate {
    /// Length of [`Certificate::prove`].
    pub const LEN: usize = CLAIM + DIGEST;

    /// The certificate of the empty sequence.
    pub fn of_nothing(owner: GatewayPublicKey, made: Timestamp) -> Certificate {
        Certificate { verifier: Verifier::of_nothing(&owner), blocks: 0, size: 0, made, ttl: 0, owner }
    }

    /// Counts one block more. Only what is new has to be read.
    pub fn append(&mut self, block: &BlockName, len: u64) {
        self.verifier = self.verifier.followed_by(block);
        self.blocks += 1;
        self.size += len;
    }

    /// With a proof that the holder of `key` says so.
    pub fn prove(&self, key: &CertificateKey) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let (claim, proof) = out.split_at_mut(CLAIM);
        claim[..2].copy_from_slice(&[FORMAT, MAC]);
        claim[2..34].copy_from_slice(&self.verifier.0);
        claim[34..38].copy_from_slice(&self.blocks.to_be_bytes());
        claim[38..46].copy_from_slice(&self.size.to_be_bytes());
        claim[46..54].copy_from_slice(&self.made.seconds.to_be_bytes());
        claim[54..58].copy_from_slice(&self.made.nanos.to_be_bytes());
        claim[58..62].copy_from_slice(&self.ttl.to_be_bytes());
        claim[62..].copy_from_slice(&owner_bytes(&self.owner));
        proof.copy_from_slice(blake3::keyed_hash(key.as_bytes(), claim).as_bytes());
        out
    }

    /// What was certified with this key; not whether any blocks fit.
    pub fn verify(key: &CertificateKey, bytes: &[u8]) -> Result<Certificate, OpenError> {
        let wrong_length = || OpenError::WrongLength { what: WHAT, len: bytes.len(), needed: Self::LEN };
        let (claim, proof) = bytes.split_first_chunk::<CLAIM>().ok_or_else(wrong_length)?;
        if claim[0] != FORMAT {
            return Err(OpenError::UnknownFormat { what: WHAT, byte: claim[0] });
        }
        if claim[1] != MAC {
            return Err(OpenError::UnknownSuite { suite: claim[1] });
        }
        let proof = <[u8; DIGEST]>::try_from(proof).map_err(|_| wrong_length())?;
        // `blake3::Hash` compares in constant time.
        if blake3::keyed_hash(key.as_bytes(), claim) != blake3::Hash::from_bytes(proof) {
            return Err(OpenError::Forged);
        }
        let mut rest = &claim[2..];
        let certificate = Certificate {
            verifier: Verifier(take(&mut rest)),
            blocks: u32::from_be_bytes(take(&mut rest)),
            size: u64::from_be_bytes(take(&mut rest)),
            made: Timestamp {
                seconds: i64::from_be_bytes(take(&mut rest)),
                nanos: u32::from_be_bytes(take(&mut rest)),
            },
            ttl: u32::from_be_bytes(take(&mut rest)),
            owner: GatewayPublicKey {
                gateway: GatewayId(u16::from_be_bytes(take(&mut rest))),
                x25519: take(&mut rest),
            },
        };
        if certificate.made.nanos >= 1_000_000_000 {
            return Err(OpenError::Malformed { what: "nanoseconds beyond a second" });
        }
        Ok(certificate)
    }
}

fn owner_bytes(owner: &GatewayPublicKey) -> [u8; 2 + DIGEST] {
    let mut out = [0; 2 + DIGEST];
    out[..2].copy_from_slice(&owner.gateway.0.to_be_bytes());
    out[2..].copy_from_slice(&owner.x25519);
    out
}

/// Takes a field off a claim, whose length is fixed.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (field, behind) = rest.split_first_chunk().expect("the fields of a claim are as long as a claim");
    *rest = behind;
    *field
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;
    use proptest::prelude::*;

    use super::*;

    fn owner() -> GatewayPublicKey {
        GatewayPublicKey { gateway: GatewayId(7), x25519: [9; 32] }
    }

    fn key() -> CertificateKey {
        FileKey::from_bytes([5; 32]).certificate_key()
    }

    fn certificate(blocks: &[&[u8]]) -> Certificate {
        let made = Timestamp { seconds: 1_700_000_000, nanos: 5 };
        let mut certificate = Certificate { ttl: 60, ..Certificate::of_nothing(owner(), made) };
        blocks.iter().for_each(|block| certificate.append(&BlockName::of(block), block.len() as u64));
        certificate
    }

    #[test]
    fn certificates_never_change() {
        let proven = certificate(&[b"one", b"two"]).prove(&key());
        assert_eq!(HEXLOWER.encode(&proven[..2]), "d101");
        assert_eq!(
            HEXLOWER.encode(&proven[2..34]),
            "bc3711d66a0344e387a366738d8cc5e44acd3a0c51f1319d8b351744c9764cbd"
        );
        assert_eq!(
            HEXLOWER.encode(&proven[34..CLAIM]),
            "00000002000000000000000600000000\
             6553f100000000050000003c0007\
             0909090909090909090909090909090909090909090909090909090909090909"
        );
        assert_eq!(
            HEXLOWER.encode(&proven[CLAIM..]),
            "8b4dfc6117606a2cc2e6649d77d81c91ec7cbcc4ea7b5ede324bf31cee43d511"
        );
    }

    #[test]
    fn the_verifier_depends_on_every_block_their_order_and_the_owner() {
        let base = certificate(&[b"one", b"two"]).verifier;
        let others: [&[&[u8]]; 5] =
            [&[b"two", b"one"], &[b"one"], &[b"onetwo"], &[b"one", b"two", b""], &[b"one", b"twO"]];
        for other in others {
            assert_ne!(certificate(other).verifier, base);
        }
        let stranger = GatewayPublicKey { gateway: GatewayId(8), ..owner() };
        assert_ne!(Verifier::of_nothing(&stranger), Verifier::of_nothing(&owner()));
    }

    #[test]
    fn every_flipped_bit_every_other_length_and_every_other_key_is_refused() {
        let proven = certificate(&[b"one"]).prove(&key());
        assert_eq!(Certificate::verify(&key(), &proven), Ok(certificate(&[b"one"])));
        for bit in 0..Certificate::LEN * 8 {
            let mut bytes = proven;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Certificate::verify(&key(), &bytes).is_err(), "bit {bit}");
        }
        for len in 0..Certificate::LEN {
            assert!(Certificate::verify(&key(), &proven[..len]).is_err(), "length {len}");
        }
        assert!(Certificate::verify(&key(), &[&proven[..], &[0]].concat()).is_err());
        let other = FileKey::from_bytes([6; 32]).certificate_key();
        assert_eq!(Certificate::verify(&other, &proven), Err(OpenError::Forged));
    }

    proptest! {
        /// EX-4: only new data is hashed.
        #[test]
        fn appending_in_parts_certifies_the_same_as_all_at_once(
            blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..12),
            cut in any::<prop::sample::Index>(),
        ) {
            let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
            let (first, later) = blocks.split_at(cut.index(blocks.len() + 1));
            let proven = certificate(first).prove(&key());
            let mut resumed = Certificate::verify(&key(), &proven).unwrap();
            later.iter().for_each(|block| resumed.append(&BlockName::of(block), block.len() as u64));
            prop_assert_eq!(resumed, certificate(&blocks));
        }
    }
}
