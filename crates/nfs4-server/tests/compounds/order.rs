//! Which operations may stand where (RFC 8881 §2.10.2, §15.2, §16.2).

use bytes::Bytes;
use nfs4::{
    BindConnToSessionArgs, ChannelDirFromClient, ChannelDirFromServer, CompoundRes, DestroySessionArgs,
    NfsArgOp, NfsResOp, NfsStatus, OpCode, Outcome, SequenceArgs,
};
use nfs4_client::{Config, Session};
use onc_rpc::{Credential, Procedure, RpcError};

use crate::harness::{World, outcome, statuses};

fn binding(session: &Session) -> NfsArgOp {
    NfsArgOp::BindConnToSession(BindConnToSessionArgs {
        session: session.id(),
        direction: ChannelDirFromClient::ForeOrBoth,
        use_rdma: false,
    })
}

#[tokio::test]
async fn without_sequence_only_few_operations_are_run_and_those_alone() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let bare = async |operations: &[NfsArgOp]| {
        let CompoundRes { status, results, .. } = session.bare_compound(operations).await.unwrap();
        (status, results.len())
    };
    assert_eq!(bare(&[]).await, (NfsStatus::Ok, 0));
    assert_eq!(bare(&[NfsArgOp::PutRootFh]).await, (NfsStatus::OpNotInSession, 1));
    assert_eq!(bare(&[binding(&session), NfsArgOp::PutRootFh]).await, (NfsStatus::NotOnlyOp, 1));
    let reply = session.bare_compound(&[binding(&session)]).await.unwrap();
    let NfsResOp::BindConnToSession(Outcome::Ok(bound)) = &reply.results[0] else { panic!("{reply:?}") };
    assert_eq!(bound.direction, ChannelDirFromServer::Both);
    running.stop().await;
}

#[tokio::test]
async fn inside_a_session_sequence_comes_first_and_only_once() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let sequence = NfsArgOp::Sequence(SequenceArgs {
        session: session.id(),
        sequence_id: 1,
        slot: 5,
        highest_slot: 5,
        cache_this: false,
    });
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, sequence]).await, (NfsStatus::SequencePos, 2));
    assert_eq!(outcome(&session, &[binding(&session)]).await, (NfsStatus::NotOnlyOp, 1));
    let destroy = NfsArgOp::DestroySession(DestroySessionArgs { session: session.id() });
    let request = [destroy.clone(), NfsArgOp::PutRootFh];
    assert_eq!(outcome(&session, &request).await, (NfsStatus::NotOnlyOp, 1));
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, destroy]).await, (NfsStatus::Ok, 2));
    assert_eq!(outcome(&session, &[]).await, (NfsStatus::BadSession, 0));
    running.stop().await;
}

#[tokio::test]
async fn a_failing_operation_ends_the_compound_and_what_was_before_stands() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let request = [NfsArgOp::PutRootFh, NfsArgOp::GetFh, NfsArgOp::RestoreFh, NfsArgOp::GetFh];
    let reply = session.compound(&request).await.unwrap();
    assert_eq!(statuses(&reply.results), [NfsStatus::Ok, NfsStatus::Ok, NfsStatus::NoFileHandle]);
    assert_eq!(outcome(&session, &[NfsArgOp::GetFh]).await, (NfsStatus::NoFileHandle, 1));
    running.stop().await;
}

/// Sends bytes as a COMPOUND of minor version 1 and returns status and results.
async fn raw(session: &Session, words: &[u32]) -> CompoundRes {
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let procedure = Procedure { program: nfs4::PROGRAM, version: nfs4::VERSION, number: 1 };
    let timeout = std::time::Duration::from_secs(10);
    let reply = session.peer().call(procedure, &Credential::None, vec![body.into()], timeout).await.unwrap();
    xdr::from_bytes(reply).unwrap()
}

#[tokio::test]
async fn versions_and_operations_that_do_not_exist_are_named() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let reply = raw(&session, &[0, 3, 1, OpCode::PutRootFh as u32]).await;
    assert_eq!((reply.status, reply.results.len()), (NfsStatus::MinorVersMismatch, 0));
    let reply = raw(&session, &[0, 1, 1, 4711]).await;
    assert_eq!(reply.status, NfsStatus::OpIllegal);
    assert_eq!(reply.results[0].op_code(), OpCode::Illegal);
    let reply = raw(&session, &[0, 1, 1, OpCode::Sequence as u32, 1]).await;
    assert_eq!((reply.status, reply.results[0].op_code()), (NfsStatus::BadXdr, OpCode::Sequence));
    // Operations of 4.2 do not exist in 4.1, and the optional ones are not offered in 4.2.
    let one = running.connect(Config { minor_version: 1, ..Config::new("one", [1; 8]) }).await;
    let notify = NfsArgOp::CopyNotify(nfs4::CopyNotifyArgs {
        source_state_id: nfs4::StateId::ANONYMOUS,
        destination_server: nfs4::NetLocation::Name("elsewhere".into()),
    });
    assert_eq!(outcome(&one, &[NfsArgOp::PutRootFh, notify.clone()]).await, (NfsStatus::OpIllegal, 2));
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, notify]).await, (NfsStatus::NotSupp, 2));
    running.stop().await;
}

#[tokio::test]
async fn other_programs_and_garbage_get_an_rpc_error() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let timeout = std::time::Duration::from_secs(10);
    let call = async |program, version, number, body: &'static [u8]| {
        let procedure = Procedure { program, version, number };
        session.peer().call(procedure, &Credential::None, vec![Bytes::from_static(body)], timeout).await
    };
    assert_eq!(call(nfs4::PROGRAM, 4, 0, b"").await.unwrap(), "");
    assert!(matches!(
        call(nfs4::PROGRAM, 3, 0, b"").await,
        Err(RpcError::ProgramMismatch { low: 4, high: 4 })
    ));
    assert!(matches!(call(100_005, 3, 0, b"").await, Err(RpcError::ProgramUnavailable)));
    assert!(matches!(call(nfs4::PROGRAM, 4, 2, b"").await, Err(RpcError::ProcedureUnavailable)));
    assert!(matches!(call(nfs4::PROGRAM, 4, 1, b"\0\0").await, Err(RpcError::GarbageArguments)));
    running.stop().await;
}
