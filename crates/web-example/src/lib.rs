//! An example of what the vectorized client is good for: a directory of an NFS server, or of this machine, over HTTP/2.
//!
//! When a page is asked for, what it refers to is read by one vector while the page is on its way, and waits in memory for
//! the requests that follow (kurma.md V41). A page of 96 files takes three round trips to the server: one for the page, one
//! for the attributes of all the others, one for their content.
//!
//! Requests become paths in [`path`], paths become files in [`site`], files become answers in [`answer`]; [`serve`] has
//! the connections.

#![deny(missing_docs)]

mod answer;
mod memory;
mod path;
mod prefetch;
mod references;
mod serve;
mod site;

pub use serve::{Limits, serve, tls};
pub use site::{Bounds, Site};
