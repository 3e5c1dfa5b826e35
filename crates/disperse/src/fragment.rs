use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::scheme::Kind;
use crate::{Scheme, package, reed_solomon};

const FORMAT: u8 = 0xF1;
/// The part of the header that the checksum covers.
const HEAD_LEN: usize = 16;
const CHECKSUM_LEN: usize = 16;
/// Length of a fragment's header.
pub const HEADER_LEN: usize = HEAD_LEN + CHECKSUM_LEN;

/// What one cloud stores of a block: a header and a body, in two buffers so that neither need be copied.
///
/// One that came from a cloud proves nothing before [`Fragment::verify`].
#[derive(Clone, PartialEq, Eq)]
pub struct Fragment {
    header: Bytes,
    body: Bytes,
}

/// A fragment that is what was asked for: right scheme, index and context, body intact.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedFragment {
    scheme: Scheme,
    index: u8,
    block_len: usize,
    body: Bytes,
}

/// Why a fragment was refused. Whichever it is, the cloud did not give back what was stored there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFragment {
    /// Shorter than a header.
    #[error("fragment of {len} bytes is shorter than its header of {HEADER_LEN}")]
    TooShort {
        /// The length found.
        len: usize,
    },
    /// Not a fragment, or of a format that this version does not know.
    #[error("byte {byte:#04x} does not start a fragment: damaged, foreign, or written by a newer version")]
    WrongFormat {
        /// The offending byte.
        byte: u8,
    },
    /// A fragment of another scheme.
    #[error("fragment is of another scheme than {expected}")]
    WrongScheme {
        /// The scheme asked for.
        expected: Scheme,
    },
    /// Another fragment than was asked for.
    #[error("fragment {found} came where {expected} was asked for")]
    WrongIndex {
        /// The index asked for.
        expected: u8,
        /// The index found.
        found: u8,
    },
    /// The body is not as long as the header says: truncated or extended.
    #[error("fragment body has {found} bytes instead of {expected}")]
    WrongLength {
        /// The length that the header implies.
        expected: u64,
        /// The length found.
        found: usize,
    },
    /// The checksum does not match: damaged, forged, of another block or of another version.
    #[error("fragment checksum does not match: damaged, forged, or of another block or version")]
    WrongChecksum,
}

impl Fragment {
    /// Takes what a cloud gave back apart, without a copy.
    pub fn from_bytes(mut bytes: Bytes) -> Result<Fragment, BadFragment> {
        if bytes.len() < HEADER_LEN {
            return Err(BadFragment::TooShort { len: bytes.len() });
        }
        let header = bytes.split_to(HEADER_LEN);
        Ok(Fragment { header, body: bytes })
    }

    /// Header and body, to be stored one after the other.
    pub fn segments(&self) -> [Bytes; 2] {
        [self.header.clone(), self.body.clone()]
    }

