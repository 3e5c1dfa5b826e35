use std::sync::Arc;

use bytes::Bytes;

use super::scene::*;
use crate::{CreateKind, FileSystem, FsError, MAX_LINK_TARGET, SetAttributes};

pub async fn all_names_lead_to_one_object(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "d", 0o755).await;
    let made = make_file(&mut tx, root, "a", b"1").await;
    let change = tx.link(made.file, directory, &name("b")).await.unwrap();
    assert!(change.after > change.before);
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let found = tx.lookup(directory, &name("b")).await.unwrap();
    assert_eq!((found.file, found.links), (made.file, 2));
    assert!(found.change > made.change);
    write(&mut tx, made.file, 0, b"2").await.unwrap();
    tx.remove(root, &name("a")).await.unwrap();
    assert_eq!(tx.attributes(made.file).await.unwrap().links, 1);
    assert_eq!(read_all(&mut tx, found.file).await, b"2");
    commit(tx).await;
    let mut tx = begin(&fs).await;
    tx.link(made.file, root, &name("again")).await.unwrap();
    commit(tx).await;
}

pub async fn directories_have_one_name_only(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "d", 0o755).await;
    assert_eq!(tx.link(directory, root, &name("e")).await, Err(FsError::IsDirectory));
}

pub async fn a_link_cannot_replace_anything(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    make_file(&mut tx, root, "b", b"").await;
    assert_eq!(tx.link(file, root, &name("b")).await, Err(FsError::Exists));
    assert_eq!(tx.link(file, root, &name("a")).await, Err(FsError::Exists));
    assert_eq!(tx.link(file, file, &name("c")).await, Err(FsError::NotDirectory));
}

pub async fn symlinks_keep_their_target(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let target = Bytes::from(vec![b'/'; MAX_LINK_TARGET]);
    let kind = CreateKind::Symlink(target.clone());
    let made = tx.create(root, &name("link"), kind, &SetAttributes::default()).await.unwrap().attributes;
    assert_eq!((made.size, made.mode), (MAX_LINK_TARGET as u64, 0o777));
    assert_eq!(tx.read_link(made.file).await.unwrap(), target);
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.read_link(made.file).await.unwrap(), target);
    assert_eq!(tx.read_link(root).await, Err(FsError::InvalidArgument));
    tx.remove(root, &name("link")).await.unwrap();
    assert_eq!(tx.read_link(made.file).await, Err(FsError::Stale));
    commit(tx).await;
}

pub async fn bad_link_targets_are_refused(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let cases = [
        (Bytes::new(), FsError::InvalidArgument),
        (Bytes::from_static(b"a\0b"), FsError::InvalidArgument),
        (Bytes::from(vec![b'a'; MAX_LINK_TARGET + 1]), FsError::NameTooLong),
    ];
    for (target, error) in cases {
        let kind = CreateKind::Symlink(target);
        assert_eq!(tx.create(root, &name("link"), kind, &SetAttributes::default()).await, Err(error));
    }
}
