//! What a vector is made of.

use bytes::Bytes;

use crate::{AttributeSet, Attributes, Descriptor, Error, NewAttributes, Target};

/// The offset that stands for "at the end of the file, wherever that is when the data is written" (V5).
pub const APPEND: u64 = u64::MAX;

/// An offset so many bytes further on: too far for any file, if it has to be, but never [`APPEND`].
pub(crate) fn further(offset: u64, bytes: usize) -> u64 {
    offset.saturating_add(bytes as u64).min(APPEND - 1)
}

/// The length that stands for "up to the end of the file".
pub const TO_END: u64 = u64::MAX;

/// How to make a file that is to be opened or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Permission bits of a new file.
    pub mode: u32,
    /// Whether a file that exists already is an error.
    pub exclusive: bool,
}

/// Opens a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Which.
    pub target: Target,
    /// Whether to read.
    pub read: bool,
    /// Whether to write.
    pub write: bool,
    /// Whether to create it, and how.
    pub create: Option<Creation>,
    /// Whether to cut off what is in it.
    pub truncate: bool,
    /// Whether a symbolic link leads on; if not, it is an error.
    pub follow: bool,
}

impl Open {
    /// Of an existing file, for reading.
    pub fn read(target: impl Into<Target>) -> Open {
        Open { target: target.into(), read: true, write: false, create: None, truncate: false, follow: true }
    }

    /// Of an existing file, for reading and writing.
    pub fn write(target: impl Into<Target>) -> Open {
        Open { write: true, ..Open::read(target) }
    }

    /// For reading and writing, with these permission bits if it is made.
    pub fn create(target: impl Into<Target>, mode: u32) -> Open {
        Open { write: true, create: Some(Creation { mode, exclusive: false }), ..Open::read(target) }
    }

    /// Whether it makes sense.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refused = |what| Err(Error::Invalid { target: self.target.clone(), what });
        match (self.read, self.write, self.truncate) {
            (false, false, _) => refused("a file is opened for reading, for writing, or both"),
            (_, false, true) => refused("what is in a file can be cut off only if it is opened for writing"),
            _ => Ok(()),
        }
    }
}

/// Reads an extent (V1). Opens and closes a file that is named by a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// From where.
    pub target: Target,
    /// First byte.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u64,
    /// Whether a symbolic link leads on; if not, it is an error.
    pub follow: bool,
}

impl Read {
    /// These bytes.
    pub fn new(target: impl Into<Target>, offset: u64, length: u64) -> Read {
        Read { target: target.into(), offset, length, follow: true }
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Data {
    /// The bytes, in pieces as they came; fewer than wanted only at the end of the file.
    pub pieces: Vec<Bytes>,
    /// Whether the file ends after them.
    pub end_of_file: bool,
}

impl Data {
    /// Bytes.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(Bytes::is_empty)
    }

    /// In one piece; copies if there were several.
    pub fn into_bytes(mut self) -> Bytes {
        match self.pieces.len() {
            0 | 1 => self.pieces.pop().unwrap_or_default(),
            _ => self.pieces.concat().into(),
        }
    }
}

/// Writes an extent (V2). Opens and closes a file that is named by a path.
///
/// Once the call has returned, whoever opens the file sees the data, and the end of this program does not harm it. A loss of
/// power does not harm it if the write is `stable`, or after [`Step::Commit`] of a descriptor. An NFS server keeps more than
/// this: what is written by a path, or closed, is safe with it at once, because that costs no round trip; on a local disk it would
/// cost a flush for each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where to.
    pub target: Target,
    /// First byte, or [`APPEND`].
    pub offset: u64,
    /// The data.
    pub data: Bytes,
    /// Whether to create the file, and how.
    pub create: Option<Creation>,
    /// Whether to cut off what is in it before.
    pub truncate: bool,
    /// Whether the data, and the name of the file if it is new, must be safe from a loss of power before the call returns.
    pub stable: bool,
    /// Whether a symbolic link leads on; if not, it is an error.
    pub follow: bool,
}

impl Write {
    /// Into an existing file.
    pub fn new(target: impl Into<Target>, offset: u64, data: impl Into<Bytes>) -> Write {
        Write {
            target: target.into(),
            offset,
            data: data.into(),
            create: None,
            truncate: false,
            stable: false,
            follow: true,
        }
    }

    /// A whole file, made or replaced.
    pub fn whole(target: impl Into<Target>, mode: u32, data: impl Into<Bytes>) -> Write {
        let create = Some(Creation { mode, exclusive: false });
        Write { create, truncate: true, ..Write::new(target, 0, data) }
    }

