//! Attributes of objects.

use std::ffi::c_char;

use vector_client::{AttributeSet, Kind, Owner, SetTime};

use crate::constants::*;
use crate::file::Handle;
use crate::outcome::{Refusal, put};
use crate::pointer::{check_flags, text};

/// An instant: seconds since 1970, and nanoseconds below 10^9, always forward.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Time {
    /// Whole seconds; before 1970 negative.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: u32,
    /// 0.
    pub reserved: u32,
}

/// Attributes of an object.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// Which of them are here: the bits KURMA_KIND to KURMA_HANDLE. The others are 0.
    pub present: u32,
    /// KURMA_FILE to KURMA_SOCKET.
    pub kind: u32,
    /// Permission bits: the lower twelve of a Unix mode.
    pub mode: u32,
    /// Names of the object.
    pub links: u32,
    /// Owner; UINT32_MAX if the server has only a name for him.
    pub uid: u32,
    /// Group; UINT32_MAX if the server has only a name for it.
    pub gid: u32,
    /// Of a device node.
    pub device_major: u32,
    /// Of a device node.
    pub device_minor: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes occupied.
    pub space_used: u64,
    /// Number of the object in its file system.
    pub file_id: u64,
    /// The file system.
    pub file_system_major: u64,
    /// The file system.
    pub file_system_minor: u64,
    /// Changes with every change of content or attributes.
    pub change: u64,
    /// When last read.
    pub accessed: Time,
    /// When the content last changed.
    pub modified: Time,
    /// When the content or the attributes last changed.
    pub changed: Time,
    /// The server's name for the object.
    pub handle: Handle,
    /// Owner, as name@domain, if the server has no number for him; cut off if it is long.
    pub owner_name: [c_char; KURMA_OWNER_NAME],
    /// Group, in the same way.
    pub group_name: [c_char; KURMA_OWNER_NAME],
}

/// Attributes to set.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NewAttributes {
    /// Which: bits of KURMA_MODE, OWNER, GROUP, SIZE, ACCESSED and MODIFIED. The others stay.
    pub set: u32,
    /// Bits of KURMA_ACCESSED and MODIFIED: set to now, by the clock of the server.
    pub now: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner, if `owner_name` is NULL.
    pub uid: u32,
    /// Group, if `group_name` is NULL.
    pub gid: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes: cuts off, or adds a hole.
    pub size: u64,
    /// When last read.
    pub accessed: Time,
    /// When last modified.
    pub modified: Time,
    /// Owner, as name@domain; NULL for `uid`.
    pub owner_name: *const c_char,
    /// Group, as name@domain; NULL for `gid`.
    pub group_name: *const c_char,
}

const SETS: [(u32, AttributeSet); 15] = [
    (KURMA_KIND, AttributeSet::KIND),
    (KURMA_MODE, AttributeSet::MODE),
    (KURMA_OWNER, AttributeSet::OWNER),
    (KURMA_GROUP, AttributeSet::GROUP),
    (KURMA_SIZE, AttributeSet::SIZE),
    (KURMA_SPACE_USED, AttributeSet::SPACE_USED),
    (KURMA_LINKS, AttributeSet::LINKS),
    (KURMA_FILE_ID, AttributeSet::FILE_ID),
    (KURMA_FILE_SYSTEM, AttributeSet::FILE_SYSTEM),
    (KURMA_DEVICE, AttributeSet::DEVICE),
    (KURMA_ACCESSED, AttributeSet::ACCESSED),
    (KURMA_MODIFIED, AttributeSet::MODIFIED),
    (KURMA_CHANGED, AttributeSet::CHANGED),
    (KURMA_CHANGE, AttributeSet::CHANGE),
    (KURMA_HANDLE, AttributeSet::HANDLE),
];

/// The attributes that these bits mean.
pub(crate) fn wanted(bits: u32) -> Result<AttributeSet, Refusal> {
    check_flags(bits, SETS.iter().fold(0, |all, (bit, _)| all | bit))?;
    let chosen = SETS.iter().filter(|(bit, _)| bits & bit != 0);
    Ok(chosen.fold(AttributeSet::NONE, |all, (_, set)| all.with(*set)))
}

