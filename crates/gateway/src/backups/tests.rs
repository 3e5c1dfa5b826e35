use std::path::Path;

use bytes::Bytes;
use file_system::{Authority, Caller, CommitMode, FileId, FileSystem, Mode, Name, OpenCreate, SetAttributes};

use super::*;
use crate::test_node;

async fn write(node: &Node, file: Option<FileId>, name: &'static str, data: &'static [u8]) -> FileId {
    let volume = node.served()[0].volume.clone();
    let mut transaction = volume.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
    let file = match file {
        Some(file) => file,
        None => {
            let root = transaction.root();
            let set = SetAttributes::with_mode(0o644);
            let name = Name::new(name).unwrap();
            transaction.open_create(root, &name, OpenCreate::Guarded, &set).await.unwrap().attributes.file
        }
    };
    transaction.write(file, 0, Bytes::from_static(data), Authority::Opened).await.unwrap();
    transaction.commit(CommitMode::Durable).await.unwrap();
    file
}

async fn flush(node: &Node) {
    let flushed = node.served()[0].upkeep.flush(Duration::from_secs(60)).await.unwrap();
    assert_eq!(flushed, upkeep::Flushed::default());
}

async fn open(folder: &Path) -> Arc<Node> {
    test_node::open_with(folder, &["a", "b", "c"], "[upkeep]\ngc_delay = \"0s\"\n").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_the_newest_backup_refers_to_are_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    let collect = || async { node.served()[0].upkeep.garbage.once().await.unwrap() };
    let file = write(&node, None, "f", b"first").await;
    flush(&node).await;
    assert!(node.back_up().await.complete);
    collect().await;
    write(&node, Some(file), "f", b"second").await;
    flush(&node).await;
    let report = collect().await;
    assert_eq!((report.versions, report.held), (0, 1), "the backup knows the first version only");
    // A backup that too few clouds have is none.
    for cloud in ["b", "c"] {
        let path = folder.path().join("clouds").join(cloud);
        std::fs::rename(&path, path.with_extension("away")).unwrap();
    }
    let status = node.back_up().await;
    assert!(!status.complete && status.has == ["a"], "{status:?}");
    assert_eq!(collect().await.held, 1);
    for cloud in ["b", "c"] {
        let path = folder.path().join("clouds").join(cloud);
        std::fs::rename(path.with_extension("away"), &path).unwrap();
        node.clouds.probe(&node.clouds.get(cloud).unwrap().1).await.unwrap();
    }
    let status = node.back_up().await;
    assert!(status.complete && status.lacks.is_empty(), "{status:?}");
    let report = collect().await;
    assert_eq!((report.versions, report.held), (1, 0));
    node.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_proves_the_backup_once_in_a_period_and_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    assert!(node.back_up().await.complete);
    let (_, cloud) = node.clouds.get("b").unwrap();
    // Neither the claim nor the head, which is sealed anew when it is stored again.
    let others = [node.backups.keys.head_name(0), node.backups.keys.claim_name(0)];
    let objects = cloud.list("", None, 10).await.unwrap().into_iter();
    let objects: Vec<_> = objects.map(|(name, _)| name).filter(|name| !others.contains(name)).collect();
    let [name] = &objects[..] else { panic!("{objects:?}") };
    let stored = cloud.get(name, None).await.unwrap();
    let damage = async || {
        let mut bytes = stored.to_vec();
        bytes[100] ^= 1;
        cloud.put(name, vec![bytes.into()], cloud::PutMode::Overwrite).await.unwrap();
    };
    let schedule = ScrubSchedule { period: Duration::from_secs(3600), rate: 0, sample: 100 };
    damage().await;
    node.scrub_backup_if_due(&schedule).await.unwrap();
    assert!(cloud.get(name, None).await.unwrap() == stored);
    assert!(node.backup_status().complete && node.backup_status().lacks.is_empty());
    damage().await;
    node.scrub_backup_if_due(&schedule).await.unwrap();
    assert!(cloud.get(name, None).await.unwrap() != stored, "the period is not over");
    // Whoever asks need not wait for it.
    let verified = node.verify_backup(0, |_| true).await;
    assert_eq!((verified.stored_again, verified.lacking, verified.unknown), (1, 0, 0));
    assert!(cloud.get(name, None).await.unwrap() == stored);
    // One that is away is not done with, and the others need not be asked again for that.
    set_backup_proved(&node.store, &BTreeMap::new()).await.unwrap();
    let path = folder.path().join("clouds/b");
    std::fs::rename(&path, path.with_extension("away")).unwrap();
    node.scrub_backup_if_due(&schedule).await.unwrap();
    let proved = backup_proved(&node.store).await.unwrap();
    assert_eq!(proved.into_keys().collect::<Vec<_>>(), ["a", "c"]);
    std::fs::rename(path.with_extension("away"), &path).unwrap();
    node.clouds.probe(&cloud).await.unwrap();
    node.scrub_backup_if_due(&schedule).await.unwrap();
    assert_eq!(backup_proved(&node.store).await.unwrap().len(), 3);
    node.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_uploaded_when_nothing_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    let first = node.back_up().await;
    let again = node.back_up().await;
    assert!(first.complete && again.complete && first.made == 1, "{first:?}");
    assert_eq!((first.backup, first.made), (again.backup, again.made));
    write(&node, None, "g", b"dirty").await;
    let dirty = node.back_up().await;
    assert_eq!((dirty.made, dirty.unsaved_bytes), (2, 5));
    assert!(dirty.transaction > again.transaction && dirty.objects == 2);
    let listed = serde_json::to_value(node.list_backups().await).unwrap();
    assert!(listed.as_array().unwrap().iter().all(|cloud| cloud["state"] == "newest"), "{listed:#}");
    // They are no orphans.
    let found = node.find_orphans(1000, |_| {}).await.unwrap();
    assert_eq!(found.orphans, 0, "{found:?}");
    node.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_cloud_that_is_another_one_under_a_second_name_keeps_the_backup() {
    let folder = tempfile::tempdir().unwrap();
    let node = test_node::open(folder.path(), &["a", "b", "c", "d"]).await;
    let (_, b) = node.clouds.get("b").unwrap();
    // As after a change of the configuration.
    node.clouds.reconnect("d", b.clone());
    node.file.set_drained("b").unwrap();
    node.clouds.drained("b");
    let status = node.back_up().await;
    assert!(status.complete && status.has.contains(&"d".to_owned()), "{status:?}");
    assert!(b.list("", None, 10).await.unwrap().len() > 1, "a head and what it names");
    // Until they are two.
    let (_, a) = node.clouds.get("a").unwrap();
    node.clouds.reconnect("d", a);
    write(&node, None, "f", b"more").await;
    assert!(node.back_up().await.complete);
    assert_eq!(b.list("", None, 10).await.unwrap(), []);
    node.stop.cancel();
}
