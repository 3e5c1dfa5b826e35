use vector_client::Step;

use super::Argument;
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;

/// Two files: what is there, and the name that it gets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// What is there.
    pub from: File,
    /// What is to be there.
    pub to: File,
}

/// A pair that stands for a further name.
#[repr(transparent)]
pub(crate) struct HardLink(Pair);

/// A pair that stands for another name.
#[repr(transparent)]
pub(crate) struct Rename(Pair);

impl Argument for HardLink {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        // SAFETY: of the caller.
        let (existing, new) = unsafe { (self.0.from.target()?, self.0.to.target()?) };
        Ok(Step::HardLink { existing, new })
    }
}

impl Argument for Rename {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        // SAFETY: of the caller.
        let (from, to) = unsafe { (self.0.from.target()?, self.0.to.target()?) };
        Ok(Step::Rename { from, to })
    }
}
