//! Whole trees.

use std::ffi::{CString, c_char, c_void};
use std::fmt::Display;

use vector_client::{
    CopyAct, CopyItem, CopyOptions, CopyWatch, Error, Links, Make, Preserve, Removal, Target,
};

use crate::argument::pair::Pair;
use crate::client::{Client, behind};
use crate::constants::*;
use crate::file::File;
use crate::listing::Shown;
use crate::outcome::{Outcome, Refusal, guard};
use crate::pointer::{array, check_flags};

/// What became of an object of a tree. What it points to is there as long as the callback runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    /// Which of the elements it is, or is below.
    pub element: usize,
    /// The object.
    pub file: File,
    /// When copying, as what; otherwise like a file that is not there.
    pub copy: File,
    /// 0, or why not, as an error number of errno.h.
    pub status: i32,
    /// When removing, 1 for a directory.
    pub is_directory: u32,
    /// When copying a file, its bytes.
    pub bytes: u64,
    /// What could not be done and why; "" if it could.
    pub message: *const c_char,
}

/// Is told what became of each object. It must not make calls of this library: they fail with EOPNOTSUPP.
pub type FateCallback = Option<unsafe extern "C" fn(fate: *const Fate, opaque: *mut c_void)>;

/// Tells the caller, and keeps count.
struct Teller {
    each: FateCallback,
    opaque: *mut c_void,
    done: usize,
    /// The first failure.
    outcome: Option<Outcome>,
}

// SAFETY: the pointer is used only on the thread of the call, which waits for the future in which this is.
unsafe impl Send for Teller {}

/// Something that happened to an object.
struct News<'a> {
    element: usize,
    file: &'a Target,
    copy: Option<&'a Target>,
    is_directory: bool,
    bytes: u64,
    failure: Option<(i32, String)>,
}

impl Teller {
    fn new(each: FateCallback, opaque: *mut c_void) -> Teller {
        Teller { each, opaque, done: 0, outcome: None }
    }

    fn tell(&mut self, news: &News<'_>) {
        match &news.failure {
            None => self.done += 1,
            Some((status, what)) if self.outcome.is_none() => {
                let refusal = Refusal { status: *status, what: what.clone().into() };
                self.outcome = Some(Outcome::refused(&refusal).at(news.element));
            }
            Some(_) => {}
        }
        let Some(each) = self.each else { return };
        let copy = news.copy.map(Shown::of).transpose();
        // A name that cannot be said in C was not made by it, and no file can have it.
        let (Ok(file), Ok(copy)) = (Shown::of(news.file), copy) else { return };
        let message = news.failure.as_ref().map_or("", |(_, what)| what);
        let message = CString::new(message.replace('\0', "?")).unwrap_or_default();
        let fate = Fate {
            element: news.element,
            file: file.file(),
            copy: copy.as_ref().map_or(File::NONE, Shown::file),
            status: news.failure.as_ref().map_or(0, |(status, _)| *status),
            is_directory: news.is_directory.into(),
            bytes: news.bytes,
            message: message.as_ptr(),
        };
        // SAFETY: of the caller; all of it lives until it returns.
        unsafe { each(&raw const fate, self.opaque) };
    }

    /// What came of it all.
    fn outcome(self, ended: Option<&Error>) -> Outcome {
        let outcome = match ended {
            Some(error) => Outcome::of(error),
            None => self.outcome.unwrap_or_else(|| Outcome::success(0)),
        };
        Outcome { done: self.done, ..outcome }
    }
}

fn because(error: impl Display, act: &str) -> String {
    format!("cannot {act}: {error}")
}

