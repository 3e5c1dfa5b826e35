//! Steps by the structs that ask for them.

use vector_client::blocking::Client;
use vector_client::{Done, Step, VectorResult};

use crate::argument::Argument;
use crate::lender::Lender;
use crate::outcome::{Outcome, Refusal};
use crate::pointer::check_array;

/// A struct of the caller, of whatever kind.
pub(crate) struct Pending {
    argument: *mut (),
    step: unsafe fn(*const (), &Lender<'_>) -> Result<Step, Refusal>,
    take: unsafe fn(*mut (), Done),
}

impl Pending {
    /// # Safety
    /// `argument` is neither NULL nor misaligned, and points to an `A` for as long as this is used; its pointers are NULL or
    /// valid. If it has room for results, nobody else uses it.
    unsafe fn new<A: Argument>(argument: *mut A) -> Pending {
        unsafe fn step<A: Argument>(argument: *const (), lender: &Lender<'_>) -> Result<Step, Refusal> {
            // SAFETY: by `new` it is one of these.
            unsafe { (*argument.cast::<A>()).step(lender) }
        }
        unsafe fn take<A: Argument>(argument: *mut (), done: Done) {
            // SAFETY: by `new` it is one of these.
            unsafe { A::take(argument.cast::<A>(), done) }
        }
        Pending { argument: argument.cast(), step: step::<A>, take: take::<A> }
    }

    /// All elements of an array.
    ///
    /// # Safety
    /// As for [`Argument`]s of all of them, for as long as the result is used.
    pub unsafe fn all<A: Argument>(
        arguments: *mut A,
        count: usize,
        name: &'static str,
    ) -> Result<Vec<Pending>, Refusal> {
        check_array(arguments, count, name)?;
        // SAFETY: the array has so many elements, and is neither NULL nor misaligned.
        Ok((0..count).map(|n| unsafe { Pending::new(arguments.add(n)) }).collect())
    }
}

/// Does what is pending, in whatever way, and hands out the results.
///
/// # Safety
/// The structs are still there, and what they point to.
pub(crate) unsafe fn run(
    client: &Client,
    pending: &[Pending],
    way: impl FnOnce(Vec<Step>) -> Result<Vec<Done>, (Vec<Done>, Outcome)>,
) -> Outcome {
    let lender = Lender::new(client);
    let mut steps = Vec::with_capacity(pending.len());
    for (index, one) in pending.iter().enumerate() {
        // SAFETY: of the caller; the lender is dropped before this returns.
        match unsafe { (one.step)(one.argument, &lender) } {
            Ok(step) => steps.push(step),
            Err(refusal) => return Outcome::refused(&refusal).at(index),
        }
    }
    let (done, outcome) = match way(steps) {
        Ok(done) => {
            let outcome = Outcome::success(done.len());
            (done, outcome)
        }
        Err((done, outcome)) => (done, outcome),
    };
    for (one, done) in pending.iter().zip(done) {
        // SAFETY: of the caller.
        unsafe { (one.take)(one.argument, done) };
    }
    outcome
}

/// What is known of steps of which one failed.
pub(crate) fn up_to_failure(result: VectorResult<Done>) -> Result<Vec<Done>, (Vec<Done>, Outcome)> {
    result.map_err(|failure| {
        let outcome = Outcome::of_failure(&failure);
        (failure.done, outcome)
    })
}

/// An array of one kind, in order, up to the first that fails.
///
/// # Safety
/// As for [`Pending::all`].
pub(crate) unsafe fn vector<A: Argument>(
    client: &Client,
    arguments: *mut A,
    count: usize,
    name: &'static str,
) -> Result<Outcome, Outcome> {
    // SAFETY: of the caller.
    let pending = unsafe { Pending::all(arguments, count, name) }?;
    // SAFETY: of the caller.
    Ok(unsafe { run(client, &pending, |steps| up_to_failure(client.execute(steps))) })
}
