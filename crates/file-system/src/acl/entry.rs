/// One entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ace {
    /// Whether it gives the rights or refuses them.
    pub allows: bool,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Bits of [`right`].
    pub rights: u32,
    /// Whom it is about.
    pub who: Who,
}

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// `OWNER@`: the object's owner.
    Owner,
    /// `GROUP@`: all of the object's group.
    Group,
    /// `EVERYONE@`: everybody, owner and group among them.
    Everyone,
    /// One user.
    User(u32),
    /// All of one group.
    GroupNumber(u32),
}

impl Ace {
    /// Whether it counts for the object itself.
    pub fn is_effective(&self) -> bool {
        self.flags & flag::INHERIT_ONLY == 0
    }

    /// Whether new objects in the directory get it.
    pub fn is_inheritable(&self) -> bool {
        self.flags & (flag::FILE_INHERIT | flag::DIRECTORY_INHERIT) != 0
    }
}

impl Who {
    /// Neither owner, group nor everyone.
    pub fn is_named(self) -> bool {
        matches!(self, Who::User(_) | Who::GroupNumber(_))
    }
}

/// Bits of [`Ace::flags`], with the values of RFC 8881 §6.2.1.4.
pub mod flag {
    /// New files get the entry.
    pub const FILE_INHERIT: u8 = 0x01;
    /// New directories get the entry.
    pub const DIRECTORY_INHERIT: u8 = 0x02;
    /// New directories do not pass it on.
    pub const NO_PROPAGATE_INHERIT: u8 = 0x04;
    /// It counts for new objects only.
    pub const INHERIT_ONLY: u8 = 0x08;
    /// It came from the directory.
    pub const INHERITED: u8 = 0x80;
    /// Everything about inheriting, but not where the entry itself came from.
    pub const INHERITANCE: u8 = FILE_INHERIT | DIRECTORY_INHERIT | NO_PROPAGATE_INHERIT | INHERIT_ONLY;
    /// All of them.
    pub const ALL: u8 = INHERITANCE | INHERITED;
}

/// Bits of [`Ace::rights`], with the values of RFC 8881 §6.2.1.3.
pub mod right {
    /// Read the content; list the directory.
    pub const READ_DATA: u32 = 0x0000_0001;
    /// Change the content; add what is no directory.
    pub const WRITE_DATA: u32 = 0x0000_0002;
    /// Extend the content; add a directory.
    pub const APPEND_DATA: u32 = 0x0000_0004;
    /// Run the file; look names up in the directory.
    pub const EXECUTE: u32 = 0x0000_0020;
    /// Take entries out of the directory.
    pub const DELETE_CHILD: u32 = 0x0000_0040;
    /// Read attributes. Everybody may.
    pub const READ_ATTRIBUTES: u32 = 0x0000_0080;
    /// Set times.
    pub const WRITE_ATTRIBUTES: u32 = 0x0000_0100;
    /// Take the entry of this object out of its directory.
    pub const DELETE: u32 = 0x0001_0000;
    /// Read the list. Everybody may.
    pub const READ_ACL: u32 = 0x0002_0000;
    /// Set the list and the mode.
    pub const WRITE_ACL: u32 = 0x0004_0000;
    /// Take the object over.
    pub const WRITE_OWNER: u32 = 0x0008_0000;
    /// Without a meaning here.
    pub const SYNCHRONIZE: u32 = 0x0010_0000;
    /// All that the RFC knows, also those without a meaning here: named attributes and retention.
    pub const ALL: u32 = 0x001f_07ff;
}
