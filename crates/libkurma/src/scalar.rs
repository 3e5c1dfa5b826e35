//! One object at a time, as in POSIX, with the open files of the vectors and a cursor for each.

mod data;
mod names;
mod open_file;
mod whole;

pub use data::*;
pub use names::*;
pub use open_file::*;
pub use whole::*;

use crate::argument::Argument;
use crate::client::{Client, behind};
use crate::outcome::{Outcome, guard};
use crate::pending::vector;

/// Does one step.
///
/// # Safety
/// The pointers are NULL or valid, and those in the argument.
unsafe fn one<A: Argument>(client: *const Client, argument: &mut A) -> Outcome {
    // SAFETY: of the caller.
    guard(1, || unsafe { vector(behind(client)?, std::ptr::from_mut(argument), 1, "argument") })
}
