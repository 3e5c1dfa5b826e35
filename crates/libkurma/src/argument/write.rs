use std::ffi::c_void;

use vector_client::{Done, Step, Write};

use super::{Argument, creation};
use crate::constants::{KURMA_CREATE, KURMA_EXCLUSIVE, KURMA_NOFOLLOW, KURMA_STABLE, KURMA_TRUNCATE};
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;
use crate::pointer::{check_flags, check_reserved};

/// Writes an extent. A file that is named by a path is opened and closed. The data is not copied, and not looked at after the
/// call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WriteArgument {
    /// Where to.
    pub file: File,
    /// First byte, or KURMA_APPEND for the end of the file, wherever that is when the data is written.
    pub offset: u64,
    /// Bytes at `data`.
    pub length: usize,
    /// The data.
    pub data: *const c_void,
    /// Bits of KURMA_CREATE, EXCLUSIVE, TRUNCATE, STABLE and NOFOLLOW.
    pub flags: u32,
    /// Permission bits of a file that is created.
    pub mode: u32,
    /// Result: bytes written, which are all.
    pub done: usize,
    /// 0.
    pub reserved: [u64; 2],
}

impl Argument for WriteArgument {
    unsafe fn step(&self, lender: &Lender<'_>) -> Result<Step, Refusal> {
        let known = KURMA_CREATE | KURMA_EXCLUSIVE | KURMA_TRUNCATE | KURMA_STABLE | KURMA_NOFOLLOW;
        check_flags(self.flags, known)?;
        check_reserved(&self.reserved)?;
        // SAFETY: of the caller.
        let (target, data) =
            unsafe { (self.file.target()?, lender.lend(self.data.cast(), self.length, "data")?) };
        Ok(Step::Write(Write {
            create: creation(self.flags, self.mode)?,
            truncate: self.flags & KURMA_TRUNCATE != 0,
            stable: self.flags & KURMA_STABLE != 0,
            follow: self.flags & KURMA_NOFOLLOW == 0,
            ..Write::new(target, self.offset, data)
        }))
    }

    unsafe fn take(this: *mut WriteArgument, done: Done) {
        let Done::Written(bytes) = done else { return };
        // SAFETY: of the caller.
        unsafe { (*this).done = usize::try_from(bytes).unwrap_or(usize::MAX) };
    }
}
