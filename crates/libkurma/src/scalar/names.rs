use std::ffi::c_char;

use super::one;
use crate::argument::get_attributes::GetAttributes;
use crate::argument::make_directory::MakeDirectory;
use crate::argument::pair::Pair;
use crate::argument::read_link::ReadLink;
use crate::argument::set_attributes::SetAttributes;
use crate::argument::symbolic_link::SymbolicLink;
use crate::attributes::{Attributes, NewAttributes, Time};
use crate::client::{Client, behind};
use crate::constants::{
    KURMA_ACCESSED, KURMA_GROUP, KURMA_MODE, KURMA_MODIFIED, KURMA_NOFOLLOW, KURMA_OWNER, KURMA_SIZE,
    KURMA_STAT,
};
use crate::file::File;
use crate::outcome::{Outcome, guard};
use crate::pointer::{check, given, set};
use crate::vectors::{kurma_vhardlink, kurma_vrename};

/// # Safety
/// The pointers are NULL or valid.
unsafe fn attributes(client: *const Client, file: File, flags: u32, got: *mut Attributes) -> Outcome {
    if let Err(refusal) = check(got, "attributes") {
        return refusal.into();
    }
    let attributes = Attributes::NONE;
    let mut get = GetAttributes { file, wanted: KURMA_STAT, flags, attributes, reserved: [0; 2] };
    // SAFETY: of the caller.
    let outcome = unsafe { one(client, &mut get) };
    if outcome.status == 0 {
        // SAFETY: of the caller.
        unsafe { got.write(get.attributes) };
    }
    outcome
}

/// # Safety
/// The pointers are NULL or valid.
unsafe fn change(client: *const Client, path: *const c_char, attributes: NewAttributes) -> Outcome {
    let mut change = SetAttributes { file: File::path(path), flags: 0, reserved: 0, attributes };
    // SAFETY: of the caller.
    unsafe { one(client, &mut change) }
}

/// Attributes (KURMA_STAT) of what a path leads to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_stat(
    client: *const Client,
    path: *const c_char,
    attributes: *mut Attributes,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { self::attributes(client, File::path(path), 0, attributes) }
}

/// Attributes (KURMA_STAT), those of a symbolic link itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_lstat(
    client: *const Client,
    path: *const c_char,
    attributes: *mut Attributes,
) -> Outcome {
    // SAFETY: of the caller.
    unsafe { self::attributes(client, File::path(path), KURMA_NOFOLLOW, attributes) }
}

/// Attributes (KURMA_STAT) of an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_fstat(client: *const Client, fd: u64, attributes: *mut Attributes) -> Outcome {
    // SAFETY: of the caller.
    unsafe { self::attributes(client, File::open(fd), KURMA_NOFOLLOW, attributes) }
}

/// Sets `exists` to 1 if there is something of this name, and to 0 if not; a symbolic link that leads nowhere is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_exists(
    client: *const Client,
    path: *const c_char,
    exists: *mut u32,
) -> Outcome {
    guard(1, || {
        // SAFETY: of the caller.
        let (client, target) = unsafe { (behind(client)?, File::path(path).target()?) };
        let there = client.exists(target).map_err(|error| Outcome::of(&error).at(0))?;
        // SAFETY: of the caller.
        unsafe { set(exists, "exists", u32::from(there)) }?;
        Ok(Outcome::success(1))
    })
}

/// Makes a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_mkdir(client: *const Client, path: *const c_char, mode: u32) -> Outcome {
    let mut directory = MakeDirectory { file: File::path(path), mode, reserved: 0 };
    // SAFETY: of the caller.
    unsafe { one(client, &mut directory) }
}

/// Removes a name that is no directory. Two round trips: NFS has one operation for everything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_unlink(client: *const Client, path: *const c_char) -> Outcome {
    guard(1, || {
        // SAFETY: of the caller.
        let (client, target) = unsafe { (behind(client)?, File::path(path).target()?) };
        client.unlink(target).map_err(|error| Outcome::of(&error).at(0))?;
        Ok(Outcome::success(1))
    })
}

