use vector_client::Step;

use super::Argument;
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;
use crate::pointer::check_reserved;

/// Makes a directory. One that exists already is an error.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MakeDirectory {
    /// Its path.
    pub file: File,
    /// Its permission bits.
    pub mode: u32,
    /// 0.
    pub reserved: u32,
}

impl Argument for MakeDirectory {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        check_reserved(&[self.reserved.into()])?;
        // SAFETY: of the caller.
        Ok(Step::MakeDirectory { target: unsafe { self.file.target() }?, mode: self.mode })
    }
}
