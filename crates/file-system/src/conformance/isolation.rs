use std::sync::Arc;

use super::scene::*;
use crate::{Authority, Caller, CommitMode, FileSystem, FsError, Mode, OpenCreate, SetAttributes};

pub async fn nothing_is_seen_before_the_commit_and_all_after_it(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "d", 0o755).await;
    let file = make_file(&mut tx, directory, "a", b"data").await.file;
    let mut other = begin(&fs).await;
    assert_eq!(other.lookup(root, &name("d")).await, Err(FsError::NotFound));
    assert_eq!(other.attributes(file).await, Err(FsError::Stale));
    drop(other);
    commit(tx).await;
    let mut other = begin(&fs).await;
    assert_eq!(other.lookup(root, &name("d")).await.unwrap().file, directory);
    assert_eq!(read_all(&mut other, file).await, b"data");
}

pub async fn a_dropped_transaction_leaves_no_trace(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"data").await.file;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let before = tx.attributes(file).await.unwrap();
    let root_before = tx.attributes(root).await.unwrap();
    write(&mut tx, file, 0, b"other").await.unwrap();
    make_file(&mut tx, root, "b", b"").await;
    tx.remove(root, &name("a")).await.unwrap();
    drop(tx);
    let mut tx = begin(&fs).await;
    assert_eq!(tx.attributes(file).await.unwrap(), before);
    assert_eq!(tx.attributes(root).await.unwrap(), root_before);
    assert_eq!(read_all(&mut tx, file).await, b"data");
    assert_eq!(names(&mut tx, root).await, ["a"]);
}

pub async fn two_changes_of_one_file_conflict(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"0").await.file;
    commit(tx).await;
    let (mut one, mut two) = (begin(&fs).await, begin(&fs).await);
    assert_eq!(read_all(&mut one, file).await, b"0");
    assert_eq!(read_all(&mut two, file).await, b"0");
    write(&mut one, file, 0, b"1").await.unwrap();
    write(&mut two, file, 0, b"2").await.unwrap();
    commit(one).await;
    assert_eq!(two.commit(CommitMode::Durable).await, Err(FsError::Conflict));
    let mut tx = begin(&fs).await;
    assert_eq!(read_all(&mut tx, file).await, b"1");
}

pub async fn a_conflict_leaves_the_first_commit_alone(fs: Arc<dyn FileSystem>) {
    let (mut one, mut two) = (begin(&fs).await, begin(&fs).await);
    let root = one.root();
    let first = make_file(&mut one, root, "a", b"first").await.file;
    make_file(&mut two, root, "a", b"second").await;
    commit(one).await;
    assert_eq!(two.commit(CommitMode::Visible).await, Err(FsError::Conflict));
    let mut tx = begin(&fs).await;
    assert_eq!(tx.lookup(root, &name("a")).await.unwrap().file, first);
    assert_eq!(read_all(&mut tx, first).await, b"first");
}

pub async fn an_exclusive_transaction_always_commits(fs: Arc<dyn FileSystem>) {
    let mut tx = fs.begin(&Caller::root(), Mode::Exclusive).await.unwrap();
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"exclusive").await.file;
    // More objects than any implementation has ids in reserve.
    for number in 0..2500 {
        let set = SetAttributes::with_mode(0o600);
        tx.open_create(root, &name(&format!("{number}")), OpenCreate::Guarded, &set).await.unwrap();
    }
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(read_all(&mut tx, file).await, b"exclusive");
    make_file(&mut tx, root, "b", b"").await;
    commit(tx).await;
}

pub async fn an_operation_that_fails_changes_nothing(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"data").await.file;
    let directory = make_directory(&mut tx, root, "d", 0o755).await;
    make_file(&mut tx, directory, "x", b"").await;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let (root_before, file_before) = (tx.attributes(root).await.unwrap(), tx.attributes(file).await.unwrap());
    let both = SetAttributes { size: Some(0), mode: Some(0o10000), ..SetAttributes::default() };
    assert!(tx.set_attributes(file, &both, Authority::Checked).await.is_err());
    assert!(tx.rename(root, &name("a"), root, &name("d")).await.is_err());
    assert!(tx.rename(root, &name("d"), directory, &name("y")).await.is_err());
    assert!(tx.remove(root, &name("d")).await.is_err());
    assert!(tx.link(file, root, &name("d")).await.is_err());
    assert!(write(&mut tx, file, u64::MAX - 1, b"abc").await.is_err());
    assert_eq!(tx.attributes(root).await.unwrap(), root_before);
    assert_eq!(tx.attributes(file).await.unwrap(), file_before);
    make_file(&mut tx, root, "b", b"").await;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(names(&mut tx, root).await, ["a", "d", "b"]);
    assert_eq!(read_all(&mut tx, file).await, b"data");
}

pub async fn many_operations_are_one_transaction(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    for number in 0..300 {
        make_file(&mut tx, root, &format!("{number}"), format!("content {number}").as_bytes()).await;
    }
    for number in (0..300).step_by(2) {
        tx.remove(root, &name(&format!("{number}"))).await.unwrap();
    }
    assert_eq!(names(&mut tx, root).await.len(), 150);
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(names(&mut tx, root).await.len(), 150);
    let file = tx.lookup(root, &name("151")).await.unwrap().file;
    assert_eq!(read_all(&mut tx, file).await, b"content 151");
}

pub async fn concurrent_appends_with_retry_lose_nothing(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "log", b"").await.file;
    commit(tx).await;
    let append = |writer: u8| {
        let fs = fs.clone();
        async move {
            for _ in 0..20 {
                let mut attempt = 0;
                loop {
                    let mode = if attempt < 5 { Mode::Optimistic } else { Mode::Exclusive };
                    let mut tx = fs.begin(&Caller::root(), mode).await.unwrap();
                    let done = async {
                        let size = tx.attributes(file).await?.size;
                        tokio::task::yield_now().await;
                        write(&mut tx, file, size, &[writer]).await
                    };
                    let result = match done.await {
                        Ok(()) => tx.commit(CommitMode::Visible).await,
                        Err(error) => Err(error),
                    };
                    match result {
                        Ok(()) => break,
                        Err(FsError::Conflict) => attempt += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    };
    let writers: Vec<_> = (0..4).map(|writer| tokio::spawn(append(writer))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let mut tx = begin(&fs).await;
    let content = read_all(&mut tx, file).await;
    for writer in 0..4 {
        assert_eq!(content.iter().filter(|&&byte| byte == writer).count(), 20);
    }
}
