//! New epochs of keys, and keys that are destroyed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use file_system::{Authority, FileId, Position};
use meta::MetaStore;
use seal::{
    EpochIdentity, EpochKey, GatewayKeyPair, KeyEpoch, KeyFile, open_epoch_key, unwrap_content_key,
    unwrap_file_key,
};

use super::files::{content, file_of, remove, write_at};
use super::node::{BLOCK, GC_DELAY, Node, SHIFT, Site, policy};
use crate::VolumeError;
use crate::keys::{Keys, ObjectRow};
use crate::row::{GarbageRow, KeyRow, PackNote, ShareRow};

const SCHEMES: [&str; 4] = ["rs:2+1", "replicas:3", "aont-rs:2+1", "caont-rs:2+1"];

async fn node_of(scheme: &'static str, longest_packed: u64) -> Node {
    Node::start(Site { longest_packed, scheme, ..Site::new(ManualClock::new()) }).await
}

pub(super) async fn from_clouds(node: &Node, file: FileId) -> Vec<u8> {
    node.cache.drop_clean().await;
    content(node, file).await
}

pub(super) async fn rotate(node: &Node) -> KeyEpoch {
    node.volumes.rotate_keys("home").await.unwrap()
}

/// The whole pass.
pub(super) async fn rekey(node: &Node) {
    while node.volume.key_progress().old_epochs > 0 {
        node.volume.rekey().await.unwrap();
    }
}

/// All rows of the store, as somebody has them who has taken a backup of it to pieces.
pub(super) async fn rows(node: &Node) -> Vec<(Bytes, Bytes)> {
    let mut snapshot = node.store.snapshot().await.unwrap();
    snapshot.rows(&[], &[u8::MAX; meta::MAX_KEY + 1], usize::MAX).await.unwrap()
}

/// Everything that can be opened by the gateway's key pair in such rows: ids of the keys of files, and how many of these open blocks; epoch keys; content
/// keys.
pub(super) fn opened(node: &Node, rows: &[(Bytes, Bytes)], pair: &GatewayKeyPair) -> Opened {
    let volume = node.fs().volume();
    let mut found = Opened::default();
    for (key, row) in rows.iter().filter(|(key, _)| key[0] == 0x06) {
        let (accessors, epoch, _) = Keys::epoch_of(key).unwrap();
        found.epochs.extend(open_epoch_key(pair, EpochIdentity { volume, accessors, epoch }, row));
    }
    for (key, row) in rows {
        let (object, wrapped) = match key[0] {
            0x10 => match Keys::object_row(key) {
                Some((object, ObjectRow::Key)) => (object, KeyRow::decode(row).unwrap()),
                _ => continue,
            },
            0x0B => (Keys::shares_of(key).unwrap().0, ShareRow::decode(row).unwrap().key),
            0x11 => (Keys::pack_note_at(key).unwrap().0, PackNote::decode(row).unwrap().key),
            0x09 => {
                let row = GarbageRow::decode(row).unwrap();
                (row.object, row.key)
            }
            0x19 => {
                let of = Keys::kept_content_of(key).unwrap();
                found.contents += found
                    .epochs
                    .iter()
                    .filter(|epoch| unwrap_content_key(epoch, of, &row[4..]).is_ok())
                    .count();
                continue;
            }
            _ => continue,
        };
        found.wrapped.push(wrapped.epoch);
        for epoch in &found.epochs {
            if let Ok(key) = unwrap_file_key(epoch, object, &wrapped.wrapped) {
                found.files.push((key.id(), key.is_shredded()));
            }
        }
    }
    found
}

#[derive(Default)]
pub(super) struct Opened {
    pub epochs: Vec<EpochKey>,
    pub contents: usize,
    pub files: Vec<([u8; 16], bool)>,
    /// Under which epochs keys are wrapped.
    pub wrapped: Vec<KeyEpoch>,
}

