//! What most tests do with files, each in a transaction of its own.

use file_system::conformance::scene::*;
use file_system::{Authority, FileId, SetAttributes};

use super::node::Node;

pub async fn file_of(node: &Node, text: &str, content: &[u8]) -> FileId {
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, text, content).await.file;
    commit(tx).await;
    file
}

pub async fn write_at(node: &Node, file: FileId, offset: u64, data: &[u8]) {
    let mut tx = begin(&node.fs()).await;
    write(&mut tx, file, offset, data).await.unwrap();
    commit(tx).await;
}

pub async fn set_size(node: &Node, file: FileId, size: u64) {
    let mut tx = begin(&node.fs()).await;
    tx.set_attributes(file, &SetAttributes::with_size(size), Authority::Checked).await.unwrap();
    commit(tx).await;
}

pub async fn remove(node: &Node, text: &str) {
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    tx.remove(root, &name(text)).await.unwrap();
    commit(tx).await;
}

pub async fn content(node: &Node, file: FileId) -> Vec<u8> {
    read_all(&mut begin(&node.fs()).await, file).await
}
