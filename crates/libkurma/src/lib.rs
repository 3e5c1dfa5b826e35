//! The vectorized client for C: `libkurma`.
//!
//! A face of crate `vector-client`, and nothing else: structs in, steps out, results back. `include/kurma.h` is made of
//! the documentation in this crate and is what users read; `man/libkurma.3` is the way in; `docs/libkurma.md` says how it
//! is installed and tested.
//!
//! * Nothing is global: a client is a handle, a result is a value that carries its own message.
//! * What is read is copied once, into the caller's memory. What is written is lent ([`lender`]), and never looked at after
//!   the call; writers alone copy it, which go on after the call.
//! * A panic ends as a result with `EIO`, in C as in Rust a defect.
//!
//! # Why there is `unsafe` here
//!
//! Callers in C give pointers, and nobody can prove what they point to. Each function says what has to hold (the header);
//! what can be checked is (NULL, alignment, lengths, flags, reserved fields, the ends of strings), and pointers become
//! references or slices where they enter, and nowhere else. The structs of the interface have no field for which some bits
//! are no value, so memory that was never set does no harm.

#![deny(missing_docs)]
#![allow(unsafe_code)]
// What callers have to see to is the same for all calls, and said once, in the header.
#![allow(clippy::missing_safety_doc)]

mod argument;
mod attributes;
mod client;
mod constants;
mod file;
mod lender;
mod listing;
mod options;
mod outcome;
mod pending;
mod pointer;
mod scalar;
mod steps;
mod tree;
mod vectors;
mod writer;

pub use argument::copy::CopyArgument;
pub use argument::get_attributes::GetAttributes;
pub use argument::make_directory::MakeDirectory;
pub use argument::open::OpenArgument;
pub use argument::pair::Pair;
pub use argument::read::ReadArgument;
pub use argument::read_link::ReadLink;
pub use argument::set_attributes::SetAttributes;
pub use argument::symbolic_link::SymbolicLink;
pub use argument::write::WriteArgument;
pub use attributes::{Attributes, NewAttributes, Time};
pub use client::*;
pub use constants::*;
pub use file::{File, Handle};
pub use listing::*;
pub use options::*;
pub use outcome::*;
pub use scalar::*;
pub use steps::*;
pub use tree::*;
pub use vectors::*;
pub use writer::*;
