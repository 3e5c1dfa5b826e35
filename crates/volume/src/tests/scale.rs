use std::collections::HashSet;
use std::sync::Arc;

use file_system::conformance::scene::*;
use file_system::{CommitMode, FileSystem, FsError, OpenCreate, SetAttributes, Transaction};

use super::node::Node;

/// Entries of the large directory: 10,000, or what `KURMA_ENTRIES` says (a million in a soak).
fn entries() -> usize {
    std::env::var("KURMA_ENTRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// Does it to all numbers, 500 in a transaction. So large a transaction may meet a conflict although nobody else
/// is there: the counter of objects is raised meanwhile, and two keys in 2^18 look like one.
async fn in_batches(
    fs: &Arc<dyn FileSystem>,
    change: impl AsyncFn(&mut Box<dyn Transaction>, usize) -> Result<(), FsError>,
) {
    for first in (0..entries()).step_by(500) {
        let batch = async || {
            let mut tx = begin(fs).await;
            for number in first..entries().min(first + 500) {
                change(&mut tx, number).await?;
            }
            tx.commit(CommitMode::Visible).await
        };
        let mut attempts = 5;
        while let Err(error) = batch().await {
            attempts -= 1;
            assert!(error == FsError::Conflict && attempts > 0, "{error}");
        }
    }
}

#[tokio::test]
async fn a_large_directory_is_made_listed_and_removed() {
    let node = Node::new().await;
    let fs = node.fs();
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "large", 0o755).await;
    commit(tx).await;
    in_batches(&fs, async |tx, number| {
        let (text, set) = (name(&format!("entry {number}")), SetAttributes::with_mode(0o600));
        tx.open_create(directory, &text, OpenCreate::Guarded, &set).await.map(drop)
    })
    .await;
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
    in_batches(&fs, async |tx, number| {
        tx.remove(directory, &name(&format!("entry {number}"))).await.map(drop)
    })
    .await;
    assert_eq!(node.volume.reap_orphans(usize::MAX).await.unwrap(), entries());
    let mut tx = begin(&fs).await;
    tx.remove(root, &name("large")).await.unwrap();
    commit(tx).await;
    assert_eq!(node.volume.usage(), (1, 0));
    node.check().await;
}
