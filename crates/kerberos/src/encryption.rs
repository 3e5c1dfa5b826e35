//! Encryption types: keys, encryption with integrity, checksums (RFC 3961, 3962 and 8009).

use aws_lc_rs::cipher::{
    AES_128, AES_256, Algorithm, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

use crate::fold::fold;

/// Bytes of a block of AES, and of the random bytes before each message.
const BLOCK: usize = 16;

/// How to encrypt, as Kerberos numbers it (RFC 3961 §8). Only what is still considered safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncryptionType {
    /// aes128-cts-hmac-sha1-96 (RFC 3962)
    Aes128Sha1 = 17,
    /// aes256-cts-hmac-sha1-96 (RFC 3962)
    Aes256Sha1 = 18,
    /// aes128-cts-hmac-sha256-128 (RFC 8009)
    Aes128Sha256 = 19,
    /// aes256-cts-hmac-sha384-192 (RFC 8009)
    Aes256Sha384 = 20,
}

/// What went wrong; never says where, as that would help an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl From<aws_lc_rs::error::Unspecified> for Broken {
    fn from(_: aws_lc_rs::error::Unspecified) -> Broken {
        Broken
    }
}

impl EncryptionType {
    /// The type with this number, if it is supported.
    pub fn from_number(number: i32) -> Option<EncryptionType> {
        use EncryptionType::*;
        [Aes128Sha1, Aes256Sha1, Aes128Sha256, Aes256Sha384].into_iter().find(|kind| *kind as i32 == number)
    }

    /// Bytes of a key.
    pub fn key_bytes(self) -> usize {
        match self {
            EncryptionType::Aes128Sha1 | EncryptionType::Aes128Sha256 => 16,
            EncryptionType::Aes256Sha1 | EncryptionType::Aes256Sha384 => 32,
        }
    }

    fn cipher(self) -> &'static Algorithm {
        if self.key_bytes() == 16 { &AES_128 } else { &AES_256 }
    }

    fn hash(self) -> hmac::Algorithm {
        match self {
            EncryptionType::Aes128Sha1 | EncryptionType::Aes256Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            EncryptionType::Aes128Sha256 => hmac::HMAC_SHA256,
            EncryptionType::Aes256Sha384 => hmac::HMAC_SHA384,
        }
    }

    /// Bytes of a checksum.
    pub(crate) fn checksum_bytes(self) -> usize {
        match self {
            EncryptionType::Aes128Sha1 | EncryptionType::Aes256Sha1 => 12,
            EncryptionType::Aes128Sha256 => 16,
            EncryptionType::Aes256Sha384 => 24,
        }
    }

    /// Whether the checksum is of what is sent, not of what was encrypted.
    fn encrypts_first(self) -> bool {
        matches!(self, EncryptionType::Aes128Sha256 | EncryptionType::Aes256Sha384)
    }
}

/// A key as principals and sessions have it; what is used is derived from it for each purpose.
#[derive(Clone)]
pub struct Key {
    kind: EncryptionType,
    bytes: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Key({:?})", self.kind)
    }
}

/// The last byte of the constant that a key is derived with (RFC 3961 §5.3).
#[derive(Clone, Copy)]
enum Purpose {
    Checksum = 0x99,
    Encryption = 0xaa,
    Integrity = 0x55,
}

impl Key {
    /// A key of this type; `None` if it has another length.
    pub fn new(kind: EncryptionType, bytes: &[u8]) -> Option<Key> {
        (bytes.len() == kind.key_bytes()).then(|| Key { kind, bytes: Zeroizing::new(bytes.to_vec()) })
    }

