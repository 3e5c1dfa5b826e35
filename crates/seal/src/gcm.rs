mod stream;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::OpenError;
use crate::secret::KEY_LEN;
pub(crate) use stream::GcmStream;

/// Length of an authentication tag.
pub const TAG_LEN: usize = 16;
/// Length of a nonce of GCM itself.
pub(crate) const GCM_NONCE_LEN: usize = 12;

/// An AES-256-GCM key with its key schedule. Whoever makes one sees to it that no nonce repeats.
pub(crate) struct GcmKey(LessSafeKey);

impl GcmKey {
    pub(crate) fn new(key: &[u8; KEY_LEN]) -> GcmKey {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("AES-256-GCM takes any 32 bytes as its key");
        GcmKey(LessSafeKey::new(key))
    }

    /// Encrypts `buffer` in place and returns the tag.
    pub(crate) fn seal(&self, nonce: [u8; GCM_NONCE_LEN], aad: &[u8], buffer: &mut [u8]) -> [u8; TAG_LEN] {
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), buffer)
            .expect("GCM seals anything up to 64 GiB, and no buffer of ours comes near");
        let mut out = [0; TAG_LEN];
        out.copy_from_slice(tag.as_ref());
        out
    }

    /// Verifies and decrypts `buffer` in place; its content is undefined after an error.
    pub(crate) fn open(
        &self,
        nonce: [u8; GCM_NONCE_LEN],
        aad: &[u8],
        buffer: &mut [u8],
        tag: &[u8],
    ) -> Result<(), OpenError> {
        self.0
            .open_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), tag, buffer)
            .map(|_| ())
            .map_err(|_| OpenError::Forged)
    }

    /// Verifies and decrypts `sealed` into `out` of the same length, whose content is undefined after an error.
    pub(crate) fn open_into(
        &self,
        nonce: [u8; GCM_NONCE_LEN],
        aad: &[u8],
        sealed: &[u8],
        tag: &[u8],
        out: &mut [u8],
    ) -> Result<(), OpenError> {
        self.0
            .open_separate_gather(Nonce::assume_unique_for_key(nonce), Aad::from(aad), sealed, tag, out)
            .map_err(|_| OpenError::Forged)
    }
}

/// The GCM nonce inside a nonce of 192 bits: its last 96. The key is derived from all 192.
pub(crate) fn gcm_nonce(nonce: &[u8; 24]) -> [u8; GCM_NONCE_LEN] {
    let mut out = [0; GCM_NONCE_LEN];
    out.copy_from_slice(&nonce[12..]);
    out
}
