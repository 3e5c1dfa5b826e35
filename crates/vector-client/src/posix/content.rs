//! Opening, reading and writing.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, FileType, Mode, OFlags, fchmod, fdatasync, fstat, fsync, ftruncate, openat};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2, retry_on_intr};

use super::attributes::check_mode;
use super::open_files::OpenFile;
use super::place::{Found, Place, local};
use super::vector::Vector;
use crate::step::{APPEND, Creation, Data, Done, Open, Read, Write};
use crate::{Error, Target};

/// Most bytes of one piece of [`Data`].
const PIECE: u64 = 1 << 20;

/// What is asked for where a file does not say how long it is, as those of `/proc`.
const UNKNOWN: u64 = 64 << 10;

/// How often a name is tried again that others make and remove at the same time.
const TRIES: u32 = 64;

/// The file that the last step read or wrote.
pub(super) struct Recent {
    target: Target,
    follow: bool,
    file: Arc<OpenFile>,
}

/// How a file is wanted.
#[derive(Clone, Copy, Default)]
pub(super) struct Wanted {
    pub read: bool,
    pub write: bool,
    pub create: Option<Creation>,
    pub truncate: bool,
    pub follow: bool,
}

impl Wanted {
    /// A link is in the way of a name that has to be new, wherever it leads (`O_EXCL` of `open(2)`).
    fn follows(self) -> bool {
        self.follow && !self.create.is_some_and(|create| create.exclusive)
    }
}

/// A file that was opened.
pub(super) struct Opened {
    pub file: Arc<OpenFile>,
    /// The directory that it was made in.
    made_in: Option<Arc<OwnedFd>>,
}

impl Vector<'_> {
    pub fn open(&mut self, open: &Open) -> Result<Done, Error> {
        open.check()?;
        let Open { target, read, write, create, truncate, follow } = open;
        let wanted =
            Wanted { read: *read, write: *write, create: *create, truncate: *truncate, follow: *follow };
        let opened = match self.find(target, wanted.follows())? {
            Found::Open(file) => open_again(&file, wanted).map_err(|errno| local(target, errno))?,
            found => self.open_found(target, found, wanted)?,
        };
        let file = Arc::try_unwrap(opened.file).map_err(|_| Error::Unsupported("opening twice"))?;
        Ok(Done::Opened(self.shared.files.insert(file)))
    }

    pub fn read(&mut self, read: &Read) -> Result<Done, Error> {
        let Read { target, offset, length, follow } = read;
        let file = match self.take_recent(target, *follow, |file| file.read) {
            Some(file) => file,
            None => {
                let wanted = Wanted { read: true, follow: *follow, ..Wanted::default() };
                self.open_to_use(target, wanted)?.file
            }
        };
        let data = read_extent(&file.fd, *offset, *length).map_err(|errno| local(target, errno))?;
        self.keep_recent(target, *follow, file);
        Ok(Done::Read(data))
    }

    pub fn write(&mut self, write: &Write) -> Result<Done, Error> {
        let Write { target, offset, data, create, truncate, stable, follow } = write;
        let exclusive = create.is_some_and(|create| create.exclusive);
        let recent =
            (!exclusive && !truncate).then(|| self.take_recent(target, *follow, |file| file.write)).flatten();
        let opened = match recent {
            Some(file) => Opened { file, made_in: None },
            None => {
                let (create, truncate, follow) = (*create, *truncate, *follow);
                self.open_to_use(target, Wanted { read: false, write: true, create, truncate, follow })?
            }
        };
        write_extent(&opened.file.fd, *offset, data)
            .and_then(|()| if *stable { make_safe(&opened) } else { Ok(()) })
            .map_err(|errno| local(target, errno))?;
        self.keep_recent(target, *follow, opened.file);
        Ok(Done::Written(data.len() as u64))
    }

    fn take_recent(
        &mut self,
        target: &Target,
        follow: bool,
        suits: impl Fn(&OpenFile) -> bool,
    ) -> Option<Arc<OpenFile>> {
        let recent = self.recent.take()?;
        let same = recent.target == *target && recent.follow == follow && suits(&recent.file);
        same.then_some(recent.file)
    }

    fn keep_recent(&mut self, target: &Target, follow: bool, file: Arc<OpenFile>) {
        self.recent = Some(Recent { target: target.clone(), follow, file });
    }

    /// A file to be read or written by one step: opened now, or open already.
    pub fn open_to_use(&mut self, target: &Target, wanted: Wanted) -> Result<Opened, Error> {
        let file = match self.find(target, wanted.follows())? {
            Found::Open(file) => file,
            found => return self.open_found(target, found, wanted),
        };
        if wanted.read && !file.read || wanted.write && !file.write {
            return Err(local(target, Errno::BADF));
        }
        if wanted.truncate {
            ftruncate(&file.fd, 0).map_err(|errno| local(target, errno))?;
        }
        Ok(Opened { file, made_in: None })
    }

    fn open_found(&mut self, target: &Target, found: Found, wanted: Wanted) -> Result<Opened, Error> {
        let failed = |errno| local(target, errno);
        let access = access(wanted).map_err(failed)?;
        let mut found = found;
        for _ in 0..TRIES {
            // What has no name is a directory, and is there.
            let has_name = |place: &Place| &place.name[..] != b".";
            let create = wanted.create.filter(|_| match &found {
                Found::There(place, _) | Found::Missing(place) => has_name(place),
                Found::Open(_) => false,
            });
            let result = match (&found, create) {
                (Found::Open(_), _) => Err(Errno::INVAL),
                (Found::Missing(_), None) => return Err(failed(Errno::NOENT)),
                (Found::Missing(place), Some(creation)) => make(place, access, creation.mode),
                (Found::There(..), Some(Creation { exclusive: true, .. })) => Err(Errno::EXIST),
                (Found::There(place, stat), _) => {
                    let kind = FileType::from_raw_mode(stat.st_mode);
                    open_there(place, access, kind, wanted.truncate)
                }
            };
            // Somebody was faster.
            let changed = match (&found, &result) {
                (Found::Missing(_), Err(Errno::EXIST)) => {
                    !wanted.create.is_some_and(|create| create.exclusive)
                }
                (Found::There(..), Err(Errno::NOENT)) => true,
                (Found::There(_, stat), Err(Errno::LOOP)) => {
                    FileType::from_raw_mode(stat.st_mode) != FileType::Symlink
                }
                _ => false,
            };
            if !changed {
                let fd = result.map_err(failed)?;
                let file = Arc::new(OpenFile { fd, read: wanted.read, write: wanted.write });
                let made_in = match found {
                    Found::Missing(place) => Some(place.directory),
                    _ => None,
                };
                return Ok(Opened { file, made_in });
            }
            found = self.find(target, wanted.follows())?;
        }
        Err(failed(Errno::BUSY))
    }
}

