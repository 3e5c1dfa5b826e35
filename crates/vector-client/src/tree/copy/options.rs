use bytes::Bytes;

use crate::{Attributes, Error, Target};

/// Which symbolic links are followed, so that what they lead to is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Links {
    /// None.
    #[default]
    Keep,
    /// Those that were named, but none below.
    FollowNamed,
    /// All.
    Follow,
}

/// What is made for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Make {
    /// A file with the same content.
    #[default]
    Copy,
    /// A symbolic link to it (`cp -s`). What is there is replaced only with [`CopyOptions::force`] or [`CopyOptions::remove`].
    SymbolicLink,
    /// A further name for it (`cp -l`). What is there is replaced as for symbolic links.
    HardLink,
}

/// Which attributes a copy has from its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Preserve {
    /// Permission bits; without it those of new objects are those of the original without the `umask`.
    pub mode: bool,
    /// Owner and group. If that is not allowed, the copy belongs to who makes it.
    pub owner: bool,
    /// When read and modified.
    pub times: bool,
    /// Names of one file become names of one copy.
    pub links: bool,
}

impl Preserve {
    /// All (`cp -a`).
    pub const ALL: Preserve = Preserve { mode: true, owner: true, times: true, links: true };

    /// Whether there is anything to set.
    pub(super) fn any_attribute(self) -> bool {
        self.mode || self.owner || self.times
    }
}

/// How to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// Whether directories are copied, with all below them.
    pub recursive: bool,
    /// Which symbolic links are followed.
    pub links: Links,
    /// What copies have from their originals.
    pub preserve: Preserve,
    /// What is made for files.
    pub make: Make,
    /// Permission bits that new objects do not get.
    pub umask: u32,
    /// Whether a file is removed that is there and cannot be opened, or replaced by a link (`cp -f`).
    pub force: bool,
    /// Whether a file is removed that is there (`cp --remove-destination`).
    pub remove: bool,
}

impl Default for CopyOptions {
    /// Everything below, symbolic links as they are, with the usual umask of 022.
    fn default() -> CopyOptions {
        CopyOptions {
            recursive: true,
            links: Links::Keep,
            preserve: Preserve::default(),
            make: Make::Copy,
            umask: 0o022,
            force: false,
            remove: false,
        }
    }
}

/// An object that is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyItem {
    /// Which of the arguments it is, or is below.
    pub argument: usize,
    /// What.
    pub source: Target,
    /// As what.
    pub destination: Target,
    /// Attributes of the source.
    pub attributes: Attributes,
    /// What is there; only what it takes to know what it is.
    pub existing: Option<Attributes>,
}

/// What could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyAct {
    /// Finding the source.
    Find,
    /// Finding out what is where the copy goes.
    FindDestination,
    /// Copying a directory where that is not wanted.
    OmitDirectory,
    /// Copying something to itself.
    SameFile,
    /// Copying a directory into itself.
    IntoItself,
    /// Following a symbolic link to a directory that the link is in.
    Cycle,
    /// Replacing a directory by something else.
    OverDirectory,
    /// Replacing something else by a directory.
    OverFile,
    /// Reading a directory.
    List,
    /// Opening or reading a file.
    Read,
    /// Making or writing a file.
    Write,
    /// Making a directory.
    MakeDirectory,
    /// Reading a symbolic link.
    ReadLink,
    /// Making a symbolic link with this text.
    MakeSymbolicLink(Bytes),
    /// Making a further name of this.
    MakeHardLink(Target),
    /// Making something that is neither file, nor directory, nor link.
    MakeSpecial,
    /// Removing what is there.
    Remove,
    /// Setting attributes.
    SetAttributes,
}

/// Is told what becomes of each object.
pub trait CopyWatch: Send {
    /// Whether this is copied at all, with what is below it; asked for what is in a directory.
    fn wants(&mut self, item: &CopyItem) -> bool {
        let _ = item;
        true
    }

    /// Whether what exists may be replaced by this; asked only if something is there, and not for directories.
    fn may_replace(&mut self, item: &CopyItem) -> bool {
        let _ = item;
        true
    }

    /// So many bytes have been copied of large files that are not whole yet; told again and again.
    fn moving(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// It is copied; its bytes if it is a file. Directories are told of when they are made.
    fn copied(&mut self, item: &CopyItem, bytes: u64) {
        let _ = (item, bytes);
    }

    /// This could not be done. The rest goes on.
    fn failed(&mut self, item: &CopyItem, act: &CopyAct, error: Option<&Error>) {
        let _ = (item, act, error);
    }
}

/// Watches nothing.
impl CopyWatch for () {}