/// Removes an empty directory. Two round trips, as `kurma_unlink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_rmdir(client: *const Client, path: *const c_char) -> Outcome {
    guard(1, || {
        // SAFETY: of the caller.
        let (client, target) = unsafe { (behind(client)?, File::path(path).target()?) };
        client.rmdir(target).map_err(|error| Outcome::of(&error).at(0))?;
        Ok(Outcome::success(1))
    })
}

/// Gives an object another name, replacing what has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_rename(
    client: *const Client,
    from: *const c_char,
    to: *const c_char,
) -> Outcome {
    let pair = Pair { from: File::path(from), to: File::path(to) };
    // SAFETY: of the caller.
    unsafe { kurma_vrename(client, &raw const pair, 1) }
}

/// Gives a file a further name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_link(
    client: *const Client,
    existing: *const c_char,
    new: *const c_char,
) -> Outcome {
    let pair = Pair { from: File::path(existing), to: File::path(new) };
    // SAFETY: of the caller.
    unsafe { kurma_vhardlink(client, &raw const pair, 1) }
}

/// Makes a symbolic link at `path` that leads to `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_symlink(
    client: *const Client,
    text: *const c_char,
    path: *const c_char,
) -> Outcome {
    let mut link = SymbolicLink { file: File::path(path), text };
    // SAFETY: of the caller.
    unsafe { one(client, &mut link) }
}

/// Asks where a symbolic link leads: into `text`, with a NUL, cut off if `size` is too small. `length`, if not NULL, gets the
/// bytes of the whole without the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_readlink(
    client: *const Client,
    path: *const c_char,
    text: *mut c_char,
    size: usize,
    length: *mut usize,
) -> Outcome {
    let mut link = ReadLink { file: File::path(path), text, size, length: 0 };
    // SAFETY: of the caller.
    let outcome = unsafe { one(client, &mut link) };
    if outcome.status == 0 && !length.is_null() {
        // SAFETY: of the caller.
        if let Err(refusal) = unsafe { set(length, "length", link.length) } {
            return refusal.into();
        }
    }
    outcome
}

/// Makes a file this long: cuts off, or adds a hole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_truncate(client: *const Client, path: *const c_char, size: u64) -> Outcome {
    // SAFETY: of the caller.
    unsafe { change(client, path, NewAttributes { set: KURMA_SIZE, size, ..NewAttributes::NONE }) }
}

/// Sets permission bits: the lower twelve of a Unix mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_chmod(client: *const Client, path: *const c_char, mode: u32) -> Outcome {
    // SAFETY: of the caller.
    unsafe { change(client, path, NewAttributes { set: KURMA_MODE, mode, ..NewAttributes::NONE }) }
}

/// Sets owner and group; UINT32_MAX for one that stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_chown(
    client: *const Client,
    path: *const c_char,
    uid: u32,
    gid: u32,
) -> Outcome {
    let bit = |id: u32, bit| if id == u32::MAX { 0 } else { bit };
    let set = bit(uid, KURMA_OWNER) | bit(gid, KURMA_GROUP);
    // SAFETY: of the caller.
    unsafe { change(client, path, NewAttributes { set, uid, gid, ..NewAttributes::NONE }) }
}

/// Sets when a file was last read and modified; NULL for one that stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_utimens(
    client: *const Client,
    path: *const c_char,
    accessed: *const Time,
    modified: *const Time,
) -> Outcome {
    let mut new = NewAttributes::NONE;
    for (bit, time, place) in
        [(KURMA_ACCESSED, accessed, &mut new.accessed), (KURMA_MODIFIED, modified, &mut new.modified)]
    {
        if time.is_null() {
            continue;
        }
        // SAFETY: of the caller.
        match unsafe { given(time, "time") } {
            Ok(time) => *place = *time,
            Err(refusal) => return refusal.into(),
        }
        new.set |= bit;
    }
    // SAFETY: of the caller.
    unsafe { change(client, path, new) }
}
