//! Operations: the table of all, and the arguments and results of each.

pub mod access;
pub mod attributes;
pub mod client;
pub mod compound_mode;
pub mod copy;
pub mod directory;
pub mod io;
pub mod layout;
pub mod legacy;
pub mod lock;
pub mod open;
pub mod readdir;
pub mod security;
pub mod session;
pub mod space;
pub mod state;
mod table;
pub mod xattr;

pub use table::{NfsArgOp, NfsResOp, OpCode};
