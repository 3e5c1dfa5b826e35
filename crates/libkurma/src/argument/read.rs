use std::ffi::c_void;

use vector_client::{Done, Read, Step};

use super::Argument;
use crate::constants::KURMA_NOFOLLOW;
use crate::file::File;
use crate::lender::Lender;
use crate::outcome::Refusal;
use crate::pointer::{check_array, check_flags, check_reserved};

/// Reads an extent. A file that is named by a path is opened and closed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReadArgument {
    /// From where.
    pub file: File,
    /// First byte.
    pub offset: u64,
    /// Bytes wanted, and room at `data`.
    pub length: usize,
    /// Where they go.
    pub data: *mut c_void,
    /// KURMA_NOFOLLOW or 0.
    pub flags: u32,
    /// Result: 1 if the file ends after what was read.
    pub end_of_file: u32,
    /// Result: bytes read; fewer than wanted only at the end of the file.
    pub done: usize,
    /// 0.
    pub reserved: [u64; 2],
}

impl Argument for ReadArgument {
    unsafe fn step(&self, _: &Lender<'_>) -> Result<Step, Refusal> {
        check_flags(self.flags, KURMA_NOFOLLOW)?;
        check_reserved(&self.reserved)?;
        check_array(self.data.cast::<u8>(), self.length, "data")?;
        // SAFETY: of the caller.
        let target = unsafe { self.file.target() }?;
        let follow = self.flags & KURMA_NOFOLLOW == 0;
        Ok(Step::Read(Read { follow, ..Read::new(target, self.offset, self.length as u64) }))
    }

    unsafe fn take(this: *mut ReadArgument, done: Done) {
        let Done::Read(data) = done else { return };
        // SAFETY: of the caller; nobody else has a reference to it.
        let this = unsafe { &mut *this };
        this.done = 0;
        for piece in &data.pieces {
            // A server that sends more than it was asked for does not get at the caller's memory.
            let length = piece.len().min(this.length - this.done);
            // SAFETY: the caller has room for `length` bytes at `data`, of which `done` are taken.
            unsafe { piece.as_ptr().copy_to_nonoverlapping(this.data.cast::<u8>().add(this.done), length) };
            this.done += length;
        }
        this.end_of_file = u32::from(data.end_of_file);
    }
}

#[cfg(test)]
mod tests {
    use vector_client::Data;

    use super::*;

    #[test]
    fn more_than_was_asked_for_is_left_where_it_is() {
        let mut memory = *b"..........";
        let mut read = ReadArgument {
            file: File::NONE,
            offset: 0,
            length: 4,
            data: memory.as_mut_ptr().cast(),
            flags: 0,
            end_of_file: 0,
            done: 9,
            reserved: [0; 2],
        };
        let pieces = vec!["abc".into(), "def".into(), "ghi".into()];
        // SAFETY: all of it lives.
        unsafe { ReadArgument::take(&raw mut read, Done::Read(Data { pieces, end_of_file: true })) };
        assert_eq!((read.done, read.end_of_file, &memory), (4, 1, b"abcd......"));
    }
}