    /// Header and body in one buffer; copies them.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.len());
        out.extend_from_slice(&self.header);
        out.extend_from_slice(&self.body);
        out.freeze()
    }

    /// The length of header and body together; never zero.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.header.len() + self.body.len()
    }

    /// Proves that this is fragment `index` of a block that was split by `scheme` with this `key` and `context`.
    pub fn verify(
        self,
        key: &[u8; 32],
        scheme: Scheme,
        index: u8,
        context: &[u8],
    ) -> Result<VerifiedFragment, BadFragment> {
        let (head, checksum) = self.header.split_at(HEAD_LEN);
        let [format, kind, needed, total, found, z0, z1, z2, ..] = *head else {
            return Err(BadFragment::TooShort { len: self.len() });
        };
        if let Some(byte) = [(format, FORMAT), (z0, 0), (z1, 0), (z2, 0)].iter().find(|(is, want)| is != want)
        {
            return Err(BadFragment::WrongFormat { byte: byte.0 });
        }
        if [kind, needed, total] != scheme.to_bytes() {
            return Err(BadFragment::WrongScheme { expected: scheme });
        }
        if found != index {
            return Err(BadFragment::WrongIndex { expected: index, found });
        }
        let mut block_len = [0; 8];
        block_len.copy_from_slice(&head[8..]);
        let block_len = u64::from_be_bytes(block_len);
        let expected = body_len(scheme, index, block_len);
        if expected != self.body.len() as u64 {
            return Err(BadFragment::WrongLength { expected, found: self.body.len() });
        }
        let computed = Checksums::new(key, context).of(head, &Checksums::digest(key, &self.body));
        // `blake3::Hash` compares in constant time.
        if pad(&computed) != pad(checksum) {
            return Err(BadFragment::WrongChecksum);
        }
        let block_len = usize::try_from(block_len).map_err(|_| BadFragment::WrongChecksum)?;
        Ok(VerifiedFragment { scheme, index, block_len, body: self.body })
    }

    /// Adds headers to the bodies of fragments with these indices.
    pub(crate) fn seal(
        scheme: Scheme,
        bodies: impl ExactSizeIterator<Item = (u8, Bytes)>,
        block_len: usize,
        key: &[u8; 32],
        context: &[u8],
    ) -> Vec<Fragment> {
        let checksums = Checksums::new(key, context);
        let mut headers = BytesMut::with_capacity(bodies.len() * HEADER_LEN);
        let mut shared_digest = None;
        let add_header = |(index, body): (u8, Bytes)| {
            let [kind, needed, total] = scheme.to_bytes();
            headers.extend_from_slice(&[FORMAT, kind, needed, total, index, 0, 0, 0]);
            headers.extend_from_slice(&(block_len as u64).to_be_bytes());
            let digest = match scheme.kind() {
                Kind::Replicas => *shared_digest.get_or_insert_with(|| Checksums::digest(key, &body)),
                _ => Checksums::digest(key, &body),
            };
            let checksum = checksums.of(&headers, &digest);
            headers.extend_from_slice(&checksum);
            Fragment { header: headers.split().freeze(), body }
        };
        bodies.map(add_header).collect()
    }
}

impl fmt::Debug for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fragment({} bytes)", self.len())
    }
}

impl VerifiedFragment {
    /// The scheme that made it.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Which fragment of the block it is.
    pub fn index(&self) -> u8 {
        self.index
    }

    /// The length of the fragment as it is stored, header and body.
    pub fn stored_len(&self) -> u64 {
        (HEADER_LEN + self.body.len()) as u64
    }

    /// The length of the block that was split.
    pub fn block_len(&self) -> usize {
        self.block_len
    }

    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    pub(crate) fn into_body(self) -> Bytes {
        self.body
    }
}

impl fmt::Debug for VerifiedFragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifiedFragment({} of {}, {} bytes)", self.index, self.scheme, self.body.len())
    }
}

/// The length of the body of fragment `index`; `block_len` may be anything.
pub(crate) fn body_len(scheme: Scheme, index: u8, block_len: u64) -> u64 {
    match scheme.kind() {
        Kind::Replicas => block_len,
        Kind::ReedSolomon => reed_solomon::body_len(scheme.needed(), usize::from(index), block_len),
        Kind::AontRs | Kind::CaontRs => package::shard_len(scheme.needed(), block_len),
    }
}

/// Makes the checksums of the fragments of one block.
struct Checksums<'a> {
    key: [u8; 32],
    context: &'a [u8],
}

impl Checksums<'_> {
    fn new<'a>(key: &[u8; 32], context: &'a [u8]) -> Checksums<'a> {
        Checksums { key: blake3::derive_key("kurma 2026 fragment checksum", key), context }
    }

    fn digest(key: &[u8; 32], body: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(key, body)
    }

    fn of(&self, head: &[u8], digest: &blake3::Hash) -> [u8; CHECKSUM_LEN] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(head).update(self.context).update(digest.as_bytes());
        *hasher.finalize().as_bytes().first_chunk().expect("32 bytes start with 16 bytes")
    }
}

/// A checksum as a hash that compares in constant time.
fn pad(checksum: &[u8]) -> blake3::Hash {
    let mut out = [0; 32];
    out[..CHECKSUM_LEN].copy_from_slice(checksum);
    blake3::Hash::from_bytes(out)
}

#[cfg(test)]
mod tests;