#[tokio::test]
async fn what_was_sealed_before_a_rotation_is_read_after_it_and_after_a_restart() {
    for (scheme, packed) in SCHEMES.into_iter().map(|scheme| (scheme, 0)).chain([("rs:2+1", 256 << 10)]) {
        let node = node_of(scheme, packed).await;
        let old = file_of(&node, "old", &vec![1; 2 * BLOCK as usize + 100]).await;
        let small = file_of(&node, "small", b"small").await;
        file_of(&node, "another", b"as small").await;
        node.write_back().await;
        assert_eq!(rotate(&node).await, KeyEpoch(2));
        let new = file_of(&node, "new", b"of the second epoch").await;
        write_at(&node, old, BLOCK, b"changed").await;
        node.write_back().await;
        let mut changed = vec![1; 2 * BLOCK as usize + 100];
        changed[BLOCK as usize..][..7].copy_from_slice(b"changed");
        let seen = async |node: &Node| {
            assert_eq!(from_clouds(node, old).await, changed, "{scheme}");
            assert_eq!(from_clouds(node, small).await, b"small", "{scheme}");
            assert_eq!(from_clouds(node, new).await, b"of the second epoch", "{scheme}");
            node.check().await;
            node.check_clouds().await;
        };
        seen(&node).await;
        rekey(&node).await;
        seen(&node).await;
        let node = node.restart().await;
        seen(&node).await;
        // And again, with keys that are kept of an epoch that is gone.
        rotate(&node).await;
        write_at(&node, new, 0, b"OF").await;
        node.write_back().await;
        rekey(&node).await;
        let node = node.crash().await;
        assert_eq!(from_clouds(&node, old).await, changed, "{scheme}");
        assert_eq!(from_clouds(&node, new).await, b"OF the second epoch", "{scheme}");
        assert_eq!(node.volume.key_progress().epoch, KeyEpoch(3));
        node.check().await;
        node.check_clouds().await;
    }
}

#[tokio::test]
async fn after_the_pass_no_key_is_under_an_old_one_and_the_old_one_is_gone() {
    let node = node_of("rs:2+1", 0).await;
    for number in 0..40 {
        file_of(&node, &number.to_string(), &[number; 3000]).await;
    }
    node.write_back().await;
    remove(&node, "7").await;
    node.volume.reap_orphans(99).await.unwrap();
    let file = file_of(&node, "source", &vec![5; BLOCK as usize]).await;
    node.write_back().await;
    let clone = file_of(&node, "clone", b"").await;
    let mut tx = begin(&node.fs()).await;
    let at = |file| Position { file, offset: 0, authority: Authority::Checked };
    tx.clone_range(at(file), at(clone), 0, true).await.unwrap();
    commit(tx).await;

    let before = rows(&node).await;
    rotate(&node).await;
    let progress = node.volume.key_progress();
    assert_eq!((progress.epoch, progress.old_epochs, progress.rewrapped), (KeyEpoch(2), 1, 0));
    file_of(&node, "made meanwhile", b"1").await;
    rekey(&node).await;
    assert!(node.volume.key_progress().rewrapped >= 42);
    let pair = node.site.key_file.gateway_keys();
    let after = opened(&node, &rows(&node).await, &pair);
    assert_eq!(after.epochs.len(), 1);
    assert!(after.wrapped.iter().all(|epoch| *epoch == KeyEpoch(2)), "{:?}", after.wrapped);
    assert_eq!((after.files.len(), after.contents), (after.wrapped.len(), 1));
    // Whoever has only what is there now opens nothing of before, not even with the old rows.
    let mut mixed = before;
    mixed.retain(|(key, _)| key[0] != 0x06);
    mixed.extend(rows(&node).await.into_iter().filter(|(key, _)| key[0] == 0x06));
    let files: Vec<_> = opened(&node, &mixed, &pair).files;
    assert!(files.is_empty());
    assert_eq!(from_clouds(&node, clone).await, vec![5; BLOCK as usize]);
    node.check().await;
}

