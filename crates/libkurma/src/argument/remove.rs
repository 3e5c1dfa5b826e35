use vector_client::Step;

use super::Argument;
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;

/// A file that is to be removed.
#[repr(transparent)]
pub(crate) struct Remove(File);

impl Argument for Remove {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        // SAFETY: of the caller.
        Ok(Step::Remove(unsafe { self.0.target() }?))
    }
}
