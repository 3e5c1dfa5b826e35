//! From targets to directories and names in them.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{AtFlags, FileType, Stat, readlinkat, statat};
use rustix::io::Errno;

use super::open_files::OpenFile;
use super::vector::Vector;
use crate::target::{Base, Target};
use crate::{Descriptor, Error};

/// Symbolic links at the end of a path that are followed one after the other; for those on the way, the kernel counts.
const LINKS: u32 = 40;

/// Directories that a vector remembers.
const REMEMBERED: usize = 8;

/// A name in a directory, there or not.
#[derive(Debug)]
pub(super) struct Place {
    pub directory: Arc<OwnedFd>,
    pub name: Bytes,
}

/// What a target leads to.
pub(super) enum Found {
    /// A file that is open.
    Open(Arc<OpenFile>),
    /// An object, and a symbolic link only if those at the end were not to be followed.
    There(Place, Stat),
    /// Nothing, but a directory in which it could be.
    Missing(Place),
}

impl Vector<'_> {
    /// What a target leads to; on beyond a symbolic link at its end, if `follow`.
    pub fn find(&mut self, target: &Target, follow: bool) -> Result<Found, Error> {
        if let Some(descriptor) = self.open_file(target)? {
            return Ok(Found::Open(self.shared.files.get(descriptor)?));
        }
        let (mut path, mut firm_from) = (target.path.clone(), target.firm_from());
        for _ in 0..=LINKS {
            let (parent, name) = split(&path);
            let place = Place {
                directory: self.directory(target, &parent, firm_from)?,
                name: name.unwrap_or(Bytes::from_static(b".")),
            };
            let stat = match statat(&place.directory, &place.name[..], AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => return Ok(Found::Missing(place)),
                Err(errno) => return Err(local(target, errno)),
            };
            if !follow || FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                return Ok(Found::There(place, stat));
            }
            path = through(&parent, &read_link(&place).map_err(|errno| local(target, errno))?);
            firm_from = None;
        }
        Err(Error::TooManyLinks(target.clone()))
    }

    /// A name that is to be made, removed or changed; there or not.
    pub fn named(&mut self, target: &Target) -> Result<Place, Error> {
        let (parent, name) = self.parent_and_name(target)?;
        Ok(Place { directory: self.directory(target, &parent, target.firm_from())?, name })
    }

    /// Whether a target makes sense as a name, before anything is looked up.
    pub fn parent_and_name(&self, target: &Target) -> Result<(Bytes, Bytes), Error> {
        let (parent, name) = match self.open_file(target)? {
            Some(_) => (Bytes::new(), None),
            None => split(&target.path),
        };
        let what = "a path that ends in a name is needed here";
        Ok((parent, name.ok_or_else(|| Error::Invalid { target: target.clone(), what })?))
    }

    /// The open file that a target is, if it is one. There are no paths from those: they are regular files.
    pub fn open_file(&self, target: &Target) -> Result<Option<Descriptor>, Error> {
        match target.base {
            Base::Root | Base::RootWithoutLinks(_) => Ok(None),
            Base::Descriptor(descriptor) => {
                self.shared.files.get(descriptor)?;
                let is_path = split(&target.path) != (Bytes::new(), None);
                if is_path { Err(local(target, Errno::NOTDIR)) } else { Ok(Some(descriptor)) }
            }
            Base::Handle(_) => Err(Error::Unsupported("a filehandle among local files")),
        }
    }

    fn directory(
        &mut self,
        target: &Target,
        path: &Bytes,
        firm_from: Option<usize>,
    ) -> Result<Arc<OwnedFd>, Error> {
        let is_it = |known: &Directory| known.path == *path && known.firm_from == firm_from;
        if let Some(index) = self.directories.iter().position(is_it) {
            self.directories[..=index].rotate_right(1);
            return Ok(self.directories[0].fd.clone());
        }
        let placed = self.shared.root.place(path, firm_from);
        let (fd, by_links) = placed.map_err(|errno| on_the_way(target, errno))?;
        let fd = Arc::new(fd);
        self.directories.truncate(REMEMBERED - 1);
        self.directories.insert(0, Directory { path: path.clone(), firm_from, fd: fd.clone(), by_links });
        Ok(fd)
    }

    /// Paths may lead elsewhere from now on.
    pub fn forget_directories(&mut self) {
        self.directories.clear();
    }

    /// Paths by way of symbolic links may lead elsewhere from now on.
    pub fn forget_links(&mut self) {
        self.directories.retain(|known| !known.by_links);
    }
}

/// A directory that a path led to.
#[derive(Debug)]
pub(super) struct Directory {
    path: Bytes,
    firm_from: Option<usize>,
    fd: Arc<OwnedFd>,
    by_links: bool,
}

/// The path of the directory and the name in it; without a name if the path ends in `..` or is empty.
fn split(path: &Bytes) -> (Bytes, Option<Bytes>) {
    let mut end = path.len();
    loop {
        let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        match &path[start..end] {
            b"" | b"." if start == 0 => return (Bytes::new(), None),
            b"" | b"." => end = start - 1,
            b".." => return (path.slice(..end), None),
            _ => return (path.slice(..start), Some(path.slice(start..end))),
        }
    }
}

/// Where a symbolic link in this directory leads.
fn through(parent: &Bytes, text: &[u8]) -> Bytes {
    if text.starts_with(b"/") {
        return Bytes::copy_from_slice(text);
    }
    [&parent[..], &b"/"[..], text].concat().into()
}

pub(super) fn read_link(place: &Place) -> Result<Vec<u8>, Errno> {
    Ok(readlinkat(&place.directory, &place.name[..], Vec::new())?.into_bytes())
}

pub(super) fn local(target: &Target, errno: Errno) -> Error {
    Error::Local { target: target.clone(), error: errno.into() }
}

/// Why a path leads nowhere.
pub(super) fn on_the_way(target: &Target, errno: Errno) -> Error {
    match errno {
        Errno::LOOP => Error::TooManyLinks(target.clone()),
        errno => local(target, errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_directory_and_a_name() {
        let split = |path: &'static str| {
            let (parent, name) = split(&Bytes::from_static(path.as_bytes()));
            let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
            (text(parent), name.map(text))
        };
        let named = |parent: &str, name: &str| (parent.to_owned(), Some(name.to_owned()));
        let nameless = |path: &str| (path.to_owned(), None);
        assert_eq!(split("/a/b"), named("/a/", "b"));
        assert_eq!(split("a"), named("", "a"));
        assert_eq!(split("/a/b/./"), named("/a/", "b"));
        assert_eq!(split("../a"), named("../", "a"));
        assert_eq!(split("/a/b/.."), nameless("/a/b/.."));
        assert_eq!(split("/a/../."), nameless("/a/.."));
        for empty in ["", "/", ".", "/./", "./."] {
            assert_eq!(split(empty), nameless(""), "{empty}");
        }
    }
}
