//! What the owner of a sequence of blocks certifies of all of them at once (`EX-2`).
//!
//! The mechanism is that of extents (Eaton, "Improving Access to Remote Storage for Weakly Connected Users", 6.2): blocks are named by
//! their digests, a chain over the names stands for the sequence, and one proof covers the end of the chain. So many blocks cost
//! one proof, more can be appended without the old ones being read, and each block can be proved alone by its name.

use std::fmt;
use std::sync::Arc;

use ids::{GatewayId, Timestamp};

use crate::signing::SIGNATURE_LEN;
use crate::{OpenError, SigningKey, VerifyingKey};

const FORMAT: u8 = 0xD1;
const WHAT: &str = "a certificate";
/// The proof is a signature of the owner (Ed25519).
const SIGNED: u8 = 2;
const DIGEST: usize = 32;
/// Everything but the proof.
const CLAIM: usize = 96;

/// Whose blocks they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The gateway.
    pub gateway: GatewayId,
    /// What its signatures are verified with.
    pub key: VerifyingKey,
}

/// Who certifies blocks as its own.
#[derive(Clone, Debug)]
pub struct Signer {
    /// The gateway.
    pub gateway: GatewayId,
    /// What it signs with.
    pub key: Arc<SigningKey>,
}

impl Signer {
    /// The owner that others know it as.
    pub fn owner(&self) -> Owner {
        Owner { gateway: self.gateway, key: self.key.public() }
    }
}