    /// At the end of an existing file.
    pub fn append(target: impl Into<Target>, data: impl Into<Bytes>) -> Write {
        Write::new(target, APPEND, data)
    }
}

/// Copies an extent within the server, without the data passing the client (V12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// From where.
    pub source: Target,
    /// First byte there.
    pub source_offset: u64,
    /// Where to.
    pub destination: Target,
    /// First byte there.
    pub destination_offset: u64,
    /// Bytes, or [`TO_END`].
    pub length: u64,
    /// Whether to create the destination, and how.
    pub create: Option<Creation>,
    /// Whether to cut off what is in the destination before.
    pub truncate: bool,
}

impl Copy {
    /// Of a whole file, made or replaced.
    pub fn whole(source: impl Into<Target>, destination: impl Into<Target>, mode: u32) -> Copy {
        Copy {
            source: source.into(),
            source_offset: 0,
            destination: destination.into(),
            destination_offset: 0,
            length: TO_END,
            create: Some(Creation { mode, exclusive: false }),
            truncate: true,
        }
    }
}

/// One element of a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Opens a file: [`Done::Opened`].
    Open(Open),
    /// Closes a file. Over NFS, makes safe what was written to it; see [`Write`].
    Close(Descriptor),
    /// Reads: [`Done::Read`].
    Read(Read),
    /// Writes: [`Done::Written`].
    Write(Write),
    /// Makes safe what was written through a descriptor, from a loss of power too.
    Commit(Descriptor),
    /// Asks for attributes: [`Done::Attributes`].
    GetAttributes {
        /// Of what.
        target: Target,
        /// Which.
        wanted: AttributeSet,
        /// Whether those of what a symbolic link leads to.
        follow: bool,
    },
    /// Sets attributes.
    SetAttributes {
        /// Of what.
        target: Target,
        /// Which, to what.
        attributes: NewAttributes,
        /// Whether those of what a symbolic link leads to.
        follow: bool,
    },
    /// Copies within the server: [`Done::Copied`].
    Copy(Copy),
    /// Makes a directory.
    MakeDirectory {
        /// Its path.
        target: Target,
        /// Its permission bits.
        mode: u32,
    },
    /// Makes a symbolic link.
    MakeSymbolicLink {
        /// Its path.
        target: Target,
        /// Where it leads.
        text: Bytes,
    },
    /// Asks where a symbolic link leads: [`Done::Link`].
    ReadLink(Target),
    /// Gives a file a further name.
    HardLink {
        /// The file.
        existing: Target,
        /// The further name.
        new: Target,
    },
    /// Removes a file or an empty directory.
    Remove(Target),
    /// Gives an object another name, replacing what has it.
    Rename {
        /// The present name.
        from: Target,
        /// The new one.
        to: Target,
    },
}

impl Step {
    /// Whether nothing is another for it, so that it may be done again.
    pub fn only_reads(&self) -> bool {
        match self {
            Step::Open(open) => open.create.is_none() && !open.truncate,
            Step::Close(_) | Step::Commit(_) => true,
            Step::Read(_) | Step::GetAttributes { .. } | Step::ReadLink(_) => true,
            Step::Write(_)
            | Step::SetAttributes { .. }
            | Step::Copy(_)
            | Step::MakeDirectory { .. }
            | Step::MakeSymbolicLink { .. }
            | Step::HardLink { .. }
            | Step::Remove(_)
            | Step::Rename { .. } => false,
        }
    }

    /// What it is mainly about.
    pub fn target(&self) -> Target {
        match self {
            Step::Open(Open { target, .. })
            | Step::Read(Read { target, .. })
            | Step::Write(Write { target, .. })
            | Step::GetAttributes { target, .. }
            | Step::SetAttributes { target, .. }
            | Step::MakeDirectory { target, .. }
            | Step::MakeSymbolicLink { target, .. }
            | Step::ReadLink(target)
            | Step::Remove(target) => target.clone(),
            Step::Close(descriptor) | Step::Commit(descriptor) => (*descriptor).into(),
            Step::Copy(copy) => copy.destination.clone(),
            Step::HardLink { new, .. } => new.clone(),
            Step::Rename { from, .. } => from.clone(),
        }
    }
}

/// The result of a [`Step`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Done {
    /// It is done, and there is nothing to say.
    Nothing,
    /// The open file.
    Opened(Descriptor),
    /// What was read.
    Read(Data),
    /// Bytes written.
    Written(u64),
    /// The attributes wanted, as far as the object has them.
    Attributes(Box<Attributes>),
    /// Bytes copied.
    Copied(u64),
    /// Where the link leads.
    Link(Bytes),
}
