use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use environment::Entropy;
use environment::mutant::{Mutant, is_broken};
use ids::Timestamp;
use zeroize::Zeroizing;

use crate::gcm::{GcmKey, GcmStream, TAG_LEN, gcm_nonce};
use crate::secret::{KEY_LEN, derive};
use crate::{BlockIdentity, FileKey, OpenError, Padding};

const FORMAT: u8 = 0xB1;
pub(crate) const NONCE_LEN: usize = 24;
/// Format, suite, six zero bytes, nonce, key commitment.
const CLEAR_LEN: usize = 64;
/// Plaintext length and time, sealed in front of the data.
const INNER_LEN: usize = 16;
/// What padding is made of.
const ZEROS: [u8; 4096] = [0; 4096];

/// How much longer a sealed block is than its padded plaintext.
pub const SEAL_OVERHEAD: usize = CLEAR_LEN + INNER_LEN + TAG_LEN;
/// Where the padded plaintext begins in a sealed block; with [`Suite::IntegrityOnly`] it can be read there.
pub const SEAL_DATA_AT: usize = CLEAR_LEN + INNER_LEN;
/// The longest plaintext that can be sealed: four times the largest block.
pub const MAX_PLAINTEXT: usize = 64 << 20;

/// How the sealed part of a block is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Suite {
    /// Encrypted and authenticated with AES-256-GCM under a subkey of its own.
    #[default]
    Aes256Gcm,
    /// Authenticated with keyed BLAKE3 only: clouds can read data, length and time, but not change them. For
    /// volumes whose content is public.
    IntegrityOnly,
    /// As the first, but equal content gives equal bytes: see [`seal_convergent`](crate::seal_convergent).
    Convergent,
}

impl Suite {
    fn byte(self) -> u8 {
        match self {
            Suite::Aes256Gcm => 1,
            Suite::IntegrityOnly => 2,
            Suite::Convergent => 3,
        }
    }

    fn from_byte(suite: u8) -> Result<Suite, OpenError> {
        match suite {
            1 => Ok(Suite::Aes256Gcm),
            2 => Ok(Suite::IntegrityOnly),
            3 => Ok(Suite::Convergent),
            _ => Err(OpenError::UnknownSuite { suite }),
        }
    }
}

/// What sealing a block needs beside key, identity and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealOptions {
    /// Encrypt, or only authenticate.
    pub suite: Suite,
    /// How much the size is blurred.
    pub padding: Padding,
    /// The time of sealing, which the opener gets back (`K23`).
    pub time: Timestamp,
}

impl SealOptions {
    /// Encrypted, default padding, sealed at `time`.
    pub fn at(time: Timestamp) -> SealOptions {
        SealOptions { suite: Suite::default(), padding: Padding::default(), time }
    }
}

/// A block as it may leave the gateway; nothing is known of its content before [`open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBlock(Bytes);

impl SealedBlock {
    /// Takes bytes that came back from the clouds; [`open`] decides whether they are any good.
    pub fn from_untrusted(bytes: Bytes) -> SealedBlock {
        SealedBlock(bytes)
    }

