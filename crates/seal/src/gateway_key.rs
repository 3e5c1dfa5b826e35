use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::agreement::PrivateKey;
use data_encoding::HEXLOWER;
use environment::Entropy;
use ids::GatewayId;
use zeroize::Zeroizing;

use crate::gcm::TAG_LEN;
use crate::hpke::{self, AES_256_GCM, X25519_LEN};
use crate::secret::KEY_LEN;
use crate::{EpochIdentity, EpochKey, KeyFileId, OpenError, Signer, SigningKey};

const FORMAT: u8 = 0xE1;
/// HPKE with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. A hybrid post-quantum suite would be 2.
const SUITE: u8 = 1;
const INFO: &[u8] = b"kurma epoch key";

/// What other gateways need in order to give this one an epoch key. Prints as `gateway-hexadecimal` and parses
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GatewayPublicKey {
    /// Whose key.
    pub gateway: GatewayId,
    /// The X25519 public key.
    pub x25519: [u8; X25519_LEN],
}

impl GatewayPublicKey {
    /// The id that tells this key, and the key file it comes from, from all others.
    pub fn id(&self) -> KeyFileId {
        let mut hasher = blake3::Hasher::new_derive_key("kurma 2026 gateway key id");
        hasher.update(&self.gateway.0.to_be_bytes()).update(&self.x25519);
        KeyFileId(*hasher.finalize().as_bytes().first_chunk().expect("32 bytes start with 16 bytes"))
    }
}

impl fmt::Display for GatewayPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.gateway, HEXLOWER.encode(&self.x25519))
    }
}

impl FromStr for GatewayPublicKey {
    type Err = String;

    fn from_str(text: &str) -> Result<GatewayPublicKey, String> {
        let parse = || {
            let (gateway, key) = text.split_once('-')?;
            let key = HEXLOWER.decode(key.as_bytes()).ok()?;
            Some(GatewayPublicKey { gateway: GatewayId(gateway.parse().ok()?), x25519: key.try_into().ok()? })
        };
        parse().ok_or_else(|| {
            format!("{text:?} is not a gateway's public key (expected NUMBER-KEY, the key in 64 hexadecimal digits)")
        })
    }
}

/// A gateway's own key pair, from [`crate::KeyFile::gateway_keys`], and what it signs with.
pub struct GatewayKeyPair {
    private: PrivateKey,
    public: GatewayPublicKey,
    /// The other one, while it is being replaced: nothing is wrapped to it.
    other: Option<PrivateKey>,
    signer: Signer,
}

impl GatewayKeyPair {
    pub(crate) fn new(gateway: GatewayId, secret: &[u8; X25519_LEN], signs: SigningKey) -> GatewayKeyPair {
        let private = hpke::private_key(secret);
        let x25519 = hpke::public_key(&private);
        let signer = Signer { gateway, key: Arc::new(signs) };
        GatewayKeyPair { private, public: GatewayPublicKey { gateway, x25519 }, other: None, signer }
    }

    /// The same; opens also what was wrapped to `other`.
    pub(crate) fn after(self, other: GatewayKeyPair) -> GatewayKeyPair {
        GatewayKeyPair { other: Some(other.private), ..self }
    }

    /// The public half, to be handed to other gateways.
    pub fn public(&self) -> &GatewayPublicKey {
        &self.public
    }

    /// What the gateway certifies blocks with; the same whatever is wrapped to whom.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }
}

impl fmt::Debug for GatewayKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GatewayKeyPair({}, secret)", self.public)
    }
}

/// An epoch key encrypted to one gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedEpochKey([u8; Self::LEN]);

