//! Directories.

use std::ffi::{CString, c_char, c_int, c_void};

use vector_client::{Base, Error, Target};

use crate::attributes::{Attributes, wanted};
use crate::client::{Client, behind};
use crate::constants::{KURMA_GO_ON, KURMA_RECURSIVE};
use crate::file::{File, Handle, fd};
use crate::outcome::{Outcome, Refusal, guard};
use crate::pointer::{array, check_flags};

/// A name in a directory. What it points to is there as long as the callback runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The directory: one of those asked for, or one below.
    pub directory: File,
    /// The name; NULL if `status` is not 0.
    pub name: *const c_char,
    /// Bytes of it.
    pub name_length: usize,
    /// The attributes wanted, as far as they could be had. Those of the link if it is a symbolic link. NULL if `status` is not 0.
    pub attributes: *const Attributes,
    /// 0. With KURMA_GO_ON, which older libraries refuse, also an error number of errno.h: why `directory` could not be read, or not be read further.
    pub status: i32,
    /// 0.
    pub reserved: u32,
}

impl Entry {
    /// None.
    fn of(directory: File) -> Entry {
        let (name, attributes) = (std::ptr::null(), std::ptr::null());
        Entry { directory, name, name_length: 0, attributes, status: 0, reserved: 0 }
    }
}

/// Is told of each entry. Anything but 0 ends the listing. It may make calls of its own.
pub type ListCallback = Option<unsafe extern "C" fn(entry: *const Entry, opaque: *mut c_void) -> c_int>;

/// A target in the form that callers know.
pub(crate) struct Shown {
    path: CString,
    fd: u64,
    handle: Option<Handle>,
}

impl Shown {
    pub fn of(target: &Target) -> Result<Shown, Refusal> {
        let (fd, handle) = match target.base() {
            Base::Root | Base::RootWithoutLinks(_) => (0, None),
            Base::Descriptor(descriptor) => (fd(*descriptor), None),
            Base::Handle(handle) => (0, Some(Handle::of(handle))),
        };
        Ok(Shown { path: string(target.path())?, fd, handle })
    }

    pub fn file(&self) -> File {
        let handle = self.handle.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        File { path: self.path.as_ptr(), fd: self.fd, handle }
    }
}

/// Whether others may be listed all the same.
fn is_about_the_directory(error: &Error) -> bool {
    matches!(error, Error::Refused { .. } | Error::Local { .. } | Error::TooManyLinks(_) | Error::NotOpen(_))
}

/// With a NUL at its end. One within it is none of a name.
fn string(bytes: &[u8]) -> Result<CString, Refusal> {
    CString::new(bytes)
        .map_err(|_| Refusal { status: libc::EIO, what: "the server sent a name with a NUL in it".into() })
}

/// Calls `each` for every entry of these directories with the attributes `attributes` (0: names alone); of all below them, too,
/// if KURMA_RECURSIVE is in `flags`: breadth first, symbolic links not followed. Entries come as they arrive, in the order of
/// the server, so that a long directory needs no long memory. `done` is the number of directories that were read. If `each`
/// ends it, `status` is ECANCELED. A directory that cannot be read ends it, too, unless KURMA_GO_ON is in `flags`: then `each` is told, by the
/// entry's `status`, and the others are listed; the call is a success even if none could be. It ends all the same when the server does not answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_vlistdir(
    client: *const Client,
    directories: *const File,
    count: usize,
    attributes: u32,
    flags: u32,
    each: ListCallback,
    opaque: *mut c_void,
) -> Outcome {
    guard(0, || {
        // SAFETY: of the caller.
        let (client, files) = unsafe { (behind(client)?, array(directories, count, "directories")?) };
        check_flags(flags, KURMA_RECURSIVE | KURMA_GO_ON)?;
        let each = each.ok_or_else(|| Refusal::invalid("each is NULL"))?;
        let wanted = wanted(attributes)?;
        let mut targets = Vec::with_capacity(count);
        for (index, file) in files.iter().enumerate() {
            // SAFETY: of the caller.
            let target = unsafe { file.target() };
            targets.push(target.map_err(|refusal| Outcome::refused(&refusal).at(index))?);
        }
        let mut read = 0;
        let so_far = |outcome: Outcome, read| Outcome { done: read, index: read, ..outcome };
        let tell = |entry: Entry, read| {
            // SAFETY: of the caller; all that it points to lives until it returns.
            match unsafe { each(&raw const entry, opaque) } {
                0 => Ok(()),
                _ => {
                    let ended = Refusal { status: libc::ECANCELED, what: "ended by the callback".into() };
                    Err(so_far(ended.into(), read))
                }
            }
        };
        for found in client.walk(targets, wanted, flags & KURMA_RECURSIVE != 0) {
            let shown = |read| Shown::of(&found.directory).map_err(|refusal| so_far(refusal.into(), read));
            let entries = match found.entries {
                Ok(entries) => entries,
                Err(error) if flags & KURMA_GO_ON != 0 && is_about_the_directory(&error) => {
                    let directory = shown(read)?;
                    let status = Outcome::of(&error).status;
                    tell(Entry { status, ..Entry::of(directory.file()) }, read)?;
                    continue;
                }
                Err(error) => return Err(so_far(Outcome::of(&error), read)),
            };
            let directory = shown(read)?;
            for entry in entries {
                let name = string(&entry.name).map_err(|refusal| so_far(refusal.into(), read))?;
                let attributes = Attributes::of(&entry.attributes);
                let shown = Entry {
                    name: name.as_ptr(),
                    name_length: entry.name.len(),
                    attributes: &raw const attributes,
                    ..Entry::of(directory.file())
                };
                tell(shown, read)?;
            }
            read += usize::from(found.last);
        }
        Ok(Outcome::success(read))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_nul_is_not_cut_off() {
        assert_eq!(string(b"a\0b").unwrap_err().status, libc::EIO);
        assert_eq!(string(b"ab").unwrap().as_c_str(), c"ab");
    }

    #[test]
    fn a_target_comes_back_as_it_was() {
        let handle = Handle { length: 3, ..Handle::NONE };
        let files = [
            File::path(c"a/b".as_ptr()),
            File { path: c"c".as_ptr(), ..File::open(3) },
            File { path: c"d".as_ptr(), handle: &raw const handle, ..File::NONE },
        ];
        for file in files {
            // SAFETY: all of it lives.
            let target = unsafe { file.target() }.unwrap();
            let shown = Shown::of(&target).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { shown.file().target() }.unwrap(), target);
        }
    }
}
