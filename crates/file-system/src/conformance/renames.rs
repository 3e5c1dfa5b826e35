use std::sync::Arc;

use super::scene::*;
use crate::{FileSystem, FsError};

pub async fn a_name_moves_with_its_object(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "d", 0o755).await;
    let file = make_file(&mut tx, root, "a", b"content").await;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let (from, to) = tx.rename(root, &name("a"), directory, &name("b")).await.unwrap();
    assert!(from.after > from.before && to.after > to.before);
    assert_eq!(tx.attributes(root).await.unwrap().change, from.after);
    assert_eq!(tx.attributes(directory).await.unwrap().change, to.after);
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.lookup(root, &name("a")).await, Err(FsError::NotFound));
    let found = tx.lookup(directory, &name("b")).await.unwrap();
    assert_eq!((found.file, found.modified, found.links), (file.file, file.modified, 1));
    assert!(found.change > file.change);
    let missing = tx.rename(root, &name("a"), root, &name("c")).await;
    assert_eq!(missing, Err(FsError::NotFound));
}

pub async fn a_file_replaces_a_file_and_an_empty_directory_an_empty_directory(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let new = make_file(&mut tx, root, "new", b"new").await.file;
    let old = make_file(&mut tx, root, "old", b"old").await.file;
    let full = make_directory(&mut tx, root, "full", 0o755).await;
    make_file(&mut tx, full, "x", b"").await;
    let empty = make_directory(&mut tx, root, "empty", 0o755).await;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    tx.rename(root, &name("new"), root, &name("old")).await.unwrap();
    let refused = tx.rename(root, &name("empty"), root, &name("full")).await;
    assert_eq!(refused, Err(FsError::NotEmpty));
    tx.rename(root, &name("full"), root, &name("empty")).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.lookup(root, &name("old")).await.unwrap().file, new);
    assert_eq!(tx.attributes(old).await, Err(FsError::Stale));
    assert_eq!(tx.lookup(root, &name("empty")).await.unwrap().file, full);
    assert_eq!(tx.attributes(empty).await, Err(FsError::Stale));
    assert_eq!(names(&mut tx, root).await, ["old", "empty"]);
}

pub async fn files_and_directories_do_not_replace_each_other(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    make_file(&mut tx, root, "file", b"").await;
    make_directory(&mut tx, root, "directory", 0o755).await;
    let over_directory = tx.rename(root, &name("file"), root, &name("directory")).await;
    assert_eq!(over_directory, Err(FsError::IsDirectory));
    let over_file = tx.rename(root, &name("directory"), root, &name("file")).await;
    assert_eq!(over_file, Err(FsError::NotDirectory));
}

pub async fn a_directory_does_not_move_below_itself(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let a = make_directory(&mut tx, root, "a", 0o755).await;
    let b = make_directory(&mut tx, a, "b", 0o755).await;
    for target in [a, b] {
        let moved = tx.rename(root, &name("a"), target, &name("x")).await;
        assert_eq!(moved, Err(FsError::InvalidArgument));
    }
    let over_ancestor = tx.rename(a, &name("b"), root, &name("a")).await;
    assert_eq!(over_ancestor, Err(FsError::NotEmpty));
}

pub async fn two_names_of_one_object_are_left_alone(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    tx.link(file, root, &name("b")).await.unwrap();
    let (from, to) = tx.rename(root, &name("a"), root, &name("b")).await.unwrap();
    assert_eq!((from.before, to.before), (from.after, to.after));
    tx.rename(root, &name("a"), root, &name("a")).await.unwrap();
    assert_eq!(names(&mut tx, root).await, ["a", "b"]);
    assert_eq!(tx.attributes(file).await.unwrap().links, 2);
}

pub async fn a_replaced_name_keeps_its_place_in_the_listing(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    for text in ["a", "b", "c"] {
        make_file(&mut tx, root, text, b"").await;
    }
    let before = tx.read_directory(root, 0, 9).await.unwrap().entries;
    tx.rename(root, &name("c"), root, &name("a")).await.unwrap();
    let after = tx.read_directory(root, 0, 9).await.unwrap().entries;
    assert_eq!((after.len(), after[0].cookie, &after[0].name), (2, before[0].cookie, &name("a")));
    assert_eq!(after[0].attributes.file, before[2].attributes.file);
}
