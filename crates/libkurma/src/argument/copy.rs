use vector_client::{Copy, Done, Step};

use super::{Argument, creation};
use crate::constants::{KURMA_CREATE, KURMA_EXCLUSIVE, KURMA_TRUNCATE};
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;
use crate::pointer::{check_flags, check_reserved};

/// Copies an extent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyArgument {
    /// From where.
    pub source: File,
    /// First byte there.
    pub source_offset: u64,
    /// Where to.
    pub destination: File,
    /// First byte there.
    pub destination_offset: u64,
    /// Bytes, or KURMA_TO_END.
    pub length: u64,
    /// Bits of KURMA_CREATE, EXCLUSIVE and TRUNCATE, for the destination.
    pub flags: u32,
    /// Permission bits of a file that is created.
    pub mode: u32,
    /// Result: bytes copied.
    pub done: u64,
    /// 0.
    pub reserved: [u64; 2],
}

impl CopyArgument {
    /// # Safety
    /// Its pointers are NULL or valid.
    pub(crate) unsafe fn copy(&self) -> Result<Copy, Refusal> {
        check_flags(self.flags, KURMA_CREATE | KURMA_EXCLUSIVE | KURMA_TRUNCATE)?;
        check_reserved(&self.reserved)?;
        // SAFETY: of the caller.
        let (source, destination) = unsafe { (self.source.target()?, self.destination.target()?) };
        Ok(Copy {
            source,
            source_offset: self.source_offset,
            destination,
            destination_offset: self.destination_offset,
            length: self.length,
            create: creation(self.flags, self.mode)?,
            truncate: self.flags & KURMA_TRUNCATE != 0,
        })
    }
}

impl Argument for CopyArgument {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        // SAFETY: of the caller.
        unsafe { self.copy() }.map(Step::Copy)
    }

    unsafe fn take(this: *mut CopyArgument, done: Done) {
        let Done::Copied(bytes) = done else { return };
        // SAFETY: of the caller.
        unsafe { (*this).done = bytes };
    }
}
