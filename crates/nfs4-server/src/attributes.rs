//! What is said about files, and how clients change it.

mod set;
mod supported;

pub(crate) use set::{ToSet, to_set};
pub(crate) use supported::{EXCLUSIVE_CREATE, SUPPORTED};
