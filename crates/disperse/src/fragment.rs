use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::scheme::Kind;
use crate::share_digest::ShareDigest;
use crate::{Scheme, package, reed_solomon};

/// The format of fragments that are parts of the block.
const FORMAT: u8 = 0xF1;
/// That of shares of a package.
const SHARE_FORMAT: u8 = 0xF2;
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
    share_digest: Option<ShareDigest>,
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
    #[error("byte {byte:#04x} does not start a fragment: damaged, foreign, or written by another version")]
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
        let is_known = [FORMAT, SHARE_FORMAT].contains(&format);
        if let Some(&byte) = [z0, z1, z2].iter().find(|byte| **byte != 0).or((!is_known).then_some(&format)) {
            return Err(BadFragment::WrongFormat { byte });
        }
        if [kind, needed, total] != scheme.to_bytes() {
            return Err(BadFragment::WrongScheme { expected: scheme });
        }
        if format != format_of(scheme) {
            return Err(BadFragment::WrongFormat { byte: format });
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
        let digest = BodyDigest::of(scheme, key, &self.body);
        let computed = Checksums::new(key, context).of(head, &digest);
        // `blake3::Hash` compares in constant time.
        if pad(&computed) != pad(checksum) {
            return Err(BadFragment::WrongChecksum);
        }
        let block_len = usize::try_from(block_len).map_err(|_| BadFragment::WrongChecksum)?;
        let share_digest = match digest {
            BodyDigest::Keyed(_) => None,
            BodyDigest::Share(digest) => Some(digest),
        };
        Ok(VerifiedFragment { scheme, index, block_len, body: self.body, share_digest })
    }

    /// Adds headers to the bodies of fragments with these indices; digests of shares that are known are not computed again.
    pub(crate) fn seal(
        scheme: Scheme,
        bodies: impl ExactSizeIterator<Item = (u8, Bytes, Option<ShareDigest>)>,
        block_len: usize,
        key: &[u8; 32],
        context: &[u8],
    ) -> Vec<Fragment> {
        let checksums = Checksums::new(key, context);
        let mut headers = BytesMut::with_capacity(bodies.len() * HEADER_LEN);
        let mut shared_digest = None;
        let add_header = |(index, body, known): (u8, Bytes, Option<ShareDigest>)| {
            let [kind, needed, total] = scheme.to_bytes();
            headers.extend_from_slice(&[format_of(scheme), kind, needed, total, index, 0, 0, 0]);
            headers.extend_from_slice(&(block_len as u64).to_be_bytes());
            let compute = || BodyDigest::of(scheme, key, &body);
            let digest = match scheme.kind() {
                Kind::Replicas => *shared_digest.get_or_insert_with(compute),
                _ => known.map_or_else(compute, BodyDigest::Share),
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

    /// The digest of the body, if it is a share of a package.
    pub(crate) fn share_digest(&self) -> Option<ShareDigest> {
        self.share_digest
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

fn format_of(scheme: Scheme) -> u8 {
    match scheme.kind() {
        Kind::Replicas | Kind::ReedSolomon => FORMAT,
        Kind::AontRs | Kind::CaontRs => SHARE_FORMAT,
    }
}

/// What stands for a body in its checksum.
#[derive(Clone, Copy)]
enum BodyDigest {
    Keyed(blake3::Hash),
    Share(ShareDigest),
}

impl BodyDigest {
    fn of(scheme: Scheme, key: &[u8; 32], body: &[u8]) -> BodyDigest {
        match scheme.kind() {
            Kind::Replicas | Kind::ReedSolomon => BodyDigest::Keyed(blake3::keyed_hash(key, body)),
            Kind::AontRs | Kind::CaontRs => BodyDigest::Share(ShareDigest::of(body)),
        }
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

    fn of(&self, head: &[u8], digest: &BodyDigest) -> [u8; CHECKSUM_LEN] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(head).update(self.context);
        match digest {
            BodyDigest::Keyed(hash) => hasher.update(hash.as_bytes()),
            BodyDigest::Share(share) => hasher.update(&share.hash).update(&share.end),
        };
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
