//! How attributes come to be and change (POSIX chmod, chown, utimensat, truncate, write): pure functions from
//! old attributes to new ones, shared by every implementation.

use std::sync::Arc;

use ids::Timestamp;

use crate::acl::right;
use crate::limits::MAX_FILE_SIZE;
use crate::permission::{is_granted, may_write, require, require_regular};
use crate::{
    Access, Attributes, Authority, Caller, Device, FileId, FileKind, FsError, FsResult, SetAttributes,
    SetTime,
};

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o0010;
const MODE_BITS: u32 = 0o7777;
/// The bits that an access control list decides.
const PERMISSIONS: u32 = 0o777;

/// The [`Attributes::change`] after `before`: the time in nanoseconds if that is more than one more. So it also
/// grows over a crash that lost changes which clients had seen.
pub fn next_change(before: u64, now: Timestamp) -> u64 {
    let nanos = u64::try_from(now.seconds).unwrap_or(0).saturating_mul(1_000_000_000) + u64::from(now.nanos);
    nanos.max(before.saturating_add(1))
}

/// The size that a directory of `entries` entries shows.
pub fn directory_size(entries: u64) -> u64 {
    4096 + 64 * entries
}

/// Records a change of the attributes at `now`.
pub fn touch(attributes: &mut Attributes, now: Timestamp) {
    attributes.changed = now;
    attributes.change = next_change(attributes.change, now);
}

/// Records a change of the content at `now`.
pub fn touch_content(attributes: &mut Attributes, now: Timestamp) {
    attributes.modified = now;
    touch(attributes, now);
}

/// Attributes of a new object in `directory`. A directory starts with 2 links, everything else with 1; the size
/// of a link is the caller's to set. An access control list is inherited unless one is given, or nothing at all
/// (RFC 8881 §6.4.3).
///
/// # Errors
/// As [`set`]; in particular an owner that `caller` could not give the object afterwards.
pub fn newborn(
    file: FileId,
    kind: FileKind,
    device: Device,
    directory: &Attributes,
    caller: &Caller,
    wanted: &SetAttributes,
    now: Timestamp,
) -> FsResult<Attributes> {
    let inherits = directory.mode & SET_GROUP_ID != 0;
    let is_directory = kind == FileKind::Directory;
    let born = Attributes {
        file,
        kind,
        mode: if is_directory { 0o700 } else { 0o600 },
        links: if is_directory { 2 } else { 1 },
        uid: caller.uid,
        gid: if inherits { directory.gid } else { caller.gid },
        acl: None,
        size: if is_directory { directory_size(0) } else { 0 },
        space_used: 0,
        device,
        accessed: now,
        modified: now,
        changed: now,
        created: now,
        change: next_change(0, now),
        quarantined: false,
    };
    let acl = match &directory.acl {
        Some(acl) if kind != FileKind::Symlink && wanted.acl.is_none() && !wanted.is_empty() => {
            acl.inherited(is_directory)
        }
        _ => None,
    };
    let mut wanted = wanted.clone();
    let umask = wanted.umask.take();
    if kind == FileKind::Symlink {
        wanted.mode = Some(0o777);
    } else if acl.is_none() {
        wanted.mode = wanted.mode.map(|mode| mode & !umask.unwrap_or(0));
    }
    // The maker owns the new object for a moment, whatever happens to the group; so everything an owner may set is fine.
    let change = born.change;
    let explicit_mode = wanted.mode;
    let mut born = set(&born, caller, &wanted, Authority::Opened, now)?;
    born.change = change;
    if let Some(mode) = explicit_mode {
        born.mode = mode & MODE_BITS;
        let outsider = !caller.is_superuser() && !caller.in_group(born.gid);
        // Linux `mode_strip_sgid`: nobody makes programs that run as a group he is not in.
        if !is_directory && outsider && mode & GROUP_EXECUTE != 0 {
            born.mode &= !SET_GROUP_ID;
        }
    }
    if inherits && is_directory {
        born.mode |= SET_GROUP_ID;
    }
    if let Some(acl) = acl {
        born.acl = Some(Arc::new(match (explicit_mode, umask) {
            (None, _) => acl,
            (Some(mode), None) => acl.with_mode(mode, is_directory),
            (Some(mode), Some(_)) => acl.limited_to(mode, is_directory),
        }));
    }
    follow_acl(&mut born);
    Ok(born)
}

