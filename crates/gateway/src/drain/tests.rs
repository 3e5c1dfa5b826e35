use std::time::Duration;

use bytes::Bytes;
use file_system::{Authority, Caller, CommitMode, FileSystem, Mode, Name, OpenCreate, SetAttributes};

use super::*;
use crate::test_node;

async fn refusal(node: &Arc<Node>, from: &str, to: Option<&str>) -> String {
    match node.drain(from, to).await {
        Err(NoDrain::Failed(why)) => why,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it began"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_is_not_drained_into_itself_under_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let node = test_node::open(folder.path(), &["a", "b", "c", "d"]).await;
    let (_, b) = node.clouds.get("b").unwrap();
    node.clouds.reconnect("d", b);
    let why = refusal(&node, "b", Some("d")).await;
    assert!(why.contains("the same store as \"b\""), "{why}");
    assert!(node.clouds.moves().is_empty() && !node.clouds.get("b").unwrap().0.drained);

    // One that was begun, with a configuration that was changed since.
    let numbers = node.clouds.numbers_in("b");
    let place = Place { from: Some("b".into()), to: "d".into() };
    node.clouds.place(&node.store, &node.blocks, &numbers, &place).await.unwrap();
    node.resume_drains();
    let mut watch = node.drains.of("b").unwrap().watch();
    let state =
        watch.wait_for(|state| state.finished || state.progress.problem.is_some()).await.unwrap().clone();
    assert!(!state.finished && state.progress.problem.unwrap().contains("the same store"));
    node.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_that_does_not_work_is_no_target() {
    let folder = tempfile::tempdir().unwrap();
    let node = test_node::open(folder.path(), &["a", "b", "c", "d", "e"]).await;
    std::fs::remove_dir_all(folder.path().join("clouds/d")).unwrap();
    let why = refusal(&node, "b", Some("d")).await;
    assert!(why.contains("\"d\" cannot take it"), "{why}");
    assert!(node.clouds.moves().is_empty() && !node.clouds.get("b").unwrap().0.drained);
    let Ok(drain) = node.drain("b", None).await else { panic!("e can take it") };
    assert_eq!(drain.watch().borrow().to, "e");
    node.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clouds_that_are_sick_are_tried_last() {
    let folder = tempfile::tempdir().unwrap();
    let node = test_node::open(folder.path(), &["a", "b", "c", "d", "e"]).await;
    let (numbers, together) = (node.clouds.numbers_in("b"), node.used_numbers());
    let together: Vec<_> = together.into_iter().map(|(_, used)| used).collect();
    let room = || node.room_for("b", &numbers, &together, None).unwrap();
    assert_eq!(room(), ["d", "e"]);
    node.clouds.get("d").unwrap().1.health().report_down("test");
    assert_eq!(room(), ["e", "d"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_copies_no_faster_than_it_may() {
    const RATE: u64 = 4 << 20;
    const FILES: u8 = 24;
    /// Of fragments that are copied at a time.
    const PARALLEL: u64 = 8;
    let folder = tempfile::tempdir().unwrap();
    let more = format!("[upkeep]\ndrain_rate = \"{RATE}B\"\n[backup]\ninterval = \"0s\"\n");
    let node = test_node::open_with(folder.path(), &["a", "b", "c", "d"], &more).await;
    let served = node.served().remove(0);
    for number in 0..FILES {
        let mut transaction = served.volume.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
        let (root, name) = (transaction.root(), Name::new(format!("file{number}")).unwrap());
        let set = SetAttributes::with_mode(0o644);
        let made = transaction.open_create(root, &name, OpenCreate::Guarded, &set).await.unwrap();
        let file = made.attributes.file;
        transaction.write(file, 0, Bytes::from(vec![number; 1 << 20]), Authority::Opened).await.unwrap();
        transaction.commit(CommitMode::Durable).await.unwrap();
    }
    assert_eq!(served.upkeep.flush(Duration::from_secs(60)).await.unwrap(), upkeep::Flushed::default());
    let begun = node.environment.clock.monotonic();
    let Ok(drain) = node.drain("b", Some("d")).await else { panic!("it does not begin") };
    let mut watch = drain.watch();
    let copied = watch.wait_for(|state| state.progress.moved >= FILES.into()).await.unwrap().progress.bytes;
    assert!(copied >= u64::from(FILES) << 19, "{copied}");
    // What is under way at a time goes beyond.
    let paced = copied - PARALLEL * copied / u64::from(FILES);
    let least = Duration::from_secs_f64(paced as f64 / RATE as f64);
    let took = node.environment.clock.monotonic() - begun;
    assert!(took + Duration::from_millis(1) >= least, "{copied} bytes within {took:?}");
    node.stop.cancel();
}
