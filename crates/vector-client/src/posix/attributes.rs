//! Attributes, as stat(2) and its relatives have them.

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
    chmodat, chownat, fchmod, fchown, fstat, ftruncate, futimens, major, minor, openat, utimensat,
};
use rustix::io::Errno;

use super::content::by_number;
use super::open_files::OpenFile;
use super::place::{Found, Place, local};
use super::vector::Vector;
use crate::attributes::{AttributeSet, Attributes, Kind, NewAttributes, Owner, SetTime, Time};
use crate::step::Done;
use crate::{Error, Target};

/// Nanoseconds of a second; what utimensat(2) takes beyond has other meanings.
const SECOND: u32 = 1_000_000_000;

impl Vector<'_> {
    pub fn attributes(&mut self, target: &Target, wanted: AttributeSet, follow: bool) -> Result<Done, Error> {
        let stat = match self.find(target, follow)? {
            Found::Open(file) => fstat(&file.fd),
            Found::There(_, stat) => Ok(stat),
            Found::Missing(_) => Err(Errno::NOENT),
        };
        let stat = stat.map_err(|errno| local(target, errno))?;
        Ok(Done::Attributes(Box::new(received(&stat, wanted))))
    }

    pub fn set_attributes(
        &mut self,
        target: &Target,
        new: &NewAttributes,
        follow: bool,
    ) -> Result<Done, Error> {
        let found = self.find(target, follow)?;
        let changes = Changes::of(target, new)?;
        let set = match found {
            Found::Open(file) => set_open(&file, &changes),
            Found::There(place, stat) => set_there(&place, &stat, &changes),
            Found::Missing(_) => Err(Errno::NOENT),
        };
        set.map_err(|errno| local(target, errno))?;
        Ok(Done::Nothing)
    }
}

/// What is to be set, checked before anything is.
struct Changes {
    size: Option<u64>,
    owner: Option<Uid>,
    group: Option<Gid>,
    mode: Option<Mode>,
    times: Option<Timestamps>,
}

impl Changes {
    fn of(target: &Target, new: &NewAttributes) -> Result<Changes, Error> {
        let mode = new.mode.map(check_mode).transpose().map_err(|errno| local(target, errno))?;
        let times = [new.accessed, new.modified].map(time_to_set);
        let [accessed, modified] = times;
        let last_access = accessed.map_err(|errno| local(target, errno))?;
        let last_modification = modified.map_err(|errno| local(target, errno))?;
        let some = new.accessed.is_some() || new.modified.is_some();
        Ok(Changes {
            size: new.size,
            owner: number(target, new.owner.as_ref())?.map(Uid::from_raw),
            group: number(target, new.group.as_ref())?.map(Gid::from_raw),
            mode,
            times: some.then_some(Timestamps { last_access, last_modification }),
        })
    }
}

/// In an order in which none undoes another (a new owner changes the mode, a new size the time), and nothing is cut off before all that
/// may be forbidden is done.
fn set_open(file: &OpenFile, changes: &Changes) -> Result<(), Errno> {
    let size = changes.size.map(check_size).transpose()?;
    if size.is_some() && !file.write {
        return Err(Errno::BADF);
    }
    if changes.owner.is_some() || changes.group.is_some() {
        fchown(&file.fd, changes.owner, changes.group)?;
    }
    if let Some(mode) = changes.mode {
        fchmod(&file.fd, mode)?;
    }
    if let Some(size) = size {
        ftruncate(&file.fd, size)?;
        // It takes away the bits that let a program be run as somebody else.
        changes.mode.map_or(Ok(()), |mode| fchmod(&file.fd, mode))?;
    }
    changes.times.as_ref().map_or(Ok(()), |times| futimens(&file.fd, times))
}

fn set_there(place: &Place, stat: &Stat, changes: &Changes) -> Result<(), Errno> {
    let Place { directory, name } = place;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if changes.mode.is_some() && kind == FileType::Symlink {
        return Err(Errno::OPNOTSUPP);
    }
    let cut = match changes.size {
        None => None,
        Some(_) if !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink) => {
            return Err(Errno::INVAL);
        }
        Some(size) => {
            let flags =
                OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            Some((openat(directory, &name[..], flags, Mode::empty())?, check_size(size)?))
        }
    };
    if changes.owner.is_some() || changes.group.is_some() {
        chownat(directory, &name[..], changes.owner, changes.group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if let Some(mode) = changes.mode {
        set_mode(place, mode)?;
    }
    if let Some((fd, size)) = cut {
        ftruncate(&fd, size)?;
        changes.mode.map_or(Ok(()), |mode| fchmod(&fd, mode))?;
    }
    let set = |times| utimensat(directory, &name[..], times, AtFlags::SYMLINK_NOFOLLOW);
    changes.times.as_ref().map_or(Ok(()), set)
}

/// Of this very object: fchmodat(2) has no way not to follow a link that somebody puts there in between.
pub(super) fn set_mode(place: &Place, mode: Mode) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(&place.directory, &place.name[..], flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&fd)?.st_mode) == FileType::Symlink {
        return Err(Errno::OPNOTSUPP);
    }
    chmodat(CWD, by_number(&fd), mode, AtFlags::empty())
}

