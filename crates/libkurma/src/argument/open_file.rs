use vector_client::Step;

use super::Argument;
use crate::file::descriptor;
use crate::lender::Lender;
use crate::outcome::Refusal;

/// The number of an open file that is to be closed.
#[repr(transparent)]
pub(crate) struct Close(u64);

/// The number of an open file of which everything is to be made safe.
#[repr(transparent)]
pub(crate) struct Commit(u64);

impl Argument for Close {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        Ok(Step::Close(descriptor(self.0)?))
    }
}

impl Argument for Commit {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        Ok(Step::Commit(descriptor(self.0)?))
    }
}
