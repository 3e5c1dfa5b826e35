//! Reading directories, a page at a time.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{AtFlags, OFlags, RawDir, SeekFrom, seek, statat};
use rustix::io::Errno;

use super::attributes::{kind, received};
use super::place::{local, on_the_way};
use super::vector::Vector;
use crate::listing::{Cookie, Directory, Entry, Page, PageResult};
use crate::target::Base;
use crate::{AttributeSet, Attributes, Error};

/// Entries of one page.
const PAGE: usize = 1024;

/// Entries of one answer, after which no further directory is begun.
const ANSWER: usize = 4096;

/// Bytes of entries that the kernel is asked for.
const BUFFER: usize = 32 << 10;

impl Vector<'_> {
    /// The next pages of these directories, in order, as long as they are not too much to hold. An error is the last.
    pub fn pages(&mut self, directories: &[Directory]) -> Vec<PageResult> {
        let (mut pages, mut entries) = (Vec::new(), 0);
        let mut buffer = Vec::with_capacity(BUFFER);
        for directory in directories {
            let page = self.page(directory, &mut buffer);
            entries += page.as_ref().map_or(ANSWER, |page| page.entries.len());
            pages.push(page);
            if entries >= ANSWER {
                break;
            }
        }
        pages
    }

    /// A place in a directory is the file system's own: entries that come and go do not move it, but on very old ones.
    fn page(&mut self, directory: &Directory, buffer: &mut Vec<u8>) -> PageResult {
        let target = &directory.target;
        match target.base {
            Base::Root | Base::RootWithoutLinks(_) => {}
            Base::Descriptor(descriptor) => {
                self.shared.files.get(descriptor)?;
                return Err(local(target, Errno::NOTDIR));
            }
            Base::Handle(_) => return Err(Error::Unsupported("a filehandle among local files")),
        }
        let fd =
            self.shared.root.directory(&target.path, target.firm_from(), OFlags::RDONLY | OFlags::CLOEXEC);
        let fd = fd.map_err(|errno| on_the_way(target, errno))?;
        read(&fd, directory, buffer).map_err(|errno| local(target, errno))
    }
}

fn read(fd: &OwnedFd, directory: &Directory, buffer: &mut Vec<u8>) -> Result<Page, Errno> {
    if let Some(Cookie { position, .. }) = directory.from {
        seek(fd, SeekFrom::Start(position))?;
    }
    let mut page = Page::default();
    let mut entries = RawDir::new(fd, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let by_entry = Attributes {
            kind: kind(entry.file_type()).filter(|_| directory.wanted.contains(AttributeSet::KIND)),
            ..Attributes::default()
        };
        // Local files have no handles.
        let is_enough = match directory.wanted.without(AttributeSet::HANDLE) {
            AttributeSet::NONE => true,
            AttributeSet::KIND => by_entry.kind.is_some(),
            _ => false,
        };
        let attributes = match is_enough {
            true => by_entry,
            false => match statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => received(&stat, directory.wanted),
                // It has gone in the meantime.
                Err(Errno::NOENT) => continue,
                Err(_) => by_entry,
            },
        };
        page.entries.push(Entry { name: Bytes::copy_from_slice(name), attributes });
        if page.entries.len() >= PAGE {
            page.next = Some(Cookie { position: entry.next_entry_cookie(), verifier: [0; 8] });
            break;
        }
    }
    Ok(page)
}
