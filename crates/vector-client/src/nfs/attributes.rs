//! Attributes as they travel.

use bytes::Bytes;
use nfs4::{Attribute, AttributeValues, Bitmap, FileType, NfsTime, Utf8String};

use crate::attributes::{AttributeSet, Attributes, Kind, NewAttributes, Owner, SetTime, Time};

const TABLE: &[(AttributeSet, Attribute)] = &[
    (AttributeSet::KIND, Attribute::Type),
    (AttributeSet::MODE, Attribute::Mode),
    (AttributeSet::OWNER, Attribute::Owner),
    (AttributeSet::GROUP, Attribute::OwnerGroup),
    (AttributeSet::SIZE, Attribute::Size),
    (AttributeSet::SPACE_USED, Attribute::SpaceUsed),
    (AttributeSet::LINKS, Attribute::Numlinks),
    (AttributeSet::FILE_ID, Attribute::Fileid),
    (AttributeSet::FILE_SYSTEM, Attribute::Fsid),
    (AttributeSet::DEVICE, Attribute::Rawdev),
    (AttributeSet::ACCESSED, Attribute::TimeAccess),
    (AttributeSet::MODIFIED, Attribute::TimeModify),
    (AttributeSet::CHANGED, Attribute::TimeMetadata),
    (AttributeSet::CHANGE, Attribute::Change),
    (AttributeSet::HANDLE, Attribute::Filehandle),
];

/// What to ask for.
pub(super) fn request(wanted: AttributeSet) -> Bitmap {
    TABLE.iter().filter(|(set, _)| wanted.contains(*set)).map(|(_, attribute)| *attribute).collect()
}

/// What came. Only what was `wanted` is filled in.
pub(super) fn received(values: AttributeValues, wanted: AttributeSet) -> Attributes {
    let want = |set: AttributeSet| wanted.contains(set).then_some(());
    Attributes {
        kind: want(AttributeSet::KIND).and(values.r#type).map(kind),
        mode: want(AttributeSet::MODE).and(values.mode),
        owner: want(AttributeSet::OWNER).and(values.owner).map(owner),
        group: want(AttributeSet::GROUP).and(values.owner_group).map(owner),
        size: want(AttributeSet::SIZE).and(values.size),
        space_used: want(AttributeSet::SPACE_USED).and(values.space_used),
        links: want(AttributeSet::LINKS).and(values.numlinks),
        file_id: want(AttributeSet::FILE_ID).and(values.fileid),
        file_system: want(AttributeSet::FILE_SYSTEM).and(values.fsid).map(|it| (it.major, it.minor)),
        device: want(AttributeSet::DEVICE).and(values.rawdev).map(|it| (it.major, it.minor)),
        accessed: want(AttributeSet::ACCESSED).and(values.time_access).map(time),
        modified: want(AttributeSet::MODIFIED).and(values.time_modify).map(time),
        changed: want(AttributeSet::CHANGED).and(values.time_metadata).map(time),
        change: want(AttributeSet::CHANGE).and(values.change),
        handle: want(AttributeSet::HANDLE).and(values.filehandle),
    }
}

/// What to set.
pub(super) fn to_set(new: &NewAttributes) -> AttributeValues {
    AttributeValues {
        mode: new.mode,
        owner: new.owner.as_ref().map(owner_name),
        owner_group: new.group.as_ref().map(owner_name),
        size: new.size,
        time_access_set: new.accessed.map(set_time),
        time_modify_set: new.modified.map(set_time),
        ..AttributeValues::default()
    }
}

fn kind(file_type: FileType) -> Kind {
    match file_type {
        FileType::Regular | FileType::NamedAttribute => Kind::File,
        FileType::Directory | FileType::AttributeDirectory => Kind::Directory,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::CharacterDevice => Kind::CharacterDevice,
        FileType::SymbolicLink => Kind::SymbolicLink,
        FileType::Socket => Kind::Socket,
        FileType::Fifo => Kind::Fifo,
    }
}

/// Digits are a number, without leading zeros (RFC 8881 §5.9).
fn owner(text: Utf8String) -> Owner {
    let text = String::from_utf8_lossy(text.as_bytes()).into_owned();
    match text.parse::<u32>() {
        Ok(id) if id.to_string() == text => Owner::Id(id),
        _ => Owner::Name(text),
    }
}

fn owner_name(owner: &Owner) -> Utf8String {
    match owner {
        Owner::Id(id) => id.to_string().into(),
        Owner::Name(name) => Utf8String(Bytes::copy_from_slice(name.as_bytes())),
    }
}

fn time(time: NfsTime) -> Time {
    Time { seconds: time.seconds, nanoseconds: time.nanoseconds }
}

fn set_time(time: SetTime) -> nfs4::SetTime {
    match time {
        SetTime::Now => nfs4::SetTime::ServerTime,
        SetTime::To(Time { seconds, nanoseconds }) => {
            nfs4::SetTime::ClientTime(NfsTime { seconds, nanoseconds })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_wanted_is_filled_in() {
        let values = AttributeValues { size: Some(5), mode: Some(0o644), ..AttributeValues::default() };
        let got = received(values, AttributeSet::SIZE | AttributeSet::OWNER);
        assert_eq!(got, Attributes { size: Some(5), ..Attributes::default() });
    }

    #[test]
    fn owners_in_digits_are_numbers() {
        for (text, expected) in [
            ("0", Owner::Id(0)),
            ("4294967295", Owner::Id(u32::MAX)),
            ("007", Owner::Name("007".into())),
            ("joe@example.org", Owner::Name("joe@example.org".into())),
        ] {
            assert_eq!(owner(text.into()), expected);
            assert_eq!(owner_name(&expected).as_bytes(), text.as_bytes());
        }
    }
}