/// Attributes after `wanted` was applied on behalf of `caller`. Cutting or extending the data is the caller's.
///
/// # Errors
/// `NotPermitted` where ownership is needed, `AccessDenied` where write permission would have been enough,
/// `IsDirectory`, `IsSymlink` or `WrongKind` for the size of what is no regular file, `TooLarge`,
/// `InvalidArgument` for impossible modes and times.
pub fn set(
    attributes: &Attributes,
    caller: &Caller,
    wanted: &SetAttributes,
    authority: Authority,
    now: Timestamp,
) -> FsResult<Attributes> {
    let mut new = attributes.clone();
    if wanted.is_empty() {
        return Ok(new);
    }
    let owner = caller.is_superuser() || caller.uid == attributes.uid;
    if let Some(size) = wanted.size {
        require_regular(attributes)?;
        if size > MAX_FILE_SIZE {
            return Err(FsError::TooLarge);
        }
        may_write(attributes, caller, authority)?;
        new.size = size;
        new.modified = now;
        drop_set_id(&mut new, caller);
    }
    if wanted.uid.is_some() || wanted.gid.is_some() {
        set_owner(&mut new, caller, owner, wanted)?;
    }
    let may_set_permissions = owner || is_granted(attributes, caller, right::WRITE_ACL);
    if let Some(mode) = wanted.mode {
        if !may_set_permissions {
            return Err(FsError::NotPermitted);
        }
        let owner_set = wanted.uid.is_some() || wanted.gid.is_some();
        // Who is let to set permissions does not become the owner's double by it.
        let mode = if owner { mode } else { mode & (PERMISSIONS | new.mode | !MODE_BITS) };
        set_mode(&mut new, caller, mode, owner_set)?;
    }
    if let Some(acl) = &wanted.acl {
        if !may_set_permissions {
            return Err(FsError::NotPermitted);
        }
        acl.check(new.kind)?;
        new.acl = Some(acl.clone());
        follow_acl(&mut new);
    }
    let may_set_times = owner || is_granted(attributes, caller, right::WRITE_ATTRIBUTES);
    for (wish, place) in [(wanted.accessed, &mut new.accessed), (wanted.modified, &mut new.modified)] {
        match wish {
            None => {}
            Some(SetTime::Now) => {
                if !may_set_times {
                    require(attributes, caller, Access::WRITE)?;
                }
                *place = now;
            }
            Some(SetTime::At(time)) => *place = checked_time(may_set_times, time)?,
        }
    }
    if let Some(time) = wanted.created {
        new.created = checked_time(may_set_times, time)?;
    }
    touch(&mut new, now);
    Ok(new)
}

/// Attributes of a regular file after `caller` wrote `length` (at least one) bytes at `offset`.
///
/// # Errors
/// `TooLarge` beyond [`MAX_FILE_SIZE`].
pub fn written(
    attributes: &Attributes,
    caller: &Caller,
    offset: u64,
    length: u64,
    now: Timestamp,
) -> FsResult<Attributes> {
    let end = offset.checked_add(length).filter(|&end| end <= MAX_FILE_SIZE).ok_or(FsError::TooLarge)?;
    let mut new = attributes.clone();
    new.size = new.size.max(end);
    drop_set_id(&mut new, caller);
    touch_content(&mut new, now);
    Ok(new)
}

/// Attributes of a regular file after `caller` made a hole in it.
pub fn punched(attributes: &Attributes, caller: &Caller, now: Timestamp) -> Attributes {
    let mut new = attributes.clone();
    drop_set_id(&mut new, caller);
    touch_content(&mut new, now);
    new
}

fn checked_time(may_set_times: bool, time: Timestamp) -> FsResult<Timestamp> {
    if !may_set_times {
        return Err(FsError::NotPermitted);
    }
    if time.nanos >= 1_000_000_000 {
        return Err(FsError::InvalidArgument);
    }
    Ok(time)
}

/// The permissions that the access control list makes, if there is one.
fn follow_acl(attributes: &mut Attributes) {
    if let Some(acl) = &attributes.acl {
        attributes.mode = attributes.mode & !PERMISSIONS | acl.mode();
    }
}

