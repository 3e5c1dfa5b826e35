//! Calls that take arrays.

use std::ffi::c_char;

use vector_client::Failure;

use crate::argument::Argument;
use crate::argument::copy::CopyArgument;
use crate::argument::get_attributes::GetAttributes;
use crate::argument::make_directory::MakeDirectory;
use crate::argument::open::OpenArgument;
use crate::argument::open_file::Commit;
use crate::argument::pair::{HardLink, Pair, Rename};
use crate::argument::read::ReadArgument;
use crate::argument::read_link::ReadLink;
use crate::argument::remove::Remove;
use crate::argument::set_attributes::SetAttributes;
use crate::argument::symbolic_link::SymbolicLink;
use crate::argument::write::WriteArgument;
use crate::client::{Client, behind};
use crate::file::{File, descriptor};
use crate::outcome::{Outcome, guard};
use crate::pending::vector;
use crate::pointer::{array, check_array};

/// Does the elements of an array in order.
///
/// # Safety
/// As for the calls: pointers are NULL or valid.
unsafe fn call<A: Argument>(
    client: *const Client,
    arguments: *mut A,
    count: usize,
    name: &'static str,
) -> Outcome {
    // SAFETY: of the caller.
    guard(count, || unsafe { vector(behind(client)?, arguments, count, name) })
}

/// Reads extents of files, into the caller's memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vread(
    client: *const Client,
    reads: *mut ReadArgument,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { call(client, reads, count, "reads") }
}

/// Writes extents of files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vwrite(
    client: *const Client,
    writes: *mut WriteArgument,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { call(client, writes, count, "writes") }
}

/// Opens files. Those that were opened before one fails stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vopen(
    client: *const Client,
    opens: *mut OpenArgument,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { call(client, opens, count, "opens") }
}

/// Opens files by their paths, all in the same way; `flags` and `mode` as in kurma_open_arg. `fds` has room for `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vopen_simple(
    client: *const Client,
    paths: *const *const c_char,
    count: usize,
    flags: u32,
    mode: u32,
    fds: *mut u64,
) -> Outcome {
    guard(count, || {
        // SAFETY: of the caller.
        let (client, paths) = unsafe { (behind(client)?, array(paths, count, "paths")?) };
        check_array(fds, count, "fds")?;
        let open = |path: &*const c_char| OpenArgument {
            file: File::path(*path),
            flags,
            mode,
            fd: 0,
            reserved: [0; 2],
        };
        let mut opens: Vec<_> = paths.iter().map(open).collect();
        // SAFETY: of the caller, as the paths are his.
        let outcome = unsafe { vector(client, opens.as_mut_ptr(), count, "paths") }?;
        for (index, open) in opens.iter().enumerate().take(outcome.done) {
            // SAFETY: there is room for `count`.
            unsafe { fds.add(index).write(open.fd) };
        }
        Ok(outcome)
    })
}

/// Closes files. Whoever opens them then sees what was written to them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vclose(client: *const Client, fds: *const u64, count: usize) -> Outcome {
    guard(count, || {
        // SAFETY: of the caller.
        let (client, fds) = unsafe { (behind(client)?, array(fds, count, "fds")?) };
        let mut descriptors = Vec::with_capacity(count);
        for (index, fd) in fds.iter().enumerate() {
            descriptors.push(descriptor(*fd).map_err(|refusal| Outcome::refused(&refusal).at(index))?);
        }
        let closed = client.vclose(descriptors);
        closed.map_err(|failure: Failure<()>| Outcome::of_failure(&failure))?;
        Ok(Outcome::success(count))
    })
}

/// Makes safe what was written through open files, from a loss of power too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vcommit(client: *const Client, fds: *const u64, count: usize) -> Outcome {
    // SAFETY: of the caller; a `Commit` is one of these numbers.
    unsafe { call(client, fds.cast_mut().cast::<Commit>(), count, "fds") }
}

/// Asks for attributes of objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vgetattrs(
    client: *const Client,
    gets: *mut GetAttributes,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { call(client, gets, count, "gets") }
}

/// Sets attributes of objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vsetattrs(
    client: *const Client,
    sets: *const SetAttributes,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { call(client, sets.cast_mut(), count, "sets") }
}

/// Makes directories.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vmkdir(
    client: *const Client,
    directories: *const MakeDirectory,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { call(client, directories.cast_mut(), count, "directories") }
}

/// Makes symbolic links.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vsymlink(
    client: *const Client,
    links: *const SymbolicLink,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { call(client, links.cast_mut(), count, "links") }
}

/// Asks where symbolic links lead.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vreadlink(
    client: *const Client,
    links: *mut ReadLink,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { call(client, links, count, "links") }
}

/// Gives files further names: `from` is the file, `to` the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vhardlink(client: *const Client, links: *const Pair, count: usize) -> Outcome {
    // SAFETY: of the caller; a `HardLink` is a `Pair`.
    unsafe { call(client, links.cast_mut().cast::<HardLink>(), count, "links") }
}

/// Gives objects other names, replacing what has them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vrename(client: *const Client, renames: *const Pair, count: usize) -> Outcome {
    // SAFETY: of the caller; a `Rename` is a `Pair`.
    unsafe { call(client, renames.cast_mut().cast::<Rename>(), count, "renames") }
}

/// Removes files and empty directories.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vremove(client: *const Client, files: *const File, count: usize) -> Outcome {
    // SAFETY: of the caller; a `Remove` is a `File`.
    unsafe { call(client, files.cast_mut().cast::<Remove>(), count, "files") }
}

/// Copies within the server, which has to have NFSv4.2: the data does not come here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vsscopy(
    client: *const Client,
    copies: *mut CopyArgument,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { call(client, copies, count, "copies") }
}

/// Copies from one client to another, or the same one, through memory; from any server to any other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vcopy(
    from: *const Client,
    copies: *mut CopyArgument,
    count: usize,
    to: *const Client,
) -> Outcome {
    guard(count, || {
        // SAFETY: of the caller.
        let (from, to) = unsafe { (behind(from)?, behind(to)?) };
        check_array(copies, count, "copies")?;
        let mut wanted = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: of the caller.
            let copy = unsafe { (*copies.add(index)).copy() };
            wanted.push(copy.map_err(|refusal| Outcome::refused(&refusal).at(index))?);
        }
        let to = to.wait(async |to| to.clone()).map_err(|error| Outcome::of(&error))?;
        let copied = from.wait(async |from| from.vcopy(wanted, &to).await);
        let (copied, outcome) = match copied.map_err(|error| Outcome::of(&error))? {
            Ok(copied) => {
                let outcome = Outcome::success(copied.len());
                (copied, outcome)
            }
            Err(failure) => {
                let outcome = Outcome::of_failure(&failure);
                (failure.done, outcome)
            }
        };
        for (index, bytes) in copied.into_iter().enumerate().take(count) {
            // SAFETY: of the caller.
            unsafe { (*copies.add(index)).done = bytes };
        }
        Ok(outcome)
    })
}