    /// Its type.
    pub fn kind(&self) -> EncryptionType {
        self.kind
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// For encrypting and decrypting what is said by this number (RFC 4120 §7.5.1).
    pub(crate) fn sealing(&self, usage: u32) -> Result<SealingKey, Broken> {
        let encryption = self.derive(usage, Purpose::Encryption, self.kind.key_bytes())?;
        let integrity = self.derive(usage, Purpose::Integrity, self.hash_key_bytes())?;
        let cipher = |bytes| UnboundCipherKey::new(self.kind.cipher(), bytes);
        Ok(SealingKey {
            kind: self.kind,
            encrypting: EncryptingKey::cbc(cipher(&encryption)?)?,
            decrypting: DecryptingKey::cbc(cipher(&encryption)?)?,
            block: DecryptingKey::ecb(cipher(&encryption)?)?,
            integrity: hmac::Key::new(self.kind.hash(), &integrity),
        })
    }

    /// For checksums of what is said by this number.
    pub(crate) fn signing(&self, usage: u32) -> Result<SigningKey, Broken> {
        let key = self.derive(usage, Purpose::Checksum, self.hash_key_bytes())?;
        Ok(SigningKey { kind: self.kind, key: hmac::Key::new(self.kind.hash(), &key) })
    }

    fn hash_key_bytes(&self) -> usize {
        match self.kind {
            EncryptionType::Aes128Sha1 | EncryptionType::Aes128Sha256 => 16,
            EncryptionType::Aes256Sha1 => 32,
            EncryptionType::Aes256Sha384 => 24,
        }
    }

    fn derive(&self, usage: u32, purpose: Purpose, length: usize) -> Result<Zeroizing<Vec<u8>>, Broken> {
        let mut constant = [0; 5];
        constant[..4].copy_from_slice(&usage.to_be_bytes());
        constant[4] = purpose as u8;
        let mut derived = Zeroizing::new(Vec::with_capacity(48));
        if self.kind.encrypts_first() {
            // RFC 8009 §3: one block of the hash is enough for every length here.
            let key = hmac::Key::new(self.kind.hash(), &self.bytes);
            let mut context = hmac::Context::with_key(&key);
            context.update(&1u32.to_be_bytes());
            context.update(&constant);
            context.update(&[0]);
            context.update(&(length as u32 * 8).to_be_bytes());
            derived.extend_from_slice(context.sign().as_ref());
        } else {
            // RFC 3961 §5.1: one block is encrypted again and again.
            let key = EncryptingKey::ecb(UnboundCipherKey::new(self.kind.cipher(), &self.bytes)?)?;
            let mut block = fold::<BLOCK>(&constant);
            while derived.len() < length {
                key.less_safe_encrypt(&mut block, EncryptionContext::None)?;
                derived.extend_from_slice(&block);
            }
        }
        derived.truncate(length);
        Ok(derived)
    }
}

/// Encrypts and decrypts for one purpose.
pub(crate) struct SealingKey {
    kind: EncryptionType,
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
    block: DecryptingKey,
    integrity: hmac::Key,
}

impl SealingKey {
    /// Bytes that a sealed message is longer than the message.
    pub fn overhead(&self) -> usize {
        BLOCK + self.kind.checksum_bytes()
    }

    /// Encrypts a message given in pieces, behind `random` bytes that must never be used again.
    pub fn seal(&self, random: [u8; BLOCK], message: &[&[u8]], out: &mut Vec<u8>) -> Result<(), Broken> {
        let start = out.len();
        let length: usize = message.iter().map(|piece| piece.len()).sum();
        out.reserve(length + self.overhead() + BLOCK);
        out.extend_from_slice(&random);
        message.iter().for_each(|piece| out.extend_from_slice(piece));
        if self.kind.encrypts_first() {
            self.encrypt(out, start)?;
            let mac = self.mac(&[&[0; BLOCK], &out[start..]]);
            out.extend_from_slice(&mac.as_ref()[..self.kind.checksum_bytes()]);
        } else {
            let mac = self.mac(&[&out[start..]]);
            self.encrypt(out, start)?;
            out.extend_from_slice(&mac.as_ref()[..self.kind.checksum_bytes()]);
        }
        Ok(())
    }