/// The status and the words for what could not be done.
fn why(item: &CopyItem, act: &CopyAct, error: Option<&Error>) -> (i32, String) {
    let (status, words) = match act {
        CopyAct::Find => (libc::ENOENT, "find it"),
        CopyAct::FindDestination => (libc::ENOENT, "look where the copy goes"),
        CopyAct::OmitDirectory => (libc::EISDIR, "copy a directory without what is below"),
        CopyAct::SameFile => (libc::EINVAL, "copy a file to itself"),
        CopyAct::IntoItself => (libc::EINVAL, "copy a directory into itself"),
        CopyAct::Cycle => (libc::ELOOP, "follow a symbolic link to a directory that it is in"),
        CopyAct::OverDirectory => (libc::EISDIR, "replace a directory by something else"),
        CopyAct::OverFile => (libc::ENOTDIR, "replace something else by a directory"),
        CopyAct::List => (libc::EIO, "list it"),
        CopyAct::Read => (libc::EIO, "read it"),
        CopyAct::Write => (libc::EIO, "write the copy"),
        CopyAct::MakeDirectory => (libc::EIO, "make the directory"),
        CopyAct::ReadLink => (libc::EIO, "read the symbolic link"),
        CopyAct::MakeSymbolicLink(_) => (libc::EIO, "make the symbolic link"),
        CopyAct::MakeHardLink(_) => (libc::EIO, "make a further name"),
        CopyAct::MakeSpecial => (libc::EOPNOTSUPP, "copy what is neither file, directory nor link"),
        CopyAct::Remove => (libc::EIO, "remove what is there"),
        CopyAct::SetAttributes => (libc::EIO, "set attributes of the copy"),
        _ => (libc::EIO, "copy it"),
    };
    match error {
        Some(error) => (error.errno(), because(error, words)),
        None => (status, because(&item.source, words)),
    }
}

/// Watches a copy for the caller.
struct Watch {
    teller: Teller,
    keep: bool,
}

impl CopyWatch for Watch {
    fn may_replace(&mut self, _: &CopyItem) -> bool {
        !self.keep
    }

    fn copied(&mut self, item: &CopyItem, bytes: u64) {
        self.teller.tell(&news(item, bytes, None));
    }

    fn failed(&mut self, item: &CopyItem, act: &CopyAct, error: Option<&Error>) {
        self.teller.tell(&news(item, 0, Some(why(item, act, error))));
    }
}

fn news(item: &CopyItem, bytes: u64, failure: Option<(i32, String)>) -> News<'_> {
    News {
        element: item.argument,
        file: &item.source,
        copy: Some(&item.destination),
        is_directory: false,
        bytes,
        failure,
    }
}

fn options(flags: u32, umask: u32) -> Result<CopyOptions, Refusal> {
    check_flags(flags, 0xfff)?;
    let is_set = |bit| flags & bit != 0;
    let preserve = Preserve {
        mode: is_set(KURMA_COPY_MODE),
        owner: is_set(KURMA_COPY_OWNER),
        times: is_set(KURMA_COPY_TIMES),
        links: is_set(KURMA_COPY_LINKS),
    };
    let links = match (is_set(KURMA_COPY_FOLLOW), is_set(KURMA_COPY_FOLLOW_NAMED)) {
        (true, _) => Links::Follow,
        (_, true) => Links::FollowNamed,
        _ => Links::Keep,
    };
    let make = match (is_set(KURMA_COPY_SYMBOLIC), is_set(KURMA_COPY_HARD)) {
        (true, true) => return Err(Refusal::invalid("both symbolic links and further names")),
        (true, _) => Make::SymbolicLink,
        (_, true) => Make::HardLink,
        _ => Make::Copy,
    };
    let (recursive, force, remove) =
        (!is_set(KURMA_COPY_FLAT), is_set(KURMA_COPY_FORCE), is_set(KURMA_COPY_REMOVE));
    Ok(CopyOptions { recursive, links, preserve, make, umask, force, remove })
}

/// Makes a directory and those above it that are missing, with these permission bits. `done` is how many were made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_ensure_directory(
    client: *const Client,
    directory: File,
    mode: u32,
) -> Outcome {
    guard(1, || {
        // SAFETY: of the caller.
        let (client, target) = unsafe { (behind(client)?, directory.target()?) };
        let made = client.ensure_directory(target, mode).map_err(|error| Outcome::of(&error).at(0))?;
        Ok(Outcome::success(made.len()))
    })
}