#[tokio::test]
async fn an_epoch_that_begins_right_after_another_is_not_taken_for_done() {
    let node = node_of("rs:2+1", 0).await;
    let (kept, _) = (file_of(&node, "kept", b"stays").await, file_of(&node, "secret", b"goes").await);
    node.write_back().await;
    rotate(&node).await;
    rekey(&node).await;
    // The key of the first epoch lingers for reads that are under way.
    rotate(&node).await;
    assert!(node.volume.key_progress().old_epochs > 0);
    assert_eq!(from_clouds(&node, kept).await, b"stays");
    rekey(&node).await;
    let pair = node.site.key_file.gateway_keys();
    let left = opened(&node, &rows(&node).await, &pair);
    assert_eq!(left.epochs.len(), 1);
    assert!(left.wrapped.iter().all(|epoch| *epoch == KeyEpoch(3)), "{:?}", left.wrapped);
    assert_eq!(from_clouds(&node, kept).await, b"stays");

    let before = rows(&node).await;
    let id = shred(&node, Some("secret")).await.keys[0];
    let (_, pair) = replace_opener(&node).await;
    let found = opened(&node, &[&before[..], &rows(&node).await].concat(), &pair);
    assert_eq!(found.epochs.len(), 1, "no key of an epoch of before is under the new opener");
    assert!(!found.files.contains(&(id, false)));
    assert_eq!(from_clouds(&node, kept).await, b"stays");
    node.check().await;
}

#[tokio::test]
async fn what_was_planned_before_a_rotation_can_be_committed_after_it() {
    let node = node_of("rs:2+1", 0).await;
    let file = file_of(&node, "a", &vec![1; BLOCK as usize]).await;
    let plans = node.volume.plan_write_back(&[(file.object, ids::BlockIndex(0))]).await.unwrap();
    let Ok(upkeep::Plan::Store(block)) = &plans[0] else { panic!("to be stored") };
    assert_eq!(block.identity.epoch, KeyEpoch(1));
    rotate(&node).await;
    rekey(&node).await;
    let plans = node.volume.plan_write_back(&[(file.object, ids::BlockIndex(0))]).await.unwrap();
    let Ok(upkeep::Plan::Store(next)) = &plans[0] else { panic!("to be stored") };
    assert_eq!(next.identity.epoch, KeyEpoch(2));
    assert_ne!(next.key, block.key, "whoever has the key of before does not have the one of now");
    assert!(next.identity.version > block.identity.version);
    node.write_back().await;
    assert_eq!(from_clouds(&node, file).await, vec![1; BLOCK as usize]);
    node.check().await;
}

#[tokio::test]
async fn writers_and_makers_of_files_go_on_while_keys_are_rotated() {
    let node = Arc::new(node_of("rs:2+1", 0).await);
    let writer = {
        let node = node.clone();
        tokio::spawn(async move {
            let mut files = Vec::new();
            for number in 0..60_u8 {
                let mut tx = begin(&node.fs()).await;
                let root = tx.root();
                let made = make_file(&mut tx, root, &number.to_string(), &[number; 500]).await.file;
                if tx.commit(file_system::CommitMode::Visible).await.is_ok() {
                    files.push((number, made));
                }
                if number % 8 == 0 {
                    let _ = node.upkeep.write_back.once().await;
                }
                tokio::task::yield_now().await;
            }
            files
        })
    };
    for _ in 0..5 {
        rotate(&node).await;
        rekey(&node).await;
    }
    let files = writer.await.unwrap();
    assert!(files.len() > 30);
    node.write_back().await;
    rekey(&node).await;
    for (number, file) in files {
        assert_eq!(from_clouds(&node, file).await, vec![number; 500]);
    }
    let after = opened(&node, &rows(&node).await, &node.site.key_file.gateway_keys());
    assert!(after.wrapped.iter().all(|epoch| *epoch == KeyEpoch(6)));
    node.check().await;
}

/// What `kurma key shred` does in a volume.
pub(super) async fn shred(node: &Node, path: Option<&str>) -> crate::Shredding {
    let surveyed = node.volume.survey_shredding(path).await.unwrap();
    node.volume.shred_keys(&surveyed).await.unwrap();
    node.volume.remove_shredded(&surveyed).await.unwrap();
    {
        let _alone = node.volumes.keys_alone().await;
        node.volume.renew_epoch(path.is_some()).await.unwrap();
    }
    surveyed
}

