//! A request is executed once however often it arrives (RFC 8881 §2.10.6, `N14`).

use bytes::Bytes;
use nfs4::{CompoundRes, CreateType, NfsArgOp, NfsResOp, NfsStatus, StableHow};
use nfs4_client::operations::{create, put_handle, remove, write};

use crate::harness::{World, home, statuses};

#[tokio::test]
async fn a_repeated_create_and_remove_gets_the_first_reply_and_has_no_second_effect() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    for operation in [create(CreateType::Directory, "d", 0o755), remove("d")] {
        let mut slot = session.slot().await.unwrap();
        let request = [put_handle(&root), operation];
        let first = session.send(slot.arguments(true), &request).await.unwrap();
        assert_eq!(statuses(&first.results), [NfsStatus::Ok; 3]);
        assert_eq!(session.send(slot.arguments(true), &request).await.unwrap(), first);
        slot.executed();
    }
    assert!(running.server.metrics().replays == 2);
    running.stop().await;
}

#[tokio::test]
async fn what_changed_something_is_kept_for_a_retry_even_if_the_client_did_not_ask() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let slot = session.slot().await.unwrap();
    let request = [put_handle(&root), create(CreateType::Directory, "d", 0o755)];
    let first = session.send(slot.arguments(false), &request).await.unwrap();
    assert_eq!(first.status, NfsStatus::Ok);
    assert_eq!(session.send(slot.arguments(false), &request).await.unwrap(), first);
    running.stop().await;
}

#[tokio::test]
async fn a_retry_of_what_was_not_kept_and_a_false_retry_are_named_so() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let slot = session.slot().await.unwrap();
    let sequence = slot.arguments(false);
    let request = [put_handle(&root), NfsArgOp::GetFh];
    assert_eq!(session.send(sequence, &request).await.unwrap().status, NfsStatus::Ok);
    let CompoundRes { status, results, .. } = session.send(sequence, &request).await.unwrap();
    assert_eq!(status, NfsStatus::RetryUncachedRep);
    assert_eq!(statuses(&results), [NfsStatus::Ok, NfsStatus::RetryUncachedRep]);
    assert!(matches!(results[..], [NfsResOp::Sequence(_), NfsResOp::PutFh(_)]));

    let other = [put_handle(&root), remove("x")];
    let reply = session.send(sequence, &other).await.unwrap();
    assert_eq!((reply.status, reply.results.len()), (NfsStatus::SeqFalseRetry, 1));
    running.stop().await;
}

#[tokio::test]
async fn a_write_that_differs_in_its_last_byte_is_no_retry() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let slot = session.slot().await.unwrap();
    let send = async |last: u8| {
        let mut data = vec![0; 100_000];
        data.push(last);
        let request =
            [put_handle(&file.handle), write(file.state_id, 0, StableHow::FileSync, Bytes::from(data))];
        session.send(slot.arguments(true), &request).await.unwrap().status
    };
    assert_eq!(send(1).await, NfsStatus::Ok);
    assert_eq!(send(1).await, NfsStatus::Ok, "a retry");
    assert_eq!(send(2).await, NfsStatus::SeqFalseRetry);
    running.stop().await;
}

#[tokio::test]
async fn the_reply_to_a_lone_sequence_is_always_kept() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let slot = session.slot().await.unwrap();
    let first = session.send(slot.arguments(false), &[]).await.unwrap();
    assert_eq!(session.send(slot.arguments(false), &[]).await.unwrap(), first);
    running.stop().await;
}
