//! Whether clients can be called back is found out before they are delegated anything (RFC 8881 §20.1).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nfs4::bits::{create_session, sequence_status};
use nfs4::{
    BackchannelCtlArgs, BindConnToSessionArgs, CallbackSecParms, ChannelAttrs, ChannelDirFromClient,
    ClientOwner, CompoundArgs, CompoundRes, CreateSessionArgs, ExchangeIdArgs, NfsArgOp, NfsResOp, NfsStatus,
    Outcome, OwnerName, SequenceArgs, SessionId, StateProtectArgs, Verifier,
};
use onc_rpc::{Call, Credential, Limits, Peer, Procedure, Reply, Service};
use tokio::sync::mpsc;

use crate::harness::{Running, World};

/// Tells the test of every call, and takes it.
struct Recorder(mpsc::UnboundedSender<(u32, u32, u32)>);

#[async_trait]
impl Service for Recorder {
    async fn call(&self, call: Call, _: &Peer) -> Reply {
        let _ = self.0.send((call.program, call.version, call.procedure)); // the test may be over
        Reply::Success(Vec::new())
    }
}

fn binding(session: SessionId) -> NfsArgOp {
    let direction = ChannelDirFromClient::ForeOrBoth;
    NfsArgOp::BindConnToSession(BindConnToSessionArgs { session, direction, use_rdma: false })
}

#[tokio::test]
async fn a_client_that_does_not_take_calls_is_told_that_its_back_channel_is_down() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("deaf").await;
    assert_eq!(session.renew().await.unwrap(), 0, "it wants no back channel");
    let bound = session.bare_compound(&[binding(session.id())]).await.unwrap();
    assert_eq!(bound.status, NfsStatus::Ok);
    let down = sequence_status::CB_PATH_DOWN | sequence_status::CB_PATH_DOWN_SESSION;
    // Its refusal comes in between two of these.
    while session.renew().await.unwrap() != down {}
    // Told again no sooner than after a second, it does not bind its connection all the time.
    assert_eq!(session.bare_compound(&[binding(session.id())]).await.unwrap().status, NfsStatus::Ok);
    for _ in 0..100 {
        assert_eq!(session.renew().await.unwrap(), 0);
    }
    world.clock.advance(Duration::from_secs(1));
    while session.renew().await.unwrap() != down {}
    running.stop().await;
}

/// A session made by hand, and the calls that come back.
struct Called {
    peer: Peer,
    session: SessionId,
    calls: mpsc::UnboundedReceiver<(u32, u32, u32)>,
}

async fn run(peer: &Peer, ops: Vec<NfsArgOp>) -> NfsResOp {
    let args = CompoundArgs { tag: "".into(), minor_version: 1, ops };
    let procedure =
        Procedure { program: nfs4::PROGRAM, version: nfs4::VERSION, number: nfs4::PROCEDURE_COMPOUND };
    let body = vec![xdr::to_bytes(&args)];
    let reply = peer.call(procedure, &Credential::None, body, Duration::from_secs(20)).await.unwrap();
    xdr::from_bytes::<CompoundRes>(reply).unwrap().results.pop().unwrap()
}

impl Called {
    async fn connect(running: &Running, program: u32) -> Called {
        let (sender, calls) = mpsc::unbounded_channel();
        let peer =
            Peer::connect(running.address, Arc::new(Recorder(sender)), Limits::default()).await.unwrap();
        let exchange = NfsArgOp::ExchangeId(ExchangeIdArgs {
            client_owner: ClientOwner { verifier: Verifier([1; 8]), owner_id: OwnerName::new("a").unwrap() },
            flags: 0,
            state_protect: StateProtectArgs::None,
            implementation: None,
        });
        let NfsResOp::ExchangeId(Outcome::Ok(known)) = run(&peer, vec![exchange]).await else { panic!() };
        let channel = ChannelAttrs {
            header_pad_size: 0,
            max_request_size: 4096,
            max_response_size: 4096,
            max_response_size_cached: 4096,
            max_operations: 8,
            max_requests: 1,
            rdma_ird: None,
        };
        let create = NfsArgOp::CreateSession(CreateSessionArgs {
            client: known.client,
            sequence_id: known.sequence_id,
            flags: create_session::CONN_BACK_CHAN,
            fore_channel: channel,
            back_channel: channel,
            callback_program: program,
            callback_security: vec![CallbackSecParms::None],
        });
        let NfsResOp::CreateSession(Outcome::Ok(created)) = run(&peer, vec![create]).await else { panic!() };
        Called { peer, session: created.session, calls }
    }

    async fn null_call(&mut self) -> u32 {
        let (program, version, procedure) = self.calls.recv().await.unwrap();
        assert_eq!((version, procedure), (nfs4::CALLBACK_VERSION, nfs4::PROCEDURE_NULL));
        program
    }
}

/// RFC 8881 §18.36.3: callbacks carry the program that the client chose.
#[tokio::test]
async fn a_new_session_gets_the_null_call_of_its_program() {
    let world = World::new().await;
    let running = world.start().await;
    let mut called = Called::connect(&running, 0x4000_0004).await;
    assert_eq!(called.null_call().await, 0x4000_0004);
    running.stop().await;
}

/// BACKCHANNEL_CTL (RFC 8881 §18.33).
#[tokio::test]
async fn callbacks_go_to_the_program_that_was_named_last() {
    let world = World::new().await;
    let running = world.start().await;
    let mut called = Called::connect(&running, 1).await;
    assert_eq!(called.null_call().await, 1);
    let sequence = NfsArgOp::Sequence(SequenceArgs {
        session: called.session,
        sequence_id: 1,
        slot: 0,
        highest_slot: 0,
        cache_this: false,
    });
    let control = |callback_security| {
        NfsArgOp::BackchannelCtl(BackchannelCtlArgs { callback_program: 2, callback_security })
    };
    let ways = vec![CallbackSecParms::None];
    let done = run(&called.peer, vec![sequence, control(ways)]).await;
    assert_eq!(done, NfsResOp::BackchannelCtl(NfsStatus::Ok));
    let (sender, mut calls) = mpsc::unbounded_channel();
    let other = Peer::connect(running.address, Arc::new(Recorder(sender)), Limits::default()).await.unwrap();
    assert_eq!(run(&other, vec![binding(called.session)]).await.status(), NfsStatus::Ok);
    assert_eq!(calls.recv().await.map(|(program, ..)| program), Some(2));
    running.stop().await;
}
