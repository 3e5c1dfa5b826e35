use std::collections::BTreeSet;
use std::sync::Arc;

use super::scene::*;
use crate::{CreateKind, FileKind, FileSystem, FsError, Name, OpenCreate, SetAttributes};

pub async fn a_listing_in_pages_returns_every_entry_once(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let directory = {
        let root = tx.root();
        make_directory(&mut tx, root, "d", 0o755).await
    };
    let mut expected = BTreeSet::new();
    for number in 0..100 {
        let text = format!("file {}", number * 7919 % 100);
        make_file(&mut tx, directory, &text, b"").await;
        expected.insert(text);
    }
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let listed = names(&mut tx, directory).await;
    assert_eq!(listed.len(), 100);
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
    let whole = tx.read_directory(directory, 0, 1000).await.unwrap();
    assert!(whole.end && whole.entries.len() == 100);
    for entry in whole.entries {
        assert_eq!(tx.lookup(directory, &entry.name).await.unwrap(), entry.attributes);
    }
    assert!(tx.read_directory(directory, 0, 100).await.unwrap().end, "nothing follows the last entry");
    let root = tx.root();
    let empty = make_directory(&mut tx, root, "empty", 0o755).await;
    let page = tx.read_directory(empty, 0, 5).await.unwrap();
    assert!(page.end && page.entries.is_empty());
}

pub async fn cookies_stay_and_are_not_reused(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    for text in ["a", "b", "c"] {
        make_file(&mut tx, root, text, b"").await;
    }
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let first = tx.read_directory(root, 0, 9).await.unwrap().entries;
    assert!(first[0].cookie > 2);
    tx.remove(root, &name("c")).await.unwrap();
    make_file(&mut tx, root, "c", b"").await;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let second = tx.read_directory(root, 0, 9).await.unwrap().entries;
    assert_eq!(first[..2], second[..2]);
    assert!(second[2].cookie > first[2].cookie, "the cookie of a removed entry is not given to another");
}

pub async fn entries_that_stay_are_listed_once_while_others_come_and_go(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    for number in 0..30 {
        make_file(&mut tx, root, &format!("stays {number}"), b"").await;
        make_file(&mut tx, root, &format!("goes {number}"), b"").await;
    }
    commit(tx).await;
    let (mut cookie, mut seen, mut round) = (0, Vec::new(), 0);
    loop {
        let mut tx = begin(&fs).await;
        let page = tx.read_directory(root, cookie, 5).await.unwrap();
        seen.extend(page.entries.iter().map(|entry| entry.name.clone()));
        if page.end {
            break;
        }
        cookie = page.entries.last().unwrap().cookie;
        if round < 30 {
            tx.remove(root, &name(&format!("goes {round}"))).await.unwrap();
            make_file(&mut tx, root, &format!("new {round}"), b"").await;
        }
        round += 1;
        commit(tx).await;
    }
    for number in 0..30 {
        let stays: Name = name(&format!("stays {number}"));
        assert_eq!(seen.iter().filter(|name| **name == stays).count(), 1);
    }
}

pub async fn foreign_cookies_are_refused(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    make_file(&mut tx, root, "a", b"").await;
    for cookie in [1, 2, u64::MAX, 1 << 40] {
        assert_eq!(tx.read_directory(root, cookie, 9).await, Err(FsError::BadCookie), "{cookie}");
    }
    let last = tx.read_directory(root, 0, 9).await.unwrap().entries[0].cookie;
    assert!(tx.read_directory(root, last, 9).await.unwrap().entries.is_empty());
    tx.remove(root, &name("a")).await.unwrap();
    assert!(tx.read_directory(root, last, 9).await.unwrap().end, "a cookie outlives its entry");
}

