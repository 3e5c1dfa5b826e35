//! What a server refuses although it granted it is not asked for again.

use nfs4::NfsStatus;
use nfs4_client::ClientError;

use crate::scripted::{self, Said, Scripted, lookups};
use crate::world::World;

/// Sends what the client thinks will do until it does.
async fn sent(client: &nfs4_client::Client) -> usize {
    for _ in 0..20 {
        let operations = client.limits().operations as usize;
        match client.compound(&lookups(operations - 1)).await {
            Ok(reply) if reply.status.is_ok() => return operations,
            Ok(reply) => assert!(reply.status == NfsStatus::Resource && !reply.results.is_empty()),
            Err(error) => assert!(matches!(error, ClientError::TooLarge { .. }), "{error:?}"),
        }
    }
    panic!("never small enough");
}

#[tokio::test]
async fn operations_are_fewer_until_the_server_takes_them() {
    for status in [NfsStatus::TooManyOps, NfsStatus::Resource] {
        let refuse = move |_: &_, operations: &[_]| (operations.len() > 40).then_some(Said::Refused(status));
        let (address, _) = Scripted::start(refuse).await;
        let client = scripted::connect(address).await;
        assert_eq!(client.limits().operations, 1023);
        assert_eq!(sent(&client).await, 31);
        for _ in 0..5 {
            sent(&client).await;
        }
        assert_eq!(client.limits().operations, 40, "the limit is found");
        let before = client.statistics();
        sent(&client).await;
        assert_eq!((client.statistics() - before).compounds, 1);
    }
}

#[tokio::test]
async fn operations_done_before_the_refusal_are_the_limit() {
    let stop =
        |_: &_, operations: &[_]| (operations.len() > 47).then_some(Said::Failed(47, NfsStatus::Resource));
    let (address, _) = Scripted::start(stop).await;
    let client = scripted::connect(address).await;
    assert_eq!(sent(&client).await, 47);
}

#[tokio::test]
async fn messages_shrink_and_stay_small_in_the_next_session() {
    let (address, _) =
        Scripted::start(|sequence, operations| match (sequence.session.0[0], operations.len()) {
            (1, 3) => Some(Said::Refused(NfsStatus::RepTooBig)),
            (1, 4) => Some(Said::Refused(NfsStatus::RepTooBigToCache)),
            (1, 5) => Some(Said::Refused(NfsStatus::BadSession)),
            _ => None,
        })
        .await;
    let client = scripted::connect(address).await;
    let granted = client.limits();
    for count in [2, 3] {
        let refused = client.compound(&lookups(count)).await;
        assert!(matches!(refused, Err(ClientError::TooLarge { .. })), "{refused:?}");
    }
    client.compound(&lookups(4)).await.unwrap();
    let learnt = client.limits();
    assert_eq!(learnt.response_bytes, granted.response_bytes / 2);
    assert_eq!(learnt.cached_response_bytes, granted.cached_response_bytes / 2);
    assert_eq!(learnt.operations, granted.operations);
}

#[tokio::test]
async fn what_was_not_granted_is_not_sent() {
    let limits = nfs4_server::Limits { operations: 20, ..nfs4_server::Limits::default() };
    let world = World::with(limits).await;
    let client = world.client().await;
    assert_eq!(client.limits().operations, 19);
    let before = client.statistics();
    let refused = client.compound(&lookups(19)).await;
    assert!(matches!(refused, Err(ClientError::TooLarge { status: NfsStatus::TooManyOps })), "{refused:?}");
    assert_eq!(client.statistics(), before);
    assert_eq!(client.limits().operations, 19, "that teaches nothing");
}

#[tokio::test]
async fn what_is_too_large_to_be_atomic_teaches_nothing_and_is_put_off_as_a_whole() {
    let delayed = std::sync::atomic::AtomicBool::new(false);
    let (address, _) = Scripted::start(move |_, operations| match operations.len() {
        50 => Some(Said::Failed(0, NfsStatus::TooManyOps)),
        4 if !delayed.swap(true, std::sync::atomic::Ordering::SeqCst) => {
            Some(Said::Failed(3, NfsStatus::Delay))
        }
        _ => None,
    })
    .await;
    let client = scripted::connect(address).await;
    let before = client.limits();
    let atomic = |count: usize| {
        let mode = nfs4::CompoundModeArgs { flags: nfs4::bits::compound_mode::ATOMIC };
        let mut operations = vec![nfs4::NfsArgOp::CompoundMode(mode)];
        operations.extend(scripted::removal());
        operations.resize_with(count, || nfs4_client::operations::remove("y"));
        operations
    };
    let refused = client.compound(&atomic(50)).await.unwrap();
    assert_eq!((refused.status, refused.results.len()), (NfsStatus::TooManyOps, 1));
    assert_eq!(client.limits(), before);
    client.compound(&atomic(4)).await.unwrap().into_results().unwrap();
    assert_eq!(client.statistics().delays, 1);
}
