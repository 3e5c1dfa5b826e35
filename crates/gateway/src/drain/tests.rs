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
    let state = watch.wait_for(|state| state.finished || state.problem.is_some()).await.unwrap().clone();
    assert!(!state.finished && state.problem.unwrap().contains("the same store"));
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