    /// Decrypts a message in place; what remains of `sealed` is the message.
    pub fn open(&self, sealed: &mut Vec<u8>) -> Result<(), Broken> {
        let length = sealed.len().checked_sub(self.kind.checksum_bytes()).ok_or(Broken)?;
        if length < BLOCK {
            return Err(Broken);
        }
        let expected = sealed.split_off(length);
        if self.kind.encrypts_first() {
            self.check(&[&[0; BLOCK], sealed], &expected)?;
            self.decrypt(sealed)?;
        } else {
            self.decrypt(sealed)?;
            self.check(&[sealed], &expected)?;
        }
        sealed.drain(..BLOCK);
        Ok(())
    }

    fn mac(&self, pieces: &[&[u8]]) -> hmac::Tag {
        mac(&self.integrity, pieces)
    }

    fn check(&self, pieces: &[&[u8]], expected: &[u8]) -> Result<(), Broken> {
        Ok(verify_slices_are_equal(&self.mac(pieces).as_ref()[..self.kind.checksum_bytes()], expected)?)
    }

    /// CBC with ciphertext stealing (RFC 3962 §5), from `start` on, at least one block.
    fn encrypt(&self, data: &mut Vec<u8>, start: usize) -> Result<(), Broken> {
        let length = data.len() - start;
        data.resize(start + length.next_multiple_of(BLOCK), 0);
        let iv = EncryptionContext::Iv128(FixedLength::from([0; BLOCK]));
        self.encrypting.less_safe_encrypt(&mut data[start..], iv)?;
        if length > BLOCK {
            swap_last(&mut data[start..]);
        }
        data.truncate(start + length);
        Ok(())
    }

    fn decrypt(&self, data: &mut Vec<u8>) -> Result<(), Broken> {
        let length = data.len();
        if length > BLOCK {
            let blocks = length.div_ceil(BLOCK);
            let partial = length - (blocks - 1) * BLOCK;
            // The last but one is a whole block; decrypted, its end is what was cut off the last one.
            let at = (blocks - 2) * BLOCK;
            let mut whole = [0; BLOCK];
            whole.copy_from_slice(&data[at..at + BLOCK]);
            self.block.decrypt(&mut whole, DecryptionContext::None)?;
            data.extend_from_slice(&whole[partial..]);
            swap_last(data);
        }
        let iv = DecryptionContext::Iv128(FixedLength::from([0; BLOCK]));
        self.decrypting.decrypt(data, iv)?;
        data.truncate(length);
        Ok(())
    }
}

/// Exchanges the last two blocks.
fn swap_last(data: &mut [u8]) {
    let (front, last) = data.split_at_mut(data.len() - BLOCK);
    let at = front.len() - BLOCK;
    front[at..].swap_with_slice(last);
}

/// Makes checksums for one purpose.
pub(crate) struct SigningKey {
    kind: EncryptionType,
    key: hmac::Key,
}

impl SigningKey {
    /// The checksum of a message given in pieces.
    pub fn sign(&self, message: &[&[u8]]) -> Vec<u8> {
        mac(&self.key, message).as_ref()[..self.kind.checksum_bytes()].to_vec()
    }