fn number(kind: Kind) -> u32 {
    match kind {
        Kind::File => KURMA_FILE,
        Kind::Directory => KURMA_DIRECTORY,
        Kind::SymbolicLink => KURMA_SYMBOLIC_LINK,
        Kind::BlockDevice => KURMA_BLOCK_DEVICE,
        Kind::CharacterDevice => KURMA_CHARACTER_DEVICE,
        Kind::Fifo => KURMA_FIFO,
        Kind::Socket => KURMA_SOCKET,
    }
}

impl Time {
    fn of(time: vector_client::Time) -> Time {
        Time { seconds: time.seconds, nanoseconds: time.nanoseconds, reserved: 0 }
    }

    fn to_set(self) -> Result<SetTime, Refusal> {
        if self.nanoseconds >= 1_000_000_000 {
            return Err(Refusal::invalid("a time has 10^9 nanoseconds or more"));
        }
        Ok(SetTime::To(vector_client::Time { seconds: self.seconds, nanoseconds: self.nanoseconds }))
    }
}

impl Attributes {
    pub(crate) const NONE: Attributes = Attributes {
        present: 0,
        kind: 0,
        mode: 0,
        links: 0,
        uid: 0,
        gid: 0,
        device_major: 0,
        device_minor: 0,
        size: 0,
        space_used: 0,
        file_id: 0,
        file_system_major: 0,
        file_system_minor: 0,
        change: 0,
        accessed: Time { seconds: 0, nanoseconds: 0, reserved: 0 },
        modified: Time { seconds: 0, nanoseconds: 0, reserved: 0 },
        changed: Time { seconds: 0, nanoseconds: 0, reserved: 0 },
        handle: Handle::NONE,
        owner_name: [0; KURMA_OWNER_NAME],
        group_name: [0; KURMA_OWNER_NAME],
    };

    pub(crate) fn of(got: &vector_client::Attributes) -> Attributes {
        let mut own = Attributes::NONE;
        let mut present = 0;
        let mut take = |bit: u32, is_some: bool| present |= if is_some { bit } else { 0 };
        take(KURMA_KIND, got.kind.is_some());
        take(KURMA_MODE, got.mode.is_some());
        take(KURMA_OWNER, got.owner.is_some());
        take(KURMA_GROUP, got.group.is_some());
        take(KURMA_SIZE, got.size.is_some());
        take(KURMA_SPACE_USED, got.space_used.is_some());
        take(KURMA_LINKS, got.links.is_some());
        take(KURMA_FILE_ID, got.file_id.is_some());
        take(KURMA_FILE_SYSTEM, got.file_system.is_some());
        take(KURMA_DEVICE, got.device.is_some());
        take(KURMA_ACCESSED, got.accessed.is_some());
        take(KURMA_MODIFIED, got.modified.is_some());
        take(KURMA_CHANGED, got.changed.is_some());
        take(KURMA_CHANGE, got.change.is_some());
        take(KURMA_HANDLE, got.handle.is_some());
        own.present = present;
        own.kind = got.kind.map_or(0, number);
        own.mode = got.mode.unwrap_or(0);
        own.links = got.links.unwrap_or(0);
        own.uid = person(got.owner.as_ref(), &mut own.owner_name);
        own.gid = person(got.group.as_ref(), &mut own.group_name);
        (own.device_major, own.device_minor) = got.device.unwrap_or_default();
        own.size = got.size.unwrap_or(0);
        own.space_used = got.space_used.unwrap_or(0);
        own.file_id = got.file_id.unwrap_or(0);
        (own.file_system_major, own.file_system_minor) = got.file_system.unwrap_or_default();
        own.change = got.change.unwrap_or(0);
        own.accessed = got.accessed.map(Time::of).unwrap_or_default();
        own.modified = got.modified.map(Time::of).unwrap_or_default();
        own.changed = got.changed.map(Time::of).unwrap_or_default();
        own.handle = got.handle.as_ref().map_or(Handle::NONE, Handle::of);
        own
    }
}

fn person(owner: Option<&Owner>, name: &mut [c_char]) -> u32 {
    match owner {
        None => 0,
        Some(Owner::Id(id)) => *id,
        Some(Owner::Name(text)) => {
            put(name, text);
            u32::MAX
        }
    }
}

