use vector_client::{Done, Step};

use super::Argument;
use crate::attributes::{Attributes, wanted};
use crate::constants::KURMA_NOFOLLOW;
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;
use crate::pointer::{check_flags, check_reserved};

/// Asks for attributes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GetAttributes {
    /// Of what.
    pub file: File,
    /// Which: bits KURMA_KIND to KURMA_HANDLE, or KURMA_STAT.
    pub wanted: u32,
    /// KURMA_NOFOLLOW for those of a symbolic link itself, or 0.
    pub flags: u32,
    /// Result: those wanted, as far as the object has them.
    pub attributes: Attributes,
    /// 0.
    pub reserved: [u64; 2],
}

impl Argument for GetAttributes {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        check_flags(self.flags, KURMA_NOFOLLOW)?;
        check_reserved(&self.reserved)?;
        let (wanted, follow) = (wanted(self.wanted)?, self.flags & KURMA_NOFOLLOW == 0);
        // SAFETY: of the caller.
        Ok(Step::GetAttributes { target: unsafe { self.file.target() }?, wanted, follow })
    }

    unsafe fn take(this: *mut GetAttributes, done: Done) {
        let Done::Attributes(attributes) = done else { return };
        // SAFETY: of the caller.
        unsafe { (*this).attributes = Attributes::of(&attributes) };
    }
}
