use std::ops::BitOr;

use nfs4::FileHandle;

/// What kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    SymbolicLink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// An owner or a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// By number.
    Id(u32),
    /// `name@domain`, where the server has no number to say.
    Name(String),
}

/// An instant: seconds since 1970 (before it negative), and nanoseconds below 10^9, always forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: u32,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Now, by the clock of the server.
    Now,
    /// This one.
    To(Time),
}

/// Attributes of an object, each present or not.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Attributes {
    /// What kind of object.
    pub kind: Option<Kind>,
    /// Permission bits: the lower twelve of a Unix mode.
    pub mode: Option<u32>,
    /// Owner.
    pub owner: Option<Owner>,
    /// Group.
    pub group: Option<Owner>,
    /// Bytes.
    pub size: Option<u64>,
    /// Bytes occupied.
    pub space_used: Option<u64>,
    /// Names of the object.
    pub links: Option<u32>,
    /// Number of the object in its file system (inode number).
    pub file_id: Option<u64>,
    /// The file system.
    pub file_system: Option<(u64, u64)>,
    /// Of a device node, major and minor number.
    pub device: Option<(u32, u32)>,
    /// When last read.
    pub accessed: Option<Time>,
    /// When the content last changed.
    pub modified: Option<Time>,
    /// When the attributes or the content last changed.
    pub changed: Option<Time>,
    /// Changes with every change of content or attributes.
    pub change: Option<u64>,
    /// The server's name for the object; NFS only.
    pub handle: Option<FileHandle>,
}

impl Attributes {
    /// Whether it is known to be of this kind.
    pub fn is(&self, kind: Kind) -> bool {
        self.kind == Some(kind)
    }

    /// Whether both seem to be of one object that is reached in two ways, as by a mount and by its server: number, times and size are the same.
    pub fn may_be_of_one_with(&self, other: &Attributes) -> bool {
        let marks = |it: &Attributes| Some((it.kind?, it.file_id?, it.changed?, it.modified?, it.size?));
        marks(self).is_some_and(|own| marks(other) == Some(own))
    }

    /// These of them.
    pub(crate) fn only(&self, wanted: AttributeSet) -> Attributes {
        let want = |set: AttributeSet| wanted.contains(set).then_some(());
        let all = self.clone();
        Attributes {
            kind: want(AttributeSet::KIND).and(all.kind),
            mode: want(AttributeSet::MODE).and(all.mode),
            owner: want(AttributeSet::OWNER).and(all.owner),
            group: want(AttributeSet::GROUP).and(all.group),
            size: want(AttributeSet::SIZE).and(all.size),
            space_used: want(AttributeSet::SPACE_USED).and(all.space_used),
            links: want(AttributeSet::LINKS).and(all.links),
            file_id: want(AttributeSet::FILE_ID).and(all.file_id),
            file_system: want(AttributeSet::FILE_SYSTEM).and(all.file_system),
            device: want(AttributeSet::DEVICE).and(all.device),
            accessed: want(AttributeSet::ACCESSED).and(all.accessed),
            modified: want(AttributeSet::MODIFIED).and(all.modified),
            changed: want(AttributeSet::CHANGED).and(all.changed),
            change: want(AttributeSet::CHANGE).and(all.change),
            handle: want(AttributeSet::HANDLE).and(all.handle),
        }
    }
}

/// A choice of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct AttributeSet(u32);

impl AttributeSet {
    /// No attribute.
    pub const NONE: AttributeSet = AttributeSet(0);
    /// [`Attributes::kind`].
    pub const KIND: AttributeSet = AttributeSet(1);
    /// [`Attributes::mode`].
    pub const MODE: AttributeSet = AttributeSet(1 << 1);
    /// [`Attributes::owner`].
    pub const OWNER: AttributeSet = AttributeSet(1 << 2);
    /// [`Attributes::group`].
    pub const GROUP: AttributeSet = AttributeSet(1 << 3);
    /// [`Attributes::size`].
    pub const SIZE: AttributeSet = AttributeSet(1 << 4);
    /// [`Attributes::space_used`].
    pub const SPACE_USED: AttributeSet = AttributeSet(1 << 5);
    /// [`Attributes::links`].
    pub const LINKS: AttributeSet = AttributeSet(1 << 6);
    /// [`Attributes::file_id`].
    pub const FILE_ID: AttributeSet = AttributeSet(1 << 7);
    /// [`Attributes::file_system`].
    pub const FILE_SYSTEM: AttributeSet = AttributeSet(1 << 8);
    /// [`Attributes::device`].
    pub const DEVICE: AttributeSet = AttributeSet(1 << 9);
    /// [`Attributes::accessed`].
    pub const ACCESSED: AttributeSet = AttributeSet(1 << 10);
    /// [`Attributes::modified`].
    pub const MODIFIED: AttributeSet = AttributeSet(1 << 11);
    /// [`Attributes::changed`].
    pub const CHANGED: AttributeSet = AttributeSet(1 << 12);
    /// [`Attributes::change`].
    pub const CHANGE: AttributeSet = AttributeSet(1 << 13);
    /// [`Attributes::handle`].
    pub const HANDLE: AttributeSet = AttributeSet(1 << 14);
    /// What `stat` shows.
    pub const STAT: AttributeSet = AttributeSet((1 << 13) - 1);

    /// Whether all of `other` are chosen.
    pub const fn contains(self, other: AttributeSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those.
    #[must_use]
    pub const fn with(self, other: AttributeSet) -> AttributeSet {
        AttributeSet(self.0 | other.0)
    }

    /// These without those.
    #[must_use]
    pub const fn without(self, other: AttributeSet) -> AttributeSet {
        AttributeSet(self.0 & !other.0)
    }
}

impl BitOr for AttributeSet {
    type Output = AttributeSet;

    fn bitor(self, other: AttributeSet) -> AttributeSet {
        self.with(other)
    }
}

/// Attributes to set; what is `None` stays.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewAttributes {
    /// Permission bits: the lower twelve of a Unix mode.
    pub mode: Option<u32>,
    /// Owner.
    pub owner: Option<Owner>,
    /// Group.
    pub group: Option<Owner>,
    /// Size in bytes: cuts off, or adds a hole.
    pub size: Option<u64>,
    /// When last read.
    pub accessed: Option<SetTime>,
    /// When last modified.
    pub modified: Option<SetTime>,
}

impl NewAttributes {
    /// Only permission bits.
    pub fn mode(mode: u32) -> NewAttributes {
        NewAttributes { mode: Some(mode), ..NewAttributes::default() }
    }

    /// Only the size.
    pub fn size(size: u64) -> NewAttributes {
        NewAttributes { size: Some(size), ..NewAttributes::default() }
    }

    /// Whether nothing is to be set.
    pub fn is_empty(&self) -> bool {
        *self == NewAttributes::default()
    }
}
