//! Attributes of the server's, as the kernel wants them, and back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use nfs4::{Attribute, AttributeValues, Bitmap, NfsTime, SetTime, Utf8String};

/// Of whom the server gives a name that is no number: nobody.
const NOBODY: u32 = 65_534;

/// What the kernel wants to know of every file.
pub(crate) const ATTRIBUTES: Bitmap = Attribute::set(&[
    Attribute::Type,
    Attribute::Change,
    Attribute::Size,
    Attribute::Fileid,
    Attribute::Mode,
    Attribute::Numlinks,
    Attribute::Owner,
    Attribute::OwnerGroup,
    Attribute::Rawdev,
    Attribute::SpaceUsed,
    Attribute::TimeAccess,
    Attribute::TimeMetadata,
    Attribute::TimeModify,
]);

/// The same for the entries of a directory.
pub(crate) const OF_ENTRIES: Bitmap =
    ATTRIBUTES.union(Attribute::set(&[Attribute::Filehandle, Attribute::RdattrError]));

/// The attributes of the inode with this number.
pub(crate) fn to_kernel(number: u64, values: &AttributeValues) -> FileAttr {
    let size = values.size.unwrap_or(0);
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: values.space_used.unwrap_or(size).div_ceil(512),
        atime: time(values.time_access),
        mtime: time(values.time_modify),
        ctime: time(values.time_metadata),
        crtime: UNIX_EPOCH,
        kind: kind(values),
        perm: (values.mode.unwrap_or(0) & nfs4::bits::mode::ALL) as u16,
        nlink: values.numlinks.unwrap_or(1),
        uid: user(values.owner.as_ref()),
        gid: user(values.owner_group.as_ref()),
        rdev: values.rawdev.map_or(0, |device| to_device(device.major, device.minor)),
        blksize: 128 << 10,
        flags: 0,
    }
}

pub(crate) fn kind(values: &AttributeValues) -> FileType {
    match values.r#type {
        Some(nfs4::FileType::Directory | nfs4::FileType::AttributeDirectory) => FileType::Directory,
        Some(nfs4::FileType::SymbolicLink) => FileType::Symlink,
        Some(nfs4::FileType::BlockDevice) => FileType::BlockDevice,
        Some(nfs4::FileType::CharacterDevice) => FileType::CharDevice,
        Some(nfs4::FileType::Socket) => FileType::Socket,
        Some(nfs4::FileType::Fifo) => FileType::NamedPipe,
        Some(nfs4::FileType::Regular | nfs4::FileType::NamedAttribute) | None => FileType::RegularFile,
    }
}

/// Numbers in digits (RFC 8881 §5.9); a name that is none of this machine's is nobody's.
fn user(name: Option<&Utf8String>) -> u32 {
    name.and_then(|name| name.as_str().ok()?.parse().ok()).unwrap_or(NOBODY)
}

/// Device numbers as the kernel packs them into 32 bits.
fn to_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The same undone: major and minor.
pub(crate) fn of_device(device: u32) -> (u32, u32) {
    ((device & 0xf_ff00) >> 8, (device & 0xff) | ((device >> 12) & 0xf_ff00))
}

fn time(time: Option<NfsTime>) -> SystemTime {
    let time = time.unwrap_or_default();
    let nanoseconds = Duration::from_nanos(u64::from(time.nanoseconds));
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = match time.seconds {
        0.. => UNIX_EPOCH.checked_add(seconds),
        _ => UNIX_EPOCH.checked_sub(seconds),
    };
    whole.and_then(|whole| whole.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    let time = match time {
        TimeOrNow::Now => return SetTime::ServerTime,
        TimeOrNow::SpecificTime(time) => time,
    };
    let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        // Before 1970 the FUSE library subtracts the nanoseconds that it should add.
        Err(before) => (-(before.duration().as_secs() as i64), before.duration().subsec_nanos()),
    };
    SetTime::ClientTime(NfsTime { seconds, nanoseconds })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn device_numbers_survive_their_packing(major in 0u32..1 << 12, minor in 0u32..1 << 20) {
            prop_assert_eq!(of_device(to_device(major, minor)), (major, minor));
        }

        #[test]
        fn times_after_1970_survive(seconds in 0i64..1 << 40, nanoseconds in 0u32..1_000_000_000) {
            let nfs = NfsTime { seconds, nanoseconds };
            prop_assert_eq!(set_time(TimeOrNow::SpecificTime(time(Some(nfs)))), SetTime::ClientTime(nfs));
        }
    }

    #[test]
    fn owners_are_numbers_or_nobody() {
        let of = |text: &str| user(Some(&Utf8String::from(text)));
        assert_eq!((of("1000"), of("joe@example.com"), of("-1"), user(None)), (1000, NOBODY, NOBODY, NOBODY));
    }
}
