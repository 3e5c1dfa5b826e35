//! Sessions against a scripted server: what is promised about slots, replays, errors and callbacks.

#![allow(clippy::unwrap_used)] // the scripted server is test code, though not inside a test function

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nfs4::{
    CbCompoundArgs, CbCompoundRes, CbRecallArgs, CbSequenceArgs, ClientId, CompoundArgs, CompoundRes,
    CreateSessionOk, ExchangeIdOk, FileHandle, NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsResOp, NfsStatus, OpCode,
    Outcome, OwnerName, ReadOk, SequenceArgs, SequenceOk, ServerOwner, SessionId, StableHow, StateId,
    StateProtectRes, Utf8String, Verifier, WriteOk,
};
use nfs4_client::{Callback, ClientError, Config, OpenFile, Session, operations};
use onc_rpc::{Call, Credential, Limits, Peer, Procedure, Reply, Service, serve_connection};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Grants three slots to each session. LOOKUP of `missing` fails, of `silence` is never answered, of `recall` calls
/// back twice in the same slot with the same sequence id.
#[derive(Default)]
struct Server {
    state: Mutex<State>,
    executed: AtomicU32,
}

#[derive(Default)]
struct State {
    sessions: u32,
    /// Last sequence id and reply of each slot of each session.
    slots: HashMap<(SessionId, u32), (u32, Vec<Bytes>)>,
    data: Bytes,
}

const SLOTS: u32 = 3;

#[async_trait]
impl Service for Server {
    async fn call(&self, call: Call, peer: &Peer) -> Reply {
        assert_eq!((call.program, call.version, call.procedure), (100_003, 4, 1));
        let request: CompoundArgs = xdr::from_bytes(call.body).unwrap();
        assert_eq!(request.minor_version, 2);
        let NfsArgOp::Sequence(sequence) = request.ops[0].clone() else {
            let result = self.outside_of_sessions(&request.ops[0]).await;
            return Reply::Success(reply(vec![result]));
        };
        let key = (sequence.session, sequence.slot);
        if sequence.slot >= SLOTS {
            return Reply::Success(reply(vec![NfsResOp::failure(OpCode::Sequence, NfsStatus::BadSlot)]));
        }
        {
            let state = self.state.lock().await;
            let (last, cached) = state.slots.get(&key).cloned().unwrap_or_default();
            if sequence.sequence_id == last {
                return Reply::Success(cached);
            }
            if sequence.sequence_id != last + 1 {
                let result = NfsResOp::failure(OpCode::Sequence, NfsStatus::SeqMisordered);
                return Reply::Success(reply(vec![result]));
            }
        }
        let mut results = vec![accept(&sequence)];
        for operation in &request.ops[1..] {
            if matches!(operation, NfsArgOp::Lookup(lookup) if lookup.name.as_bytes() == b"silence") {
                return Reply::Drop;
            }
            self.executed.fetch_add(1, Ordering::SeqCst);
            let result = self.execute(operation, sequence.session, peer).await;
            let failed = !result.status().is_ok();
            results.push(result);
            if failed {
                break;
            }
        }
        let reply = reply(results);
        self.state.lock().await.slots.insert(key, (sequence.sequence_id, reply.clone()));
        Reply::Success(reply)
    }
}

fn reply(results: Vec<NfsResOp>) -> Vec<Bytes> {
    let status = results.last().unwrap().status();
    vec![xdr::to_bytes(&CompoundRes { status, tag: Utf8String::default(), results })]
}

fn accept(sequence: &SequenceArgs) -> NfsResOp {
    NfsResOp::Sequence(Outcome::Ok(SequenceOk {
        session: sequence.session,
        sequence_id: sequence.sequence_id,
        slot: sequence.slot,
        highest_slot: SLOTS - 1,
        target_highest_slot: SLOTS - 1,
        status_flags: 0x55,
    }))
}

impl Server {
    async fn outside_of_sessions(&self, operation: &NfsArgOp) -> NfsResOp {
        match operation {
            NfsArgOp::ExchangeId(_) => NfsResOp::ExchangeId(Outcome::Ok(ExchangeIdOk {
                client: ClientId(77),
                sequence_id: 5,
                flags: 0,
                state_protect: StateProtectRes::None,
                server_owner: ServerOwner { minor_id: 0, major_id: OwnerName::new("server").unwrap() },
                server_scope: OwnerName::new("scope").unwrap(),
                implementation: None,
            })),
            NfsArgOp::CreateSession(arguments) => {
                let mut state = self.state.lock().await;
                assert_eq!((arguments.client, arguments.sequence_id), (ClientId(77), 5 + state.sessions));
                state.sessions += 1;
                let mut fore_channel = arguments.fore_channel;
                fore_channel.max_requests = SLOTS;
                NfsResOp::CreateSession(Outcome::Ok(CreateSessionOk {
                    session: SessionId([state.sessions as u8; 16]),
                    sequence_id: arguments.sequence_id,
                    flags: arguments.flags,
                    fore_channel,
                    back_channel: arguments.back_channel,
                }))
            }
            NfsArgOp::DestroySession(_) => NfsResOp::DestroySession(NfsStatus::Ok),
            other => NfsResOp::failure(other.op_code(), NfsStatus::OpNotInSession),
        }
    }

