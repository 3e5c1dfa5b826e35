//! Steps of all kinds in one list, done in order or all at once.

use vector_client::{Step, StepResult};

use crate::argument::Argument;
use crate::argument::copy::CopyArgument;
use crate::argument::get_attributes::GetAttributes;
use crate::argument::make_directory::MakeDirectory;
use crate::argument::open::OpenArgument;
use crate::argument::open_file::{Close, Commit};
use crate::argument::pair::{HardLink, Pair, Rename};
use crate::argument::read::ReadArgument;
use crate::argument::read_link::ReadLink;
use crate::argument::remove::Remove;
use crate::argument::set_attributes::SetAttributes;
use crate::argument::symbolic_link::SymbolicLink;
use crate::argument::write::WriteArgument;
use crate::client::{Client, behind};
use crate::file::File;
use crate::outcome::{Outcome, guard};
use crate::pending::{Pending, run, up_to_failure};
use crate::pointer::{check, set};

/// A list of steps of any kinds. It keeps the pointers that it is given: what they point to stays where it is until
/// the list is done for the last time, and gets the results. One thread at a time.
pub struct Steps {
    pending: Vec<Pending>,
}

/// How much one transaction may be.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// NFS operations: about two to four for a step. 0 if there are no transactions here.
    pub operations: u64,
    /// Bytes of data, names and attributes.
    pub bytes: u64,
}

/// What was sent for a transaction has results of all kinds.
struct Any;

impl StepResult for Any {
    fn of(_: vector_client::Done) -> Option<Any> {
        Some(Any)
    }
}

/// Makes an empty list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_new(steps: *mut *mut Steps) -> Outcome {
    guard(0, || {
        check(steps, "steps")?;
        // SAFETY: of the caller.
        unsafe { set(steps, "steps", Box::into_raw(Box::new(Steps { pending: Vec::new() }))) }?;
        Ok(Outcome::success(0))
    })
}

/// Frees a list. NULL is nothing to free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_free(steps: *mut Steps) {
    if !steps.is_null() && steps.is_aligned() {
        // SAFETY: it came from a box, by `kurma_steps_new`, and comes back once.
        drop(unsafe { Box::from_raw(steps) });
    }
}

/// Adds elements of an array to a list.
///
/// # Safety
/// As for the calls: pointers are NULL or valid, and stay so.
unsafe fn add<A: Argument>(
    steps: *mut Steps,
    arguments: *mut A,
    count: usize,
    name: &'static str,
) -> Outcome {
    guard(0, || {
        check(steps, "steps")?;
        // SAFETY: of the caller.
        let mut more = unsafe { Pending::all(arguments, count, name) }?;
        // SAFETY: of the caller; no other thread uses it.
        unsafe { (*steps).pending.append(&mut more) };
        Ok(Outcome::success(0))
    })
}

/// Adds reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_read(
    steps: *mut Steps,
    reads: *mut ReadArgument,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { add(steps, reads, count, "reads") }
}

/// Adds writes. The data, too, stays where it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_write(
    steps: *mut Steps,
    writes: *mut WriteArgument,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { add(steps, writes, count, "writes") }
}

/// Adds the opening of files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_open(
    steps: *mut Steps,
    opens: *mut OpenArgument,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { add(steps, opens, count, "opens") }
}

/// Adds the closing of files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_close(steps: *mut Steps, fds: *const u64, count: usize) -> Outcome {
    // SAFETY: of the caller; a `Close` is one of these numbers.
    unsafe { add(steps, fds.cast_mut().cast::<Close>(), count, "fds") }
}

/// Adds making safe what was written through open files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_commit(steps: *mut Steps, fds: *const u64, count: usize) -> Outcome {
    // SAFETY: of the caller; a `Commit` is one of these numbers.
    unsafe { add(steps, fds.cast_mut().cast::<Commit>(), count, "fds") }
}

