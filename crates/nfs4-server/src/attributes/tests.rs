//! Tables of what is said and what can be set.

use std::sync::Arc;

use bytes::Bytes;
use file_system::acl::{Ace, Acl, Who};
use file_system::{Caller, CreateKind, Device, FileKind, Mode, Name, OpenCreate, SetAttributes, SetTime};
use ids::Timestamp;
use nfs4::{
    Attribute, AttributeValues, Bitmap, Fattr, FileType, Fsid, ModeMasked, ModeUmask, NfsStatus, NfsTime,
    SpecData, Utf8String,
};

use super::supported::{ACLS, SETTABLE, SUPPORTED};
use super::*;
use crate::exports::PSEUDO_ROOT_NUMBER;
use crate::owner_names::Owners;
use crate::testing::{shared, volume};

const READABLE: Bitmap = SUPPORTED.difference(Attribute::WRITE_ONLY);

/// What is said about the pseudo root, a volume's root, and one object of each kind in it.
async fn everything_said(request: Bitmap) -> Vec<(FileKind, AttributeValues)> {
    let mut export = volume(0x1_0000_0000_0000_0007);
    export.options.acls = true;
    let server = shared(vec![export.clone()]);
    let mut transaction = export.file_system.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
    let root = transaction.root();
    let mut said = vec![(
        FileKind::Directory,
        of_pseudo_root(&server, &server.exports.seen_from(std::net::Ipv4Addr::LOCALHOST.into())),
    )];
    let mut files = vec![(FileKind::Directory, root)];
    let device = Device { major: 8, minor: 3 };
    let kinds = [
        (FileKind::Directory, CreateKind::Directory),
        (FileKind::Symlink, CreateKind::Symlink(Bytes::from_static(b"target"))),
        (FileKind::BlockDevice, CreateKind::BlockDevice(device)),
        (FileKind::CharacterDevice, CreateKind::CharacterDevice(device)),
        (FileKind::Fifo, CreateKind::Fifo),
        (FileKind::Socket, CreateKind::Socket),
    ];
    let set = SetAttributes { mode: Some(0o640), uid: Some(11), gid: Some(22), ..SetAttributes::default() };
    for (kind, create) in kinds {
        let name = Name::new(format!("{kind:?}")).unwrap();
        files.push((kind, transaction.create(root, &name, create, &set).await.unwrap().attributes.file));
    }
    let name = Name::new("file").unwrap();
    let opened = transaction.open_create(root, &name, OpenCreate::Guarded, &set).await.unwrap();
    files.push((FileKind::Regular, opened.attributes.file));
    for (kind, file) in files {
        let values = of_file(&server, &export, &mut *transaction, file, request).await.unwrap();
        said.push((kind, values));
    }
    said
}

#[tokio::test]
async fn every_supported_attribute_is_said_of_every_object_and_survives_the_wire() {
    for (number, (kind, values)) in everything_said(READABLE).await.into_iter().enumerate() {
        let readable = if number == 0 { READABLE - ACLS } else { READABLE };
        let fattr = values.select(readable);
        assert_eq!(readable - fattr.bitmap, Bitmap::EMPTY, "missing of {kind:?}");
        assert_eq!(values.bitmap() - readable, Bitmap::EMPTY, "not supported, but said of {kind:?}");
        assert_eq!(values.supported_attrs.map(|all| all - Attribute::WRITE_ONLY), Some(readable));
        assert_eq!(fattr.values().unwrap(), values, "{kind:?}");
        for attribute in readable.iter() {
            let one = values.select(Bitmap::of(&[attribute]));
            assert_eq!(one.values().unwrap().bitmap(), Bitmap::of(&[attribute]));
        }
    }
}

