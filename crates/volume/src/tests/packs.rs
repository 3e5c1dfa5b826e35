//! Small files that share objects in the clouds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cloud::{ErrorKind, Fault, Side};
use file_system::FileId;
use file_system::FileSystem;
use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use proptest::prelude::*;
use seal::SealedBlock;

use super::files::{content, file_of, remove, set_size, write_at};
use super::node::{BLOCK, GC_DELAY, Node, Site};

async fn packing(scheme: &'static str) -> Node {
    let site = Site { longest_packed: 256 << 10, scheme, ..Site::new(ManualClock::new()) };
    Node::start(site).await
}

fn text_of(number: usize) -> Vec<u8> {
    (0..1000 + number * 37).map(|at| (at * 7 + number) as u8).collect()
}

async fn files(node: &Node, count: usize) -> Vec<FileId> {
    let mut files = Vec::new();
    for number in 0..count {
        files.push(file_of(node, &number.to_string(), &text_of(number)).await);
    }
    files
}

async fn from_clouds(node: &Node, file: FileId) -> Vec<u8> {
    node.cache.drop_clean().await;
    content(node, file).await
}

/// All that is garbage now, and what becomes garbage by that.
async fn collect(node: &Node) {
    while node.volume.reap_orphans(99).await.unwrap() > 0 {}
    while !node.volume.all_garbage(None, 1).await.unwrap().is_empty() {
        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
        let _ = node.upkeep.garbage.once().await.unwrap();
    }
}

