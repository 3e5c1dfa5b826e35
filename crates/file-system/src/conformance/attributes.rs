use std::sync::Arc;

use ids::{GatewayId, ObjectId, ObjectNumber, Timestamp, VolumeId};

use super::scene::*;
use crate::{Authority, CreateKind, Device, FileId, FileKind, FileSystem, FsError, SetAttributes, SetTime};

pub async fn the_root_is_a_directory_of_the_superuser(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    assert_eq!(root.volume, fs.volume());
    let attributes = tx.attributes(root).await.unwrap();
    assert_eq!((attributes.file, attributes.kind), (root, FileKind::Directory));
    assert_eq!((attributes.uid, attributes.gid, attributes.links), (0, 0, 2));
    assert_eq!(tx.parent(root).await, Err(FsError::NotFound));
}

pub async fn an_unknown_object_is_stale(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let object = ObjectId { creator: GatewayId(u16::MAX), number: ObjectNumber(u128::MAX) };
    let file = FileId { object, ..tx.root() };
    assert_eq!(tx.attributes(file).await, Err(FsError::Stale));
    assert_eq!(tx.lookup(file, &name("a")).await, Err(FsError::Stale));
    assert_eq!(write(&mut tx, file, 0, b"x").await, Err(FsError::Stale));
}

pub async fn objects_of_other_volumes_are_stale(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let file = FileId { volume: VolumeId(tx.root().volume.0 ^ 1), ..tx.root() };
    assert_eq!(tx.attributes(file).await, Err(FsError::Stale));
    let root = tx.root();
    let file_here = make_file(&mut tx, root, "a", b"").await.file;
    assert_eq!(tx.link(file_here, file, &name("b")).await, Err(FsError::CrossVolume));
    assert_eq!(tx.rename(root, &name("a"), file, &name("b")).await, Err(FsError::CrossVolume));
}

pub async fn times_and_change_follow_what_is_changed(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let before = tx.attributes(root).await.unwrap();
    let file = make_file(&mut tx, root, "a", b"1").await;
    let after = tx.attributes(root).await.unwrap();
    assert!(after.change > before.change && after.modified >= before.modified);
    let past = Timestamp { seconds: 5, nanos: 6 };
    let set = SetAttributes { modified: Some(SetTime::At(past)), ..SetAttributes::default() };
    let set_back = tx.set_attributes(file.file, &set, Authority::Checked).await.unwrap();
    assert_eq!(set_back.modified, past);
    assert!(set_back.change > file.change && set_back.changed >= file.changed);
    write(&mut tx, file.file, 1, b"2").await.unwrap();
    let written = tx.attributes(file.file).await.unwrap();
    assert!(written.change > set_back.change && written.modified > past);
    assert_eq!(written.accessed, file.accessed);
    assert_eq!(tx.lookup(root, &name("a")).await.unwrap(), written);
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.attributes(file.file).await.unwrap(), written);
}

pub async fn setting_nothing_changes_nothing(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let before = tx.attributes(root).await.unwrap();
    let after = tx.set_attributes(root, &SetAttributes::default(), Authority::Checked).await.unwrap();
    assert_eq!(after, before);
}

pub async fn special_nodes_keep_their_kind_and_numbers(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let device = Device { major: 8, minor: u32::MAX };
    let kinds = [
        ("block", CreateKind::BlockDevice(device), FileKind::BlockDevice, device),
        ("char", CreateKind::CharacterDevice(device), FileKind::CharacterDevice, device),
        ("fifo", CreateKind::Fifo, FileKind::Fifo, Device::default()),
        ("socket", CreateKind::Socket, FileKind::Socket, Device::default()),
    ];
    for (text, make, ..) in kinds.clone() {
        tx.create(root, &name(text), make, &SetAttributes::with_mode(0o600)).await.unwrap();
    }
    commit(tx).await;
    let mut tx = begin(&fs).await;
    for (text, _, kind, device) in kinds {
        let found = tx.lookup(root, &name(text)).await.unwrap();
        assert_eq!((found.kind, found.device, found.mode, found.links), (kind, device, 0o600, 1));
    }
}

pub async fn impossible_attributes_are_refused(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    let mode = SetAttributes::with_mode(0o10000);
    let bad_time = SetTime::At(Timestamp { seconds: 0, nanos: 1_000_000_000 });
    let time = SetAttributes { accessed: Some(bad_time), ..SetAttributes::default() };
    for set in [mode, time] {
        assert_eq!(tx.set_attributes(file, &set, Authority::Checked).await, Err(FsError::InvalidArgument));
    }
    let size = SetAttributes::with_size(1);
    assert_eq!(tx.set_attributes(root, &size, Authority::Checked).await, Err(FsError::IsDirectory));
    let size = SetAttributes::with_size(u64::MAX);
    assert_eq!(tx.set_attributes(file, &size, Authority::Checked).await, Err(FsError::TooLarge));
}

pub async fn sync_and_space_answer(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"data").await.file;
    let space = tx.space().await.unwrap();
    assert!(space.total_bytes >= space.free_bytes && space.free_bytes >= space.available_bytes);
    tx.commit(crate::CommitMode::Visible).await.unwrap();
    fs.sync(file).await.unwrap();
    assert_eq!(fs.write_verifier(), fs.write_verifier());
}
