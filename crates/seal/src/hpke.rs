//! HPKE base mode, single shot (RFC 9180 §5.1.1, §6.1): DHKEM(X25519, HKDF-SHA256) and HKDF-SHA256.
//!
//! Written here because the one primitive library that this product links has all of its parts but not the whole,
//! and because the ephemeral key must come from the injected source of randomness.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use crate::OpenError;

/// Length of X25519 keys, shared secrets and encapsulated keys.
pub(crate) const X25519_LEN: usize = 32;

const KEM_SUITE: &[u8] = b"KEM\x00\x20";
const MODE_BASE: u8 = 0;

/// An AEAD and its number in RFC 9180 §7.3.
pub(crate) struct Aead {
    algorithm: &'static aead::Algorithm,
    id: u8,
}

/// AES-256-GCM.
pub(crate) static AES_256_GCM: Aead = Aead { algorithm: &aead::AES_256_GCM, id: 2 };

type Secret = Zeroizing<[u8; 32]>;

/// The private key with these 32 bytes; X25519 accepts any.
pub(crate) fn private_key(bytes: &[u8; X25519_LEN]) -> PrivateKey {
    PrivateKey::from_private_key(&X25519, bytes).expect("X25519 takes any 32 bytes as a private key")
}

/// The public key of `private`.
pub(crate) fn public_key(private: &PrivateKey) -> [u8; X25519_LEN] {
    let public = private.compute_public_key().expect("every X25519 private key has a public key");
    let mut out = [0; X25519_LEN];
    out.copy_from_slice(public.as_ref());
    out
}

/// Encrypts `buffer` in place to `recipient`, appending the tag; returns the encapsulated key. `ephemeral` is 32
/// fresh random bytes, used for this call only.
pub(crate) fn seal(
    aead: &Aead,
    recipient: &[u8; X25519_LEN],
    info: &[u8],
    aad: &[u8],
    ephemeral: &[u8; X25519_LEN],
    buffer: &mut Vec<u8>,
) -> Result<[u8; X25519_LEN], OpenError> {
    let private = private_key(ephemeral);
    let encapsulated = public_key(&private);
    let shared = shared_secret(&private, recipient, &encapsulated, recipient)?;
    let (key, nonce) = schedule(aead, &shared, info);
    key.seal_in_place_append_tag(nonce, Aad::from(aad), buffer)
        .expect("the AEAD seals anything up to 64 GiB");
    Ok(encapsulated)
}

/// Verifies and decrypts `buffer` (ciphertext and tag) in place and returns the plaintext in front of it.
pub(crate) fn open<'a>(
    aead: &Aead,
    private: &PrivateKey,
    encapsulated: &[u8; X25519_LEN],
    info: &[u8],
    aad: &[u8],
    buffer: &'a mut [u8],
) -> Result<&'a mut [u8], OpenError> {
    let shared = shared_secret(private, encapsulated, encapsulated, &public_key(private))?;
    let (key, nonce) = schedule(aead, &shared, info);
    key.open_in_place(nonce, Aad::from(aad), buffer).map_err(|_| OpenError::Forged)
}

/// DHKEM's `ExtractAndExpand` (§4.1) of the agreement between `mine` and `peer`.
fn shared_secret(
    mine: &PrivateKey,
    peer: &[u8; X25519_LEN],
    encapsulated: &[u8; X25519_LEN],
    recipient: &[u8; X25519_LEN],
) -> Result<Secret, OpenError> {
    agreement::agree(mine, UnparsedPublicKey::new(&X25519, peer), OpenError::BadPublicKey, |dh| {
        // The library refuses it, but RFC 9180 §7.1.4 asks for this check, so make sure of it.
        if dh.iter().all(|byte| *byte == 0) {
            return Err(OpenError::BadPublicKey);
        }
        let prk = labeled_extract(KEM_SUITE, &[], b"eae_prk", dh);
        let mut secret = Secret::default();
        labeled_expand(KEM_SUITE, &prk, b"shared_secret", &[encapsulated, recipient], &mut secret[..]);
        Ok(secret)
    })
}