    pub fn verify(&self, message: &[&[u8]], checksum: &[u8]) -> Result<(), Broken> {
        Ok(verify_slices_are_equal(&self.sign(message), checksum)?)
    }
}

fn mac(key: &hmac::Key, pieces: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    pieces.iter().for_each(|piece| context.update(piece));
    context.sign()
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER_PERMISSIVE as HEX;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn key(kind: EncryptionType, hex: &str) -> Key {
        Key::new(kind, &HEX.decode(hex.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn keys_are_derived_as_rfc_8009_shows() {
        let key128 = key(EncryptionType::Aes128Sha256, "3705d96080c17728a0e800eab6e0d23c");
        let derived = |purpose| HEX.encode(&key128.derive(2, purpose, 16).unwrap());
        assert_eq!(derived(Purpose::Checksum), "b31a018a48f54776f403e9a396325dc3");
        assert_eq!(derived(Purpose::Encryption), "9b197dd1e8c5609d6e67c3e37c62c72e");
        assert_eq!(derived(Purpose::Integrity), "9fda0e56ab2d85e1569a688696c26a6c");
    }

    #[test]
    fn messages_are_sealed_as_rfc_8009_shows() {
        let key = key(EncryptionType::Aes128Sha256, "3705d96080c17728a0e800eab6e0d23c").sealing(2).unwrap();
        let sealed = |random: &str, message: &str| {
            let mut out = Vec::new();
            let random = HEX.decode(random.as_bytes()).unwrap().try_into().unwrap();
            let message = HEX.decode(message.as_bytes()).unwrap();
            key.seal(random, &[&message], &mut out).unwrap();
            HEX.encode(&out)
        };
        assert_eq!(
            sealed("7e5895eaf2672435bad817f545a37148", ""),
            "ef85fb890bb8472f4dab20394dca781dad877eda39d50c870c0d5a0a8e48c718"
        );
        assert_eq!(
            sealed("7bca285e2fd4130fb55b1a5c83bc5b24", "000102030405"),
            "84d7f30754ed987bab0bf3506beb09cfb55402cef7e6877ce99e247e52d16ed4421dfdf8976c"
        );
    }

    #[test]
    fn ciphertext_is_stolen_as_rfc_3962_shows() {
        // The examples encrypt with the key itself.
        let bytes = HEX.decode(b"636869636b656e207465726979616b69").unwrap();
        let cipher = || UnboundCipherKey::new(&AES_128, &bytes).unwrap();
        let key = SealingKey {
            kind: EncryptionType::Aes128Sha1,
            encrypting: EncryptingKey::cbc(cipher()).unwrap(),
            decrypting: DecryptingKey::cbc(cipher()).unwrap(),
            block: DecryptingKey::ecb(cipher()).unwrap(),
            integrity: hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b""),
        };
        let text = b"I would like the General Gau's C";
        for (length, expected) in [
            (17, "c6353568f2bf8cb4d8a580362da7ff7f97"),
            (31, "fc00783e0efdb2c1d445d4c8eff7ed2297687268d6ecccc0c07b25e25ecfe5"),
            (32, "39312523a78662d5be7fcbcc98ebf5a897687268d6ecccc0c07b25e25ecfe584"),
        ] {
            let mut data = text[..length].to_vec();
            key.encrypt(&mut data, 0).unwrap();
            assert_eq!(HEX.encode(&data), expected);
            key.decrypt(&mut data).unwrap();
            assert_eq!(data, text[..length]);
        }
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_and_nothing_else(
            number in 17i32..=20, message in vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), bit in 0u8..8
        ) {
            let kind = EncryptionType::from_number(number).unwrap();
            let key = Key::new(kind, &vec![7; kind.key_bytes()]).unwrap();
            let sealing = key.sealing(22).unwrap();
            let mut sealed = Vec::new();
            sealing.seal([3; 16], &[&message[..message.len() / 2], &message[message.len() / 2..]], &mut sealed).unwrap();
            prop_assert_eq!(sealed.len(), message.len() + sealing.overhead());
            let mut opened = sealed.clone();
            sealing.open(&mut opened).unwrap();
            prop_assert_eq!(&opened, &message);
            let mut of_another_usage = sealed.clone();
            prop_assert!(key.sealing(24).unwrap().open(&mut of_another_usage).is_err());
            let at = at.index(sealed.len());
            sealed[at] ^= 1 << bit;
            prop_assert!(sealing.open(&mut sealed).is_err());
            let checksum = key.signing(23).unwrap().sign(&[&message]);
            prop_assert!(key.signing(23).unwrap().verify(&[&message, b""], &checksum).is_ok());
            prop_assert!(key.signing(25).unwrap().verify(&[&message], &checksum).is_err());
            prop_assert!(key.signing(23).unwrap().verify(&[&message], &checksum[1..]).is_err());
        }

        #[test]
        fn short_messages_are_refused(message in vec(any::<u8>(), 0..40)) {
            let key = Key::new(EncryptionType::Aes256Sha384, &[1; 32]).unwrap();
            prop_assert!(key.sealing(2).unwrap().open(&mut message.clone()).is_err());
        }
    }
}