fn access(wanted: Wanted) -> Result<OFlags, Errno> {
    let access = match (wanted.read, wanted.write) {
        (true, true) => OFlags::RDWR,
        (true, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (false, false) => return Err(Errno::INVAL),
    };
    // Whatever it is, opening it must neither wait nor follow.
    Ok(access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::NOFOLLOW)
}

/// A new file with exactly this mode, whatever the `umask` is: that of programs is for what people make.
fn make(place: &Place, access: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
    let mode = check_mode(mode)?;
    let flags = access | OFlags::CREATE | OFlags::EXCL;
    let fd = openat(&place.directory, &place.name[..], flags, mode)?;
    if Mode::from_raw_mode(fstat(&fd)?.st_mode) != mode {
        fchmod(&fd, mode)?;
    }
    Ok(fd)
}

fn open_there(place: &Place, access: OFlags, kind: FileType, truncate: bool) -> Result<OwnedFd, Errno> {
    match kind {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR),
        FileType::Symlink => return Err(Errno::LOOP),
        _ => return Err(Errno::INVAL),
    }
    let fd = openat(&place.directory, &place.name[..], access, Mode::empty())?;
    if truncate {
        ftruncate(&fd, 0)?;
    }
    Ok(fd)
}

/// Another open of an open file, which may have no name any more.
fn open_again(file: &OpenFile, wanted: Wanted) -> Result<Opened, Errno> {
    let flags = access(wanted)?.difference(OFlags::NOFOLLOW);
    let fd = openat(CWD, by_number(&file.fd), flags, Mode::empty())?;
    if wanted.truncate {
        ftruncate(&fd, 0)?;
    }
    let file = OpenFile { fd, read: wanted.read, write: wanted.write };
    Ok(Opened { file: Arc::new(file), made_in: None })
}

/// A path to what is open, for the calls that take nothing else.
pub(super) fn by_number(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn read_extent(fd: &OwnedFd, offset: u64, length: u64) -> Result<Data, Errno> {
    const END: u64 = i64::MAX as u64;
    let size = u64::try_from(fstat(fd)?.st_size).unwrap_or(0);
    let end = offset.saturating_add(length).min(END);
    let (mut at, mut pieces, mut is_short) = (offset, Vec::new(), false);
    while at < end {
        let expected = if size == 0 { UNKNOWN } else { size.saturating_sub(at) };
        if expected == 0 {
            break;
        }
        let room = (end - at).min(PIECE).min(expected);
        let mut piece = Vec::with_capacity(usize::try_from(room).unwrap_or(usize::MAX));
        let count = retry_on_intr(|| pread(fd, spare_capacity(&mut piece), at))?;
        if count == 0 {
            is_short = true;
            break;
        }
        at += count as u64;
        pieces.push(Bytes::from(piece));
    }
    // Nobody knows how long a file is that says it is empty and is not.
    let end_of_file = is_short || at >= size && (size > 0 || at == offset);
    Ok(Data { pieces, end_of_file })
}

/// Writes all of it. An append is atomic as long as the system writes all at once, which it does for regular files unless
/// the disk is full.
fn write_extent(fd: &OwnedFd, offset: u64, mut data: &[u8]) -> Result<(), Errno> {
    let mut at = offset;
    if offset != APPEND && i64::try_from(offset.saturating_add(data.len() as u64)).is_err() {
        return Err(Errno::FBIG);
    }
    while !data.is_empty() {
        let count = retry_on_intr(|| match offset {
            APPEND => pwritev2(fd, &[IoSlice::new(data)], 0, ReadWriteFlags::APPEND),
            _ => pwrite(fd, data, at),
        })?;
        if count == 0 {
            return Err(Errno::IO);
        }
        at = at.wrapping_add(count as u64);
        data = &data[count..];
    }
    Ok(())
}

/// The content, and the name if it is new.
fn make_safe(opened: &Opened) -> Result<(), Errno> {
    fdatasync(&opened.file.fd)?;
    if let Some(directory) = &opened.made_in {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        fsync(openat(directory, c".", flags, Mode::empty())?)?;
    }
    Ok(())
}
