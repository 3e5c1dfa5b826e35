use std::collections::HashSet;

use crate::Descriptor;
use crate::nfs::execute::only_asks;
use crate::nfs::open_files::OpenFiles;
use crate::step::{Copy, Step, Write};
use crate::target::{Base, Target};

/// Steps of a compound of which only its reply says whether they are done.
///
/// A server may copy a part only (RFC 7862 §15.2.3), and the rest is copied after the compound: nothing that has to do with the file
/// may be done before that. Whether what was written is lost says the verifier of COMMIT (RFC 8881 §18.3.3), and who is to act on
/// it being safe waits for that.
pub(super) struct Unfinished<'a> {
    files: &'a OpenFiles,
    /// Where copies come from, and where they go.
    sources: HashSet<&'a [u8]>,
    destinations: HashSet<&'a [u8]>,
    /// There is a copy between other files than those, perhaps.
    copies_elsewhere: bool,
    /// Written by this compound, and not safe.
    written: HashSet<Descriptor>,
    commits: bool,
}

impl<'a> Unfinished<'a> {
    pub fn new(files: &'a OpenFiles) -> Unfinished<'a> {
        Unfinished {
            files,
            sources: HashSet::new(),
            destinations: HashSet::new(),
            copies_elsewhere: false,
            written: HashSet::new(),
            commits: false,
        }
    }

    pub fn add(&mut self, step: &'a Step) {
        match step {
            Step::Copy(Copy { source, destination, .. }) => match (plain(source), plain(destination)) {
                (Some(source), Some(destination)) => {
                    self.sources.insert(source);
                    self.destinations.insert(destination);
                }
                _ => self.copies_elsewhere = true,
            },
            Step::Write(Write { target, stable: false, .. }) => self.written.extend(target.descriptor()),
            Step::Commit(_) => self.commits = true,
            Step::Close(descriptor) => {
                let needs_commit = || self.files.get(*descriptor).is_ok_and(|file| file.needs_commit());
                self.commits |= self.written.contains(descriptor) || needs_commit();
            }
            _ => {}
        }
    }

    /// Whether a step may be in one compound with those before it.
    pub fn may_be_followed_by(&self, step: &Step) -> bool {
        let finishes = matches!(step, Step::Commit(_) | Step::Close(_));
        if self.commits && !finishes && !only_asks(step) {
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
