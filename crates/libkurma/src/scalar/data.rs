use std::ffi::c_void;

use vector_client::Done;

use super::one;
use crate::argument::Argument;
use crate::argument::read::ReadArgument;
use crate::argument::write::WriteArgument;
use crate::client::{Client, behind};
use crate::file::{File, descriptor};
use crate::lender::Lender;
use crate::outcome::{Outcome, guard};
use crate::pointer::{check_array, set};

fn reading(fd: u64, data: *mut c_void, length: usize, offset: u64) -> ReadArgument {
    let (file, flags) = (File::open(fd), 0);
    ReadArgument { file, offset, length, data, flags, end_of_file: 0, done: 0, reserved: [0; 2] }
}

/// How many bytes it was, for callers who want to know.
///
/// # Safety
/// `done` is NULL or valid.
unsafe fn tell(done: *mut usize, bytes: usize) -> Result<(), Outcome> {
    match done.is_null() {
        true => Ok(()),
        // SAFETY: of the caller.
        false => unsafe { set(done, "done", bytes) }.map_err(Outcome::from),
    }
}

/// Reads up to `length` bytes from `offset` on; the cursor stays. `done` gets how many, which are fewer only at the end of
/// the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_pread(
    client: *const Client,
    fd: u64,
    data: *mut c_void,
    length: usize,
    offset: u64,
    done: *mut usize,
) -> Outcome {
    let mut read = reading(fd, data, length, offset);
    // SAFETY: of the caller.
    let outcome = unsafe { one(client, &mut read) };
    // SAFETY: of the caller.
    unsafe { tell(done, read.done) }.err().unwrap_or(outcome)
}

/// Reads at the cursor and moves it on. Several threads that read one open file never get the same bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_read(
    client: *const Client,
    fd: u64,
    data: *mut c_void,
    length: usize,
    done: *mut usize,
) -> Outcome {
    guard(1, || {
        // SAFETY: of the caller.
        let (client, descriptor) = unsafe { (behind(client)?, descriptor(fd)?) };
        check_array(data.cast::<u8>(), length, "data")?;
        let got = client.read(descriptor, length as u64).map_err(|error| Outcome::of(&error).at(0))?;
        let mut read = reading(fd, data, length, 0);
        // SAFETY: there is room for `length` bytes.
        unsafe {
            ReadArgument::take(&raw mut read, Done::Read(got));
            tell(done, read.done)?;
        }
        Ok(Outcome::success(1))
    })
}

/// Writes all of `length` bytes from `offset` on, or at the end of the file if it is KURMA_APPEND; the cursor stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_pwrite(
    client: *const Client,
    fd: u64,
    data: *const c_void,
    length: usize,
    offset: u64,
) -> Outcome {
    let (file, flags) = (File::open(fd), 0);
    let mut write = WriteArgument { file, offset, length, data, flags, mode: 0, done: 0, reserved: [0; 2] };
    // SAFETY: of the caller.
    unsafe { one(client, &mut write) }
}

/// Writes all of `length` bytes at the cursor and moves it on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_write(
    client: *const Client,
    fd: u64,
    data: *const c_void,
    length: usize,
) -> Outcome {
    guard(1, || {
        // SAFETY: of the caller.
        let (client, descriptor) = unsafe { (behind(client)?, descriptor(fd)?) };
        let lender = Lender::new(client);
        // SAFETY: of the caller; the lender is dropped before this returns.
        let lent = unsafe { lender.lend(data.cast(), length, "data") }?;
        client.write(descriptor, lent).map_err(|error| Outcome::of(&error).at(0))?;
        Ok(Outcome::success(1))
    })
}
