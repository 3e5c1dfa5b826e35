//! The directory that is the root of a client, and the ways from it.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;

/// Bytes of a path that the kernel is given at once; it takes 4096.
const LONGEST: usize = 4000;

/// How often a path is tried again that others were changing at the same time (openat2(2), `EAGAIN`).
const TRIES: u32 = 128;

/// A directory to which others are relative, rather than its entries.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The root.
#[derive(Debug)]
pub(super) struct Root {
    fd: OwnedFd,
    /// It is not the root of the machine: paths have to be kept in it.
    confined: bool,
}

impl Root {
    pub fn open(directory: &Path) -> Result<Root, Errno> {
        let fd = openat(CWD, directory, PLACE, Mode::empty())?;
        let here = statat(&fd, c"", AtFlags::EMPTY_PATH)?;
        let top = statat(CWD, c"/", AtFlags::empty())?;
        let confined = (here.st_dev, here.st_ino) != (top.st_dev, top.st_ino);
        let root = Root { fd, confined };
        // Says at once if the kernel cannot.
        root.directory(b".", None, PLACE)?;
        Ok(root)
    }

    /// The directory that this path leads to, and whether it is one by symbolic links, as far as is known.
    pub fn place(&self, path: &[u8], firm_from: Option<usize>) -> Result<(OwnedFd, bool), Errno> {
        if let Some(from) = firm_from {
            let (loose, firm) = path.split_at(from.min(path.len()));
            let (start, by_links) = self.place(loose, None)?;
            return Ok((along(&start, Way::Firm, firm, PLACE)?, by_links));
        }
        let rest = relative(path);
        let path_here = if rest.is_empty() { b"." } else { rest };
        let without = match self.confined {
            true => ResolveFlags::NO_SYMLINKS | ResolveFlags::IN_ROOT,
            false => ResolveFlags::NO_SYMLINKS,
        };
        match openat2(&self.fd, path_here, PLACE, Mode::empty(), without) {
            Ok(fd) => Ok((fd, false)),
            Err(_) => Ok((self.directory(path, None, PLACE)?, true)),
        }
    }

    /// The directory that this path leads to. Symbolic links are followed before byte `firm_from`. What is beyond the longest
    /// path of the kernel is looked up in parts; in a confined root, those after the first must not have links or `..`.
    pub fn directory(&self, path: &[u8], firm_from: Option<usize>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let way = if self.confined { Way::InRoot } else { Way::Any };
        let Some(from) = firm_from else { return along(&self.fd, way, path, flags) };
        let (loose, firm) = path.split_at(from.min(path.len()));
        let start = along(&self.fd, way, loose, PLACE)?;
        along(&start, Way::Firm, firm, flags)
    }
}

fn along(start: &OwnedFd, mut way: Way, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut rest = relative(path);
    let mut from = None;
    while rest.len() > LONGEST {
        let end = rest[..=LONGEST].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        from = Some(part(from.as_ref().unwrap_or(start), way, &rest[..end], PLACE)?);
        rest = relative(&rest[end..]);
        if let Way::InRoot = way {
            way = Way::Firm;
        }
    }
    part(from.as_ref().unwrap_or(start), way, rest, flags | OFlags::DIRECTORY)
}

/// What a path may go through.
#[derive(Clone, Copy)]
enum Way {
    /// Whatever there is.
    Any,
    /// What is in the root, which it begins at.
    InRoot,
    /// Neither symbolic links nor `..`.
    Firm,
}

fn part(start: &OwnedFd, way: Way, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let resolve = match way {
        Way::Any => return openat(start, path, flags, Mode::empty()),
        Way::InRoot => ResolveFlags::IN_ROOT,
        Way::Firm => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    };
    for _ in 1..TRIES {
        match openat2(start, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            result => return result,
        }
    }
    openat2(start, path, flags, Mode::empty(), resolve)
}

fn relative(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    &path[start..]
}
