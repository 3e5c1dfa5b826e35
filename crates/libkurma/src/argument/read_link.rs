use std::ffi::c_char;

use vector_client::{Done, Step};

use super::Argument;
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;
use crate::pointer::check_array;

/// Asks where a symbolic link leads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReadLink {
    /// The link.
    pub file: File,
    /// Where the text goes, with a NUL after it. If there is not room enough it is cut off.
    pub text: *mut c_char,
    /// Room there, the NUL included.
    pub size: usize,
    /// Result: bytes of the whole text without the NUL. It is there whole if this is less than `size`.
    pub length: usize,
}

impl Argument for ReadLink {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        check_array(self.text, self.size, "text")?;
        // SAFETY: of the caller.
        Ok(Step::ReadLink(unsafe { self.file.target() }?))
    }

    unsafe fn take(this: *mut ReadLink, done: Done) {
        let Done::Link(text) = done else { return };
        // SAFETY: of the caller.
        let this = unsafe { &mut *this };
        this.length = text.len();
        if let Some(room) = this.size.checked_sub(1) {
            let length = text.len().min(room);
            // SAFETY: there is room for `size` bytes, which is one more than `room`.
            unsafe {
                text.as_ptr().copy_to_nonoverlapping(this.text.cast(), length);
                *this.text.add(length) = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_off_and_its_length_told() {
        for (size, expected) in [(0, "....."), (1, "\0...."), (3, "ab\0.."), (4, "abc\0."), (5, "abc\0.")] {
            let mut memory = *b".....";
            let mut link =
                ReadLink { file: File::NONE, text: memory.as_mut_ptr().cast(), size, length: usize::MAX };
            // SAFETY: all of it lives.
            unsafe { ReadLink::take(&raw mut link, Done::Link("abc".into())) };
            assert_eq!((link.length, &memory[..]), (3, expected.as_bytes()));
        }
    }
}
