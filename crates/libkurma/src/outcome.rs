//! What comes of a call.

use std::any::Any;
use std::borrow::Cow;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use vector_client::{Aborted, Error, Failure};

use crate::constants::KURMA_MESSAGE;

/// What came of a call. Elements are done in their order, up to the first that fails.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// 0, or an error number of errno.h. errno itself is not touched.
    pub status: i32,
    /// 0.
    pub reserved: u32,
    /// Elements done, whose results are in them.
    pub done: usize,
    /// The element that failed, or KURMA_NO_INDEX if nothing failed, or no single element is to blame.
    pub index: usize,
    /// How many elements from `index` on may have been done or not: the answer of the server was lost. Nothing that
    /// changes a file is ever repeated for that. 0 if the element is known to have failed, and none after it was begun.
    pub unknown: usize,
    /// What failed, of which file, and why; empty if nothing did. Long ones are cut off.
    pub message: [c_char; KURMA_MESSAGE],
}

/// An argument that makes no sense: found before anything is done.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: i32,
    pub what: Cow<'static, str>,
}

impl Refusal {
    pub fn invalid(what: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { status: libc::EINVAL, what: what.into() }
    }
}

impl Outcome {
    pub(crate) fn success(done: usize) -> Outcome {
        Outcome { status: 0, reserved: 0, done, index: usize::MAX, unknown: 0, message: [0; KURMA_MESSAGE] }
    }

    fn failure(status: i32, message: &str) -> Outcome {
        let mut outcome = Outcome::success(0);
        // A failure is never taken for a success.
        outcome.status = if status == 0 { libc::EIO } else { status };
        put(&mut outcome.message, message);
        outcome
    }

    pub(crate) fn refused(refusal: &Refusal) -> Outcome {
        Outcome::failure(refusal.status, &refusal.what)
    }

    pub(crate) fn at(self, index: usize) -> Outcome {
        Outcome { index, ..self }
    }

    /// Of a call about one object.
    pub(crate) fn of(error: &Error) -> Outcome {
        Outcome {
            unknown: usize::from(error.is_unknown()),
            ..Outcome::failure(error.errno(), &error.to_string())
        }
    }

    pub(crate) fn of_failure<T>(failure: &Failure<T>) -> Outcome {
        let index = failure.index();
        let outcome = Outcome::failure(failure.error.errno(), &failure.to_string());
        Outcome { done: index, index, unknown: failure.unknown, ..outcome }
    }

    /// Of a transaction of so many steps.
    pub(crate) fn of_aborted(aborted: &Aborted, steps: usize) -> Outcome {
        let outcome = Outcome::failure(aborted.error.errno(), &aborted.to_string());
        let unknown = if aborted.unknown { steps } else { 0 };
        Outcome { index: aborted.step.unwrap_or(usize::MAX), unknown, ..outcome }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Outcome {
        Outcome::refused(&refusal)
    }
}

/// Text with a NUL after it, as much as there is room for, and no half characters.
pub(crate) fn put(into: &mut [c_char], text: &str) {
    let Some(room) = into.len().checked_sub(1) else { return };
    let end = (0..=room.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    for (to, byte) in into.iter_mut().zip(text[..end].bytes()) {
        *to = byte as c_char;
    }
    into[end] = 0;
}

/// Makes a call about `count` elements; a panic in it is its failure, and of what it was to do nobody knows anything.
pub(crate) fn guard(count: usize, call: impl FnOnce() -> Result<Outcome, Outcome>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(outcome) | Err(outcome)) => outcome,
        Err(panic) => {
            let message = format!("a defect of libkurma: {}", words(&*panic));
            Outcome { unknown: count, ..Outcome::failure(libc::EIO, &message) }
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// The message of a result, "success" if nothing failed. Belongs to the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_strerror(result: *const Outcome) -> *const c_char {
    // SAFETY: of the caller; every bit pattern is a value of it.
    match unsafe { result.as_ref() } {
        Some(result) if result.status != 0 => result.message.as_ptr(),
        Some(_) => c"success".as_ptr(),
        None => c"no result".as_ptr(),
    }
}

/// The version of the library, as "1.2.3".
#[unsafe(no_mangle)]
pub extern "C" fn kurma_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use nfs4_client::ClientError;

    use super::*;

    fn message(outcome: &Outcome) -> &str {
        // SAFETY: it lives long enough.
        unsafe { CStr::from_ptr(kurma_strerror(outcome)) }.to_str().unwrap()
    }

    #[test]
    fn a_panic_is_a_failure_of_which_nothing_is_known() {
        let outcome = guard(3, || panic!("out of {}", "cheese"));
        assert_eq!((outcome.status, outcome.done, outcome.unknown), (libc::EIO, 0, 3));
        assert_eq!(message(&outcome), "a defect of libkurma: out of cheese");
    }

    #[test]
    fn a_long_message_is_cut_between_characters_and_ends() {
        for length in KURMA_MESSAGE - 4..KURMA_MESSAGE + 4 {
            let text = "x".repeat(length) + "\u{e9}\u{e9}";
            let outcome = Outcome::failure(libc::EINVAL, &text);
            let cut = message(&outcome);
            assert!(text.starts_with(cut) && cut.len() >= KURMA_MESSAGE - 2, "{cut}");
        }
        assert_eq!(message(&Outcome::success(0)), "success");
    }

    #[test]
    fn a_failure_is_never_a_success() {
        assert_eq!(Outcome::failure(0, "").status, libc::EIO);
    }

    #[test]
    fn a_lost_answer_is_said() {
        assert_eq!(Outcome::of(&Error::Connection(ClientError::Unknown)).unknown, 1);
        assert_eq!(Outcome::of(&Error::Connection(ClientError::Closed)).unknown, 0);
        for (error, unknown) in [(ClientError::Unknown, 1), (ClientError::Closed, 0)] {
            let failure = Failure::<()> { done: vec![(), ()], error: error.into(), unknown };
            let outcome = Outcome::of_failure(&failure);
            assert_eq!((outcome.done, outcome.index, outcome.unknown), (2, 2, unknown));
        }
    }
}