#[tokio::test]
async fn small_files_share_one_object_in_each_cloud_and_are_read_from_it() {
    for scheme in ["rs:2+1", "replicas:3", "aont-rs:2+1"] {
        let node = packing(scheme).await;
        let files = files(&node, 20).await;
        node.write_back().await;
        assert_eq!(node.stored(), [1, 1, 1, 0], "{scheme}");
        for (number, file) in files.iter().enumerate() {
            assert_eq!(from_clouds(&node, *file).await, text_of(number), "{scheme}");
        }
        node.check().await;
        node.check_clouds().await;
        let node = node.crash().await;
        for (number, file) in files.iter().enumerate() {
            assert_eq!(from_clouds(&node, *file).await, text_of(number), "{scheme}");
        }
        node.check().await;
        node.check_clouds().await;
        assert!(node.volume.all_garbage(None, 9).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_lone_small_block_and_full_blocks_travel_alone() {
    let node = packing("rs:2+1").await;
    let one = file_of(&node, "one", b"small").await;
    node.write_back().await;
    let large = file_of(&node, "large", &vec![3; 3 * BLOCK as usize]).await;
    node.write_back().await;
    assert_eq!(node.stored(), [4, 4, 4, 0]);
    for file in [one, large] {
        let blocks = node.volume.why(if file == one { "one" } else { "large" }, ids::BlockIndex(0), 9).await;
        assert!(blocks.unwrap().unwrap().blocks.iter().all(|block| block.pack.is_none()));
    }
    node.check().await;
}

#[tokio::test]
async fn content_that_is_stored_once_is_not_packed() {
    let node = packing("caont-rs:2+1").await;
    for name in ["a", "b", "c"] {
        file_of(&node, name, b"the same").await;
    }
    node.write_back().await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    file_of(&node, "d", b"another").await;
    node.write_back().await;
    assert_eq!(node.stored(), [2, 2, 2, 0]);
    node.check().await;
}

#[tokio::test]
async fn a_pack_goes_with_the_last_block_that_is_in_it() {
    let node = packing("rs:2+1").await;
    let files = files(&node, 5).await;
    node.write_back().await;
    for number in 0..4 {
        remove(&node, &number.to_string()).await;
        collect(&node).await;
        node.check().await;
        node.check_clouds().await;
        assert_eq!(node.stored(), [1, 1, 1, 0]);
        assert_eq!(from_clouds(&node, files[4]).await, text_of(4));
    }
    let node = node.restart().await;
    // What replaces it travels alone.
    write_at(&node, files[4], 0, b"new").await;
    node.write_back().await;
    assert_eq!(node.stored(), [2, 2, 2, 0]);
    collect(&node).await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    assert_eq!(&from_clouds(&node, files[4]).await[..3], b"new");
    node.check().await;
    node.check_clouds().await;
}

#[tokio::test]
async fn why_names_the_pack_and_its_fragments() {
    let node = packing("rs:2+1").await;
    files(&node, 3).await;
    node.write_back().await;
    let mut packs = Vec::new();
    for name in ["0", "1", "2"] {
        let report = node.volume.why(name, ids::BlockIndex(0), 9).await.unwrap().unwrap();
        let block = &report.blocks[0];
        packs.push((block.pack.unwrap(), block.fragments.clone()));
    }
    packs.dedup();
    let [(_, fragments)] = &packs[..] else { panic!("{packs:?}") };
    for (cloud, name) in fragments {
        let names = node.site.clouds[usize::from(cloud.0)].inner().names();
        assert_eq!(names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), *name);
    }
}

#[tokio::test]
async fn a_packed_block_outlives_its_file_with_a_clone() {
    let node = packing("rs:2+1").await;
    let files = files(&node, 3).await;
    node.write_back().await;
    let copy = file_of(&node, "copy", b"").await;
    let mut tx = begin(&node.fs()).await;
    let at = |file| file_system::Position { file, offset: 0, authority: file_system::Authority::Checked };
    tx.clone_range(at(files[1]), at(copy), 0, true).await.unwrap();
    commit(tx).await;
    for name in ["0", "1", "2"] {
        remove(&node, name).await;
    }
    collect(&node).await;
    node.check().await;
    node.check_clouds().await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    assert_eq!(from_clouds(&node, copy).await, text_of(1));
    remove(&node, "copy").await;
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
    node.check().await;
}

#[tokio::test]
async fn a_pack_that_was_stored_before_a_crash_and_not_committed_is_deleted() {
    let node = packing("rs:2+1").await;
    let store = node.volume.inner.node.blocks.clone();
    let placement = node.volume.policy().placement.clone();
    let pack = node.volume.plan_pack(&placement).await.unwrap();
    let mut builder = blocks::PackBuilder::new(node.volume.volume(), 1 << 20);
    let sealed = SealedBlock::from_untrusted(Bytes::from_static(b"whatever"));
    builder.push(pack.identity, sealed).unwrap();
    let version = blocks::PackVersion {
        key: &pack.key,
        id: &pack.identity,
        seal: pack.seal,
        placement: &pack.placement,
    };
    let _ = store.store_pack(version, builder, pack.owner).await.unwrap();
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    assert_eq!(node.volume.unsettled_packs(None, 9).await.unwrap().len(), 1);
    node.check().await;
    node.check_clouds().await;
    let node = node.crash().await;
    assert!(node.volume.unsettled_packs(None, 9).await.unwrap().is_empty());
    node.check().await;
    node.check_clouds().await;
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
}

#[tokio::test]
async fn numbers_of_packs_are_not_used_again_after_a_restart() {
    let node = packing("rs:2+1").await;
    let placement = node.volume.policy().placement.clone();
    let (one, two) =
        (node.volume.plan_pack(&placement).await.unwrap(), node.volume.plan_pack(&placement).await.unwrap());
    assert_ne!(one.identity, two.identity);
    let policies = node.volume.policies().len();
    let node = node.restart().await;
    let three = node.volume.plan_pack(&placement).await.unwrap();
    assert!(three.identity.object != one.identity.object);
    assert_eq!(node.volume.policies().len(), policies, "the same policy serves all");
    assert_ne!(node.volume.policy().placement, *three.placement, "new files keep theirs");
}

#[tokio::test]
async fn a_pack_that_lacks_a_fragment_is_repaired() {
    let node = packing("rs:2+1").await;
    let files = files(&node, 4).await;
    node.site.clouds[1].set(Side::Writes, Fault::Fail(ErrorKind::Refused));
    node.write_back().await;
    assert_eq!(node.stored(), [1, 0, 1, 0]);
    assert_eq!(node.volume.repair_count(9).await.unwrap(), 1);
    node.site.clouds[1].set(Side::Writes, Fault::None);
    let repaired = node.upkeep.repairer.once().await.unwrap();
    assert_eq!((repaired.fragments, repaired.left), (1, 0));
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    for (number, file) in files.iter().enumerate() {
        assert_eq!(from_clouds(&node, *file).await, text_of(number));
    }
    node.check_clouds().await;
}

#[tokio::test]
async fn a_fragment_of_a_pack_that_came_back_changed_is_replaced() {
    let node = packing("rs:2+1").await;
    let files = files(&node, 4).await;
    node.write_back().await;
    let cloud = node.site.clouds[0].inner();
    let name = cloud.names().remove(0);
    let right = cloud.peek(&name).unwrap();
    cloud.poke(&name, Some(right.iter().map(|byte| byte ^ 1).collect::<Vec<_>>().into()));
    for (number, file) in files.iter().enumerate() {
        assert_eq!(from_clouds(&node, *file).await, text_of(number));
    }
    while node.volume.repair_count(9).await.unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    let _ = node.upkeep.repairer.once().await.unwrap();
    assert_eq!(cloud.peek(&name), Some(right));
    assert_eq!(node.volume.repair_count(9).await.unwrap(), 0);
}

#[tokio::test]
async fn clouds_that_take_no_pack_leave_the_files_dirty_and_nothing_behind() {
    let node = packing("rs:2+1").await;
    let files = files(&node, 4).await;
    for cloud in &node.site.clouds[..2] {
        cloud.set(Side::Writes, Fault::Fail(ErrorKind::Refused));
    }
    let flush = node.cache.flush(cache::Scope::All);
    let report = node.upkeep.write_back.once().await;
    drop(flush);
    assert_eq!((report.blocks, report.failed), (0, 4));
    assert!(node.volume.unsettled_packs(None, 9).await.unwrap().is_empty());
    node.check().await;
    node.check_clouds().await;
    for cloud in &node.site.clouds {
        cloud.set(Side::Writes, Fault::None);
    }
    node.write_back().await;
    collect(&node).await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    for (number, file) in files.iter().enumerate() {
        assert_eq!(from_clouds(&node, *file).await, text_of(number));
    }
    node.check().await;
}

#[tokio::test]
async fn scrub_looks_at_a_pack_once() {
    let node = packing("rs:2+1").await;
    files(&node, 6).await;
    node.write_back().await;
    let report = node.upkeep.scrubber.once(100, u64::MAX).await.unwrap();
    assert_eq!((report.good, report.missing, report.bad), (3, 0, 0));
}

#[tokio::test]
async fn a_deleted_volume_takes_its_packs_along() {
    let node = packing("rs:2+1").await;
    files(&node, 6).await;
    node.write_back().await;
    node.volumes.delete("home", true).await.unwrap();
    while node.volumes.bury().await.unwrap() > 0 {
        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
        let _ = node.upkeep.garbage.once().await.unwrap();
    }
    assert_eq!(node.stored(), [0; 4]);
}

#[tokio::test]
async fn a_check_counts_the_blocks_of_a_pack() {
    let node = packing("rs:2+1").await;
    let files = files(&node, 3).await;
    node.write_back().await;
    let origin = node.entry(files[0], 0).await.sealed(files[0].object, ids::BlockIndex(0)).origin;
    let mut tx = meta::MetaStore::begin(&node.store, meta::Mode::Optimistic).await.unwrap();
    tx.delete(node.volume.inner.keys.packed(origin));
    tx.commit(meta::Priority::Upkeep).await.unwrap().durable().await.unwrap();
    let findings = node.volume.check().await.unwrap();
    assert!(
        findings.iter().any(|finding| finding.what.contains("shared by 2 blocks, the books say 3")),
        "{findings:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// After all is quiet, the clouds have exactly what the metadata refer to.
    #[test]
    fn packs_and_garbage_agree_with_the_metadata_whatever_happens(
        steps in prop::collection::vec((0_u8..9, any::<u8>(), any::<u16>()), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut node = packing("rs:2+1").await;
            let mut known: Vec<Option<(FileId, Vec<u8>)>> = vec![None; 12];
            for (kind, at, seed) in steps {
                let at = usize::from(at) % known.len();
                let name = at.to_string();
                match (kind, known[at].take()) {
                    (0..=2, None) => {
                        let text = text_of(usize::from(seed) % 500);
                        known[at] = Some((file_of(&node, &name, &text).await, text));
                    }
                    (0 | 1, Some((file, mut text))) => {
                        let offset = usize::from(seed) % text.len().max(1);
                        text.resize(text.len().max(offset + 3), 0);
                        text[offset..offset + 3].copy_from_slice(b"new");
                        write_at(&node, file, offset as u64, b"new").await;
                        known[at] = Some((file, text));
                    }
                    (2, Some((file, mut text))) => {
                        text.truncate(usize::from(seed) % (text.len() + 1));
                        set_size(&node, file, text.len() as u64).await;
                        known[at] = Some((file, text));
                    }
                    (3, Some(_)) => remove(&node, &name).await,
                    (4 | 5, file) => {
                        node.write_back().await;
                        known[at] = file;
                    }
                    (6, file) => {
                        node = node.crash().await;
                        node.check().await;
                        known[at] = file;
                    }
                    (7, file) => {
                        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
                        let _ = node.upkeep.garbage.once().await.unwrap();
                        known[at] = file;
                    }
                    (_, file) => {
                        let _ = node.volume.reap_orphans(99).await.unwrap();
                        node.check().await;
                        known[at] = file;
                    }
                }
            }
            node.write_back().await;
            node.volume.end_of_claims();
            collect(&node).await;
            node.check().await;
            node.check_clouds().await;
            for (file, text) in known.iter().flatten() {
                prop_assert_eq!(&from_clouds(&node, *file).await, text);
            }
            Ok(())
        })?;
    }
}

/// One pack for a thousand files: what a flush of many costs.
#[tokio::test]
async fn a_thousand_small_files_cost_a_few_objects() {
    let node = packing("replicas:3").await;
    let fs: Arc<dyn FileSystem> = node.fs();
    for folder in 0..10 {
        let mut tx = begin(&fs).await;
        let root = tx.root();
        for number in 0..100 {
            make_file(&mut tx, root, &format!("{folder}-{number}"), &[number; 4096]).await;
        }
        commit(tx).await;
    }
    node.write_back().await;
    let stored = node.stored();
    assert!(stored[0] <= 8, "{stored:?}");
    node.check().await;
}
