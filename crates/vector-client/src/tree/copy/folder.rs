use std::collections::HashMap;

use bytes::Bytes;

use super::options::CopyItem;
use crate::Attributes;
use crate::listing::Cookie;

/// A directory that is being copied.
pub(super) struct Folder {
    pub item: CopyItem,
    pub parent: Option<u64>,
    /// What is in it and not copied yet.
    pub below: usize,
    pub reading: Reading,
    /// What was in the destination before; `None` if that is new, or nothing more is compared with it.
    pub before: Option<HashMap<Bytes, Attributes>>,
    /// Whether the permission bits it was made with are not those it is to have.
    pub mode_is_provisional: bool,
}

impl Folder {
    /// It is all read.
    pub fn complete(&mut self) {
        self.reading = Reading::Complete;
        // The names are parts of whole replies.
        self.before = None;
    }
}

/// How far the reading of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It is not made yet.
    Unmade,
    /// It goes on here, when what came so far is copied.
    At(Cookie),
    /// Waits for its turn, or is under way.
    Asked(Option<Cookie>),
    /// It is all read.
    Complete,
}