impl WrappedEpochKey {
    /// Its length.
    pub const LEN: usize = 2 + X25519_LEN + KEY_LEN + TAG_LEN;

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

/// Encrypts an epoch key to one of its accessors (`K15`).
///
/// The wrap does not prove who made it: take wraps only from the gateway's own metadata and over authenticated
/// channels between gateways. [`OpenError::BadPublicKey`] when `recipient` cannot be encrypted to.
pub fn wrap_epoch_key(
    key: &EpochKey,
    recipient: &GatewayPublicKey,
    entropy: &dyn Entropy,
) -> Result<WrappedEpochKey, OpenError> {
    let mut ephemeral = Zeroizing::new([0; X25519_LEN]);
    entropy.fill(&mut *ephemeral);
    let mut body = Vec::with_capacity(KEY_LEN + TAG_LEN);
    body.extend_from_slice(key.as_bytes());
    let aad = associated_data(key.identity(), recipient.gateway);
    let encapsulated = hpke::seal(&AES_256_GCM, &recipient.x25519, INFO, &aad, &ephemeral, &mut body)?;
    let mut out = [0; WrappedEpochKey::LEN];
    out[..2].copy_from_slice(&[FORMAT, SUITE]);
    out[2..2 + X25519_LEN].copy_from_slice(&encapsulated);
    out[2 + X25519_LEN..].copy_from_slice(&body);
    Ok(WrappedEpochKey(out))
}

/// Opens the epoch key `identity` that was wrapped to `keys`.
///
/// [`OpenError::Forged`] when it was wrapped to another gateway or as another epoch key, or is damaged.
pub fn open_epoch_key(
    keys: &GatewayKeyPair,
    identity: EpochIdentity,
    wrapped: &[u8],
) -> Result<EpochKey, OpenError> {
    let what = "a wrapped epoch key";
    let wrapped: &[u8; WrappedEpochKey::LEN] = wrapped.try_into().map_err(|_| OpenError::WrongLength {
        what,
        len: wrapped.len(),
        needed: WrappedEpochKey::LEN,
    })?;
    if wrapped[0] != FORMAT {
        return Err(OpenError::UnknownFormat { what, byte: wrapped[0] });
    }
    if wrapped[1] != SUITE {
        return Err(OpenError::UnknownSuite { suite: wrapped[1] });
    }
    let encapsulated = wrapped[2..].first_chunk().expect("the length was checked");
    let aad = associated_data(identity, keys.public.gateway);
    let open = |private: &PrivateKey| {
        let mut body = Zeroizing::new([0; KEY_LEN + TAG_LEN]);
        body.copy_from_slice(&wrapped[2 + X25519_LEN..]);
        hpke::open(&AES_256_GCM, private, encapsulated, INFO, &aad, &mut body[..])?;
        Ok(EpochKey::from_bytes(identity, *body.first_chunk().expect("48 bytes start with 32 bytes")))
    };
    match (open(&keys.private), &keys.other) {
        (Err(OpenError::Forged), Some(other)) => open(other),
        (opened, _) => opened,
    }
}

fn associated_data(identity: EpochIdentity, recipient: GatewayId) -> [u8; 4 + EpochIdentity::LEN] {
    let mut out = [0; 4 + EpochIdentity::LEN];
    out[..2].copy_from_slice(&[FORMAT, SUITE]);
    out[2..2 + EpochIdentity::LEN].copy_from_slice(&identity.to_bytes());
    out[2 + EpochIdentity::LEN..].copy_from_slice(&recipient.0.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;
    use ids::VolumeId;

    use super::*;
    use crate::{AccessorSetId, KeyEpoch};

    fn pair(gateway: GatewayId, secret: &[u8; 32]) -> GatewayKeyPair {
        GatewayKeyPair::new(gateway, secret, SigningKey::of_seed(secret))
    }

    const IDENTITY: EpochIdentity =
        EpochIdentity { volume: VolumeId(1), accessors: AccessorSetId(2), epoch: KeyEpoch(3) };

    #[test]
    fn an_epoch_key_opens_at_its_accessor_and_nowhere_else() {
        let entropy = SystemEntropy::new();
        let key = EpochKey::generate(IDENTITY, &entropy);
        let here = pair(GatewayId(1), &[1; 32]);
        let there = pair(GatewayId(2), &[2; 32]);
        let wrapped = wrap_epoch_key(&key, here.public(), &entropy).unwrap();
        assert_eq!(open_epoch_key(&here, IDENTITY, wrapped.as_bytes()), Ok(key));
        assert_eq!(open_epoch_key(&there, IDENTITY, wrapped.as_bytes()), Err(OpenError::Forged));
        let renamed = pair(GatewayId(2), &[1; 32]);
        assert_eq!(open_epoch_key(&renamed, IDENTITY, wrapped.as_bytes()), Err(OpenError::Forged));
        let later = EpochIdentity { epoch: KeyEpoch(4), ..IDENTITY };
        assert_eq!(open_epoch_key(&here, later, wrapped.as_bytes()), Err(OpenError::Forged));
    }

    #[test]
    fn while_a_pair_is_replaced_both_open_and_afterwards_only_the_new_one() {
        let entropy = SystemEntropy::new();
        let key = EpochKey::generate(IDENTITY, &entropy);
        let pair = |secret| pair(GatewayId(1), &[secret; 32]);
        let old = wrap_epoch_key(&key, pair(1).public(), &entropy).unwrap();
        let both = pair(2).after(pair(1));
        let new = wrap_epoch_key(&key, both.public(), &entropy).unwrap();
        for wrapped in [&old, &new] {
            assert_eq!(open_epoch_key(&both, IDENTITY, wrapped.as_bytes()).as_ref(), Ok(&key));
        }
        assert_eq!(open_epoch_key(&pair(2), IDENTITY, new.as_bytes()).as_ref(), Ok(&key));
        assert_eq!(open_epoch_key(&pair(2), IDENTITY, old.as_bytes()), Err(OpenError::Forged));
        assert_eq!(open_epoch_key(&pair(1), IDENTITY, new.as_bytes()), Err(OpenError::Forged));
    }

    #[test]
    fn every_flipped_bit_of_a_wrap_is_refused() {
        let entropy = SystemEntropy::new();
        let keys = pair(GatewayId(1), &[1; 32]);
        let key = EpochKey::generate(IDENTITY, &entropy);
        let wrapped = wrap_epoch_key(&key, keys.public(), &entropy).unwrap();
        for bit in 0..WrappedEpochKey::LEN * 8 {
            let mut bytes = *wrapped.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(open_epoch_key(&keys, IDENTITY, &bytes).is_err(), "bit {bit}");
        }
        let short = open_epoch_key(&keys, IDENTITY, &wrapped.as_bytes()[1..]);
        assert!(matches!(short, Err(OpenError::WrongLength { .. })));
    }

    #[test]
    fn public_keys_round_trip_as_text_and_have_ids_of_their_own() {
        let one = *pair(GatewayId(1), &[1; 32]).public();
        assert_eq!(one.to_string().parse(), Ok(one));
        for bad in ["", "1", "1-", "1-00", "x-00", "70000-00"] {
            assert!(bad.parse::<GatewayPublicKey>().is_err(), "{bad}");
        }
        assert_ne!(one.id(), GatewayPublicKey { gateway: GatewayId(2), ..one }.id());
    }
}
