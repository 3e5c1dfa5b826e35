//! What is in directories.

use bytes::Bytes;

use crate::{AttributeSet, Attributes, Error, Target};

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Bytes,
    /// The attributes wanted, as far as they could be had. Those of the link if it is a symbolic link.
    pub attributes: Attributes,
}

/// Where the reading of a directory goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cookie {
    /// A place between two entries.
    pub position: u64,
    /// What the place is good for.
    pub verifier: [u8; 8],
}

/// A directory to be read, from some place on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Which.
    pub target: Target,
    /// From where on; `None` for the start.
    pub from: Option<Cookie>,
    /// Attributes wanted of each entry.
    pub wanted: AttributeSet,
}

/// A part of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    /// Entries, without `.` and `..`.
    pub entries: Vec<Entry>,
    /// Where it goes on; `None` at the end.
    pub next: Option<Cookie>,
}

/// What comes of reading a directory.
pub type PageResult = Result<Page, Error>;
