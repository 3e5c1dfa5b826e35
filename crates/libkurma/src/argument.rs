//! Elements of arrays: what is asked for, and the room for what comes of it.

pub(crate) mod copy;
pub(crate) mod get_attributes;
pub(crate) mod make_directory;
pub(crate) mod open;
pub(crate) mod open_file;
pub(crate) mod pair;
pub(crate) mod read;
pub(crate) mod read_link;
pub(crate) mod remove;
pub(crate) mod set_attributes;
pub(crate) mod symbolic_link;
pub(crate) mod write;

use vector_client::{Creation, Done, Step};

use crate::constants::{KURMA_CREATE, KURMA_EXCLUSIVE};
use crate::lender::Lender;
use crate::outcome::Refusal;

/// A struct that stands for a step.
pub(crate) trait Argument {
    /// What is to be done.
    ///
    /// # Safety
    /// The pointers in it are NULL or valid, and what it lends outlives the lender.
    unsafe fn step(&self, lender: &Lender<'_>) -> Result<Step, Refusal>;

    /// Takes in what came of it.
    ///
    /// # Safety
    /// It is where [`step`](Self::step) was asked for, and nobody else uses it if it has room for results.
    unsafe fn take(this: *mut Self, done: Done) {
        let _ = (this, done);
    }
}

/// How to create, from flags that were checked.
fn creation(flags: u32, mode: u32) -> Result<Option<Creation>, Refusal> {
    let (create, exclusive) = (flags & KURMA_CREATE != 0, flags & KURMA_EXCLUSIVE != 0);
    if exclusive && !create {
        return Err(Refusal::invalid("KURMA_EXCLUSIVE without KURMA_CREATE"));
    }
    Ok(create.then_some(Creation { mode, exclusive }))
}
