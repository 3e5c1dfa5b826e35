use std::ffi::c_char;
use std::io::SeekFrom;

use super::one;
use crate::argument::open::OpenArgument;
use crate::argument::open_file::Commit;
use crate::argument::set_attributes::SetAttributes;
use crate::attributes::NewAttributes;
use crate::client::{Client, behind};
use crate::constants::KURMA_SIZE;
use crate::file::{File, descriptor};
use crate::outcome::{Outcome, Refusal, guard};
use crate::pointer::{check, set};
use crate::vectors::kurma_vclose;

/// Opens a file; `flags` and `mode` as in kurma_open_arg. Its cursor is at the start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_open(
    client: *const Client,
    path: *const c_char,
    flags: u32,
    mode: u32,
    fd: *mut u64,
) -> Outcome {
    if let Err(refusal) = check(fd, "fd") {
        return refusal.into();
    }
    let mut open = OpenArgument { file: File::path(path), flags, mode, fd: 0, reserved: [0; 2] };
    // SAFETY: of the caller.
    let outcome = unsafe { one(client, &mut open) };
    if outcome.status == 0 {
        // SAFETY: of the caller.
        unsafe { fd.write(open.fd) };
    }
    outcome
}

/// Closes a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_close_file(client: *const Client, fd: u64) -> Outcome {
    // SAFETY: of the caller.
    unsafe { kurma_vclose(client, &raw const fd, 1) }
}

/// Makes safe what was written to an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_fsync(client: *const Client, fd: u64) -> Outcome {
    let mut fd = fd;
    // SAFETY: of the caller; a `Commit` is such a number.
    unsafe { one(client, &mut *(&raw mut fd).cast::<Commit>()) }
}

/// Makes an open file this long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_ftruncate(client: *const Client, fd: u64, size: u64) -> Outcome {
    let attributes = NewAttributes { set: KURMA_SIZE, size, ..NewAttributes::NONE };
    let mut change = SetAttributes { file: File::open(fd), flags: 0, reserved: 0, attributes };
    // SAFETY: of the caller.
    unsafe { one(client, &mut change) }
}

/// Moves the cursor of an open file. `whence` is SEEK_SET, SEEK_CUR or SEEK_END; `place`, if not NULL, gets where it is then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_lseek(
    client: *const Client,
    fd: u64,
    offset: i64,
    whence: i32,
    place: *mut u64,
) -> Outcome {
    guard(1, || {
        // SAFETY: of the caller.
        let (client, descriptor) = unsafe { (behind(client)?, descriptor(fd)?) };
        let to = match whence {
            libc::SEEK_SET => SeekFrom::Start(
                u64::try_from(offset).map_err(|_| Refusal::invalid("a place before the start of a file"))?,
            ),
            libc::SEEK_CUR => SeekFrom::Current(offset),
            libc::SEEK_END => SeekFrom::End(offset),
            _ => return Err(Refusal::invalid("whence is neither SEEK_SET, SEEK_CUR nor SEEK_END").into()),
        };
        let now = client.lseek(descriptor, to).map_err(|error| Outcome::of(&error).at(0))?;
        if !place.is_null() {
            // SAFETY: of the caller.
            unsafe { set(place, "place", now) }?;
        }
        Ok(Outcome::success(1))
    })
}
