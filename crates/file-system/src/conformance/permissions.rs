use std::sync::Arc;

use bytes::Bytes;

use super::scene::*;
use crate::{Authority, Caller, CreateKind, FileId, FileSystem, FsError, OpenCreate, SetAttributes};

async fn shared_directory(fs: &Arc<dyn FileSystem>, mode: u32) -> FileId {
    let mut tx = begin(fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "shared", mode).await;
    commit(tx).await;
    directory
}

pub async fn the_mode_bits_of_the_directory_decide_over_its_entries(fs: Arc<dyn FileSystem>) {
    let directory = shared_directory(&fs, 0o755).await;
    let mut tx = begin(&fs).await;
    let file = make_file(&mut tx, directory, "a", b"").await.file;
    commit(tx).await;
    let set = SetAttributes::default();
    let mut tx = begin_as(&fs, &user(5)).await;
    let denied = Err(FsError::AccessDenied);
    assert_eq!(tx.open_create(directory, &name("b"), OpenCreate::Guarded, &set).await.map(|_| ()), denied);
    assert_eq!(tx.create(directory, &name("b"), CreateKind::Fifo, &set).await.map(|_| ()), denied);
    assert_eq!(tx.remove(directory, &name("a")).await.map(|_| ()), denied);
    assert_eq!(tx.link(file, directory, &name("b")).await.map(|_| ()), denied);
    assert_eq!(tx.rename(directory, &name("a"), directory, &name("b")).await.map(|_| ()), denied);
    let open = tx.open_create(directory, &name("a"), OpenCreate::Unchecked, &set).await.unwrap();
    assert!(!open.created, "opening what exists needs no write permission on the directory");
}

pub async fn listing_needs_read_and_looking_up_needs_execute(fs: Arc<dyn FileSystem>) {
    let directory = shared_directory(&fs, 0o700).await;
    let mut tx = begin(&fs).await;
    make_file(&mut tx, directory, "a", b"").await;
    commit(tx).await;
    for (mode, list, look_up) in [(0o704, true, false), (0o701, false, true), (0o700, false, false)] {
        let mut tx = begin(&fs).await;
        let set = SetAttributes::with_mode(mode);
        tx.set_attributes(directory, &set, Authority::Checked).await.unwrap();
        commit(tx).await;
        let mut tx = begin_as(&fs, &user(5)).await;
        assert_eq!(tx.read_directory(directory, 0, 9).await.is_ok(), list, "{mode:o}");
        assert_eq!(tx.lookup(directory, &name("a")).await.is_ok(), look_up, "{mode:o}");
        assert_eq!(tx.parent(directory).await.is_ok(), look_up, "{mode:o}");
    }
}

pub async fn the_owner_may_always_use_the_content(fs: Arc<dyn FileSystem>) {
    let directory = shared_directory(&fs, 0o777).await;
    let mut tx = begin_as(&fs, &user(5)).await;
    let file = make_file(&mut tx, directory, "a", b"secret").await.file;
    tx.set_attributes(file, &SetAttributes::with_mode(0), Authority::Checked).await.unwrap();
    assert_eq!(read_all(&mut tx, file).await, b"secret");
    write(&mut tx, file, 0, b"S").await.unwrap();
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(6)).await;
    assert_eq!(read(&mut tx, file, 0, 9).await, Err(FsError::AccessDenied));
    assert_eq!(write(&mut tx, file, 0, b"x").await, Err(FsError::AccessDenied));
    let cut = tx.set_attributes(file, &SetAttributes::with_size(0), Authority::Checked).await;
    assert_eq!(cut, Err(FsError::AccessDenied));
    let mut tx = begin(&fs).await;
    assert_eq!(read_all(&mut tx, file).await, b"Secret", "the superuser reads everything");
}

pub async fn an_open_file_stays_usable(fs: Arc<dyn FileSystem>) {
    let directory = shared_directory(&fs, 0o777).await;
    let mut tx = begin(&fs).await;
    let file = make_file(&mut tx, directory, "a", b"1").await.file;
    tx.set_attributes(file, &SetAttributes::with_mode(0), Authority::Checked).await.unwrap();
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(6)).await;
    assert_eq!(tx.read(file, 0, 9, Authority::Opened).await.unwrap().segments.concat(), b"1");
    tx.write(file, 0, Bytes::from_static(b"22"), Authority::Opened).await.unwrap();
    tx.set_attributes(file, &SetAttributes::with_size(1), Authority::Opened).await.unwrap();
    let mode = tx.set_attributes(file, &SetAttributes::with_mode(0o777), Authority::Opened).await;
    assert_eq!(mode, Err(FsError::NotPermitted), "an open is no ownership");
}

