//! Files spread over more clouds than a block has fragments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use file_system::{Authority, FileId, Position};

use super::files::{content, file_of, write_at};
use super::node::{BLOCK, GC_DELAY, Node, SHIFT, Site, policy};
use crate::{Migrating, Policy};

const FILES: u64 = 48;

fn windows(scheme: &str, clouds: &[u16]) -> Vec<Policy> {
    let total = scheme.parse::<disperse::Scheme>().unwrap().total();
    let window = |first| clouds.iter().copied().cycle().skip(first).take(total).collect::<Vec<_>>();
    (0..clouds.len()).map(|first| policy(scheme, &window(first), SHIFT)).collect()
}

fn text(number: u64) -> Vec<u8> {
    (0..2 * BLOCK + 17 * number).map(|at| (at / 1000 + number * 31) as u8).collect()
}

async fn filled(site: Site) -> (Node, Vec<FileId>) {
    let node = Node::start(site).await;
    let mut files = Vec::new();
    for number in 0..FILES {
        files.push(file_of(&node, &format!("file {number}"), &text(number)).await);
    }
    node.write_back().await;
    (node, files)
}

async fn spread(node: &Node, clouds: &[u16]) {
    let base = policy("rs:2+1", &[0, 1, 2], SHIFT);
    node.volumes.spread("home", vec![(base, windows("rs:2+1", clouds))]).await.unwrap();
}

async fn step(node: &Node) -> bool {
    let offered = node.upkeep.migrator.step().await.unwrap();
    node.write_back().await;
    offered.is_done
}

async fn finish(node: &Node) {
    for _ in 0..100 {
        if step(node).await {
            assert_eq!(node.volume.migrating().await.unwrap(), Migrating::default());
            return;
        }
    }
    panic!("a rebalancing goes on for ever");
}

async fn collect(node: &Node) {
    for _ in 0..2 {
        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
        let _ = node.upkeep.garbage.once().await.unwrap();
    }
}

async fn expect_files(node: &Node, files: &[FileId]) {
    node.cache.drop_clean().await;
    for (number, file) in (0..).zip(files) {
        assert!(content(node, *file).await == text(number), "file {number}");
    }
}

/// The share of each cloud is about equal.
fn assert_balanced(stored: &[usize]) {
    let mean = stored.iter().sum::<usize>() / stored.len();
    let is_near = |count: &usize| (mean * 3 / 5..=mean * 7 / 5).contains(count);
    assert!(stored.iter().all(is_near), "{stored:?}");
}

#[tokio::test]
async fn files_that_exist_move_to_their_share_and_new_ones_are_made_there() {
    for longest_packed in [0, 60_000] {
        let (node, mut files) = filled(Site { longest_packed, ..Site::new(ManualClock::new()) }).await;
        let before = node.stored();
        assert_eq!(before[3], 0);
        let base = Arc::new(policy("rs:2+1", &[0, 1, 2], SHIFT));
        let wanted = windows("rs:2+1", &[0, 1, 2, 3]);
        let shifts = node.volume.shifts(&[(base, wanted)]).await.unwrap();
        let counted: u64 = shifts.iter().map(|shift| shift.files).sum();
        assert_eq!(node.stored(), before, "to count moves nothing");
        spread(&node, &[0, 1, 2, 3]).await;
        node.volume.rebalance().await.unwrap();
        node.volume.find_migrating().await.unwrap();
        assert_eq!(node.volume.migrating().await.unwrap().files, counted);
        assert!((FILES / 2..FILES).contains(&counted), "{counted}");
        finish(&node).await;
        node.check().await;
        collect(&node).await;
        node.check().await;
        node.check_clouds_at_rest().await;
        assert_balanced(&node.stored());
        expect_files(&node, &files).await;

        for number in FILES..2 * FILES {
            files.push(file_of(&node, &format!("file {number}"), &text(number)).await);
        }
        node.write_back().await;
        assert_balanced(&node.stored());
        node.volume.rebalance().await.unwrap();
        node.volume.find_migrating().await.unwrap();
        assert_eq!(
            node.volume.migrating().await.unwrap(),
            Migrating::default(),
            "they are where they belong"
        );
        let node = node.restart().await;
        node.volume.migrate("").await.unwrap();
        node.volume.find_migrating().await.unwrap();
        assert_eq!(node.volume.migrating().await.unwrap(), Migrating::default(), "also after a restart");
        expect_files(&node, &files).await;
        node.check().await;
    }
}

