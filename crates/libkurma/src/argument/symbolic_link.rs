use std::ffi::c_char;

use bytes::Bytes;
use vector_client::Step;

use super::Argument;
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;
use crate::pointer::string;

/// Makes a symbolic link.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SymbolicLink {
    /// Its path.
    pub file: File,
    /// Where it leads.
    pub text: *const c_char,
}

impl Argument for SymbolicLink {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        // SAFETY: of the caller.
        let (target, text) = unsafe { (self.file.target()?, string(self.text, "text")?) };
        Ok(Step::MakeSymbolicLink { target, text: Bytes::copy_from_slice(text) })
    }
}