pub(super) fn check_mode(mode: u32) -> Result<Mode, Errno> {
    if mode & !0o7777 == 0 { Ok(Mode::from_raw_mode(mode)) } else { Err(Errno::INVAL) }
}

fn check_size(size: u64) -> Result<u64, Errno> {
    if i64::try_from(size).is_ok() { Ok(size) } else { Err(Errno::FBIG) }
}

fn number(target: &Target, owner: Option<&Owner>) -> Result<Option<u32>, Error> {
    match owner {
        None => Ok(None),
        // This one stands for "none" in chown(2).
        Some(Owner::Id(u32::MAX)) => Err(local(target, Errno::INVAL)),
        Some(Owner::Id(id)) => Ok(Some(*id)),
        Some(Owner::Name(_)) => {
            let what = "owners of local files have numbers, not names";
            Err(Error::Invalid { target: target.clone(), what })
        }
    }
}

fn time_to_set(time: Option<SetTime>) -> Result<Timespec, Errno> {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(SetTime::Now) => (0, UTIME_NOW),
        Some(SetTime::To(Time { nanoseconds: SECOND.., .. })) => return Err(Errno::INVAL),
        Some(SetTime::To(Time { seconds, nanoseconds })) => (seconds, nanoseconds.into()),
    };
    Ok(Timespec { tv_sec, tv_nsec })
}

pub(super) fn kind(file_type: FileType) -> Option<Kind> {
    Some(match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::SymbolicLink,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::CharacterDevice => Kind::CharacterDevice,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::Unknown => return None,
    })
}

/// What was wanted of them. The time of the last change, in nanoseconds, is what changes with every change.
pub(super) fn received(stat: &Stat, wanted: AttributeSet) -> Attributes {
    let file_type = FileType::from_raw_mode(stat.st_mode);
    let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
    let changed = time(stat.st_ctime, stat.st_ctime_nsec);
    let of_change =
        (changed.seconds as u64).wrapping_mul(SECOND.into()).wrapping_add(changed.nanoseconds.into());
    let want = |set: AttributeSet| wanted.contains(set).then_some(());
    Attributes {
        kind: want(AttributeSet::KIND).and_then(|()| kind(file_type)),
        mode: want(AttributeSet::MODE).map(|()| stat.st_mode & 0o7777),
        owner: want(AttributeSet::OWNER).map(|()| Owner::Id(stat.st_uid)),
        group: want(AttributeSet::GROUP).map(|()| Owner::Id(stat.st_gid)),
        size: want(AttributeSet::SIZE).and(u64::try_from(stat.st_size).ok()),
        space_used: want(AttributeSet::SPACE_USED).and(u64::try_from(stat.st_blocks).ok()).map(|it| it * 512),
        links: want(AttributeSet::LINKS).and(u32::try_from(stat.st_nlink).ok()),
        file_id: want(AttributeSet::FILE_ID).map(|()| stat.st_ino),
        file_system: want(AttributeSet::FILE_SYSTEM)
            .map(|()| (major(stat.st_dev).into(), minor(stat.st_dev).into())),
        device: want(AttributeSet::DEVICE)
            .filter(|()| is_device)
            .map(|()| (major(stat.st_rdev), minor(stat.st_rdev))),
        accessed: want(AttributeSet::ACCESSED).map(|()| time(stat.st_atime, stat.st_atime_nsec)),
        modified: want(AttributeSet::MODIFIED).map(|()| time(stat.st_mtime, stat.st_mtime_nsec)),
        changed: want(AttributeSet::CHANGED).map(|()| changed),
        change: want(AttributeSet::CHANGE).map(|()| of_change),
        handle: None,
    }
}

fn time(seconds: i64, nanoseconds: u64) -> Time {
    Time { seconds, nanoseconds: u32::try_from(nanoseconds).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_that_mean_something_else_to_the_system_are_refused() {
        for nanoseconds in [SECOND, (1 << 30) - 1, (1 << 30) - 2, u32::MAX] {
            let time = SetTime::To(Time { seconds: 0, nanoseconds });
            assert_eq!(time_to_set(Some(time)), Err(Errno::INVAL), "{nanoseconds}");
        }
        assert!(time_to_set(Some(SetTime::To(Time { seconds: -1, nanoseconds: SECOND - 1 }))).is_ok());
    }
}
