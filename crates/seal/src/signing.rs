use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::KeyFile;
use crate::secret::KEY_LEN;

/// Signs what a gateway states about itself, and certifies as its own (Ed25519). The same as long as the gateway lives, whatever its openers.
pub struct SigningKey(Ed25519KeyPair);

/// Verifies what a [`SigningKey`] has signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyingKey(pub [u8; 32]);

/// Length of a signature.
pub const SIGNATURE_LEN: usize = 64;

impl SigningKey {
    /// That of a gateway comes from its [key file](KeyFile::signing_key).
    pub fn of_seed(seed: &[u8; KEY_LEN]) -> SigningKey {
        SigningKey(Ed25519KeyPair::from_seed_unchecked(seed).expect("every 32 bytes are a seed"))
    }

    /// Its public half.
    pub fn public(&self) -> VerifyingKey {
        let bytes = self.0.public_key().as_ref();
        VerifyingKey(bytes.try_into().expect("public keys of Ed25519 have 32 bytes"))
    }

    /// The signature of a message.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.0.sign(message).as_ref().try_into().expect("signatures of Ed25519 have 64 bytes")
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

impl VerifyingKey {
    /// Whether the owner of the key has signed this message.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

impl KeyFile {
    /// What the gateway signs with.
    pub fn signing_key(&self) -> SigningKey {
        SigningKey::of_seed(&self.shared_secret("signatures"))
    }
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;
    use ids::GatewayId;

    use super::*;

    #[test]
    fn a_signature_holds_for_its_message_and_signer_alone() {
        let entropy = SystemEntropy::new();
        let key = KeyFile::generate(GatewayId(1), &entropy);
        let (signer, public) = (key.signing_key(), key.signing_key().public());
        let signature = signer.sign(b"this");
        assert!(public.verifies(b"this", &signature));
        assert!(!public.verifies(b"that", &signature));
        assert!(!public.verifies(b"this", &signature[1..]));
        let renewed = key.with_next_opener(&entropy).unwrap().with_newest_opener();
        assert_eq!(renewed.signing_key().public(), public);
        let other = KeyFile::generate(GatewayId(1), &entropy).signing_key().public();
        assert!(!other.verifies(b"this", &signature));
    }
}
