use std::sync::Arc;

use super::scene::*;
use crate::{Authority, FileSystem, FsError, SetAttributes};

pub async fn a_referenced_file_outlives_its_name(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"open").await.file;
    commit(tx).await;
    let (one, two) = (fs.reference(file), fs.reference(file));
    let mut tx = begin(&fs).await;
    tx.remove(root, &name("a")).await.unwrap();
    assert_eq!(tx.attributes(file).await.unwrap().links, 0);
    commit(tx).await;
    drop(one);
    let mut tx = begin(&fs).await;
    write(&mut tx, file, 4, b" still").await.unwrap();
    tx.set_attributes(file, &SetAttributes::with_size(8), Authority::Checked).await.unwrap();
    assert_eq!(read_all(&mut tx, file).await, b"open sti");
    assert_eq!(
        tx.link(file, root, &name("b")).await,
        Err(FsError::NotFound),
        "a removed file gets no name again"
    );
    commit(tx).await;
    drop(two);
    let mut tx = begin(&fs).await;
    assert_eq!(tx.attributes(file).await, Err(FsError::Stale));
}

pub async fn a_file_without_a_name_that_was_let_go_of_is_not_referenced_again(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"open").await.file;
    commit(tx).await;
    let held = fs.reference(file);
    let mut tx = begin(&fs).await;
    tx.remove(root, &name("a")).await.unwrap();
    commit(tx).await;
    let mut before = begin(&fs).await;
    assert_eq!(before.attributes(file).await.unwrap().links, 0);
    drop(held);
    let _nothing = fs.reference(file);
    assert_eq!(before.attributes(file).await, Err(FsError::Stale));
    assert_eq!(begin(&fs).await.attributes(file).await, Err(FsError::Stale));
}

pub async fn without_a_reference_a_removed_file_is_stale_at_once(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    tx.remove(root, &name("a")).await.unwrap();
    assert_eq!(tx.attributes(file).await, Err(FsError::Stale));
    assert_eq!(write(&mut tx, file, 0, b"x").await, Err(FsError::Stale));
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.attributes(file).await, Err(FsError::Stale));
}

pub async fn a_replaced_file_lives_while_it_is_referenced(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let old = make_file(&mut tx, root, "old", b"old").await.file;
    make_file(&mut tx, root, "new", b"new").await;
    commit(tx).await;
    let held = fs.reference(old);
    let mut tx = begin(&fs).await;
    tx.rename(root, &name("new"), root, &name("old")).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(read_all(&mut tx, old).await, b"old");
    drop((tx, held));
    let mut tx = begin(&fs).await;
    assert_eq!(tx.attributes(old).await, Err(FsError::Stale));
}

pub async fn removed_objects_are_never_found_under_a_new_id(fs: Arc<dyn FileSystem>) {
    let mut seen = std::collections::HashSet::new();
    for _ in 0..50 {
        let mut tx = begin(&fs).await;
        let root = tx.root();
        let file = make_file(&mut tx, root, "a", b"").await.file;
        assert!(seen.insert(file), "{file} was used before");
        commit(tx).await;
        let mut tx = begin(&fs).await;
        tx.remove(root, &name("a")).await.unwrap();
        commit(tx).await;
    }
}
