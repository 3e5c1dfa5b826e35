use vector_client::{Done, Open, Step};

use super::{Argument, creation};
use crate::constants::{
    KURMA_CREATE, KURMA_EXCLUSIVE, KURMA_NOFOLLOW, KURMA_READ, KURMA_TRUNCATE, KURMA_WRITE,
};
use crate::file::{File, fd};
use crate::lender::Lender;
use crate::outcome::Refusal;
use crate::pointer::{check_flags, check_reserved};

/// Opens a file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OpenArgument {
    /// Which.
    pub file: File,
    /// KURMA_READ, KURMA_WRITE or both, and bits of KURMA_CREATE, EXCLUSIVE, TRUNCATE and NOFOLLOW.
    pub flags: u32,
    /// Permission bits of a file that is created.
    pub mode: u32,
    /// Result: the open file, never 0.
    pub fd: u64,
    /// 0.
    pub reserved: [u64; 2],
}

impl Argument for OpenArgument {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        let how = KURMA_READ | KURMA_WRITE;
        check_flags(self.flags, how | KURMA_CREATE | KURMA_EXCLUSIVE | KURMA_TRUNCATE | KURMA_NOFOLLOW)?;
        check_reserved(&self.reserved)?;
        Ok(Step::Open(Open {
            // SAFETY: of the caller.
            target: unsafe { self.file.target() }?,
            read: self.flags & KURMA_READ != 0,
            write: self.flags & KURMA_WRITE != 0,
            create: creation(self.flags, self.mode)?,
            truncate: self.flags & KURMA_TRUNCATE != 0,
            follow: self.flags & KURMA_NOFOLLOW == 0,
        }))
    }

    unsafe fn take(this: *mut OpenArgument, done: Done) {
        let Done::Opened(descriptor) = done else { return };
        // SAFETY: of the caller.
        unsafe { (*this).fd = fd(descriptor) };
    }
}
