use std::sync::Arc;

use bytes::Bytes;

use super::scene::*;
use crate::{Authority, CreateKind, FileSystem, FsError, OpenCreate, SetAttributes, SetTime};

pub async fn the_same_verifier_finds_the_file_and_another_does_not(fs: Arc<dyn FileSystem>) {
    let set = SetAttributes::with_mode(0o600);
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let made = tx.open_create(root, &name("a"), OpenCreate::Exclusive([7; 8]), &set).await.unwrap();
    assert!(made.created && made.change.after > made.change.before);
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let again = tx.open_create(root, &name("a"), OpenCreate::Exclusive([7; 8]), &set).await.unwrap();
    assert_eq!((again.created, again.attributes.file), (false, made.attributes.file));
    assert_eq!(again.change.before, again.change.after);
    let other = tx.open_create(root, &name("a"), OpenCreate::Exclusive([8; 8]), &set).await;
    assert_eq!(other, Err(FsError::Exists));
}

pub async fn setting_the_times_ends_exclusive_creation(fs: Arc<dyn FileSystem>) {
    let set = SetAttributes::default();
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let how = OpenCreate::Exclusive([7; 8]);
    let made = tx.open_create(root, &name("a"), how, &set).await.unwrap().attributes.file;
    let times = SetAttributes { accessed: Some(SetTime::Now), ..SetAttributes::default() };
    tx.set_attributes(made, &times, Authority::Checked).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.open_create(root, &name("a"), how, &set).await, Err(FsError::Exists));
}

pub async fn guarded_and_unchecked_creation_of_what_exists(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"data").await.file;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let set = SetAttributes { size: Some(2), mode: Some(0), ..SetAttributes::default() };
    assert_eq!(tx.open_create(root, &name("a"), OpenCreate::Guarded, &set).await, Err(FsError::Exists));
    let opened = tx.open_create(root, &name("a"), OpenCreate::Unchecked, &set).await.unwrap();
    assert_eq!((opened.created, opened.attributes.file, opened.attributes.mode), (false, file, 0o644));
    assert_eq!(opened.attributes.size, 4, "only a size of zero is applied");
    let cut = SetAttributes::with_size(0);
    let opened = tx.open_create(root, &name("a"), OpenCreate::Unchecked, &cut).await.unwrap();
    assert_eq!((opened.attributes.size, opened.attributes.mode), (0, 0o644));
    assert!(read_all(&mut tx, file).await.is_empty());
    let sized = SetAttributes { size: Some(9), ..SetAttributes::with_mode(0o600) };
    let made = tx.open_create(root, &name("b"), OpenCreate::Unchecked, &sized).await.unwrap();
    assert_eq!((made.created, made.attributes.size), (true, 9));
}

pub async fn opening_by_name_tells_the_kind_of_what_is_there(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let set = SetAttributes::with_mode(0o700);
    let link = CreateKind::Symlink(Bytes::from_static(b"a"));
    let cases = [
        ("directory", CreateKind::Directory, FsError::IsDirectory),
        ("link", link, FsError::IsSymlink),
        ("fifo", CreateKind::Fifo, FsError::WrongKind),
    ];
    for (text, kind, error) in cases {
        tx.create(root, &name(text), kind, &set).await.unwrap();
        let opened = tx.open_create(root, &name(text), OpenCreate::Unchecked, &set).await;
        assert_eq!(opened, Err(error));
        let opened = tx.open_create(root, &name(text), OpenCreate::Exclusive([0; 8]), &set).await;
        assert_eq!(opened, Err(FsError::Exists));
        let made = tx.create(root, &name(text), CreateKind::Socket, &set).await;
        assert_eq!(made, Err(FsError::Exists));
    }
}