/// Another opener, by which everything that is there is wrapped; the one before is gone.
pub(super) async fn replace_opener(node: &Node) -> (KeyFile, GatewayKeyPair) {
    let both = node.site.key_file.with_next_opener(&*node.env.entropy).unwrap();
    let note = (Bytes::from_static(&[0xF0, 0x08]), Bytes::from_static(b"noted"));
    node.volumes.rewrap_epoch_keys(Arc::new(both.gateway_keys()), note).await.unwrap();
    let new = both.with_newest_opener();
    node.volumes.prove_epoch_keys(&new.gateway_keys()).await.unwrap();
    node.volumes.use_keys(Arc::new(new.gateway_keys()));
    assert!(node.volumes.prove_epoch_keys(&node.site.key_file.gateway_keys()).await.is_err());
    let pair = new.gateway_keys();
    (new, pair)
}

#[tokio::test]
async fn nothing_of_shredded_files_opens_with_all_that_clouds_ever_had_and_the_new_key() {
    for (scheme, packed) in [("rs:2+1", 0), ("replicas:3", 0), ("aont-rs:2+1", 0), ("rs:2+1", 256 << 10)] {
        let node = node_of(scheme, packed).await;
        let keep = file_of(&node, "keep", b"stays").await;
        let secret = file_of(&node, "secret", &vec![9; BLOCK as usize + 5]).await;
        let note = file_of(&node, "note", b"beside it").await;
        node.write_back().await;
        write_at(&node, secret, 0, b"newer").await;
        node.write_back().await; // the version before is garbage now
        let backup = rows(&node).await;
        let known = opened(&node, &backup, &node.site.key_file.gateway_keys());
        let id = {
            let mut tx = node.store.begin(meta::Mode::Optimistic).await.unwrap();
            let inner = &node.volume.inner;
            let row = inner.key_row(&mut *tx, secret.object).await.unwrap().unwrap();
            inner.open_names(secret.object, &row).unwrap().id()
        };
        assert!(known.files.contains(&(id, false)), "{scheme}: a backup of before opens it");
        assert!(known.files.iter().filter(|(known, _)| *known == id).count() >= 2, "its garbage has it, too");

        let shredded = shred(&node, Some("secret")).await;
        assert_eq!((shredded.files.len(), &shredded.keys), (1, &vec![id]), "{scheme}");
        let (_, pair) = replace_opener(&node).await;
        for rows in [&backup, &rows(&node).await, &[&backup[..], &rows(&node).await].concat()] {
            let found = opened(&node, rows, &pair);
            assert!(!found.files.contains(&(id, false)), "{scheme}");
        }
        assert!(opened(&node, &backup, &pair).epochs.is_empty(), "{scheme}");

        // All else goes on, and what was shredded leaves the clouds.
        assert_eq!(from_clouds(&node, keep).await, b"stays");
        assert_eq!(from_clouds(&node, note).await, b"beside it");
        assert!(
            begin(&node.fs()).await.attributes(secret).await.is_err()
                || node.volume.reap_orphans(9).await.unwrap() > 0
        );
        while node.volume.reap_orphans(99).await.unwrap() > 0 {}
        node.check().await;
        node.check_clouds().await;
        while !node.volume.all_garbage(None, 1).await.unwrap().is_empty() {
            node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
            let _ = node.upkeep.garbage.once().await.unwrap();
        }
        node.check_clouds().await;
        file_of(&node, "after", b"and new ones").await;
        node.write_back().await;
        node.check().await;
    }
}

