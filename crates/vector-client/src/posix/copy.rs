//! Copying, by the kernel where it can.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, SeekFrom, copy_file_range, fstat, ftruncate, seek};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};

use super::content::Wanted;
use super::place::{Found, local};
use super::vector::Vector;
use crate::Error;
use crate::step::{Copy, Done, TO_END};

/// Bytes that one system call copies at most, so that others get at the disk in between.
const PART: u64 = 128 << 20;

/// Bytes of the buffer where the kernel cannot copy.
const BUFFER: usize = 256 << 10;

impl Vector<'_> {
    pub fn copy(&mut self, copy: &Copy) -> Result<Done, Error> {
        let at_source = |errno| local(&copy.source, errno);
        self.open_file(&copy.source)?;
        self.open_file(&copy.destination)?;
        let source = match self.find(&copy.source, true)? {
            Found::Open(file) => file,
            Found::Missing(_) => return Err(at_source(Errno::NOENT)),
            Found::There(_, stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
                return Err(at_source(Errno::INVAL));
            }
            Found::There(..) => {
                let wanted = Wanted { read: true, follow: true, ..Wanted::default() };
                self.open_to_use(&copy.source, wanted)?.file
            }
        };
        let Copy { create, truncate, length, .. } = *copy;
        let wanted = Wanted { read: false, write: true, create, truncate, follow: true };
        let destination = self.open_to_use(&copy.destination, wanted)?;
        if length == 0 {
            return Ok(Done::Copied(0));
        }
        if !source.read {
            return Err(at_source(Errno::BADF));
        }
        let copied = Transfer { from: &source.fd, to: &destination.file.fd }.run(copy);
        Ok(Done::Copied(copied.map_err(|errno| local(&copy.destination, errno))?))
    }
}

/// Two files.
struct Transfer<'a> {
    from: &'a OwnedFd,
    to: &'a OwnedFd,
}

impl Transfer<'_> {
    /// As NFS has it (RFC 7862 §15.2.3): the source has all that is wanted, and within one file the extents are apart.
    fn run(&self, copy: &Copy) -> Result<u64, Errno> {
        let (source, destination) = (fstat(self.from)?, fstat(self.to)?);
        let size = |size: i64| u64::try_from(size).unwrap_or(0);
        let rest = size(source.st_size).checked_sub(copy.source_offset).ok_or(Errno::INVAL)?;
        let length = if copy.length == TO_END { rest } else { copy.length };
        let same = (source.st_dev, source.st_ino) == (destination.st_dev, destination.st_ino);
        if length > rest || same && copy.source_offset.abs_diff(copy.destination_offset) < length {
            return Err(Errno::INVAL);
        }
        let end = copy.destination_offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or(Errno::FBIG)?;
        let all = copy.source_offset..copy.source_offset + length;
        // Where nothing is to be overwritten, holes stay holes.
        let is_empty = size(destination.st_size) <= copy.destination_offset;
        let mut at = all.start;
        while at < all.end {
            let part = if is_empty { self.data(at..all.end)? } else { at..all.end };
            at = part.end;
            self.extent(part.start, part.start - all.start + copy.destination_offset, part.end - part.start)?;
        }
        if is_empty && length > 0 && size(fstat(self.to)?.st_size) < end {
            ftruncate(self.to, end)?;
        }
        Ok(length)
    }

    /// The first data in this range; empty at its end if there is none.
    fn data(&self, range: Range<u64>) -> Result<Range<u64>, Errno> {
        let start = match seek(self.from, SeekFrom::Data(range.start)) {
            Ok(start) => start.min(range.end),
            Err(Errno::NXIO) => range.end,
            Err(_) => return Ok(range),
        };
        if start == range.end {
            return Ok(start..start);
        }
        let end = seek(self.from, SeekFrom::Hole(start)).unwrap_or(range.end);
        Ok(start..end.clamp(start + 1, range.end))
    }

    fn extent(&self, mut from: u64, mut to: u64, mut length: u64) -> Result<(), Errno> {
        while length > 0 {
            let part = usize::try_from(length.min(PART)).unwrap_or(usize::MAX);
            let (mut source, mut destination) = (from, to);
            let count = retry_on_intr(|| {
                copy_file_range(self.from, Some(&mut source), self.to, Some(&mut destination), part)
            });
            match count {
                // It cannot between these two, or not of what is in this file (copy_file_range(2)).
                Ok(0) | Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                    return self.by_hand(from, to, length);
                }
                count => {
                    let count = count? as u64;
                    (from, to, length) = (from + count, to + count, length - count);
                }
            }
        }
        Ok(())
    }

    fn by_hand(&self, mut from: u64, mut to: u64, mut length: u64) -> Result<(), Errno> {
        let mut buffer = Vec::with_capacity(BUFFER);
        while length > 0 {
            buffer.clear();
            retry_on_intr(|| pread(self.from, spare_capacity(&mut buffer), from))?;
            buffer.truncate(usize::try_from(length).unwrap_or(usize::MAX));
            if buffer.is_empty() {
                // It has become shorter.
                return Err(Errno::INVAL);
            }
            let mut rest = &buffer[..];
            while !rest.is_empty() {
                let count = retry_on_intr(|| pwrite(self.to, rest, to))?;
                rest = &rest[count..];
                (from, to, length) = (from + count as u64, to + count as u64, length - count as u64);
            }
        }
        Ok(())
    }
}
