use std::sync::Arc;

use bytes::Bytes;
use file_system::FileId;
use file_system::acl::Acl;
use file_system::conformance::scene::*;
use ids::{BlockIndex, ObjectId, ObjectNumber};
use meta::{MetaStore, Priority};

use super::node::{BLOCK, Node};
use crate::row::Inode;
use crate::transaction::Entry;

/// A tree with one of everything, written back.
async fn tree() -> (Node, FileId, FileId) {
    let node = Node::new().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "d", 0o755).await;
    let file = make_file(&mut tx, directory, "a", &vec![1; 2 * BLOCK as usize]).await.file;
    tx.link(file, root, &name("b")).await.unwrap();
    commit(tx).await;
    node.write_back().await;
    node.check().await;
    (node, directory, file)
}

async fn damage(node: &Node, change: impl FnOnce(&mut dyn meta::Transaction)) -> String {
    let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
    change(&mut *tx);
    tx.commit(Priority::Client).await.unwrap().durable().await.unwrap();
    let findings = node.volume.check().await.unwrap();
    assert!(!findings.is_empty(), "the damage was not found");
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

#[tokio::test]
async fn every_kind_of_damage_is_found() {
    let (node, directory, file) = tree().await;
    let keys = node.volume.inner.keys;
    let found = damage(&node, |tx| tx.delete(keys.name(directory.object, b"a"))).await;
    assert!(found.contains("1 by cookie") && found.contains("2 links, 1 names"), "{found}");

    let (node, directory, file2) = tree().await;
    assert_ne!(file, file2);
    let found = damage(&node, |tx| tx.delete(keys.cookie(directory.object, 3))).await;
    assert!(found.contains("listed otherwise"), "{found}");

    let (node, _, file) = tree().await;
    let found = damage(&node, |tx| tx.delete(keys.key(file.object))).await;
    assert!(found.contains("without a key"), "{found}");

    let (node, directory, _) = tree().await;
    let found = damage(&node, |tx| tx.delete(keys.inode(directory.object))).await;
    assert!(found.contains("does not exist"), "{found}");

    let (node, directory, _) = tree().await;
    let missing = ObjectId { number: ObjectNumber(999_999), ..directory.object };
    let found = damage(&node, |tx| tx.put(keys.orphan(missing), Bytes::from_static(&[1]))).await;
    assert!(found.contains("marked as an orphan"), "{found}");

    let (node, directory, file) = tree().await;
    let moved = Entry { object: directory.object, cookie: 3 };
    let found = damage(&node, |tx| tx.put(keys.name(directory.object, b"a"), moved.encode())).await;
    assert!(found.contains("listed otherwise") && found.contains("directory"), "{found}");

    let chunk = keys.chunk(file.object, BlockIndex(0));
    let found = damage(&node, |tx| tx.put(chunk, Bytes::from_static(b"\x01\xff\xff\xff"))).await;
    assert!(found.contains("block map"), "{found}");

    let (node, _, file) = tree().await;
    let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
    let row = tx.get(&keys.inode(file.object)).await.unwrap().unwrap();
    let mut inode = Inode::decode(&row).unwrap();
    inode.attributes.acl = Some(Arc::new(Acl::from_mode(0o640, false)));
    let found = damage(&node, |tx| tx.put(keys.inode(file.object), inode.encode())).await;
    assert!(found.contains("mode 644 beside an access control list of 640"), "{found}");

    let (node, _, file) = tree().await;
    let note = |seal, object: ObjectId| {
        let (first, last) = (ids::Version(1), ids::Version(2));
        let row = crate::row::AttemptRow { creator: ids::GatewayId(1), seal, first, last, policy: None };
        (keys.attempts(object, BlockIndex(0)), row.encode())
    };
    let seal = node.entry(file, 0).await.seal;
    let (key, row) = note(seal, file.object);
    let found = damage(&node, |tx| tx.put(key.clone(), row)).await;
    assert!(found.contains("version 1 of block 0 is held and not settled"), "{found}");
    let (_, row) = note(blocks::SealId(7), file.object);
    let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
    tx.put(key.clone(), row);
    let _ = tx.commit(Priority::Client).await.unwrap();
    node.check().await; // the same number under another seal
    let found = damage(&node, |tx| tx.put(key, Bytes::from_static(b"damaged"))).await;
    assert!(found.contains("on its way to the clouds is damaged"), "{found}");
    let (key, row) = note(seal, ObjectId { number: ObjectNumber(999_999), ..file.object });
    let found = damage(&node, |tx| tx.put(key, row)).await;
    assert!(found.contains("there is no such file"), "{found}");

    let (node, _, _) = tree().await;
    let counter = Bytes::copy_from_slice(&1_u128.to_be_bytes());
    let found = damage(&node, |tx| tx.put(crate::keys::next_object(), counter)).await;
    assert!(found.contains("object counter"), "{found}");
}