impl Owner {
    fn to_bytes(self) -> [u8; 2 + DIGEST] {
        let mut out = [0; 2 + DIGEST];
        out[..2].copy_from_slice(&self.gateway.0.to_be_bytes());
        out[2..].copy_from_slice(&self.key.0);
        out
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
    pub fn of_nothing(owner: Owner) -> Verifier {
        let mut hasher = blake3::Hasher::new_derive_key("kurma 2026 extent owner");
        hasher.update(&owner.to_bytes());
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
    pub owner: Owner,
}

impl Certificate {
    /// Length of [`Certificate::sign`].
    pub const LEN: usize = CLAIM + SIGNATURE_LEN;

    /// The certificate of the empty sequence.
    pub fn of_nothing(owner: Owner, made: Timestamp) -> Certificate {
        Certificate { verifier: Verifier::of_nothing(owner), blocks: 0, size: 0, made, ttl: 0, owner }
    }

    /// Counts one block more. Only what is new has to be read.
    pub fn append(&mut self, block: &BlockName, len: u64) {
        self.verifier = self.verifier.followed_by(block);
        self.blocks += 1;
        self.size += len;
    }

    /// With the signature of its owner, whose `key` is.
    pub fn sign(&self, key: &SigningKey) -> [u8; Self::LEN] {
        assert_eq!(key.public(), self.owner.key, "only the owner certifies its blocks");
        let mut out = [0; Self::LEN];
        let (claim, proof) = out.split_at_mut(CLAIM);
        claim[..2].copy_from_slice(&[FORMAT, SIGNED]);
        claim[2..34].copy_from_slice(&self.verifier.0);
        claim[34..38].copy_from_slice(&self.blocks.to_be_bytes());
        claim[38..46].copy_from_slice(&self.size.to_be_bytes());
        claim[46..54].copy_from_slice(&self.made.seconds.to_be_bytes());
        claim[54..58].copy_from_slice(&self.made.nanos.to_be_bytes());
        claim[58..62].copy_from_slice(&self.ttl.to_be_bytes());
        claim[62..].copy_from_slice(&self.owner.to_bytes());
        proof.copy_from_slice(&key.sign(claim));
        out
    }

    /// What the owner that it names has signed; whether that is who it should be is for the caller to see, and so is whether any
    /// blocks fit.
    pub fn verify(bytes: &[u8]) -> Result<Certificate, OpenError> {
        let wrong_length = || OpenError::WrongLength { what: WHAT, len: bytes.len(), needed: Self::LEN };
        let (claim, proof) = bytes.split_first_chunk::<CLAIM>().ok_or_else(wrong_length)?;
        if claim[0] != FORMAT {
            return Err(OpenError::UnknownFormat { what: WHAT, byte: claim[0] });
        }
        if claim[1] != SIGNED {
            return Err(OpenError::UnknownSuite { suite: claim[1] });
        }
        if proof.len() != SIGNATURE_LEN {
            return Err(wrong_length());
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
            owner: Owner {
                gateway: GatewayId(u16::from_be_bytes(take(&mut rest))),
                key: VerifyingKey(take(&mut rest)),
            },
        };
        if !certificate.owner.key.verifies(claim, proof) {
            return Err(OpenError::Forged);
        }
        if certificate.made.nanos >= 1_000_000_000 {
            return Err(OpenError::Malformed { what: "nanoseconds beyond a second" });
        }
        Ok(certificate)
    }
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

    fn key() -> SigningKey {
        SigningKey::of_seed(&[5; 32])
    }

    fn owner() -> Owner {
        Owner { gateway: GatewayId(7), key: key().public() }
    }

    fn certificate(blocks: &[&[u8]]) -> Certificate {
        let made = Timestamp { seconds: 1_700_000_000, nanos: 5 };
        let mut certificate = Certificate { ttl: 60, ..Certificate::of_nothing(owner(), made) };
        blocks.iter().for_each(|block| certificate.append(&BlockName::of(block), block.len() as u64));
        certificate
    }

    #[test]
    fn certificates_never_change() {
        let proven = certificate(&[b"one", b"two"]).sign(&key());
        assert_eq!(HEXLOWER.encode(&proven[..2]), "d102");
        assert_eq!(
            HEXLOWER.encode(&proven[2..34]),
            "6b51307d7380b219b3efb64e569880ba84a59a66cb4b6f5c48f20445cbd78a62"
        );
        assert_eq!(
            HEXLOWER.encode(&proven[34..CLAIM]),
            "00000002000000000000000600000000\
             6553f100000000050000003c0007\
             6e7a1cdd29b0b78fd13af4c5598feff4ef2a97166e3ca6f2e4fbfccd80505bf1"
        );
        assert_eq!(
            HEXLOWER.encode(&proven[CLAIM..]),
            "5e08a52a3237fa5813fb3d90ea7aeb6d1f7c59d4ada56d2f839d0de6e42ddd6e\
             db7cc53451e1e31eb276a5d1d35fed783d66bb65097ef0270a7524603013a108"
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
        let stranger = Owner { gateway: GatewayId(8), ..owner() };
        assert_ne!(Verifier::of_nothing(stranger), Verifier::of_nothing(owner()));
    }

    #[test]
    fn every_flipped_bit_every_other_length_and_every_other_key_is_refused() {
        let proven = certificate(&[b"one"]).sign(&key());
        assert_eq!(Certificate::verify(&proven), Ok(certificate(&[b"one"])));
        for bit in 0..Certificate::LEN * 8 {
            let mut bytes = proven;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Certificate::verify(&bytes).is_err(), "bit {bit}");
        }
        for len in 0..Certificate::LEN {
            assert!(Certificate::verify(&proven[..len]).is_err(), "length {len}");
        }
        assert!(Certificate::verify(&[&proven[..], &[0]].concat()).is_err());
        // Somebody else's signature of the same claim, and the claim in somebody else's name.
        let other = SigningKey::of_seed(&[6; 32]);
        let mut bytes = proven;
        bytes[CLAIM..].copy_from_slice(&other.sign(&proven[..CLAIM]));
        assert_eq!(Certificate::verify(&bytes), Err(OpenError::Forged));
        bytes[64..CLAIM].copy_from_slice(&other.public().0);
        assert_eq!(Certificate::verify(&bytes), Err(OpenError::Forged));
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
            let proven = certificate(first).sign(&key());
            let mut resumed = Certificate::verify(&proven).unwrap();
            later.iter().for_each(|block| resumed.append(&BlockName::of(block), block.len() as u64));
            prop_assert_eq!(resumed, certificate(&blocks));
        }
    }
}
