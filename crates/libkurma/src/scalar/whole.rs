use std::ffi::{c_char, c_void};

use vector_client::Read;

use super::one;
use crate::argument::write::WriteArgument;
use crate::client::{Client, behind};
use crate::constants::{KURMA_CREATE, KURMA_TRUNCATE};
use crate::file::File;
use crate::outcome::{Outcome, Refusal, guard};
use crate::pointer::{check, set};

/// Reads a whole file into memory that is to be freed by free(3), also if it is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_read_file(
    client: *const Client,
    path: *const c_char,
    data: *mut *mut c_void,
    length: *mut usize,
) -> Outcome {
    guard(1, || {
        check(data, "data")?;
        check(length, "length")?;
        // SAFETY: of the caller.
        let (client, target) = unsafe { (behind(client)?, File::path(path).target()?) };
        let read = client.vread(vec![Read::new(target, 0, u64::MAX)]);
        let read = read.map_err(|failure| Outcome::of_failure(&failure))?;
        let pieces = read.iter().flat_map(|data| &data.pieces);
        let bytes = pieces.clone().map(|piece| piece.len()).sum::<usize>();
        // SAFETY: it is no zero bytes.
        let memory = unsafe { libc::malloc(bytes.max(1)) };
        if memory.is_null() {
            return Err(Refusal { status: libc::ENOMEM, what: "no memory for a whole file".into() }.into());
        }
        let mut filled = 0;
        for piece in pieces {
            // SAFETY: there is room for all pieces.
            unsafe { piece.as_ptr().copy_to_nonoverlapping(memory.cast::<u8>().add(filled), piece.len()) };
            filled += piece.len();
        }
        // SAFETY: of the caller.
        unsafe {
            set(data, "data", memory)?;
            set(length, "length", bytes)?;
        }
        Ok(Outcome::success(1))
    })
}

/// Makes or replaces a whole file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_write_file(
    client: *const Client,
    path: *const c_char,
    data: *const c_void,
    length: usize,
    mode: u32,
) -> Outcome {
    let (file, flags) = (File::path(path), KURMA_CREATE | KURMA_TRUNCATE);
    let mut write = WriteArgument { file, offset: 0, length, data, flags, mode, done: 0, reserved: [0; 2] };
    // SAFETY: of the caller.
    unsafe { one(client, &mut write) }
}
