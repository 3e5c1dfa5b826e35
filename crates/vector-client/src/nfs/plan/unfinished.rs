use std::collections::HashSet;

use crate::nfs::execute::only_asks;
use crate::step::{Copy, Step};
use crate::target::{Base, Target};

/// Steps of a compound of which only its reply says whether they are done.
///
/// A server may copy a part only (RFC 7862 §15.2.3), and the rest is copied after the compound: nothing that has to do with the file
/// may be done before that. Whether what was written is lost says the verifier of COMMIT (RFC 8881 §18.3.3), and who is to act on
/// it being safe waits for that.
#[derive(Default)]
pub(super) struct Unfinished<'a> {
    /// Where copies come from, and where they go.
    sources: HashSet<&'a [u8]>,
    destinations: HashSet<&'a [u8]>,
    /// There is a copy between other files than those, perhaps.
    copies_elsewhere: bool,
}

impl<'a> Unfinished<'a> {
    pub fn add(&mut self, step: &'a Step) {
        let Step::Copy(Copy { source, destination, .. }) = step else { return };
        match (plain(source), plain(destination)) {
            (Some(source), Some(destination)) => {
                self.sources.insert(source);
                self.destinations.insert(destination);
            }
            _ => self.copies_elsewhere = true,
        }
    }

    /// Whether a step may be in one compound with those before it, which has a COMMIT already or has none.
    pub fn may_be_followed_by(&self, step: &Step, commits: bool) -> bool {
        let finishes = matches!(step, Step::Commit(_) | Step::Close(_));
        if commits && !finishes && !only_asks(step) {
            return false;
        }
        if !self.copies_elsewhere && self.destinations.is_empty() {
            return true;
        }
        let Step::Copy(copy) = step else { return false };
        let (Some(source), Some(destination)) = (plain(&copy.source), plain(&copy.destination)) else {
            return false;
        };
        !self.copies_elsewhere
            && !self.destinations.contains(source)
            && !self.destinations.contains(destination)
            && !self.sources.contains(destination)
    }
}

/// A path that differs from others as their files do, unless one has several names. If there are symbolic links on the way, the
/// compound ends there.
fn plain(target: &Target) -> Option<&[u8]> {
    let path = target.path().strip_prefix(b"/").filter(|_| *target.base() == Base::Root)?;
    let mut names = path.split(|byte| *byte == b'/');
    names.all(|name| !matches!(name, b"" | b"." | b"..")).then_some(path)
}
