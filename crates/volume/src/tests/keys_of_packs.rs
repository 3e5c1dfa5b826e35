//! Packs while epochs of keys pass, and files in them whose keys are destroyed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cloud::{Fault, Side};
use file_system::conformance::scene::*;
use seal::KeyEpoch;

use super::files::{file_of, remove, write_at};
use super::keys::{from_clouds, move_on, opened, rekey, replace_opener, rotate, rows, shred};
use super::node::{BLOCK, GC_DELAY, SHIFT, policy};
use super::packs::{collect, eight_kib, files, many, packing, text_of};

#[tokio::test]
async fn packs_of_an_earlier_epoch_are_read_repaired_and_cleaned_in_a_later_one() {
    for scheme in ["rs:2+1", "replicas:3", "aont-rs:2+1"] {
        let node = packing(scheme).await;
        let files = many(&node, 400).await;
        rotate(&node).await;
        rekey(&node).await;
        let lost = node.site.clouds[1].inner().names().remove(0);
        let connection = cloud::Connection::assemble(
            &node.env,
            "1",
            node.site.clouds[1].clone(),
            &cloud::Options::default(),
        );
        connection.delete(&lost).await.unwrap();
        let report = node.upkeep.scrubber.once(100, u64::MAX).await.unwrap().total();
        assert_eq!((report.missing, report.bad), (1, 0), "{scheme}");
        node.upkeep.repairer.retry_now();
        assert_eq!(node.upkeep.repairer.once().await.unwrap().fragments, 1, "{scheme}");
        for number in 0..300 {
            remove(&node, &format!("many {number}")).await;
        }
        collect(&node).await;
        let report = node.upkeep.cleaner.once().await.unwrap();
        assert_eq!((report.cleaned, report.made, report.blocks, report.failed), (1, 1, 100, 0), "{scheme}");
        collect(&node).await;
        node.check_clouds_at_rest().await;
        // A pack of the second epoch with blocks of the first, in the third.
        rotate(&node).await;
        rekey(&node).await;
        let node = node.crash().await;
        for (number, file) in files.iter().enumerate().skip(300) {
            assert_eq!(from_clouds(&node, *file).await, eight_kib(number), "{scheme}");
        }
        assert_eq!(node.upkeep.scrubber.once(100, u64::MAX).await.unwrap().total().good, 3, "{scheme}");
        let left = opened(&node, &rows(&node).await, &node.site.key_file.gateway_keys());
        assert!(left.wrapped.iter().all(|epoch| *epoch == KeyEpoch(3)), "{scheme}: {:?}", left.wrapped);
        node.check().await;
        node.check_clouds().await;
    }
}

#[tokio::test]
async fn a_pack_that_is_on_its_way_while_an_epoch_begins_and_the_key_of_the_one_before_goes_is_committed() {
    let node = Arc::new(packing("rs:2+1").await);
    let files = files(&node, 12).await;
    for cloud in &node.site.clouds {
        cloud.set(Side::Writes, Fault::Delay(Duration::from_secs(5)));
    }
    let writing = {
        let node = node.clone();
        tokio::spawn(async move { node.write_back().await })
    };
    while node.volume.unsettled_packs(None, 9).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!writing.is_finished());
    rotate(&node).await;
    rekey(&node).await;
    while !writing.is_finished() {
        node.site.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
    for cloud in &node.site.clouds {
        cloud.set(Side::Writes, Fault::None);
    }
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    for (number, file) in files.iter().enumerate() {
        assert_eq!(from_clouds(&node, *file).await, text_of(number));
    }
    let left = opened(&node, &rows(&node).await, &node.site.key_file.gateway_keys());
    assert_eq!(left.epochs.len(), 1);
    assert!(left.wrapped.iter().all(|epoch| *epoch == KeyEpoch(2)), "{:?}", left.wrapped);
    node.check().await;
    node.check_clouds().await;
}

#[tokio::test]
async fn blocks_of_shredded_files_stay_in_a_pack_as_noise_until_it_is_cleaned() {
    for scheme in ["rs:2+1", "replicas:3", "aont-rs:2+1"] {
        let node = packing(scheme).await;
        let mut tx = begin(&node.fs()).await;
        let root = tx.root();
        let folder = make_directory(&mut tx, root, "secret", 0o755).await;
        make_file(&mut tx, folder, "large", &vec![1; 2 * BLOCK as usize]).await;
        commit(tx).await;
        let (mut kept, mut secrets) = (Vec::new(), Vec::new());
        for first in (0..300).step_by(50) {
            let mut tx = begin(&node.fs()).await;
            for number in first..first + 50 {
                let (folder, made) = if number < 10 { (root, &mut kept) } else { (folder, &mut secrets) };
                let file = make_file(&mut tx, folder, &number.to_string(), &eight_kib(number)).await;
                made.push(file.file);
            }
            commit(tx).await;
        }
        node.write_back().await;
        assert_eq!(node.stored(), [3, 3, 3, 0], "{scheme}");
        write_at(&node, secrets[0], 0, b"A").await;
        node.write_back().await; // alone; its version before lies in the pack, and is garbage
        let before = rows(&node).await;

        let shredded = shred(&node, Some("secret")).await;
        assert_eq!((shredded.files.len(), shredded.packed), (291, 290), "{scheme}");
        let ids: BTreeSet<_> = shredded.keys.iter().copied().collect();
        assert_eq!(ids.len(), 291);
        let (_, pair) = replace_opener(&node).await;
        let all = [&before[..], &rows(&node).await].concat();
        let found = opened(&node, &all, &pair).files;
        assert!(found.iter().all(|(id, is_shredded)| *is_shredded || !ids.contains(id)), "{scheme}");

        collect(&node).await;
        assert_eq!(node.stored(), [1, 1, 1, 0], "{scheme}: the pack is there");
        let report = node.upkeep.cleaner.once().await.unwrap();
        assert_eq!((report.cleaned, report.made, report.blocks, report.failed), (1, 1, 10, 0), "{scheme}");
        collect(&node).await;
        assert_eq!(node.stored(), [1, 1, 1, 0], "{scheme}");
        for (number, file) in kept.iter().enumerate() {
            assert_eq!(from_clouds(&node, *file).await, eight_kib(number), "{scheme}");
        }
        assert_eq!(node.volume.survey_shredding(None).await.unwrap().packed, 10, "{scheme}");
        node.check().await;
        node.check_clouds_at_rest().await;
    }
}