#[tokio::test]
async fn a_whole_volume_is_shredded_also_where_equal_content_shares_a_key() {
    let node = node_of("caont-rs:2+1", 0).await;
    let file = file_of(&node, "a", &vec![1; BLOCK as usize]).await;
    file_of(&node, "b", &vec![1; BLOCK as usize]).await;
    node.write_back().await;
    let alone = node.volume.survey_shredding(Some("a")).await;
    assert!(matches!(alone, Err(VolumeError::SharedKey { object }) if object == file.object));

    let backup = rows(&node).await;
    let surveyed = node.volume.survey_shredding(None).await.unwrap();
    assert_eq!(surveyed.files.len(), 2);
    node.volume.shred_keys(&surveyed).await.unwrap();
    assert!(
        node.volume
            .inner
            .file_rows(&mut *node.store.begin(meta::Mode::Optimistic).await.unwrap(), file.object)
            .await
            .is_ok()
    );
    node.volumes.delete("home", true).await.unwrap();
    {
        let _alone = node.volumes.keys_alone().await;
        node.volume.renew_epoch(false).await.unwrap();
    }
    let (_, pair) = replace_opener(&node).await;
    let found = opened(&node, &[&backup[..], &rows(&node).await].concat(), &pair);
    assert_eq!((found.epochs.len(), found.contents), (1, 0), "no content key of before is left");
    assert!(found.files.iter().all(|(_, is_shredded)| *is_shredded));
    // And the blocks leave the clouds.
    while node.volumes.bury().await.unwrap() > 0 {
        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
        let _ = node.upkeep.garbage.once().await.unwrap();
    }
    assert_eq!(node.stored(), [0, 0, 0, 0]);
}

#[tokio::test]
async fn what_shares_blocks_or_names_is_told_and_goes_too() {
    let node = node_of("rs:2+1", 0).await;
    let source = file_of(&node, "source", &vec![5; 2 * BLOCK as usize]).await;
    node.write_back().await;
    let clone = file_of(&node, "clone", b"").await;
    let third = file_of(&node, "third", b"").await;
    let other = file_of(&node, "other", b"has nothing to do with it").await;
    let at = |file| Position { file, offset: 0, authority: Authority::Checked };
    for to in [clone, third] {
        let mut tx = begin(&node.fs()).await;
        tx.clone_range(at(source), at(to), 0, true).await.unwrap();
        commit(tx).await;
    }
    node.write_back().await;
    let told = node.volume.survey_shredding(Some("clone")).await.unwrap();
    assert_eq!(told.sharing.iter().copied().collect::<Vec<_>>(), [source.object, third.object]);

    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    tx.link(other, root, &name("second name")).await.unwrap();
    commit(tx).await;
    let told = node.volume.survey_shredding(Some("/other/")).await.unwrap();
    assert_eq!(told.sharing.into_iter().collect::<Vec<_>>(), [other.object]);

    // The source is gone, and its blocks are held by the two clones alone: they go together.
    remove(&node, "source").await;
    node.volume.reap_orphans(9).await.unwrap();
    let open = node.fs().reference(third);
    let shredded = shred(&node, Some("third")).await;
    assert_eq!(shredded.files.len(), 2);
    // What is left of the shared blocks is known as long as somebody has one of the files open.
    node.volume.reap_orphans(9).await.unwrap();
    node.check().await;
    node.check_clouds().await;
    assert_eq!(node.upkeep.garbage.once().await.unwrap().versions, 0);
    assert!(
        node.volume.stored_blocks(None, 9).await.unwrap().len()
            < node.volume.named_blocks(None, 9).await.unwrap().len()
    );
    drop(open);
    let mut tx = begin(&node.fs()).await;
    assert_eq!(names(&mut tx, root).await.len(), 2, "only the two names of the other file are left");
    drop(tx);
    let left = opened(&node, &rows(&node).await, &node.site.key_file.gateway_keys());
    assert_eq!(left.files.iter().filter(|(_, is_shredded)| !is_shredded).count(), 1);
    node.volume.reap_orphans(9).await.unwrap();
    node.check().await;
    node.check_clouds().await;
    assert!(matches!(node.volume.survey_shredding(Some("nothing")).await, Err(VolumeError::NoFile(_))));
}

