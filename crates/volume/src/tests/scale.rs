use std::collections::HashSet;

use file_system::conformance::scene::*;
use file_system::{CommitMode, OpenCreate, SetAttributes};

use super::node::Node;

/// Entries of the large directory: 10,000, or what `KURMA_ENTRIES` says (a million in a soak).
fn entries() -> usize {
    std::env::var("KURMA_ENTRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[tokio::test]
async fn a_large_directory_is_made_listed_and_removed() {
    let node = Node::new().await;
    let fs = node.fs();
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "large", 0o755).await;
    commit(tx).await;
    let all: Vec<usize> = (0..entries()).collect();
    for batch in all.chunks(500) {
        let mut tx = begin(&fs).await;
        for number in batch {
            let (text, set) = (name(&format!("entry {number}")), SetAttributes::with_mode(0o600));
            tx.open_create(directory, &text, OpenCreate::Guarded, &set).await.unwrap();
        }
        tx.commit(CommitMode::Visible).await.unwrap();
    }
    let (mut cookie, mut seen) = (0, HashSet::new());
    loop {
        let mut tx = begin(&fs).await;
        let page = tx.read_directory(directory, cookie, 1000).await.unwrap();
        for entry in page.entries {
            assert!(entry.cookie > cookie && seen.insert(entry.name));
            cookie = entry.cookie;
        }
        if page.end {
            break;
        }
    }
    assert_eq!(seen.len(), entries());
    node.check().await;
    for batch in all.chunks(500) {
        let mut tx = begin(&fs).await;
        for number in batch {
            tx.remove(directory, &name(&format!("entry {number}"))).await.unwrap();
        }
        tx.commit(CommitMode::Visible).await.unwrap();
    }
    assert_eq!(node.volume.reap_orphans(usize::MAX).await.unwrap(), entries());
    let mut tx = begin(&fs).await;
    tx.remove(root, &name("large")).await.unwrap();
    commit(tx).await;
    assert_eq!(node.volume.usage(), (1, 0));
    node.check().await;
}
