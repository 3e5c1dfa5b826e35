//! The vectorized client for Python: the module `kurma._native`, which the Python sources in `kurma/` are written on.
//!
//! It knows nothing of blocking or asyncio. Every call gives a `Pending`: work that is not begun, or, of a `Writer`, that is
//! done as far as it can be without waiting. `wait` does it on the calling thread, without the interpreter's lock, and returns
//! its result; `then` leaves it to the threads of the engine and has a function called when the result can be fetched.
//!
//! * What is written is taken from `bytes` objects as it is; from other buffers it is copied when the step is made.
//!   What is read is copied once, into a `bytes` object or the caller's buffer.
//! * Names are `str`, decoded as `os.fsdecode` does it; what is passed may be `bytes` too.
//! * Errors are made by `kurma._errors`, so that they are instances of `OSError` and its subclasses.

#![deny(missing_docs)]

mod attributes;
mod connect;
mod engine;
mod error;
mod outcome;
mod pending;
mod session;
mod step;
mod target;
mod tree;
mod walk;
mod writer;

use pyo3::prelude::*;

/// What the Python sources use.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::attributes::{Attributes, Kind};
    #[pymodule_export]
    use super::engine::end;
    #[pymodule_export]
    use super::pending::Pending;
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::step::{
        Close, Commit, Copy, GetAttributes, HardLink, MakeDirectory, MakeSymbolicLink, Open, Read, ReadLink,
        Remove, Rename, SetAttributes, Step, Write,
    };
    #[pymodule_export]
    use super::target::{Descriptor, Handle, Target};
    #[pymodule_export]
    use super::walk::{Entry, Walk};
    #[pymodule_export]
    use super::writer::Writer;
}