/// chown: only the superuser gives files away; an owner may choose among his groups. Whom the access control list lets
/// take the file over may make himself the owner, and choose among his groups.
fn set_owner(new: &mut Attributes, caller: &Caller, owner: bool, wanted: &SetAttributes) -> FsResult<()> {
    let takes_over = is_granted(new, caller, right::WRITE_OWNER);
    let own = wanted.uid.is_none_or(|uid| uid == new.uid || takes_over && uid == caller.uid);
    let own_group = wanted.gid.is_none_or(|gid| gid == new.gid || caller.in_group(gid));
    if !(caller.is_superuser() || ((owner || takes_over) && own && own_group)) {
        return Err(FsError::NotPermitted);
    }
    new.uid = wanted.uid.unwrap_or(new.uid);
    new.gid = wanted.gid.unwrap_or(new.gid);
    if new.kind != FileKind::Directory {
        // Also for the superuser, as Linux does: what was trusted for one owner is not for another.
        new.mode &= !SET_USER_ID;
        if new.mode & GROUP_EXECUTE != 0 {
            new.mode &= !SET_GROUP_ID;
        }
    }
    Ok(())
}

fn set_mode(new: &mut Attributes, caller: &Caller, mode: u32, owner_set: bool) -> FsResult<()> {
    if mode & !MODE_BITS != 0 {
        return Err(FsError::InvalidArgument);
    }
    new.mode = mode;
    if !caller.is_superuser() {
        if !caller.in_group(new.gid) {
            new.mode &= !SET_GROUP_ID;
        }
        if owner_set && new.kind != FileKind::Directory {
            new.mode &= !SET_USER_ID & !SET_GROUP_ID;
        }
    }
    if let Some(acl) = &new.acl {
        new.acl = Some(Arc::new(acl.with_mode(new.mode, new.kind == FileKind::Directory)));
    }
    Ok(())
}

/// Changed content is not what was trusted with another identity, unless the superuser changed it.
fn drop_set_id(attributes: &mut Attributes, caller: &Caller) {
    if caller.is_superuser() {
        return;
    }
    attributes.mode &= !SET_USER_ID;
    if attributes.mode & GROUP_EXECUTE != 0 || !caller.in_group(attributes.gid) {
        attributes.mode &= !SET_GROUP_ID;
    }
}

#[cfg(test)]
mod tests {
    use ids::{GatewayId, ObjectId, ObjectNumber, VolumeId};

    use super::*;

    const NOW: Timestamp = Timestamp { seconds: 100, nanos: 5 };

    fn object(kind: FileKind, mode: u32, uid: u32, gid: u32) -> Attributes {
        let file = FileId {
            volume: VolumeId(1),
            object: ObjectId { creator: GatewayId(1), number: ObjectNumber(1) },
        };
        let zero = Timestamp::default();
        Attributes {
            file,
            kind,
            mode,
            links: 1,
            uid,
            gid,
            acl: None,
            size: 10,
            space_used: 0,
            device: Device::default(),
            accessed: zero,
            modified: zero,
            changed: zero,
            created: zero,
            change: 1,
            quarantined: false,
        }
    }

    fn apply(attributes: &Attributes, caller: &Caller, wanted: SetAttributes) -> FsResult<Attributes> {
        set(attributes, caller, &wanted, Authority::Checked, NOW)
    }

    #[test]
    fn only_the_owner_changes_the_mode() {
        let file = object(FileKind::Regular, 0o644, 7, 7);
        let chmod = SetAttributes::with_mode(0o600);
        assert_eq!(apply(&file, &Caller::user(8, 7, &[]), chmod.clone()), Err(FsError::NotPermitted));
        let new = apply(&file, &Caller::user(7, 7, &[]), chmod).unwrap();
        assert_eq!((new.mode, new.changed, new.modified), (0o600, NOW, Timestamp::default()));
        assert!(new.change > file.change);
    }

    #[test]
    fn a_mode_with_set_group_id_of_a_foreign_group_loses_the_bit() {
        let file = object(FileKind::Regular, 0o644, 7, 9);
        let chmod = SetAttributes::with_mode(0o2755);
        assert_eq!(apply(&file, &Caller::user(7, 7, &[]), chmod.clone()).unwrap().mode, 0o755);
        assert_eq!(apply(&file, &Caller::user(7, 7, &[9]), chmod.clone()).unwrap().mode, 0o2755);
        assert_eq!(apply(&file, &Caller::root(), chmod).unwrap().mode, 0o2755);
    }

