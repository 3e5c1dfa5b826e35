//! Which file.

use std::ffi::c_char;

use bytes::Bytes;
use nfs4::FileHandle;
use vector_client::{Base, Descriptor, Target};

use crate::constants::KURMA_HANDLE_SIZE;
use crate::outcome::Refusal;
use crate::pointer::{given, text};

/// The server's name for an object; good for as long as the object exists.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// Bytes of it.
    pub length: u32,
    /// The bytes.
    pub data: [u8; KURMA_HANDLE_SIZE],
}

/// Which file: a path from the root of the client, an open file, or a path from an open directory or a filehandle.
/// Names are separated by `/`; `..` is the parent of where the names before it led.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// The path; NULL or "" for what it would begin at.
    pub path: *const c_char,
    /// The open file that it begins at, or 0.
    pub fd: u64,
    /// The filehandle that it begins at, or NULL.
    pub handle: *const Handle,
}

impl Handle {
    pub(crate) const NONE: Handle = Handle { length: 0, data: [0; KURMA_HANDLE_SIZE] };

    pub(crate) fn of(handle: &FileHandle) -> Handle {
        let mut own = Handle::NONE;
        let bytes = handle.as_bytes();
        for (to, byte) in own.data.iter_mut().zip(bytes) {
            *to = *byte;
        }
        own.length = bytes.len().min(KURMA_HANDLE_SIZE) as u32;
        own
    }

    fn to_handle(self) -> Result<FileHandle, Refusal> {
        let bytes = self.data.get(..self.length as usize);
        let handle = bytes.and_then(|bytes| FileHandle::new(Bytes::copy_from_slice(bytes)).ok());
        handle.ok_or_else(|| Refusal::invalid("a filehandle is longer than 128 bytes"))
    }
}

impl File {
    pub(crate) const NONE: File = File { path: std::ptr::null(), fd: 0, handle: std::ptr::null() };

    pub(crate) fn path(path: *const c_char) -> File {
        File { path, ..File::NONE }
    }

    pub(crate) fn open(fd: u64) -> File {
        File { fd, ..File::NONE }
    }

    /// # Safety
    /// Its pointers are NULL or valid.
    pub(crate) unsafe fn target(&self) -> Result<Target, Refusal> {
        // SAFETY: of the caller.
        let path = unsafe { text(self.path) }?;
        let base = match (self.fd, self.handle.is_null()) {
            (0, true) if path.is_none() => return Err(Refusal::invalid("a file without path, fd or handle")),
            (0, true) => Base::Root,
            (fd, true) => Base::Descriptor(descriptor(fd)?),
            // SAFETY: of the caller.
            (0, false) => Base::Handle(unsafe { given(self.handle, "handle") }?.to_handle()?),
            (_, false) => return Err(Refusal::invalid("a file with both fd and handle")),
        };
        Ok(Target::at(base, Bytes::copy_from_slice(path.unwrap_or_default())))
    }
}

/// The open file with this number; 0 is none.
pub(crate) fn descriptor(fd: u64) -> Result<Descriptor, Refusal> {
    let number = fd.checked_sub(1);
    number
        .map(Descriptor::from_number)
        .ok_or(Refusal { status: libc::EBADF, what: "fd is 0, which no open file is".into() })
}

/// The number of an open file.
pub(crate) fn fd(descriptor: Descriptor) -> u64 {
    // There are not so many files in any life.
    descriptor.number().saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_file_is_understood_and_others_are_refused() {
        let handle = Handle { length: 3, ..Handle::NONE };
        let long = Handle { length: 129, ..Handle::NONE };
        let path = c"/a/b".as_ptr();
        let target = |file: File| {
            // SAFETY: all of it lives.
            unsafe { file.target() }.map(|target| target.to_string())
        };
        assert_eq!(target(File::path(path)).unwrap(), "/a/b");
        assert_eq!(target(File::path(c"".as_ptr())).unwrap(), "/");
        assert_eq!(target(File::open(8)).unwrap(), "descriptor 7");
        assert_eq!(target(File { path: c"c".as_ptr(), ..File::open(8) }).unwrap(), "descriptor 7/c");
        assert!(target(File { handle: &raw const handle, ..File::path(path) }).is_ok());
        assert!(target(File::NONE).is_err());
        assert!(target(File { handle: &raw const handle, ..File::open(8) }).is_err());
        assert!(target(File { handle: &raw const long, ..File::NONE }).is_err());
        assert_eq!(fd(descriptor(u64::MAX).unwrap()), u64::MAX);
        assert!(descriptor(0).is_err());
    }
}
