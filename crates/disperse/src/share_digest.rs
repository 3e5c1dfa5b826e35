use crate::package::KEY_LEN;

/// What stands for a share, the body of a fragment of a package: in its checksum, and, if it is a data shard, in the mask of the
/// package key. Two shares of the same one cannot be found.
///
/// The end stands for itself, so that the shard that ends with the masked key can be hashed before there is a mask.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShareDigest {
    /// Of all but the end.
    pub hash: [u8; 32],
    /// The last bytes, as they are.
    pub end: [u8; KEY_LEN],
}

impl ShareDigest {
    /// # Panics
    ///
    /// If the share is shorter than any.
    pub fn of(share: &[u8]) -> ShareDigest {
        let (start, end) = share.split_last_chunk().expect("no share is shorter than a key");
        ShareDigest { hash: blake3::derive_key("kurma 2026 share digest", start), end: *end }
    }
}