/// The key schedule (§5.1) without pre-shared key; one message, so the nonce is the base nonce.
fn schedule(aead: &Aead, shared: &Secret, info: &[u8]) -> (LessSafeKey, Nonce) {
    let suite = [b'H', b'P', b'K', b'E', 0, 0x20, 0, 1, 0, aead.id];
    let psk_id_hash = labeled_extract(&suite, &[], b"psk_id_hash", &[]);
    let info_hash = labeled_extract(&suite, &[], b"info_hash", info);
    let secret = labeled_extract(&suite, &shared[..], b"secret", &[]);
    let context: [&[u8]; 3] = [&[MODE_BASE], &psk_id_hash[..], &info_hash[..]];
    let mut key = Secret::default();
    let key = &mut key[..aead.algorithm.key_len()];
    labeled_expand(&suite, &secret, b"key", &context, key);
    let mut nonce = [0; aead::NONCE_LEN];
    labeled_expand(&suite, &secret, b"base_nonce", &context, &mut nonce);
    let key = UnboundKey::new(aead.algorithm, key).expect("the key was made as long as the AEAD wants it");
    (LessSafeKey::new(key), Nonce::assume_unique_for_key(nonce))
}

/// `LabeledExtract` (§4).
fn labeled_extract(suite: &[u8], salt: &[u8], label: &[u8], ikm: &[u8]) -> Secret {
    hmac_sha256(salt, &[b"HPKE-v1", suite, label, ikm])
}

/// `LabeledExpand` (§4) into at most 32 bytes, which is one round of HKDF-Expand.
fn labeled_expand(suite: &[u8], prk: &Secret, label: &[u8], info: &[&[u8]], out: &mut [u8]) {
    let length = (out.len() as u16).to_be_bytes();
    let mut parts: Vec<&[u8]> = vec![&length, b"HPKE-v1", suite, label];
    parts.extend_from_slice(info);
    parts.push(&[1]);
    out.copy_from_slice(&hmac_sha256(&prk[..], &parts)[..out.len()]);
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> Secret {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for part in parts {
        context.update(part);
    }
    let mut out = Secret::default();
    out.copy_from_slice(context.sign().as_ref());
    out
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;

    static AES_128_GCM: Aead = Aead { algorithm: &aead::AES_128_GCM, id: 1 };

    fn hex(text: &str) -> Vec<u8> {
        HEXLOWER.decode(text.as_bytes()).unwrap()
    }

    fn key(text: &str) -> [u8; 32] {
        hex(text).try_into().unwrap()
    }

    #[test]
    fn rfc_9180_appendix_a_1_1_sequence_number_0() {
        let ephemeral = key("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736");
        let recipient = key("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8");
        let recipient_public = key("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d");
        let info = hex("4f6465206f6e2061204772656369616e2055726e");
        let plaintext = hex("4265617574792069732074727574682c20747275746820626561757479");
        let aad = b"Count-0";

        let private = private_key(&recipient);
        assert_eq!(public_key(&private), recipient_public);
        let mut buffer = plaintext.clone();
        let encapsulated =
            seal(&AES_128_GCM, &recipient_public, &info, aad, &ephemeral, &mut buffer).unwrap();
        assert_eq!(encapsulated, key("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"));
        let expected = "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a9\
                        6d8770ac83d07bea87e13c512a";
        assert_eq!(buffer, hex(expected));
        assert_eq!(open(&AES_128_GCM, &private, &encapsulated, &info, aad, &mut buffer).unwrap(), plaintext);
    }

    #[test]
    fn rfc_9180_appendix_a_1_1_shared_secret() {
        let private = private_key(&key("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8"));
        let encapsulated = key("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431");
        let shared = shared_secret(&private, &encapsulated, &encapsulated, &public_key(&private)).unwrap();
        assert_eq!(*shared, key("fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc"));
    }

    #[test]
    fn the_neutral_element_is_refused_as_a_public_key() {
        let mut buffer = vec![1];
        let refused = seal(&AES_256_GCM, &[0; 32], b"", b"", &[1; 32], &mut buffer);
        assert_eq!(refused, Err(OpenError::BadPublicKey));
        assert_eq!(buffer, [1]);
    }
}
