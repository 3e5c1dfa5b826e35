//! Small files that share objects in the clouds.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cloud::{ErrorKind, Fault, Prices, Side};
use file_system::FileId;
use file_system::FileSystem;
use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use proptest::prelude::*;
use seal::SealedBlock;

use super::files::{content, file_of, remove, set_size, write_at};
use super::node::{BLOCK, GC_DELAY, Node, Site};
use crate::{PackReport, VolumeError};

pub(super) async fn packing(scheme: &'static str) -> Node {
    let site = Site { longest_packed: 256 << 10, scheme, ..Site::new(ManualClock::new()) };
    Node::start(site).await
}

pub(super) fn text_of(number: usize) -> Vec<u8> {
    (0..1000 + number * 37).map(|at| (at * 7 + number) as u8).collect()
}

pub(super) async fn files(node: &Node, count: usize) -> Vec<FileId> {
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
pub(super) async fn collect(node: &Node) {
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
        let pack = block.pack.unwrap();
        packs.push(((pack.object, pack.number), block.fragments.clone()));
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

/// A pack that is noted and in the clouds, and of no use yet.
async fn stored_pack(node: &Node) {
    let store = node.volume.inner.node.blocks.clone();
    let placement = node.volume.policy().placement.clone();
    let pack = node.volume.plan_pack(&placement, 4 << 20).await.unwrap();
    let mut builder = blocks::PackBuilder::new(node.volume.volume(), 1 << 20);
    let sealed = SealedBlock::from_untrusted(Bytes::from_static(b"whatever"));
    builder.push(pack.identity, sealed).unwrap();
    let version = blocks::PackVersion {
        key: &pack.key,
        id: &pack.identity,
        seal: pack.seal,
        placement: &pack.placement,
    };
    let _ = store.store_pack(version, builder, &pack.owner, blocks::Redundancy::Enough).await.unwrap();
    assert_eq!(node.stored(), [1, 1, 1, 0]);
}

#[tokio::test]
async fn a_pack_that_was_stored_before_a_crash_and_not_committed_is_deleted() {
    let node = packing("rs:2+1").await;
    stored_pack(&node).await;
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
    let (one, two) = (
        node.volume.plan_pack(&placement, 4 << 20).await.unwrap(),
        node.volume.plan_pack(&placement, 4 << 20).await.unwrap(),
    );
    assert_ne!(one.identity, two.identity);
    let policies = node.volume.policies().len();
    let node = node.restart().await;
    let three = node.volume.plan_pack(&placement, 4 << 20).await.unwrap();
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
    assert!(report.is_clean());
    assert_eq!(report.total().good, 3);
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
async fn a_deleted_volume_takes_packs_along_that_nobody_has_settled() {
    let node = packing("rs:2+1").await;
    stored_pack(&node).await;
    node.volumes.delete("home", true).await.unwrap();
    let placement = node.volume.policy().placement.clone();
    let late = node.volume.plan_pack(&placement, 4 << 20).await;
    assert!(matches!(late, Err(VolumeError::NoVolume(_))));
    assert_eq!(node.volumes.bury().await.unwrap(), 1);
    assert!(node.volume.unsettled_packs(None, 9).await.unwrap().is_empty());
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
    assert_eq!(node.volumes.bury().await.unwrap(), 0);
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

/// Files of 8 KiB, written back together.
pub(super) async fn many(node: &Node, count: usize) -> Vec<FileId> {
    let mut files = Vec::with_capacity(count);
    for first in (0..count).step_by(50) {
        let mut tx = begin(&node.fs()).await;
        let root = tx.root();
        for number in first..count.min(first + 50) {
            files.push(make_file(&mut tx, root, &format!("many {number}"), &eight_kib(number)).await.file);
        }
        commit(tx).await;
    }
    node.write_back().await;
    files
}

pub(super) fn eight_kib(number: usize) -> Vec<u8> {
    (0..8192).map(|at| (at * 11 + number * 5) as u8).collect()
}

async fn place_of(node: &Node, number: usize) -> PackReport {
    let report = node.volume.why(&format!("many {number}"), ids::BlockIndex(0), 9).await.unwrap().unwrap();
    report.blocks[0].pack.unwrap()
}

#[tokio::test]
async fn a_pack_of_which_most_is_garbage_is_cleaned_without_a_new_seal() {
    for scheme in ["rs:2+1", "replicas:3", "aont-rs:2+1"] {
        let node = packing(scheme).await;
        let files = many(&node, 400).await;
        for number in 0..190 {
            remove(&node, &format!("many {number}")).await;
        }
        collect(&node).await;
        assert_eq!(node.upkeep.cleaner.once().await.unwrap().made, 0, "half of it is in use, {scheme}");
        for number in 190..300 {
            remove(&node, &format!("many {number}")).await;
        }
        collect(&node).await;
        let before = place_of(&node, 399).await;
        let report = node.upkeep.cleaner.once().await.unwrap();
        assert_eq!((report.cleaned, report.made, report.blocks, report.failed), (1, 1, 100, 0), "{scheme}");
        node.check().await;
        node.check_clouds().await;
        assert_eq!(node.stored(), [2, 2, 2, 0], "the old one waits for its deletion");
        let after = place_of(&node, 399).await;
        assert!((after.object, after.number) != (before.object, before.number));
        assert_eq!(after.place.name, before.place.name, "the sealed block is the same");
        assert!(after.place.pack_len * 3 < before.place.pack_len);
        collect(&node).await;
        assert_eq!(node.stored(), [1, 1, 1, 0]);
        node.check_clouds_at_rest().await;
        let node = node.crash().await;
        for (number, file) in files.iter().enumerate().skip(300) {
            assert_eq!(from_clouds(&node, *file).await, eight_kib(number), "{scheme}");
        }
        assert_eq!(node.upkeep.cleaner.once().await.unwrap(), upkeep::CleanReport::default());
    }
}

#[tokio::test]
async fn the_blocks_of_several_packs_move_to_one() {
    let site = Site { longest_packed: 16 << 10, pack_size: 1 << 20, ..Site::new(ManualClock::new()) };
    let node = Node::start(site).await;
    let files = many(&node, 500).await;
    let packs = node.stored()[0];
    assert!((4..6).contains(&packs), "{packs}");
    for number in (0..500).filter(|number| number % 5 != 0) {
        remove(&node, &format!("many {number}")).await;
    }
    collect(&node).await;
    let seen = node.upkeep.cleaner.look().await.unwrap();
    assert_eq!(seen.packs, packs as u64);
    assert!(seen.live > 100 * 8192 && seen.live < 100 * 8400 && seen.bytes > 500 * 8192, "{seen:?}");
    let report = node.upkeep.cleaner.once().await.unwrap();
    assert_eq!((report.cleaned, report.made, report.blocks), (packs as u64, 1, 100));
    collect(&node).await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    node.check_clouds_at_rest().await;
    node.check().await;
    for number in (0..500).step_by(5) {
        assert_eq!(from_clouds(&node, files[number]).await, eight_kib(number));
    }
}

#[tokio::test]
async fn cleaning_that_costs_more_than_the_garbage_is_left() {
    let node = packing("rs:2+1").await;
    many(&node, 4).await;
    for number in 0..3 {
        remove(&node, &format!("many {number}")).await;
    }
    collect(&node).await;
    assert_eq!(node.upkeep.cleaner.once().await.unwrap(), upkeep::CleanReport::default());
    assert_eq!(node.stored(), [1, 1, 1, 0]);
}

#[tokio::test]
async fn what_clouds_charge_decides_what_is_cleaned() {
    // Of 2.4 MB of garbage in 2.5 MB, as everywhere, where keeping costs little against reading, and where nothing is known of keeping.
    let usual =
        Prices { put: 5e-6, get: 4e-7, egress_gb: 0.09, storage_gb_month: 0.023, ..Prices::default() };
    let cold = Prices { egress_gb: 0.09, storage_gb_month: 0.001, ..usual };
    let free = Prices { storage_gb_month: 0.0, ..usual };
    // Of 24 KB in 32 KB: less than a request is worth, unless requests cost nothing.
    let own = Prices { put: 0.0, get: 0.0, egress_gb: 0.0, ..usual };
    for (files, prices, cleaned) in [
        (300, Some(usual), 1),
        (300, Some(cold), 0),
        (300, Some(free), 1),
        (4, Some(usual), 0),
        (4, Some(own), 1),
        (4, None, 0),
    ] {
        let (longest_packed, pack_size) = (16 << 10, 4 << 20);
        let site = Site { longest_packed, pack_size, prices, ..Site::new(ManualClock::new()) };
        let node = Node::start(site).await;
        many(&node, files).await;
        for number in 1..files {
            remove(&node, &format!("many {number}")).await;
        }
        collect(&node).await;
        let report = node.upkeep.cleaner.once().await.unwrap();
        assert_eq!((report.cleaned, report.failed), (cleaned, 0), "{files} files, {prices:?}");
    }
}

#[tokio::test]
async fn nothing_is_read_for_packs_that_a_sick_cloud_would_not_take() {
    let node = packing("rs:2+1").await;
    many(&node, 300).await;
    for number in 1..300 {
        remove(&node, &format!("many {number}")).await;
    }
    collect(&node).await;
    node.site.clouds[0].set(Side::Writes, Fault::Fail(ErrorKind::Refused));
    let calls = || node.site.clouds.iter().map(|cloud| cloud.calls().len()).sum::<usize>();
    for _ in 0..5 {
        assert_eq!(node.upkeep.cleaner.once().await.unwrap().failed, 1);
    }
    let before = calls();
    assert_eq!(node.upkeep.cleaner.once().await.unwrap().failed, 1);
    assert_eq!(calls(), before);
}

#[tokio::test]
async fn a_pack_that_cannot_be_replaced_by_a_whole_one_stays_and_is_cleaned_later() {
    for refusing in [1, 2] {
        let node = packing("rs:2+1").await;
        let files = many(&node, 300).await;
        for number in 1..300 {
            remove(&node, &format!("many {number}")).await;
        }
        collect(&node).await;
        for cloud in &node.site.clouds[..refusing] {
            cloud.set(Side::Writes, Fault::Fail(ErrorKind::Refused));
        }
        let report = node.upkeep.cleaner.once().await.unwrap();
        assert_eq!((report.cleaned, report.made, report.failed), (0, 0, 1));
        node.check().await;
        node.check_clouds().await;
        for cloud in &node.site.clouds {
            cloud.set(Side::Writes, Fault::None);
        }
        // One block alone makes no pack at the usual prices; here its old one is large.
        assert_eq!(node.upkeep.cleaner.once().await.unwrap().cleaned, 1);
        collect(&node).await;
        assert_eq!(from_clouds(&node, files[0]).await, eight_kib(0));
        node.check_clouds_at_rest().await;
    }
}

#[tokio::test]
async fn a_number_that_comes_again_after_a_crash_keeps_its_place_when_the_first_one_is_deleted() {
    let node = packing("rs:2+1").await;
    let files = files(&node, 4).await;
    let (left, site) = (Rc::new(RefCell::new(None)), node.site.clone());
    let watching = environment::failpoint::watch({
        let left = left.clone();
        move |point| {
            if point == "pack.before-commit" {
                left.borrow_mut().get_or_insert_with(|| site.cut_off());
            }
        }
    });
    node.write_back().await;
    drop(watching);
    node.die().await;
    let node = Node::start(left.take().unwrap()).await;
    node.write_back().await;
    assert_eq!(node.stored(), [2, 2, 2, 0]);
    assert_eq!(node.entry(files[0], 0).await.version, ids::Version(1), "the number of the first try");
    collect(&node).await;
    node.check().await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    for (number, file) in files.iter().enumerate() {
        assert_eq!(from_clouds(&node, *file).await, text_of(number));
    }
    node.check_clouds_at_rest().await;
}

#[tokio::test]
async fn many_files_of_a_pack_that_are_read_at_once_are_a_few_requests() {
    for scheme in ["rs:2+1", "replicas:3", "aont-rs:2+1"] {
        let node = packing(scheme).await;
        let files = many(&node, 200).await;
        node.cache.drop_clean().await;
        let gets = |node: &Node| -> usize {
            let of = |cloud: &Arc<cloud::Faulty<Arc<cloud::Memory>>>| {
                cloud.calls().iter().filter(|(operation, _)| *operation == cloud::Operation::Get).count()
            };
            node.site.clouds.iter().map(of).sum()
        };
        let before = gets(&node);
        let reads = files.iter().map(|file| content(&node, *file));
        for (number, read) in futures::future::join_all(reads).await.into_iter().enumerate() {
            assert_eq!(read, eight_kib(number), "{scheme}");
        }
        let asked = gets(&node) - before;
        assert!(asked <= 20, "{asked} requests, {scheme}");
    }
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