#[tokio::test]
async fn a_shredded_volume_leaves_no_key_of_a_pack() {
    let node = packing("rs:2+1").await;
    files(&node, 20).await;
    node.write_back().await;
    // Noted, and never committed.
    let placement = node.volume.policy().placement.clone();
    node.volume.plan_pack(&placement, 4 << 20).await.unwrap();
    let before = rows(&node).await;
    let surveyed = node.volume.survey_shredding(None).await.unwrap();
    assert_eq!((surveyed.files.len(), surveyed.packed), (20, 20));
    node.volume.shred_keys(&surveyed).await.unwrap();
    node.check().await;
    node.volumes.delete("home", true).await.unwrap();
    {
        let _alone = node.volumes.keys_alone().await;
        node.volume.renew_epoch(false).await.unwrap();
    }
    let (_, pair) = replace_opener(&node).await;
    let found = opened(&node, &[&before[..], &rows(&node).await].concat(), &pair);
    assert_eq!((found.epochs.len(), found.contents), (1, 0));
    assert!(!found.files.is_empty() && found.files.iter().all(|(_, is_shredded)| *is_shredded));
    while node.volumes.bury().await.unwrap() > 0 {
        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
        let _ = node.upkeep.garbage.once().await.unwrap();
    }
    assert_eq!(node.stored(), [0; 4]);
}

#[tokio::test]
async fn packed_files_move_between_policies_while_epochs_pass_and_one_is_shredded() {
    let node = packing("rs:2+1").await;
    let files = files(&node, 20).await;
    node.write_back().await;
    assert_eq!(node.stored(), [1, 1, 1, 0]);
    node.volumes.set_policy("home", policy("replicas:3", &[1, 2, 3], SHIFT)).await.unwrap();
    node.volume.migrate("").await.unwrap();
    node.volume.find_migrating().await.unwrap();
    rotate(&node).await;
    // On its way, in a pack of the policy and the epoch before.
    let shredded = shred(&node, Some("7")).await;
    assert_eq!((shredded.files.len(), shredded.packed), (1, 1));
    while node.volume.reap_orphans(99).await.unwrap() > 0 {}
    for _ in 0..20 {
        if move_on(&node).await {
            break;
        }
    }
    assert_eq!(node.volume.migrating().await.unwrap(), crate::Migrating::default());
    rotate(&node).await;
    rekey(&node).await;
    collect(&node).await;
    assert_eq!(node.stored()[0], 0, "the pack of before is gone: {:?}", node.stored());
    let node = node.crash().await;
    for (number, file) in files.iter().enumerate().filter(|(number, _)| *number != 7) {
        assert_eq!(from_clouds(&node, *file).await, text_of(number));
    }
    node.check().await;
    node.check_clouds().await;
}

#[tokio::test]
async fn what_a_shredded_file_that_is_open_has_in_the_clouds_is_known_and_goes_when_it_is_closed() {
    let node = packing("rs:2+1").await;
    let file = file_of(&node, "secret", &vec![3; 2 * BLOCK as usize]).await;
    node.write_back().await;
    let open = node.fs().reference(file);
    shred(&node, Some("secret")).await;
    assert!(node.volume.stored_blocks(None, 9).await.unwrap().is_empty());
    let named = node.volume.named_blocks(None, 9).await.unwrap();
    assert_eq!(named.len(), 2);
    assert!(named.iter().all(|version| version.key.is_shredded()));
    let there: BTreeSet<_> = node.site.clouds[0].inner().names().iter().map(ToString::to_string).collect();
    let known: BTreeSet<_> =
        named.iter().flat_map(|version| version.fragments()).filter(|(cloud, _)| cloud.0 == 0).collect();
    assert_eq!(known.into_iter().map(|(_, name)| name).collect::<BTreeSet<_>>(), there);
    drop(open);
    collect(&node).await;
    assert_eq!(node.stored(), [0; 4]);
}
