//! Files that are written from front to back.

use std::ffi::c_void;

use parking_lot::Mutex;
use vector_client::blocking;

use crate::client::{Client, behind};
use crate::file::descriptor;
use crate::outcome::{Outcome, guard};
use crate::pointer::{array, check, given, set};

/// Writes one open file from front to back, while its program goes on: what is written is gathered into pieces of 1 MiB,
/// and up to 16 of them are sent at once. That something could not be written is said by the first call that can, and by every
/// one after it; at the latest by kurma_writer_close. Nothing is written then of what follows. Any number of threads may use
/// one at once, until one of them closes it; a call waits for those before it.
pub struct Writer {
    writer: Mutex<blocking::Writer>,
}

/// Writes an open file from `offset` on. The file belongs to the writer, which closes it: nothing else is to write these bytes
/// meanwhile, or close it. If the client is closed before the writer, what is not on stable storage by then may be lost, and
/// all that is left to do is kurma_writer_close, which fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_writer_new(
    client: *const Client,
    fd: u64,
    offset: u64,
    writer: *mut *mut Writer,
) -> Outcome {
    guard(0, || {
        check(writer, "writer")?;
        // SAFETY: of the caller.
        let (client, descriptor) = unsafe { (behind(client)?, descriptor(fd)?) };
        let new = client.writer(descriptor, offset).map_err(|error| Outcome::of(&error))?;
        // SAFETY: of the caller.
        unsafe { set(writer, "writer", Box::into_raw(Box::new(Writer { writer: Mutex::new(new) }))) }?;
        Ok(Outcome::success(0))
    })
}

/// Takes `length` bytes to be written after those before, and copies them; waits only while 16 pieces are under way. Bytes
/// that would make the file longer than a file can be are refused, and nothing of them is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_writer_write(
    writer: *const Writer,
    data: *const c_void,
    length: usize,
) -> Outcome {
    guard(1, || {
        // SAFETY: of the caller.
        let (writer, data) = unsafe { (given(writer, "writer")?, array(data.cast::<u8>(), length, "data")?) };
        writer.writer.lock().write(data).map_err(|error| Outcome::of(&error).at(0))?;
        Ok(Outcome::success(1))
    })
}

/// Waits until all that was written is on stable storage.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_writer_sync(writer: *const Writer) -> Outcome {
    guard(1, || {
        // SAFETY: of the caller.
        let writer = unsafe { given(writer, "writer") }?;
        writer.writer.lock().sync().map_err(|error| Outcome::of(&error).at(0))?;
        Ok(Outcome::success(1))
    })
}

/// Where the next byte belongs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_writer_position(writer: *const Writer, position: *mut u64) -> Outcome {
    guard(0, || {
        // SAFETY: of the caller.
        let now = unsafe { given(writer, "writer") }?.writer.lock().position();
        // SAFETY: of the caller.
        unsafe { set(position, "position", now) }?;
        Ok(Outcome::success(0))
    })
}

/// Waits until all that was written is on stable storage, and closes the file, whether or not it is. The handle is gone,
/// whatever comes of it: no other call may be using it. A file of up to 1 MiB is written and closed by one round trip. NULL is
/// nothing to close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_writer_close(writer: *mut Writer) -> Outcome {
    guard(1, || {
        if writer.is_null() {
            return Ok(Outcome::success(0));
        }
        check(writer, "writer")?;
        // SAFETY: it came from a box, by `kurma_writer_new`, and comes back once.
        let writer = unsafe { Box::from_raw(writer) };
        writer.writer.into_inner().close().map_err(|error| Outcome::of(&error).at(0))?;
        Ok(Outcome::success(1))
    })
}