    #[test]
    fn owners_choose_among_their_groups_and_nothing_else() {
        let file = object(FileKind::Regular, 0o6755, 7, 7);
        let owner = Caller::user(7, 7, &[8]);
        let to = |uid, gid| SetAttributes { uid, gid, ..SetAttributes::default() };
        assert_eq!(apply(&file, &owner, to(Some(8), None)), Err(FsError::NotPermitted));
        assert_eq!(apply(&file, &owner, to(None, Some(9))), Err(FsError::NotPermitted));
        assert_eq!(apply(&file, &Caller::user(9, 8, &[]), to(None, Some(8))), Err(FsError::NotPermitted));
        let new = apply(&file, &owner, to(Some(7), Some(8))).unwrap();
        assert_eq!((new.uid, new.gid, new.mode), (7, 8, 0o755));
        let new = apply(&file, &Caller::root(), to(Some(1), Some(2))).unwrap();
        assert_eq!((new.uid, new.gid, new.mode), (1, 2, 0o755));
        let directory = object(FileKind::Directory, 0o6755, 7, 7);
        assert_eq!(apply(&directory, &Caller::root(), to(Some(1), None)).unwrap().mode, 0o6755);
    }

    #[test]
    fn the_current_time_needs_write_permission_and_any_other_ownership() {
        let file = object(FileKind::Regular, 0o666, 7, 7);
        let stranger = Caller::user(8, 8, &[]);
        let to = |time| SetAttributes { modified: Some(time), ..SetAttributes::default() };
        assert_eq!(apply(&file, &stranger, to(SetTime::Now)).unwrap().modified, NOW);
        assert_eq!(apply(&file, &stranger, to(SetTime::At(NOW))), Err(FsError::NotPermitted));
        let closed = object(FileKind::Regular, 0o644, 7, 7);
        assert_eq!(apply(&closed, &stranger, to(SetTime::Now)), Err(FsError::AccessDenied));
        assert_eq!(apply(&closed, &Caller::user(7, 7, &[]), to(SetTime::Now)).unwrap().modified, NOW);
    }

    #[test]
    fn cutting_and_writing_drop_set_user_id_unless_the_superuser_does_it() {
        let file = object(FileKind::Regular, 0o6777, 7, 7);
        let user = Caller::user(8, 8, &[]);
        assert_eq!(apply(&file, &user, SetAttributes::with_size(0)).unwrap().mode, 0o777);
        assert_eq!(apply(&file, &Caller::root(), SetAttributes::with_size(0)).unwrap().mode, 0o6777);
        let new = written(&file, &user, 8, 4, NOW).unwrap();
        assert_eq!((new.mode, new.size, new.modified), (0o777, 12, NOW));
        assert_eq!(written(&file, &Caller::root(), 0, 4, NOW).unwrap().size, 10);
        assert_eq!(written(&file, &user, MAX_FILE_SIZE, 1, NOW), Err(FsError::TooLarge));
    }

    #[test]
    fn the_size_of_what_is_no_file_cannot_be_set() {
        let size = SetAttributes::with_size(0);
        let cases = [
            (FileKind::Directory, FsError::IsDirectory),
            (FileKind::Symlink, FsError::IsSymlink),
            (FileKind::Fifo, FsError::WrongKind),
        ];
        for (kind, error) in cases {
            assert_eq!(apply(&object(kind, 0o777, 0, 0), &Caller::root(), size.clone()), Err(error));
        }
    }

    #[test]
    fn set_group_id_directories_pass_their_group_on() {
        let parent = object(FileKind::Directory, 0o2777, 1, 50);
        let caller = Caller::user(7, 7, &[]);
        let make = |kind, mode| {
            let wanted = SetAttributes::with_mode(mode);
            newborn(parent.file, kind, Device::default(), &parent, &caller, &wanted, NOW).unwrap()
        };
        let file = make(FileKind::Regular, 0o2755);
        assert_eq!((file.uid, file.gid, file.mode), (7, 50, 0o755));
        let directory = make(FileKind::Directory, 0o755);
        assert_eq!((directory.gid, directory.mode, directory.links), (50, 0o2755, 2));
    }

    #[test]
    fn change_grows_even_when_the_clock_goes_back() {
        let later = next_change(0, NOW);
        assert!(next_change(later, Timestamp { seconds: -5, nanos: 0 }) > later);
    }
}
