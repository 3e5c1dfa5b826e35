//! Callback operations, from server to client: the table of all, and the arguments and results of each.

pub mod notify;
pub mod recall;
pub mod sequence;
mod table;

pub use table::{CbOpCode, NfsCbArgOp, NfsCbResOp};