    async fn execute(&self, operation: &NfsArgOp, session: SessionId, peer: &Peer) -> NfsResOp {
        match operation {
            NfsArgOp::ReclaimComplete(_) => NfsResOp::ReclaimComplete(NfsStatus::CompleteAlready),
            NfsArgOp::PutRootFh => NfsResOp::PutRootFh(NfsStatus::Ok),
            NfsArgOp::PutFh(_) => NfsResOp::PutFh(NfsStatus::Ok),
            NfsArgOp::GetFh => NfsResOp::GetFh(Outcome::Ok(handle())),
            NfsArgOp::Lookup(lookup) => NfsResOp::Lookup(match lookup.name.as_bytes() {
                b"missing" => NfsStatus::NoEnt,
                b"recall" => recall_twice(session, peer).await,
                _ => NfsStatus::Ok,
            }),
            NfsArgOp::Write(write) => {
                let data = write.data.clone();
                let count = data.len() as u32;
                self.state.lock().await.data = data;
                let committed = write.stable;
                NfsResOp::Write(Outcome::Ok(WriteOk { count, committed, verifier: Verifier([1; 8]) }))
            }
            NfsArgOp::Read(_) => {
                let data = self.state.lock().await.data.clone().into();
                NfsResOp::Read(Outcome::Ok(ReadOk { eof: true, data }))
            }
            other => NfsResOp::failure(other.op_code(), NfsStatus::NotSupp),
        }
    }
}

fn handle() -> FileHandle {
    FileHandle::new("handle").unwrap()
}

/// Sends one CB_RECALL, repeats it, and then one out of order.
async fn recall_twice(session: SessionId, peer: &Peer) -> NfsStatus {
    let call = |sequence_id| {
        let sequence = CbSequenceArgs {
            session,
            sequence_id,
            slot: 2,
            highest_slot: 2,
            cache_this: true,
            referring_call_lists: Vec::new(),
        };
        let recall = CbRecallArgs { state_id: StateId::ANONYMOUS, truncate: false, file_handle: handle() };
        let body = xdr::to_bytes(&CbCompoundArgs {
            tag: Utf8String::default(),
            minor_version: 2,
            callback_ident: 0,
            ops: vec![NfsCbArgOp::Sequence(sequence), NfsCbArgOp::Recall(recall)],
        });
        let procedure = Procedure { program: 0x4000_0000, version: 1, number: 1 };
        async move {
            let reply = peer.call(procedure, &Credential::None, vec![body], TIMEOUT).await.unwrap();
            xdr::from_bytes::<CbCompoundRes>(reply).unwrap()
        }
    };
    let first = call(1).await;
    assert_eq!(first.results.len(), 2);
    assert_eq!(call(1).await, first);
    assert_eq!(call(3).await.status, NfsStatus::SeqMisordered);
    first.status
}

async fn start() -> (SocketAddr, Arc<Server>) {
    let server = Arc::new(Server::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = server.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve_connection(stream, service.clone(), Limits::default(), |_| ()));
        }
    });
    (address, server)
}

fn config() -> Config {
    Config { timeout: TIMEOUT, ..Config::new("test client", [1; 8]) }
}

#[tokio::test]
async fn data_written_is_read_back() {
    let (address, _) = start().await;
    let session = Session::connect(address, config(), None).await.unwrap();
    assert_eq!(session.fore_channel().max_requests, SLOTS);
    assert_eq!(session.renew().await.unwrap(), 0x55);
    assert_eq!(session.lookup(&["a", "b"]).await.unwrap(), handle());
    let file =
        OpenFile { handle: handle(), state_id: StateId::ANONYMOUS, delegation: nfs4::OpenDelegation::None };
    let data = Bytes::from(vec![7; 3 << 20]);
    let written = session.write(&file, 0, StableHow::FileSync, data.clone()).await.unwrap();
    assert_eq!((written.count as usize, written.committed), (data.len(), StableHow::FileSync));
    let read = session.read(&file, 0, data.len() as u32).await.unwrap();
    assert!(read.eof && read.data.into_bytes() == data);
    session.destroy().await.unwrap();
}