#[tokio::test]
async fn every_block_is_whole_at_every_step_and_crashes_stop_nothing() {
    let (mut node, files) = filled(Site { batch: 7, ..Site::new(ManualClock::new()) }).await;
    spread(&node, &[0, 1, 2, 3]).await;
    node.volume.rebalance().await.unwrap();
    let mut steps = 0;
    node = node.crash().await;
    node.volume.find_migrating().await.unwrap();
    while node.volume.migrating().await.unwrap() != Migrating::default() {
        let found = node.volume.to_rewrite(11, u64::MAX).await.unwrap();
        node.upkeep.migrator.offer(found.blocks).await;
        node.write_back().await;
        node.check_clouds().await;
        steps += 1;
        if steps % 4 == 0 {
            node = node.crash().await;
            node.check().await;
        }
        assert!(steps < 100);
    }
    assert!(steps > 5, "{steps}");
    collect(&node).await;
    node.check_clouds_at_rest().await;
    assert_balanced(&node.stored());
    expect_files(&node, &files).await;
}

#[tokio::test]
async fn only_what_differs_by_its_clouds_moves_and_what_clones_share_stays() {
    let node = Node::new().await;
    node.volumes.set_policy("home", policy("replicas:2", &[0, 1], SHIFT)).await.unwrap();
    for number in 0..20 {
        file_of(&node, &format!("old {number}"), &text(number)).await;
    }
    node.volumes.set_policy("home", policy("rs:2+1", &[0, 1, 2], SHIFT)).await.unwrap();
    let mut shared = Vec::new();
    for number in 0..20 {
        shared.push(file_of(&node, &format!("shared {number}"), &text(number)).await);
    }
    node.write_back().await;
    for (number, from) in shared.clone().into_iter().enumerate() {
        let copy = file_of(&node, &format!("copy {number}"), b"").await;
        clone(&node, from, copy).await.unwrap();
        shared.push(copy);
    }
    let before = node.stored();
    spread(&node, &[0, 1, 2, 3]).await;
    node.volume.rebalance().await.unwrap();
    node.volume.find_migrating().await.unwrap();
    assert_eq!(node.volume.migrating().await.unwrap(), Migrating::default());
    finish(&node).await;
    assert_eq!(node.stored(), before);
    // Set again, a policy is spread no more.
    node.volumes.set_policy("home", policy("rs:2+1", &[0, 1, 2], SHIFT)).await.unwrap();
    assert!(node.volume.spreads().iter().all(|spread| spread.variants.len() == 1));
    node.check().await;
}

async fn clone(node: &Node, from: FileId, to: FileId) -> file_system::FsResult<()> {
    let at = |file| Position { file, offset: 0, authority: Authority::Checked };
    let mut tx = begin(&node.fs()).await;
    tx.clone_range(at(from), at(to), 0, true).await?;
    commit(tx).await;
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_empty_can_be_made_a_clone_of_one_on_other_clouds() {
    let (mut node, _) = filled(Site::new(ManualClock::new())).await;
    spread(&node, &[0, 1, 2, 3]).await;
    let mut refused = 0;
    let mut clones = BTreeMap::new();
    for number in 0..8 {
        let from = file_of(&node, &format!("from {number}"), &text(number)).await;
        node.write_back().await;
        let to = file_of(&node, &format!("to {number}"), b"").await;
        clone(&node, from, to).await.unwrap();
        clones.insert(number, to);
        let full = file_of(&node, &format!("full {number}"), &text(number)).await;
        node.write_back().await;
        refused += u64::from(clone(&node, from, full).await.is_err());
        write_at(&node, to, text(number).len() as u64, b"!").await;
    }
    assert!((1..8).contains(&refused), "{refused}");
    node.write_back().await;
    node.check().await;
    node = node.crash().await;
    for (number, file) in clones {
        assert!(content(&node, file).await == [&text(number)[..], b"!"].concat());
    }
    node.check().await;
    node.check_clouds().await;
}