pub async fn the_sticky_bit_protects_the_entries_of_others(fs: Arc<dyn FileSystem>) {
    let directory = shared_directory(&fs, 0o1777).await;
    let mut tx = begin_as(&fs, &user(5)).await;
    make_file(&mut tx, directory, "five", b"").await;
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(6)).await;
    make_file(&mut tx, directory, "six", b"").await;
    let denied = Err(FsError::NotPermitted);
    assert_eq!(tx.remove(directory, &name("five")).await.map(|_| ()), denied);
    assert_eq!(tx.rename(directory, &name("five"), directory, &name("x")).await.map(|_| ()), denied);
    assert_eq!(tx.rename(directory, &name("six"), directory, &name("five")).await.map(|_| ()), denied);
    tx.remove(directory, &name("six")).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    tx.remove(directory, &name("five")).await.unwrap();
    commit(tx).await;
}

pub async fn a_set_group_id_directory_gives_its_group(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let set = SetAttributes { gid: Some(77), ..SetAttributes::with_mode(0o2777) };
    let made = tx.create(root, &name("d"), CreateKind::Directory, &set).await.unwrap().attributes;
    assert_eq!((made.gid, made.mode), (77, 0o2777));
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(5)).await;
    let file = make_file(&mut tx, made.file, "a", b"").await;
    assert_eq!((file.uid, file.gid), (5, 77));
    let below = make_directory(&mut tx, made.file, "below", 0o755).await;
    let below = tx.attributes(below).await.unwrap();
    assert_eq!((below.gid, below.mode), (77, 0o2755));
}

pub async fn only_the_superuser_gives_files_away(fs: Arc<dyn FileSystem>) {
    let directory = shared_directory(&fs, 0o777).await;
    let owner = Caller::user(5, 5, &[50]);
    let mut tx = begin_as(&fs, &owner).await;
    let file = make_file(&mut tx, directory, "a", b"").await.file;
    let to = |uid, gid| SetAttributes { uid, gid, ..SetAttributes::default() };
    let given = tx.set_attributes(file, &to(Some(6), None), Authority::Checked).await;
    assert_eq!(given, Err(FsError::NotPermitted));
    let foreign = tx.set_attributes(file, &to(None, Some(51)), Authority::Checked).await;
    assert_eq!(foreign, Err(FsError::NotPermitted));
    let own = tx.set_attributes(file, &to(None, Some(50)), Authority::Checked).await.unwrap();
    assert_eq!((own.uid, own.gid), (5, 50));
    let set = SetAttributes { uid: Some(6), ..SetAttributes::with_mode(0o600) };
    let made = tx.open_create(directory, &name("b"), OpenCreate::Guarded, &set).await;
    assert_eq!(made.map(|_| ()), Err(FsError::NotPermitted));
    assert_eq!(names(&mut tx, directory).await, ["a"]);
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let given = tx.set_attributes(file, &to(Some(6), Some(7)), Authority::Checked).await.unwrap();
    assert_eq!((given.uid, given.gid), (6, 7));
}

pub async fn writing_drops_set_user_id(fs: Arc<dyn FileSystem>) {
    let directory = shared_directory(&fs, 0o777).await;
    let mut tx = begin(&fs).await;
    let file = make_file(&mut tx, directory, "a", b"").await.file;
    tx.set_attributes(file, &SetAttributes::with_mode(0o6777), Authority::Checked).await.unwrap();
    write(&mut tx, file, 0, b"x").await.unwrap();
    assert_eq!(tx.attributes(file).await.unwrap().mode, 0o6777, "the superuser keeps them");
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(5)).await;
    write(&mut tx, file, 0, b"y").await.unwrap();
    assert_eq!(tx.attributes(file).await.unwrap().mode, 0o777);
}

pub async fn moving_a_directory_elsewhere_needs_write_permission_on_it(fs: Arc<dyn FileSystem>) {
    let directory = shared_directory(&fs, 0o777).await;
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let elsewhere = make_directory(&mut tx, root, "elsewhere", 0o777).await;
    make_directory(&mut tx, directory, "closed", 0o755).await;
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(5)).await;
    let moved = tx.rename(directory, &name("closed"), elsewhere, &name("closed")).await;
    assert_eq!(moved.map(|_| ()), Err(FsError::AccessDenied));
    tx.rename(directory, &name("closed"), directory, &name("renamed")).await.unwrap();
}
