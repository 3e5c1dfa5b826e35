//! Filehandles.

use bytes::Bytes;
use xdr::{BoundedOpaque, Decode, Encode, TooLong};

/// Longest filehandle in bytes (`NFS4_FHSIZE`).
pub const FILE_HANDLE_SIZE: usize = 128;

/// The server's name for a file-system object; opaque to the client (`nfs_fh4`). At most [`FILE_HANDLE_SIZE`] bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct FileHandle(BoundedOpaque<FILE_HANDLE_SIZE>);

impl FileHandle {
    /// Takes `bytes` if they are few enough.
    pub fn new(bytes: impl Into<Bytes>) -> Result<FileHandle, TooLong> {
        BoundedOpaque::new(bytes).map(FileHandle)
    }

    /// The content.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The content, without copying.
    pub fn into_bytes(self) -> Bytes {
        self.0.into_inner()
    }
}

impl std::fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileHandle(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_handle_has_128_bytes() {
        assert!(FileHandle::new(vec![0; 128]).is_ok());
        assert!(FileHandle::new(vec![0; 129]).is_err());
        assert!(xdr::from_bytes::<FileHandle>(xdr::to_bytes(&Bytes::from(vec![0; 129]))).is_err());
    }
}
