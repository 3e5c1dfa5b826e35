use file_system::conformance::scene::*;
use file_system::{CommitMode, FileSystem};
use ids::ObjectNumber;

use super::node::{BLOCK, Node};

#[tokio::test]
async fn what_was_durable_is_there_after_a_crash() {
    let mut node = Node::new().await;
    let mut files = Vec::new();
    for round in 0..5_u8 {
        let mut tx = begin(&node.fs()).await;
        let root = tx.root();
        let file =
            make_file(&mut tx, root, &format!("{round}"), &vec![round; 2 * BLOCK as usize + 5]).await.file;
        tx.set_xattr(
            file,
            &file_system::XattrName::new("round").unwrap(),
            vec![round].into(),
            file_system::XattrMode::Either,
        )
        .await
        .unwrap();
        commit(tx).await;
        files.push(file);
        if round % 2 == 1 {
            node.write_back().await;
        }
        let mut lost = begin(&node.fs()).await;
        make_file(&mut lost, root, "never committed", b"").await;
        drop(lost);
        let usage = node.volume.usage();
        node = node.crash().await;
        assert_eq!(node.volume.usage(), usage);
        node.check().await;
        let mut tx = begin(&node.fs()).await;
        for (number, &file) in files.iter().enumerate() {
            assert_eq!(read_all(&mut tx, file).await, vec![number as u8; 2 * BLOCK as usize + 5]);
            assert_eq!(
                tx.xattr(file, &file_system::XattrName::new("round").unwrap()).await.unwrap(),
                vec![number as u8]
            );
        }
        let root = tx.root();
        assert_eq!(names(&mut tx, root).await.len(), files.len());
    }
}

#[tokio::test]
async fn a_synced_file_survives_although_its_commits_did_not_wait() {
    let node = Node::new().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    tx.commit(CommitMode::Visible).await.unwrap();
    for byte in 0..10 {
        let mut tx = begin(&node.fs()).await;
        write(&mut tx, file, byte, &[byte as u8]).await.unwrap();
        tx.commit(CommitMode::Visible).await.unwrap();
    }
    node.volume.sync(file).await.unwrap();
    let node = node.crash().await;
    let mut tx = begin(&node.fs()).await;
    assert_eq!(read_all(&mut tx, file).await, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(tx.lookup(root, &name("a")).await.unwrap().file, file);
}

#[tokio::test]
async fn object_numbers_are_reserved_in_batches_and_never_come_back() {
    // K9, K10
    let mut node = Node::new().await;
    let mut last = ObjectNumber(0);
    for round in 0..3 {
        let counter = crate::keys::next_object();
        let get = async |node: &Node| {
            let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
            tx.get(&counter).await.unwrap()
        };
        let mut reservations = std::collections::HashSet::new();
        for number in 0..1024 {
            let mut tx = begin(&node.fs()).await;
            let root = tx.root();
            let file = make_file(&mut tx, root, &format!("{round} {number}"), b"").await.file;
            assert!(file.object.number > last);
            last = file.object.number;
            tx.commit(CommitMode::Visible).await.unwrap();
            reservations.insert(get(&node).await);
        }
        assert!(reservations.len() <= 2, "1,024 creations touched the counter {} times", reservations.len());
        let mut tx = begin(&node.fs()).await;
        let root = tx.root();
        make_file(&mut tx, root, &format!("last of {round}"), b"").await;
        commit(tx).await;
        node = node.crash().await;
    }
    node.check().await;
}

#[tokio::test]
async fn the_write_verifier_changes_with_every_start() {
    let node = Node::new().await;
    let before = node.volume.write_verifier();
    let node = node.restart().await;
    assert_ne!(node.volume.write_verifier(), before);
}
