use vector_client::Step;

use super::Argument;
use crate::attributes::NewAttributes;
use crate::constants::KURMA_NOFOLLOW;
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;
use crate::pointer::{check_flags, check_reserved};

/// Sets attributes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SetAttributes {
    /// Of what.
    pub file: File,
    /// KURMA_NOFOLLOW for those of a symbolic link itself, or 0.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// Which, to what.
    pub attributes: NewAttributes,
}

impl Argument for SetAttributes {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        check_flags(self.flags, KURMA_NOFOLLOW)?;
        check_reserved(&[self.reserved.into()])?;
        // SAFETY: of the caller.
        let (target, attributes) = unsafe { (self.file.target()?, self.attributes.to_set()?) };
        Ok(Step::SetAttributes { target, attributes, follow: self.flags & KURMA_NOFOLLOW == 0 })
    }
}