/// Adds questions for attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_getattrs(
    steps: *mut Steps,
    gets: *mut GetAttributes,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { add(steps, gets, count, "gets") }
}

/// Adds the setting of attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_setattrs(
    steps: *mut Steps,
    sets: *const SetAttributes,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { add(steps, sets.cast_mut(), count, "sets") }
}

/// Adds the making of directories.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_mkdir(
    steps: *mut Steps,
    directories: *const MakeDirectory,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { add(steps, directories.cast_mut(), count, "directories") }
}

/// Adds the making of symbolic links.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_symlink(
    steps: *mut Steps,
    links: *const SymbolicLink,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { add(steps, links.cast_mut(), count, "links") }
}

/// Adds the reading of symbolic links.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_readlink(
    steps: *mut Steps,
    links: *mut ReadLink,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { add(steps, links, count, "links") }
}

/// Adds further names of files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_hardlink(
    steps: *mut Steps,
    links: *const Pair,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller; a `HardLink` is a `Pair`.
    unsafe { add(steps, links.cast_mut().cast::<HardLink>(), count, "links") }
}

/// Adds renames.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_rename(
    steps: *mut Steps,
    renames: *const Pair,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller; a `Rename` is a `Pair`.
    unsafe { add(steps, renames.cast_mut().cast::<Rename>(), count, "renames") }
}

/// Adds the removal of files and empty directories.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_remove(steps: *mut Steps, files: *const File, count: usize) -> Outcome {
    // SAFETY: of the caller; a `Remove` is a `File`.
    unsafe { add(steps, files.cast_mut().cast::<Remove>(), count, "files") }
}

/// Adds copies within the server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_steps_sscopy(
    steps: *mut Steps,
    copies: *mut CopyArgument,
    count: usize,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { add(steps, copies, count, "copies") }
}

/// Does the steps of a list in order, up to the first that fails. The list stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_execute(client: *const Client, steps: *const Steps) -> Outcome {
    // SAFETY: of the caller.
    guard(0, || unsafe {
        let client = behind(client)?;
        check(steps, "steps")?;
        Ok(run(client, &(*steps).pending, |steps| up_to_failure(client.execute(steps))))
    })
}

/// Does the steps of a list at one instant, or none of them: if `status` is not 0, nothing was done and nobody has seen
/// anything, unless `unknown` says that the answer was lost: then all of it was done, or nothing. A step sees what those before
/// it do. Only Kurma has this; other servers, and local directories, refuse it with EOPNOTSUPP. The list stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_transaction(client: *const Client, steps: *const Steps) -> Outcome {
    // SAFETY: of the caller.
    guard(0, || unsafe {
        let client = behind(client)?;
        check(steps, "steps")?;
        let way = |steps: Vec<Step>| {
            let count = steps.len();
            let build = |transaction: &mut vector_client::Transaction| {
                for step in steps {
                    let _ = transaction.step::<Any>(step);
                }
            };
            match client.wait(async |client| client.transaction(build).await) {
                Ok(Ok(committed)) => Ok(committed.all()),
                Ok(Err(aborted)) => Err((Vec::new(), Outcome::of_aborted(&aborted, count))),
                Err(error) => Err((Vec::new(), Outcome::of(&error))),
            }
        };
        Ok(run(client, &(*steps).pending, way))
    })
}

/// How much one transaction may be. More is refused with E2BIG before anything is sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_transaction_limits(client: *const Client, limits: *mut Limits) -> Outcome {
    guard(0, || {
        // SAFETY: of the caller.
        let client = unsafe { behind(client) }?;
        let granted = client.wait(async |client| client.transaction_limits());
        let granted = granted.map_err(|error| Outcome::of(&error))?;
        let granted = granted.map(|it| Limits { operations: it.operations.into(), bytes: it.bytes });
        // SAFETY: of the caller.
        unsafe { set(limits, "limits", granted.unwrap_or_default()) }?;
        Ok(Outcome::success(0))
    })
}