#[tokio::test]
async fn a_failed_operation_is_named_with_its_place_and_the_slot_goes_on() {
    let (address, _) = start().await;
    let session = Session::connect(address, config(), None).await.unwrap();
    for _ in 0..10 {
        let error = session.lookup(&["here", "missing"]).await.unwrap_err();
        assert_eq!(error.status(), Some(NfsStatus::NoEnt));
        assert!(matches!(error, ClientError::Operation { operation: OpCode::Lookup, index: 2, .. }));
    }
    assert_eq!(session.slot().await.unwrap().number(), 0);
}

#[tokio::test]
async fn a_chosen_sequence_can_be_replayed_and_misordered() {
    let (address, server) = start().await;
    let session = Session::connect(address, config(), None).await.unwrap();
    let mut slot = session.slot().await.unwrap();
    let write = [operations::write(StateId::ANONYMOUS, 0, StableHow::Unstable, Bytes::from_static(b"x"))];
    let arguments = slot.arguments(true);
    let first = session.send(arguments, &write).await.unwrap();
    let executed = server.executed.load(Ordering::SeqCst);
    assert_eq!(session.send(arguments, &write).await.unwrap(), first);
    assert_eq!(server.executed.load(Ordering::SeqCst), executed);
    slot.executed();
    let skipped = SequenceArgs { sequence_id: slot.sequence_id() + 1, ..slot.arguments(true) };
    assert_eq!(session.send(skipped, &write).await.unwrap().status, NfsStatus::SeqMisordered);
    let beyond = SequenceArgs { slot: SLOTS, ..slot.arguments(true) };
    assert_eq!(session.send(beyond, &write).await.unwrap().status, NfsStatus::BadSlot);
    drop(slot);
    session.lookup(&[]).await.unwrap();
    let bare = session.bare_compound(&[NfsArgOp::PutRootFh]).await.unwrap();
    assert_eq!(bare.status, NfsStatus::OpNotInSession);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_compounds_share_few_slots() {
    let (address, _) = start().await;
    let session = Session::connect(address, config(), None).await.unwrap();
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.lookup(&["a"]).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let slots = [session.slot().await.unwrap(), session.slot().await.unwrap(), session.slot().await.unwrap()];
    let sent: u32 = slots.iter().map(|slot| slot.sequence_id() - 1).sum();
    assert_eq!(sent, 1 + 100); // RECLAIM_COMPLETE and the lookups
}

#[tokio::test]
async fn slots_of_abandoned_calls_are_lost_until_none_is_left() {
    let (address, _) = start().await;
    let session = Session::connect(address, config(), None).await.unwrap();
    for _ in 0..SLOTS {
        session.lookup(&["a"]).await.unwrap();
        tokio::select! {
            biased;
            _ = session.lookup(&["silence"]) => panic!("silence was answered"),
            () = std::future::ready(()) => {}
        }
    }
    assert!(matches!(session.lookup(&["a"]).await, Err(ClientError::NoSlots)));
}

#[tokio::test]
async fn a_callback_is_executed_once_while_the_call_that_led_to_it_waits() {
    struct Counting(AtomicU32);

    #[async_trait]
    impl Callback for Counting {
        async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
            let NfsCbArgOp::Recall(recall) = operation else { panic!("{operation:?}") };
            assert_eq!(recall.file_handle, handle());
            self.0.fetch_add(1, Ordering::SeqCst);
            NfsCbResOp::Recall(NfsStatus::Ok)
        }
    }

    let (address, _) = start().await;
    let callback = Arc::new(Counting(AtomicU32::new(0)));
    let session = Session::connect(address, config(), Some(callback.clone())).await.unwrap();
    session.lookup(&["recall"]).await.unwrap();
    assert_eq!(callback.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn siblings_are_sessions_of_the_same_client() {
    let (address, server) = start().await;
    let session = Session::connect(address, config(), None).await.unwrap();
    let (one, two) = tokio::join!(session.sibling(address), session.sibling(address));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_ne!(one.id(), two.id());
    assert_ne!(one.id(), session.id());
    assert_eq!(one.client_id(), session.client_id());
    one.lookup(&["a"]).await.unwrap();
    two.lookup(&["a"]).await.unwrap();
    assert_eq!(server.state.lock().await.sessions, 3);
}

#[tokio::test]
async fn the_connection_ends_with_the_last_clone() {
    let (address, _) = start().await;
    let session = Session::connect(address, config(), None).await.unwrap();
    let peer = session.peer().clone();
    let clone = session.with_credential(Credential::None);
    drop(session);
    assert!(!peer.is_closed());
    drop(clone);
    peer.closed().await;
}