/// Removes files and directories with all below them, children first; symbolic links are not followed. Goes on after
/// what cannot be removed; `status`, `index` and the message are of the first such name, `done` counts the names that are
/// gone, and `each` (or NULL) is told of each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_rm_recursive(
    client: *const Client,
    files: *const File,
    count: usize,
    each: FateCallback,
    opaque: *mut c_void,
) -> Outcome {
    guard(count, || {
        // SAFETY: of the caller.
        let (client, files) = unsafe { (behind(client)?, array(files, count, "files")?) };
        let mut targets = Vec::with_capacity(count);
        for (index, file) in files.iter().enumerate() {
            // SAFETY: of the caller.
            let target = unsafe { file.target() };
            targets.push(target.map_err(|refusal| Outcome::refused(&refusal).at(index))?);
        }
        let mut teller = Teller::new(each, opaque);
        let told = |removal: Removal<'_>| {
            let failure = removal.result.err().map(|error| (error.errno(), because(error, "remove")));
            teller.tell(&News {
                element: removal.argument,
                file: removal.target,
                copy: None,
                is_directory: removal.is_directory,
                bytes: 0,
                failure,
            });
        };
        let ended = client.wait(async |client| client.rm_recursive(targets, told).await);
        let ended = ended.and_then(|failed| failed).err();
        Ok(teller.outcome(ended.as_ref()))
    })
}

/// Copies files, and directories with all below them, from one client to another, or the same one. `to` of each pair is the copy
/// itself, not a directory for it. `flags` are bits of KURMA_COPY_FLAT and those after it; `umask` is what new objects do not
/// get of the permission bits of their originals. Goes on after what cannot be copied; `status`, `index` and the message
/// are of the first such object, `done` counts those that were copied, and `each` (or NULL) is told of each.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // each is one thing in C, too
pub unsafe extern "C" fn kurma_cp_recursive(
    from: *const Client,
    copies: *const Pair,
    count: usize,
    to: *const Client,
    flags: u32,
    umask: u32,
    each: FateCallback,
    opaque: *mut c_void,
) -> Outcome {
    guard(count, || {
        // SAFETY: of the caller.
        let (from, pairs, to) = unsafe { (behind(from)?, array(copies, count, "copies")?, behind(to)?) };
        let mut targets = Vec::with_capacity(count);
        for (index, pair) in pairs.iter().enumerate() {
            // SAFETY: of the caller.
            let both = unsafe { pair.from.target().and_then(|from| Ok((from, pair.to.target()?))) };
            targets.push(both.map_err(|refusal| Outcome::refused(&refusal).at(index))?);
        }
        let options = options(flags, umask)?;
        let mut watch = Watch { teller: Teller::new(each, opaque), keep: flags & KURMA_COPY_KEEP != 0 };
        let to = to.wait(async |to| to.clone()).map_err(|error| Outcome::of(&error))?;
        let ended = from.wait(async |from| from.cp_recursive(targets, &to, &options, &mut watch).await);
        let ended = ended.and_then(|failed| failed).err();
        Ok(watch.teller.outcome(ended.as_ref()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_options() {
        assert_eq!(options(0, 0o22).unwrap(), CopyOptions::default());
        let archive = options(KURMA_COPY_ALL, 0o22).unwrap();
        assert_eq!(archive, CopyOptions { preserve: Preserve::ALL, ..CopyOptions::default() });
        let flat =
            options(KURMA_COPY_FLAT | KURMA_COPY_FOLLOW | KURMA_COPY_HARD | KURMA_COPY_REMOVE, 0).unwrap();
        assert_eq!((flat.recursive, flat.links, flat.make), (false, Links::Follow, Make::HardLink));
        assert!(flat.remove && !flat.force);
        assert!(options(KURMA_COPY_SYMBOLIC | KURMA_COPY_HARD, 0).is_err());
        assert!(options(0x1000, 0).is_err());
    }
}
