//! Encryption of what lies in several places, from there to where it goes in one pass. The safe interface of the library
//! encrypts in place, or one slice, so a copy would come first. All `unsafe` code of the crate is here.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use aws_lc_sys::{
    EVP_CIPHER_CTX, EVP_CIPHER_CTX_ctrl, EVP_CIPHER_CTX_free, EVP_CIPHER_CTX_new, EVP_CTRL_AEAD_GET_TAG,
    EVP_EncryptFinal_ex, EVP_EncryptInit_ex, EVP_EncryptUpdate, EVP_aes_256_gcm,
};

use super::{GCM_NONCE_LEN, TAG_LEN};
use crate::secret::KEY_LEN;

/// AES-256-GCM under a key and nonce that are used for this message only; freed, its key is wiped.
pub(crate) struct GcmStream(NonNull<EVP_CIPHER_CTX>);

impl GcmStream {
    pub(crate) fn new(key: &[u8; KEY_LEN], nonce: [u8; GCM_NONCE_LEN], aad: &[u8]) -> GcmStream {
        // SAFETY: it takes nothing, and what it returns is looked at.
        let context = NonNull::new(unsafe { EVP_CIPHER_CTX_new() }).expect("there is memory for a key");
        let mut stream = GcmStream(context);
        // SAFETY: the context is a fresh one that only `stream` has; the cipher reads 32 bytes of key and 12 of nonce,
        // which is what the arrays have.
        let begun = unsafe {
            EVP_EncryptInit_ex(
                context.as_ptr(),
                EVP_aes_256_gcm(),
                ptr::null_mut(),
                key.as_ptr(),
                nonce.as_ptr(),
            )
        };
        assert_eq!(begun, 1, "AES-256-GCM takes any key and nonce");
        // SAFETY: without a place for output the cipher takes it for associated data, and writes nothing.
        unsafe { stream.update(aad, ptr::null_mut()) };
        stream
    }

    /// Appends what `plain` is encrypted to, as many bytes.
    pub(crate) fn append(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        out.reserve(plain.len());
        // SAFETY: the vector has room for as many bytes as `plain` has; GCM is a stream cipher, so it writes just these, and
        // they are written when the length grows.
        unsafe {
            self.update(plain, out.spare_capacity_mut().as_mut_ptr().cast());
            out.set_len(out.len() + plain.len());
        }
    }

    /// Appends the tag.
    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        let (mut tag, mut written) = ([0; TAG_LEN], 0);
        // SAFETY: the context is one that has begun; a cipher has at most a block left to write, and `tag` is one; the tag
        // asked for then is as long as its array.
        let done = unsafe {
            EVP_EncryptFinal_ex(self.0.as_ptr(), tag.as_mut_ptr(), &mut written) == 1
                && EVP_CIPHER_CTX_ctrl(
                    self.0.as_ptr(),
                    EVP_CTRL_AEAD_GET_TAG,
                    TAG_LEN as c_int,
                    tag.as_mut_ptr().cast(),
                ) == 1
        };
        assert!(done && written == 0, "GCM has nothing left but its tag");
        out.extend_from_slice(&tag);
    }

    /// # Safety
    ///
    /// `out` is null, or has room for `bytes.len()` bytes that nobody else uses.
    unsafe fn update(&mut self, bytes: &[u8], out: *mut u8) {
        let length = c_int::try_from(bytes.len()).expect("no buffer of ours comes near 2 GiB");
        let mut written = 0;
        // SAFETY: the context is one that has begun, and only `self` has it; the cipher reads `length` bytes of the slice and
        // writes as many to `out`, which has room as the caller promises.
        let done = unsafe { EVP_EncryptUpdate(self.0.as_ptr(), out, &mut written, bytes.as_ptr(), length) };
        assert!(done == 1 && written == length, "GCM encrypts anything up to 64 GiB");
    }
}

impl Drop for GcmStream {
    fn drop(&mut self) {
        // SAFETY: the context was made by `new`, and nobody has it any more.
        unsafe { EVP_CIPHER_CTX_free(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gcm::GcmKey;

    proptest! {
        #[test]
        fn parts_give_what_the_whole_gives(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..12),
            aad in prop::collection::vec(any::<u8>(), 0..150),
            key: [u8; KEY_LEN],
            nonce: [u8; GCM_NONCE_LEN],
        ) {
            let mut whole = parts.concat();
            let tag = GcmKey::new(&key).seal(nonce, &aad, &mut whole);
            whole.extend_from_slice(&tag);
            let mut stream = GcmStream::new(&key, nonce, &aad);
            let mut out = b"before".to_vec();
            for part in &parts {
                stream.append(part, &mut out);
            }
            stream.finish(&mut out);
            prop_assert_eq!(&out[..6], b"before");
            prop_assert_eq!(&out[6..], &whole[..]);
        }
    }
}