impl NewAttributes {
    pub(crate) const NONE: NewAttributes = NewAttributes {
        set: 0,
        now: 0,
        mode: 0,
        uid: 0,
        gid: 0,
        reserved: 0,
        size: 0,
        accessed: Time { seconds: 0, nanoseconds: 0, reserved: 0 },
        modified: Time { seconds: 0, nanoseconds: 0, reserved: 0 },
        owner_name: std::ptr::null(),
        group_name: std::ptr::null(),
    };

    /// # Safety
    /// Its pointers are NULL or valid.
    pub(crate) unsafe fn to_set(self) -> Result<vector_client::NewAttributes, Refusal> {
        const TIMES: u32 = KURMA_ACCESSED | KURMA_MODIFIED;
        check_flags(self.set, KURMA_MODE | KURMA_OWNER | KURMA_GROUP | KURMA_SIZE | TIMES)?;
        check_flags(self.now, TIMES)?;
        if self.set & self.now != 0 {
            return Err(Refusal::invalid("a time is to be set both to something and to now"));
        }
        crate::pointer::check_reserved(&[self.reserved.into()])?;
        let is_set = |bit| self.set & bit != 0;
        let time = |bit, time: Time| match (self.now & bit != 0, is_set(bit)) {
            (true, _) => Ok(Some(SetTime::Now)),
            (_, true) => time.to_set().map(Some),
            _ => Ok(None),
        };
        // SAFETY: of the caller.
        let owner = |bit, id, name| is_set(bit).then(|| unsafe { owner(id, name) }).transpose();
        Ok(vector_client::NewAttributes {
            mode: is_set(KURMA_MODE).then_some(self.mode),
            owner: owner(KURMA_OWNER, self.uid, self.owner_name)?,
            group: owner(KURMA_GROUP, self.gid, self.group_name)?,
            size: is_set(KURMA_SIZE).then_some(self.size),
            accessed: time(KURMA_ACCESSED, self.accessed)?,
            modified: time(KURMA_MODIFIED, self.modified)?,
        })
    }
}

/// # Safety
/// `name` is NULL or valid.
unsafe fn owner(id: u32, name: *const c_char) -> Result<Owner, Refusal> {
    // SAFETY: of the caller.
    match unsafe { text(name) }? {
        None => Ok(Owner::Id(id)),
        Some(name) => match std::str::from_utf8(name) {
            Ok(name) => Ok(Owner::Name(name.to_owned())),
            Err(_) => Err(Refusal::invalid("the name of an owner is not UTF-8")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_has_its_bit_and_no_bit_is_two() {
        assert_eq!(wanted(KURMA_STAT).unwrap(), AttributeSet::STAT);
        let mut all = 0;
        for (bit, set) in SETS {
            assert_eq!(wanted(bit).unwrap(), set);
            assert_eq!(all & bit, 0);
            all |= bit;
        }
        assert!(wanted(all + 1).is_err());
    }

    #[test]
    fn an_owner_without_a_number_has_a_name() {
        let mut got = vector_client::Attributes::default();
        got.owner = Some(Owner::Name("joe@example.org".into()));
        got.group = Some(Owner::Id(7));
        let own = Attributes::of(&got);
        assert_eq!((own.present, own.uid, own.gid), (KURMA_OWNER | KURMA_GROUP, u32::MAX, 7));
        assert_eq!(own.owner_name[..4], [b'j', b'o', b'e', b'@'].map(|byte| byte as c_char));
        let name = c"joe@example.org".as_ptr();
        let new = NewAttributes { set: KURMA_OWNER, owner_name: name, ..NewAttributes::NONE };
        // SAFETY: the name lives.
        assert_eq!(unsafe { new.to_set() }.unwrap().owner, got.owner);
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        let refused = |new: NewAttributes| {
            // SAFETY: there are no pointers in it.
            unsafe { new.to_set() }.unwrap_err().status
        };
        let time = Time { nanoseconds: 1_000_000_000, ..Time::default() };
        for new in [
            NewAttributes { set: KURMA_KIND, ..NewAttributes::NONE },
            NewAttributes { now: KURMA_SIZE, ..NewAttributes::NONE },
            NewAttributes { set: KURMA_MODIFIED, now: KURMA_MODIFIED, ..NewAttributes::NONE },
            NewAttributes { set: KURMA_MODIFIED, modified: time, ..NewAttributes::NONE },
            NewAttributes { reserved: 1, ..NewAttributes::NONE },
        ] {
            assert_eq!(refused(new), libc::EINVAL, "{new:?}");
        }
    }
}