    /// The bytes to store.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Whether it claims to be what [`seal_convergent`](crate::seal_convergent) makes.
    pub fn is_convergent(&self) -> bool {
        self.0.starts_with(&[FORMAT, Suite::Convergent.byte()])
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

/// A block whose authenticity, place and version are proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedBlock {
    /// The data, without padding.
    pub plaintext: Bytes,
    /// When it was sealed, by the wall clock of the gateway that did; the beginning of 1970 for [`Suite::Convergent`], which
    /// has no room for what differs between equal blocks.
    pub sealed_at: Timestamp,
    /// How it was protected.
    pub suite: Suite,
}

/// The length of a sealed block of `plaintext_len` bytes.
pub fn sealed_len(plaintext_len: usize, padding: Padding) -> usize {
    SEAL_OVERHEAD + padding.padded_len(plaintext_len)
}

/// Seals one block whose plaintext is the concatenation of `parts`: one allocation, and one pass
/// that encrypts from the parts into it.
///
/// Every call draws a fresh 192-bit nonce, so sealing the same block twice is harmless (`K25`).
///
/// # Panics
///
/// If the parts together exceed [`MAX_PLAINTEXT`], which no block size reaches; or for [`Suite::Convergent`], which has a
/// function of its own.
pub fn seal<P: AsRef<[u8]>>(
    key: &FileKey,
    identity: &BlockIdentity,
    parts: &[P],
    options: &SealOptions,
    entropy: &dyn Entropy,
) -> SealedBlock {
    assert!(options.suite != Suite::Convergent, "identities are not bound to convergent blocks");
    let mut nonce = [0; NONCE_LEN];
    entropy.fill(&mut nonce);
    if is_broken(Mutant::NonceReuse) {
        nonce.copy_from_slice(&identity.to_bytes()[18..42]);
    }
    seal_under(key.as_bytes(), &identity.proved(), &nonce, parts, options)
}

/// Seals under a nonce that the caller answers for, bound to `identity`.
pub(crate) fn seal_under<P: AsRef<[u8]>>(
    key: &[u8; KEY_LEN],
    identity: &[u8],
    nonce: &[u8; NONCE_LEN],
    parts: &[P],
    options: &SealOptions,
) -> SealedBlock {
    let len: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    assert!(len <= MAX_PLAINTEXT, "a block of {len} bytes is larger than any block size");
    let keys = BlockKeys::derive(key, options.suite, nonce);
    let total = sealed_len(len, options.padding);
    let mut out = Vec::with_capacity(total);
    out.extend_from_slice(&[FORMAT, options.suite.byte(), 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(nonce);
    out.extend_from_slice(keys.commitment());
    let aad = associated_data(&out, identity);
    let mut inner = [0; INNER_LEN];
    inner[..4].copy_from_slice(&(len as u32).to_be_bytes());
    inner[4..8].copy_from_slice(&options.time.nanos.to_be_bytes());
    inner[8..].copy_from_slice(&options.time.seconds.to_be_bytes());
    match options.suite {
        Suite::Aes256Gcm | Suite::Convergent => {
            let mut stream = GcmStream::new(keys.subkey(), gcm_nonce(nonce), &aad);
            stream.append(&inner, &mut out);
            parts.iter().for_each(|part| stream.append(part.as_ref(), &mut out));
            while out.len() < total - TAG_LEN {
                let padding = ZEROS.len().min(total - TAG_LEN - out.len());
                stream.append(&ZEROS[..padding], &mut out);
            }
            stream.finish(&mut out);
        }
        Suite::IntegrityOnly => {
            out.extend_from_slice(&inner);
            parts.iter().for_each(|part| out.extend_from_slice(part.as_ref()));
            out.resize(total - TAG_LEN, 0);
            let tag = keys.mac(&out[CLEAR_LEN..], &aad);
            out.extend_from_slice(&tag);
        }
    }
    SealedBlock(Bytes::from(out))
}

/// Verifies that `sealed` is the block, version and creator that `identity` names and returns its plaintext.
///
/// Decrypts in place, without a copy, when `sealed` is the only reference to its buffer; otherwise into a new one.
pub fn open(key: &FileKey, identity: &BlockIdentity, sealed: SealedBlock) -> Result<OpenedBlock, OpenError> {
    match parse_clear(&sealed.0)? {
        // It would open wherever it lies.
        (suite @ Suite::Convergent, _) => Err(OpenError::UnknownSuite { suite: suite.byte() }),
        _ => open_under(key.as_bytes(), &identity.proved(), sealed),
    }
}

/// The inverse of [`seal_under`].
pub(crate) fn open_under(
    key: &[u8; KEY_LEN],
    identity: &[u8],
    sealed: SealedBlock,
) -> Result<OpenedBlock, OpenError> {
    let bytes = sealed.0;
    let (suite, nonce) = parse_clear(&bytes)?;
    let keys = BlockKeys::derive(key, suite, &nonce);
    verify_slices_are_equal(keys.commitment(), &bytes[32..CLEAR_LEN]).map_err(|_| OpenError::WrongKey)?;
    let aad = associated_data(&bytes[..CLEAR_LEN], identity);
    let tag_at = bytes.len() - TAG_LEN;

    let body = match suite {
        Suite::IntegrityOnly => {
            let tag = keys.mac(&bytes[CLEAR_LEN..tag_at], &aad);
            verify_slices_are_equal(&tag, &bytes[tag_at..]).map_err(|_| OpenError::Forged)?;
            match bytes.is_unique() {
                true => bytes.slice(CLEAR_LEN..tag_at),
                // Whoever keeps it is not to keep what lies beside it.
                false => Bytes::copy_from_slice(&bytes[CLEAR_LEN..tag_at]),
            }
        }
        Suite::Aes256Gcm | Suite::Convergent => {
            let gcm = GcmKey::new(keys.subkey());
            match bytes.try_into_mut() {
                Ok(mut unique) => {
                    let (body, tag) = unique[CLEAR_LEN..].split_at_mut(tag_at - CLEAR_LEN);
                    gcm.open(gcm_nonce(&nonce), &aad, body, tag)?;
                    unique.freeze().slice(CLEAR_LEN..tag_at)
                }
                Err(shared) => {
                    let (body, tag) = shared[CLEAR_LEN..].split_at(tag_at - CLEAR_LEN);
                    let mut plain = vec![0; body.len()];
                    gcm.open_into(gcm_nonce(&nonce), &aad, body, tag, &mut plain)?;
                    Bytes::from(plain)
                }
            }
        }
    };
    parse_inner(body, suite)
}

/// Subkey and key commitment of one sealed block.
struct BlockKeys(Zeroizing<[u8; 2 * KEY_LEN]>);

impl BlockKeys {
    fn derive(key: &[u8; KEY_LEN], suite: Suite, nonce: &[u8; NONCE_LEN]) -> BlockKeys {
        BlockKeys(derive(key, "kurma block", &[&[suite.byte()], nonce]))
    }

    fn subkey(&self) -> &[u8; KEY_LEN] {
        self.0.first_chunk().expect("64 bytes start with 32 bytes")
    }

    fn commitment(&self) -> &[u8; KEY_LEN] {
        self.0.last_chunk().expect("64 bytes end with 32 bytes")
    }

    /// The tag of the integrity-only suite. Body first: what follows it has a fixed length.
    fn mac(&self, body: &[u8], aad: &[u8]) -> [u8; TAG_LEN] {
        let hash = blake3::Hasher::new_keyed(self.subkey()).update(body).update(aad).finalize();
        *hash.as_bytes().first_chunk().expect("32 bytes start with 16 bytes")
    }
}

fn associated_data(clear: &[u8], identity: &[u8]) -> Vec<u8> {
    [clear, identity].concat()
}

/// Suite and nonce of at least [`SEAL_OVERHEAD`] bytes.
pub(crate) fn parse_clear(bytes: &[u8]) -> Result<(Suite, [u8; NONCE_LEN]), OpenError> {
    let what = "a sealed block";
    if bytes.len() < SEAL_OVERHEAD {
        return Err(OpenError::WrongLength { what, len: bytes.len(), needed: SEAL_OVERHEAD });
    }
    if bytes[0] != FORMAT {
        return Err(OpenError::UnknownFormat { what, byte: bytes[0] });
    }
    let suite = Suite::from_byte(bytes[1])?;
    if let Some(&byte) = bytes[2..8].iter().find(|byte| **byte != 0) {
        return Err(OpenError::UnknownFormat { what, byte });
    }
    let mut nonce = [0; NONCE_LEN];
    nonce.copy_from_slice(&bytes[8..32]);
    Ok((suite, nonce))
}

fn parse_inner(body: Bytes, suite: Suite) -> Result<OpenedBlock, OpenError> {
    let malformed = |what| OpenError::Malformed { what };
    let (inner, _) = body.split_first_chunk::<INNER_LEN>().ok_or(malformed("no inner header"))?;
    let number = |at: usize| u32::from_be_bytes([inner[at], inner[at + 1], inner[at + 2], inner[at + 3]]);
    let (len, nanos) = (number(0) as usize, number(4));
    let seconds = i64::from_be_bytes(*inner.last_chunk().expect("16 bytes end with 8 bytes"));
    if len > body.len() - INNER_LEN {
        return Err(malformed("plaintext longer than the block"));
    }
    if nanos >= 1_000_000_000 {
        return Err(malformed("nanoseconds beyond a second"));
    }
    let (end, padding) = (INNER_LEN + len, body.len() - INNER_LEN - len);
    let plaintext = match padding > len / 4 {
        false => body.slice(INNER_LEN..end),
        // Whoever keeps it is not to keep the padding.
        true => Bytes::copy_from_slice(&body[INNER_LEN..end]),
    };
    Ok(OpenedBlock { plaintext, sealed_at: Timestamp { seconds, nanos }, suite })
}

#[cfg(test)]
mod tests;