#[tokio::test]
async fn a_tree_goes_as_a_whole_with_what_is_dirty_and_what_is_open() {
    let node = node_of("rs:2+1", 0).await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let folder = make_directory(&mut tx, root, "folder", 0o755).await;
    let inner = make_directory(&mut tx, folder, "inner", 0o755).await;
    let dirty = make_file(&mut tx, inner, "dirty", b"never stored").await.file;
    let held = make_file(&mut tx, folder, "held", b"stored").await.file;
    commit(tx).await;
    let open = node.fs().reference(held);
    node.write_back().await;
    write_at(&node, dirty, 3, b"dirty").await;
    let shredded = shred(&node, Some("folder")).await;
    assert_eq!(shredded.files.len(), 2);
    let mut tx = begin(&node.fs()).await;
    assert!(names(&mut tx, root).await.is_empty());
    assert!(tx.read(held, 0, 10, Authority::Opened).await.is_err(), "whoever has it open reads nothing");
    drop(tx);
    // What is written to it meanwhile goes nowhere, and holds nothing up.
    write_at(&node, held, 0, b"lost").await;
    node.write_back().await;
    let page = node.volume.stored_blocks(None, 9).await.unwrap();
    assert!(page.is_empty());
    drop(open);
    while node.volume.reap_orphans(99).await.unwrap() > 0 {}
    node.check().await;
    node.check_clouds().await;
}

/// Moves what is on its way to another policy; whether nothing is left.
pub(super) async fn move_on(node: &Node) -> bool {
    let offered = node.upkeep.migrator.step().await.unwrap();
    node.write_back().await;
    offered.is_done
}

#[tokio::test]
async fn files_move_between_policies_while_epochs_pass() {
    for longest_packed in [0, 8192] {
        let node = node_of("rs:2+1", longest_packed).await;
        let large = vec![7; 2 * BLOCK as usize + 9];
        let (first, second) =
            (file_of(&node, "first", &large).await, file_of(&node, "second", b"small").await);
        let copy = file_of(&node, "copy", b"").await;
        node.write_back().await;
        let at = |file| Position { file, offset: 0, authority: Authority::Checked };
        let mut tx = begin(&node.fs()).await;
        tx.clone_range(at(first), at(copy), 0, true).await.unwrap();
        commit(tx).await;
        rotate(&node).await;

        node.volumes.set_policy("home", policy("aont-rs:2+1", &[0, 1, 2], SHIFT)).await.unwrap();
        node.volume.migrate("").await.unwrap();
        move_on(&node).await;
        rotate(&node).await;
        for _ in 0..20 {
            if move_on(&node).await {
                break;
            }
        }
        assert_eq!(node.volume.migrating().await.unwrap(), crate::Migrating::default());
        rekey(&node).await;
        node.check().await;
        node.check_clouds().await;
        while !node.volume.all_garbage(None, 1).await.unwrap().is_empty() {
            node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
            let _ = node.upkeep.garbage.once().await.unwrap();
        }
        let node = node.restart().await;
        for (file, data) in [(first, &large[..]), (copy, &large[..]), (second, b"small")] {
            assert_eq!(from_clouds(&node, file).await, data);
        }
        node.check().await;
        node.check_clouds().await;
    }
}

#[tokio::test]
async fn what_a_file_was_stored_as_before_it_moved_decides_whether_it_can_be_shredded() {
    let node = node_of("caont-rs:2+1", 0).await;
    file_of(&node, "secret", &vec![1; BLOCK as usize]).await;
    node.write_back().await;
    node.volumes.set_policy("home", policy("rs:2+1", &[0, 1, 2], SHIFT)).await.unwrap();
    node.volume.migrate("").await.unwrap();
    let refused = |survey| matches!(survey, Err(VolumeError::SharedKey { .. }));
    assert!(refused(node.volume.survey_shredding(Some("secret")).await), "not found yet");
    node.volume.find_migrating().await.unwrap();
    assert!(refused(node.volume.survey_shredding(Some("secret")).await), "found, and not moved");
    for _ in 0..20 {
        if move_on(&node).await {
            break;
        }
    }
    assert_eq!(node.volume.migrating().await.unwrap(), crate::Migrating::default());
    assert!(
        refused(node.volume.survey_shredding(Some("secret")).await),
        "moved, and the clouds have the old one"
    );
    while !node.volume.all_garbage(None, 1).await.unwrap().is_empty() {
        node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
        let _ = node.upkeep.garbage.once().await.unwrap();
    }
    assert_eq!(shred(&node, Some("secret")).await.files.len(), 1);
    node.check().await;
}
