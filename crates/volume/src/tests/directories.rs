use file_system::FileId;
use file_system::conformance::scene::*;
use meta::MetaStore;

use super::node::{BLOCK, Node, SHIFT, policy};
use crate::VolumeError;

async fn scheme_of(node: &Node, file: FileId) -> String {
    let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
    let rows = node.volume.inner.file_rows(&mut *tx, file.object).await.unwrap().unwrap();
    rows.policy.placement.scheme().to_string()
}

async fn made(node: &Node, directory: FileId, text: &str) -> String {
    let mut tx = begin(&node.fs()).await;
    let file = make_file(&mut tx, directory, text, &[7; BLOCK as usize]).await.file;
    commit(tx).await;
    scheme_of(node, file).await
}

#[tokio::test]
async fn files_follow_the_nearest_directory_with_a_policy_from_when_they_are_made() {
    let node = Node::new().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let above = make_directory(&mut tx, root, "above", 0o755).await;
    let inside = make_directory(&mut tx, above, "inside", 0o755).await;
    let old = make_file(&mut tx, inside, "old", &[7; BLOCK as usize]).await.file;
    commit(tx).await;
    let set = async |path: &str, scheme: &str| {
        node.volumes.set_directory_policy("home", path, Some(policy(scheme, &[0, 1, 3], SHIFT))).await
    };
    set("above", "replicas:3").await.unwrap();
    assert_eq!(made(&node, inside, "a").await, "replicas:3");
    set("above/inside", "caont-rs:2+1").await.unwrap();
    assert_eq!(made(&node, inside, "b").await, "caont-rs:2+1");
    assert_eq!(made(&node, above, "c").await, "replicas:3");
    assert_eq!(made(&node, root, "d").await, "rs:2+1");
    assert_eq!(scheme_of(&node, old).await, "rs:2+1");
    // One that is made in the same transaction as its directory.
    let mut tx = begin(&node.fs()).await;
    let deep = make_directory(&mut tx, inside, "deep", 0o755).await;
    let file = make_file(&mut tx, deep, "e", b"").await.file;
    commit(tx).await;
    assert_eq!(scheme_of(&node, file).await, "caont-rs:2+1");
    node.write_back().await;
    node.check().await;
    node.check_clouds().await;

    let node = node.restart().await;
    assert_eq!(made(&node, inside, "f").await, "caont-rs:2+1");
    node.volumes.set_directory_policy("home", "/above/inside", None).await.unwrap();
    assert_eq!(made(&node, inside, "g").await, "replicas:3");
    node.volumes.set_directory_policy("home", "above", None).await.unwrap();
    assert_eq!(made(&node, inside, "h").await, "rs:2+1");
    assert!(node.volume.directory_policies().is_empty());
    node.check().await;
}

#[tokio::test]
async fn a_policy_goes_with_its_directory_and_only_directories_have_one() {
    let node = Node::new().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    make_directory(&mut tx, root, "d", 0o755).await;
    make_file(&mut tx, root, "file", b"").await;
    commit(tx).await;
    let wanted = || Some(policy("replicas:1", &[3], SHIFT));
    node.volumes.set_directory_policy("home", "d", wanted()).await.unwrap();
    for path in ["file", "none", "d/none"] {
        let refused = node.volumes.set_directory_policy("home", path, wanted()).await;
        assert!(matches!(refused, Err(VolumeError::NoDirectory(_))), "{path}");
    }
    let mut tx = begin(&node.fs()).await;
    tx.remove(root, &name("d")).await.unwrap();
    commit(tx).await;
    node.volume.reap_orphans(9).await.unwrap();
    node.check().await;
    let node = node.restart().await;
    assert!(node.volume.directory_policies().is_empty());
}