#[tokio::test]
async fn values_come_from_the_object() {
    for (kind, values) in everything_said(READABLE).await.into_iter().skip(2) {
        let is_device = matches!(kind, FileKind::BlockDevice | FileKind::CharacterDevice);
        let numbers =
            if is_device { SpecData { major: 8, minor: 3 } } else { SpecData { major: 0, minor: 0 } };
        assert_eq!(values.rawdev, Some(numbers), "{kind:?}");
        assert_eq!(values.owner, Some(Utf8String::from("11")));
        assert_eq!(values.owner_group, Some(Utf8String::from("22")));
        assert_eq!(values.mode, Some(if kind == FileKind::Symlink { 0o777 } else { 0o640 }));
        assert_eq!(values.numlinks, Some(if kind == FileKind::Directory { 2 } else { 1 }));
        assert_eq!(values.fsid, Some(Fsid { major: 1, minor: 7 }));
        assert_eq!(values.mounted_on_fileid, values.fileid);
        assert_eq!(values.maxname, Some(255));
        let expected = match kind {
            FileKind::Regular => FileType::Regular,
            FileKind::Directory => FileType::Directory,
            FileKind::Symlink => FileType::SymbolicLink,
            FileKind::BlockDevice => FileType::BlockDevice,
            FileKind::CharacterDevice => FileType::CharacterDevice,
            FileKind::Fifo => FileType::Fifo,
            FileKind::Socket => FileType::Socket,
        };
        assert_eq!(values.r#type, Some(expected));
    }
}

#[tokio::test]
async fn a_volume_is_a_file_system_of_its_own_mounted_on_the_pseudo_root() {
    let said = everything_said(READABLE).await;
    let (pseudo_root, root) = (&said[0].1, &said[1].1);
    assert_eq!(pseudo_root.fsid, Some(Fsid { major: 0, minor: 0 }));
    assert_ne!(root.fsid, pseudo_root.fsid);
    assert_eq!(pseudo_root.fileid, Some(PSEUDO_ROOT_NUMBER));
    assert_ne!(root.mounted_on_fileid, root.fileid, "the mount point is no object of the volume");
    assert_ne!(root.mounted_on_fileid, pseudo_root.fileid);
}

#[tokio::test]
async fn what_costs_more_is_said_only_when_asked_for() {
    let costly = Attribute::set(&[Attribute::Filehandle, Attribute::SpaceFree]);
    for (kind, values) in everything_said(READABLE - costly - ACLS).await.into_iter().skip(1) {
        assert_eq!((&values.filehandle, &values.acl, &values.dacl), (&None, &None, &None), "{kind:?}");
    }
    assert!(wants_space(costly) && !wants_space(Attribute::set(&[Attribute::SpaceUsed])));
}

#[test]
fn the_lists_of_attributes_agree() {
    assert_eq!(supported(2, true), SUPPORTED);
    assert_eq!(supported(2, false), SUPPORTED - ACLS);
    let of_minor_0 = Attribute::set(&[Attribute::Acl, Attribute::Aclsupport]);
    assert_eq!(supported(0, true) & ACLS, of_minor_0);
    assert!(SUPPORTED.contains_all(Attribute::REQUIRED));
    assert!(SUPPORTED.contains_all(SETTABLE));
    assert!(Attribute::SETTABLE.contains_all(SETTABLE));
    assert!(SETTABLE.contains_all(Attribute::SETTABLE & SUPPORTED));
    assert!(SETTABLE.contains_all(EXCLUSIVE_CREATE));
}

#[test]
fn attributes_that_can_only_be_set_cannot_be_asked_for() {
    for &attribute in Attribute::ALL {
        let write_only = (Attribute::WRITE_ONLY & SUPPORTED).contains(attribute);
        let expected = if write_only { Err(NfsStatus::Inval) } else { Ok(()) };
        assert_eq!(check_readable(Attribute::set(&[attribute])), expected, "{}", attribute.name());
    }
}

fn wire(values: AttributeValues) -> Fattr {
    values.to_fattr()
}

#[test]
fn every_settable_attribute_reaches_the_file_system() {
    let at = NfsTime { seconds: -5, nanoseconds: 999_999_999 };
    let same = Timestamp { seconds: -5, nanos: 999_999_999 };
    let none = AttributeValues::default;
    let ace = nfs4::Ace { ace_type: 0, flags: 0, access_mask: 1, who: "GROUP@".into() };
    let entry = Ace { allows: true, flags: 0, rights: 1, who: Who::Group };
    let list = |flags| SetAttributes {
        acl: Some(Arc::new(Acl { flags, entries: vec![entry] })),
        ..SetAttributes::default()
    };
    let dacl = nfs4::Acl41 { flags: 1, aces: vec![ace.clone()] };
    let cases: [(AttributeValues, SetAttributes); 14] = [
        (AttributeValues { acl: Some(vec![ace]), ..none() }, list(Acl::PROTECTED)),
        (AttributeValues { dacl: Some(dacl), ..none() }, list(Acl::AUTO_INHERIT)),
        (none(), SetAttributes::default()),
        (AttributeValues { size: Some(7), ..none() }, SetAttributes::with_size(7)),
        (AttributeValues { mode: Some(0o7654), ..none() }, SetAttributes::with_mode(0o7654)),
        (
            AttributeValues { owner: Some("1000".into()), ..none() },
            SetAttributes { uid: Some(1000), ..SetAttributes::default() },
        ),
        (
            AttributeValues { owner_group: Some("4294967294".into()), ..none() },
            SetAttributes { gid: Some(4_294_967_294), ..SetAttributes::default() },
        ),
        (
            AttributeValues { time_access_set: Some(nfs4::SetTime::ServerTime), ..none() },
            SetAttributes { accessed: Some(SetTime::Now), ..SetAttributes::default() },
        ),
        (
            AttributeValues { time_access_set: Some(nfs4::SetTime::ClientTime(at)), ..none() },
            SetAttributes { accessed: Some(SetTime::At(same)), ..SetAttributes::default() },
        ),
        (
            AttributeValues { time_modify_set: Some(nfs4::SetTime::ServerTime), ..none() },
            SetAttributes { modified: Some(SetTime::Now), ..SetAttributes::default() },
        ),
        (
            AttributeValues { time_modify_set: Some(nfs4::SetTime::ClientTime(at)), ..none() },
            SetAttributes { modified: Some(SetTime::At(same)), ..SetAttributes::default() },
        ),
        (
            AttributeValues { time_create: Some(at), ..none() },
            SetAttributes { created: Some(same), ..SetAttributes::default() },
        ),
        (
            AttributeValues { mode_set_masked: Some(ModeMasked { value: 0o200, mask: 0o222 }), ..none() },
            SetAttributes::with_mode(0o200),
        ),
        (
            AttributeValues { mode_umask: Some(ModeUmask { mode: 0o2777, umask: 0o027 }), ..none() },
            SetAttributes { umask: Some(0o027), ..SetAttributes::with_mode(0o2777) },
        ),
    ];
    let mut covered = Bitmap::EMPTY;
    for (values, expected) in cases {
        let fattr = wire(values);
        let set = to_set(&fattr, &Owners::NUMBERS).unwrap();
        assert_eq!((set.attributes, set.applied), (expected, fattr.bitmap), "{:?}", fattr.bitmap);
        covered = covered | fattr.bitmap;
    }
    assert_eq!(covered, SETTABLE);
}

#[test]
fn masked_bits_change_a_mode_and_leave_the_rest() {
    let masked = AttributeValues {
        mode_set_masked: Some(ModeMasked { value: 0o040, mask: 0o070 }),
        ..AttributeValues::default()
    };
    assert_eq!(to_change(&wire(masked), 0o4731, &Owners::NUMBERS).unwrap().attributes.mode, Some(0o4741));
}

#[test]
fn what_cannot_be_set_is_refused_for_its_reason() {
    for &attribute in Attribute::ALL {
        let fattr = Fattr { bitmap: Attribute::set(&[attribute]), encoded: Bytes::from_static(&[0; 3]) };
        let expected = match attribute {
            _ if !SUPPORTED.contains(attribute) => NfsStatus::AttrNotSupp,
            _ if !SETTABLE.contains(attribute) => NfsStatus::Inval,
            _ => NfsStatus::BadXdr, // three bytes are no value
        };
        assert_eq!(to_set(&fattr, &Owners::NUMBERS).unwrap_err(), expected, "{}", attribute.name());
        assert_eq!(to_change(&fattr, 0, &Owners::NUMBERS).unwrap_err(), expected, "{}", attribute.name());
    }
    for number in [83, 100, Bitmap::BEYOND] {
        let fattr = Fattr { bitmap: Bitmap::of(&[number]), encoded: Bytes::new() };
        assert_eq!(to_set(&fattr, &Owners::NUMBERS).unwrap_err(), NfsStatus::AttrNotSupp, "{number}");
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let none = AttributeValues::default;
    let owner = |text: &str| AttributeValues { owner: Some(text.into()), ..none() };
    let group = |text: &str| AttributeValues { owner_group: Some(text.into()), ..none() };
    let late = NfsTime { seconds: 0, nanoseconds: 1_000_000_000 };
    let masked =
        |value, mask| AttributeValues { mode_set_masked: Some(ModeMasked { value, mask }), ..none() };
    let mut cases = vec![
        (AttributeValues { mode: Some(0o10000), ..none() }, NfsStatus::Inval),
        (AttributeValues { time_create: Some(late), ..none() }, NfsStatus::Inval),
        (
            AttributeValues { time_modify_set: Some(nfs4::SetTime::ClientTime(late)), ..none() },
            NfsStatus::Inval,
        ),
        (masked(0o10000, 0o10000), NfsStatus::Inval),
        (masked(0o4, 0o2), NfsStatus::Inval),
        (
            AttributeValues {
                acl: Some(Vec::new()),
                dacl: Some(nfs4::Acl41 { flags: 0, aces: Vec::new() }),
                ..none()
            },
            NfsStatus::Inval,
        ),
        (AttributeValues { mode: Some(0o2), ..masked(0o2, 0o2) }, NfsStatus::Inval),
    ];
    for text in
        ["", "root", "root@example.org", "1000@example.org", "-1", "+1", "1 ", "4294967295", "4294967296"]
    {
        cases.push((owner(text), NfsStatus::BadOwner));
        cases.push((group(text), NfsStatus::BadOwner));
    }
    for (values, status) in cases {
        let fattr = wire(values.clone());
        assert_eq!(to_set(&fattr, &Owners::NUMBERS).unwrap_err(), status, "{values:?}");
        assert_eq!(to_change(&fattr, 0, &Owners::NUMBERS).unwrap_err(), status, "{values:?}");
    }
}

#[test]
fn a_umask_is_for_new_objects_only() {
    let values = AttributeValues {
        mode_umask: Some(ModeUmask { mode: 0o666, umask: 0o22 }),
        ..AttributeValues::default()
    };
    assert!(to_set(&wire(values.clone()), &Owners::NUMBERS).is_ok());
    assert_eq!(to_change(&wire(values), 0, &Owners::NUMBERS).unwrap_err(), NfsStatus::Inval);
}
