//! Requests and replies: a compound is a header and a list of operations (RFC 8881 §16.2, §20.10).

mod header;
mod message;
mod reply;

pub use header::{CbCompoundHeader, CompoundHeader, OpDecodeError};
pub use message::{CbCompoundArgs, CbCompoundRes, CompoundArgs, CompoundRes};
pub use reply::CompoundReply;
