//! Slots, flags and versions: what the server says of the session itself.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use nfs4::bits::sequence_status;
use nfs4::{
    CbCompoundArgs, CbCompoundRes, CbRecallSlotArgs, CbSequenceArgs, NfsCbArgOp, NfsCbResOp, NfsStatus,
    OpCode, SessionId, Utf8String,
};
use nfs4_client::{Callback, Client, ClientError, Options};
use onc_rpc::{Credential, Procedure};

use crate::scripted::{self, Said, Scripted, lookups};
use crate::world::until;

struct Deaf;

#[async_trait::async_trait]
impl Callback for Deaf {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        NfsCbResOp::failure(operation.op_code(), NfsStatus::NotSupp)
    }
}

async fn run_sixteen(client: &Client) {
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.compound(&lookups(1)).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn as_many_slots_are_used_as_the_server_wants() {
    let (address, server) = Scripted::start(|_, operations| {
        let target = operations.len() as u32;
        (target > 2).then(|| Said::Sequence { target_highest_slot: target - 3, status_flags: 0 })
    })
    .await;
    let client = scripted::connect(address).await;
    run_sixteen(&client).await;
    assert!(server.most_running.load(SeqCst) > 1);
    client.compound(&lookups(2)).await.unwrap();
    assert_eq!(client.limits().slots, 1);
    client.compound(&lookups(4)).await.unwrap();
    assert_eq!(client.limits().slots, 3);
}

#[tokio::test]
async fn recalled_slots_are_not_used() {
    let (address, server) = Scripted::start(|_, _| {
        // Never raised again.
        Some(Said::Sequence { target_highest_slot: 0, status_flags: 0 })
    })
    .await;
    let client = Client::connect(&[address], scripted::options(), Some(Arc::new(Deaf))).await.unwrap();
    let peer = server.peers.lock()[0].clone();
    let sequence = CbSequenceArgs {
        session: SessionId([1; 16]),
        sequence_id: 1,
        slot: 0,
        highest_slot: 0,
        cache_this: true,
        referring_call_lists: Vec::new(),
    };
    let recall = CbRecallSlotArgs { target_highest_slot: 0 };
    let body = xdr::to_bytes(&CbCompoundArgs {
        tag: Utf8String::default(),
        minor_version: 2,
        callback_ident: 0,
        ops: vec![NfsCbArgOp::Sequence(sequence), NfsCbArgOp::RecallSlot(recall)],
    });
    let procedure = Procedure { program: 0x4000_0000, version: 1, number: 1 };
    let timeout = std::time::Duration::from_secs(20);
    let reply = peer.call(procedure, &Credential::None, vec![body], timeout).await.unwrap();
    assert_eq!(xdr::from_bytes::<CbCompoundRes>(reply).unwrap().status, NfsStatus::Ok);
    assert_eq!(client.limits().slots, 1);
    server.most_running.store(0, SeqCst);
    run_sixteen(&client).await;
    assert_eq!(server.most_running.load(SeqCst), 1);
}

#[tokio::test]
async fn a_refused_slot_is_left_and_the_request_goes_into_another() {
    let (address, server) =
        Scripted::start(|sequence, _| (sequence.slot >= 2).then_some(Said::Refused(NfsStatus::BadSlot)))
            .await;
    let client = scripted::connect(address).await;
    run_sixteen(&client).await;
    assert!(server.asked(OpCode::Sequence) > 2 + 16, "some were refused");
}

#[tokio::test]
async fn the_best_version_that_the_server_speaks_is_spoken() {
    for minor_version in [2, 1] {
        let (address, _) = Scripted::start_with(minor_version, 8, |_, _| None).await;
        let client = scripted::connect(address).await;
        assert_eq!(client.minor_version(), Some(minor_version));
        client.compound(&lookups(1)).await.unwrap();
    }
    let (address, _) = Scripted::start_with(3, 8, |_, _| None).await;
    let error = Client::connect(&[address], scripted::options(), None).await.err().unwrap();
    assert_eq!(error.status(), Some(NfsStatus::MinorVersMismatch));
}

#[tokio::test]
async fn a_way_back_that_is_down_is_bound_once_more() {
    let (address, server) = Scripted::start(|_, operations| {
        let flags = if operations.len() == 3 { sequence_status::CB_PATH_DOWN } else { 0 };
        Some(Said::Sequence { target_highest_slot: 7, status_flags: flags })
    })
    .await;
    let client = Client::connect(&[address], scripted::options(), Some(Arc::new(Deaf))).await.unwrap();
    assert_eq!(server.asked(OpCode::BindConnToSession), 0);
    client.compound(&lookups(2)).await.unwrap();
    until(|| server.asked(OpCode::BindConnToSession) == 1).await;
    client.compound(&lookups(1)).await.unwrap();
}

#[tokio::test]
async fn a_fault_of_the_back_channel_or_a_silent_restart_makes_a_new_session() {
    let flags = [sequence_status::BACKCHANNEL_FAULT, sequence_status::RESTART_RECLAIM_NEEDED];
    for (flag, completed) in flags.into_iter().zip([1, 2]) {
        let (address, server) = Scripted::start(move |sequence, _| {
            let status_flags = if sequence.session.0[0] == 1 { flag } else { 0 };
            Some(Said::Sequence { target_highest_slot: 7, status_flags })
        })
        .await;
        let client = scripted::connect(address).await;
        client.compound(&lookups(1)).await.unwrap();
        until(|| client.statistics().recoveries == 1).await;
        client.compound(&lookups(1)).await.unwrap();
        assert_eq!(server.asked(OpCode::CreateSession), 2);
        assert_eq!(server.asked(OpCode::DestroySession), 1);
        assert_eq!(server.asked(OpCode::ReclaimComplete), completed);
        assert_eq!(client.statistics().recoveries, 1, "once");
    }
}

#[tokio::test]
async fn a_server_that_never_stops_to_ask_for_reclaims_is_not_believed() {
    let (address, server) = Scripted::start(|_, _| None).await;
    let client = scripted::connect(address).await;
    server.flags.store(sequence_status::RESTART_RECLAIM_NEEDED, SeqCst);
    client.compound(&lookups(1)).await.unwrap();
    until(|| client.statistics().recoveries == 1).await;
    for _ in 0..5 {
        client.compound(&lookups(1)).await.unwrap();
    }
    assert_eq!((client.statistics().recoveries, server.asked(OpCode::CreateSession)), (1, 2));
}

#[tokio::test]
async fn a_connection_that_is_not_bound_is_bound() {
    let refused = std::sync::atomic::AtomicBool::new(false);
    let (address, server) = Scripted::start(move |_, _| {
        let first = !refused.swap(true, SeqCst);
        first.then_some(Said::Refused(NfsStatus::ConnNotBoundToSession))
    })
    .await;
    let client = scripted::connect(address).await;
    client.compound(&scripted::removal()).await.unwrap().into_results().unwrap();
    assert_eq!(server.asked(OpCode::BindConnToSession), 1);
    assert_eq!(client.statistics().recoveries, 0);
}

#[tokio::test]
async fn what_cannot_work_is_said_at_once() {
    let nowhere: [&str; 0] = [];
    let error = Client::connect(&nowhere, scripted::options(), None).await.err().unwrap();
    assert!(matches!(error, ClientError::NoAddress));
    let (address, _) = Scripted::start(|_, _| None).await;
    let options = Options { owner: vec![b'x'; 1025].into(), ..scripted::options() };
    let error = Client::connect(&[address], options, None).await.err().unwrap();
    assert!(matches!(error, ClientError::OwnerTooLong));
}