pub async fn names_are_bytes_and_case_counts(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let long = "n".repeat(255);
    let odd = Name::new(&b"\xff\x01 \xc3"[..]).unwrap();
    make_file(&mut tx, root, "a", b"").await;
    make_file(&mut tx, root, "A", b"").await;
    make_file(&mut tx, root, &long, b"").await;
    tx.create(root, &odd, CreateKind::Fifo, &SetAttributes::default()).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_ne!(
        tx.lookup(root, &name("a")).await.unwrap().file,
        tx.lookup(root, &name("A")).await.unwrap().file
    );
    assert!(tx.lookup(root, &name(&long)).await.is_ok());
    assert_eq!(tx.lookup(root, &odd).await.unwrap().kind, FileKind::Fifo);
    assert_eq!(tx.lookup(root, &name("aa")).await, Err(FsError::NotFound));
}

pub async fn the_parent_of_a_moved_directory_is_its_new_place(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let a = make_directory(&mut tx, root, "a", 0o755).await;
    let b = make_directory(&mut tx, root, "b", 0o755).await;
    let moved = make_directory(&mut tx, a, "x", 0o755).await;
    assert_eq!(tx.parent(moved).await.unwrap().file, a);
    tx.rename(a, &name("x"), b, &name("y")).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.parent(moved).await.unwrap().file, b);
    assert_eq!(tx.parent(a).await.unwrap().file, root);
    let file = make_file(&mut tx, root, "file", b"").await.file;
    assert_eq!(tx.parent(file).await, Err(FsError::NotDirectory));
}

pub async fn a_directory_with_entries_stays(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "d", 0o755).await;
    make_file(&mut tx, directory, "a", b"").await;
    assert_eq!(tx.remove(root, &name("d")).await, Err(FsError::NotEmpty));
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.remove(root, &name("d")).await, Err(FsError::NotEmpty));
    tx.remove(directory, &name("a")).await.unwrap();
    tx.remove(root, &name("d")).await.unwrap();
    assert_eq!(tx.remove(root, &name("d")).await, Err(FsError::NotFound));
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.attributes(directory).await, Err(FsError::Stale));
}

pub async fn a_removed_directory_takes_no_entries(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "d", 0o755).await;
    let file = make_file(&mut tx, root, "file", b"").await.file;
    commit(tx).await;
    let held = fs.reference(directory);
    let mut tx = begin(&fs).await;
    tx.remove(root, &name("d")).await.unwrap();
    assert_eq!(tx.attributes(directory).await.unwrap().links, 0);
    let set = SetAttributes::default();
    assert_eq!(tx.create(directory, &name("x"), CreateKind::Fifo, &set).await, Err(FsError::NotFound));
    assert_eq!(
        tx.open_create(directory, &name("x"), OpenCreate::Unchecked, &set).await,
        Err(FsError::NotFound)
    );
    assert_eq!(tx.link(file, directory, &name("x")).await, Err(FsError::NotFound));
    assert_eq!(tx.rename(root, &name("file"), directory, &name("x")).await, Err(FsError::NotFound));
    commit(tx).await;
    drop(held);
}

pub async fn links_of_directories_count_their_children(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let a = make_directory(&mut tx, root, "a", 0o755).await;
    let b = make_directory(&mut tx, a, "b", 0o755).await;
    make_file(&mut tx, a, "file", b"").await;
    assert_eq!(tx.attributes(a).await.unwrap().links, 3);
    tx.rename(a, &name("b"), root, &name("b")).await.unwrap();
    assert_eq!(tx.attributes(a).await.unwrap().links, 2);
    assert_eq!(tx.attributes(root).await.unwrap().links, 4);
    let replaced = make_directory(&mut tx, a, "b", 0o755).await;
    tx.rename(root, &name("b"), a, &name("b")).await.unwrap();
    assert_eq!(tx.attributes(a).await.unwrap().links, 3);
    assert_eq!(tx.attributes(root).await.unwrap().links, 3);
    assert_eq!(tx.attributes(replaced).await, Err(FsError::Stale));
    assert_eq!(tx.lookup(a, &name("b")).await.unwrap().file, b);
}
