//! A server of a few lines that says what it is told to say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Environment;
use nfs4::{
    BindConnToSessionOk, ChannelDirFromServer, ClientId, CompoundArgs, CompoundRes, CreateSessionOk,
    ExchangeIdOk, NfsArgOp, NfsResOp, NfsStatus, OpCode, Outcome, OwnerName, SequenceArgs, SequenceOk,
    ServerOwner, SessionId, StateId, StateProtectRes, Utf8String,
};
use nfs4_client::{Client, ClientError, Options};
use onc_rpc::{Call, Limits, Peer, Reply, Service, serve_connection};
use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::clock::ManualClock;

/// What the server does with a compound in a session: `None` means what a willing server does.
pub type Script = dyn Fn(&SequenceArgs, &[NfsArgOp]) -> Option<Said> + Send + Sync;

pub enum Said {
    /// SEQUENCE, or the compound as a whole, fails.
    Refused(NfsStatus),
    /// The server was just started again, and knows neither session nor client.
    Restarted,
    /// So many operations succeed, and the next one fails.
    Failed(usize, NfsStatus),
    /// All succeed, with these in the result of SEQUENCE.
    Sequence { target_highest_slot: u32, status_flags: u32 },
    /// These bytes instead of a reply.
    Bytes(Bytes),
    /// The server fails.
    Failure,
    /// Nothing.
    Silence,
}

pub struct Scripted {
    script: Box<Script>,
    minor_version: u32,
    /// What was asked outside of sessions, and what in them.
    pub log: Mutex<Vec<OpCode>>,
    sessions: AtomicU32,
    /// The next CREATE_SESSION finds that the client id is that of an earlier instance.
    pub restarted: AtomicBool,
    /// What SEQUENCE says beside, unless the script has it.
    pub flags: AtomicU32,
    pub slots: u32,
    pub running: AtomicU32,
    pub most_running: AtomicU32,
    pub peers: Mutex<Vec<Peer>>,
}

impl Scripted {
    pub async fn start(
        script: impl Fn(&SequenceArgs, &[NfsArgOp]) -> Option<Said> + Send + Sync + 'static,
    ) -> (SocketAddr, Arc<Scripted>) {
        Scripted::start_with(2, 8, script).await
    }

    pub async fn start_with(
        minor_version: u32,
        slots: u32,
        script: impl Fn(&SequenceArgs, &[NfsArgOp]) -> Option<Said> + Send + Sync + 'static,
    ) -> (SocketAddr, Arc<Scripted>) {
        let server = Arc::new(Scripted {
            script: Box::new(script),
            minor_version,
            log: Mutex::default(),
            sessions: AtomicU32::new(0),
            restarted: AtomicBool::new(false),
            flags: AtomicU32::new(0),
            slots,
            running: AtomicU32::new(0),
            most_running: AtomicU32::new(0),
            peers: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let keeper = service.clone();
                let keep = move |peer: &Peer| keeper.peers.lock().push(peer.clone());
                tokio::spawn(serve_connection(stream, service.clone(), Limits::default(), keep));
            }
        });
        (address, server)
    }

    pub fn asked(&self, operation: OpCode) -> usize {
        self.log.lock().iter().filter(|asked| **asked == operation).count()
    }

    /// State ids with an odd first byte are revoked.
    fn test(state_id: &StateId) -> NfsStatus {
        if state_id.other[0] % 2 == 1 { NfsStatus::AdminRevoked } else { NfsStatus::Ok }
    }

    fn alone(&self, operation: &NfsArgOp) -> NfsResOp {
        match operation {
            NfsArgOp::ExchangeId(_) => NfsResOp::ExchangeId(Outcome::Ok(ExchangeIdOk {
                client: ClientId(77),
                sequence_id: 1,
                flags: 0,
                state_protect: StateProtectRes::None,
                server_owner: ServerOwner { minor_id: 0, major_id: OwnerName::new("server").unwrap() },
                server_scope: OwnerName::new("scope").unwrap(),
                implementation: None,
            })),
            NfsArgOp::CreateSession(_) if self.restarted.swap(false, SeqCst) => {
                NfsResOp::CreateSession(Outcome::Err(NfsStatus::StaleClientId))
            }
            NfsArgOp::CreateSession(arguments) => {
                let number = self.sessions.fetch_add(1, SeqCst) + 1;
                let mut fore_channel = arguments.fore_channel;
                fore_channel.max_requests = self.slots;
                NfsResOp::CreateSession(Outcome::Ok(CreateSessionOk {
                    session: SessionId([number as u8; 16]),
                    sequence_id: arguments.sequence_id,
                    flags: arguments.flags,
                    fore_channel,
                    back_channel: arguments.back_channel,
                }))
            }
            NfsArgOp::BindConnToSession(arguments) => {
                NfsResOp::BindConnToSession(Outcome::Ok(BindConnToSessionOk {
                    session: arguments.session,
                    direction: ChannelDirFromServer::Both,
                    use_rdma: false,
                }))
            }
            NfsArgOp::DestroySession(_) => NfsResOp::DestroySession(NfsStatus::Ok),
            NfsArgOp::DestroyClientId(_) => NfsResOp::DestroyClientId(NfsStatus::Ok),
            other => NfsResOp::failure(other.op_code(), NfsStatus::OpNotInSession),
        }
    }

    async fn in_session(&self, sequence: &SequenceArgs, operations: &[NfsArgOp]) -> Reply {
        let (mut target, mut flags, mut failed) = (self.slots - 1, self.flags.load(SeqCst), None);
        // The first compounds of a session are the client's own.
        let is_own = matches!(operations, [NfsArgOp::ReclaimComplete(_)] | [_, NfsArgOp::GetAttr(_)]);
        let said = if is_own { None } else { (self.script)(sequence, operations) };
        match said {
            None => {}
            Some(Said::Refused(status)) => {
                return reply(vec![NfsResOp::failure(OpCode::Sequence, status)]);
            }
            Some(Said::Restarted) => {
                self.restarted.store(true, SeqCst);
                return reply(vec![NfsResOp::failure(OpCode::Sequence, NfsStatus::BadSession)]);
            }
            Some(Said::Failed(done, status)) => failed = Some((done, status)),
            Some(Said::Sequence { target_highest_slot, status_flags }) => {
                (target, flags) = (target_highest_slot, status_flags);
            }
            Some(Said::Bytes(bytes)) => return Reply::Success(vec![bytes]),
            Some(Said::Failure) => return Reply::SystemError,
            Some(Said::Silence) => return Reply::Drop,
        }
        let mut results = vec![NfsResOp::Sequence(Outcome::Ok(SequenceOk {
            session: sequence.session,
            sequence_id: sequence.sequence_id,
            slot: sequence.slot,
            highest_slot: self.slots - 1,
            target_highest_slot: target,
            status_flags: flags,
        }))];
        for (index, operation) in operations.iter().enumerate() {
            results.push(match failed {
                Some((done, status)) if done == index => NfsResOp::failure(operation.op_code(), status),
                _ => match operation {
                    NfsArgOp::CompoundMode(_) => NfsResOp::CompoundMode(Outcome::Ok(nfs4::CompoundModeOk {
                        flags: 3,
                        max_operations: 9,
                        max_bytes: 1 << 20,
                    })),
                    NfsArgOp::TestStateId(test) => NfsResOp::TestStateId(Outcome::Ok(
                        test.state_ids.iter().map(Scripted::test).collect(),
                    )),
                    NfsArgOp::FreeStateId(_) => NfsResOp::FreeStateId(NfsStatus::Ok),
                    NfsArgOp::PutRootFh => NfsResOp::PutRootFh(NfsStatus::Ok),
                    NfsArgOp::Lookup(_) => NfsResOp::Lookup(NfsStatus::Ok),
                    NfsArgOp::ReclaimComplete(_) => NfsResOp::ReclaimComplete(NfsStatus::Ok),
                    NfsArgOp::Remove(_) => {
                        NfsResOp::Remove(Outcome::Ok(nfs4::ChangeInfo { atomic: true, before: 1, after: 2 }))
                    }
                    other => NfsResOp::failure(other.op_code(), NfsStatus::NotSupp),
                },
            });
            if !results.last().unwrap().status().is_ok() {
                break;
            }
        }
        reply(results)
    }
}

fn reply(results: Vec<NfsResOp>) -> Reply {
    let status = results.last().unwrap().status();
    Reply::Success(vec![xdr::to_bytes(&CompoundRes { status, tag: Utf8String::default(), results })])
}

#[async_trait]
impl Service for Scripted {
    async fn call(&self, call: Call, _peer: &Peer) -> Reply {
        let Ok(request) = xdr::from_bytes::<CompoundArgs>(call.body) else { return Reply::GarbageArguments };
        self.log.lock().extend(request.ops.iter().map(NfsArgOp::op_code));
        if request.minor_version != self.minor_version {
            let (status, tag) = (NfsStatus::MinorVersMismatch, Utf8String::default());
            return Reply::Success(vec![xdr::to_bytes(&CompoundRes { status, tag, results: Vec::new() })]);
        }
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.most_running.fetch_max(running, SeqCst);
        // Lets others come in beside.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let reply = match request.ops.split_first() {
            Some((NfsArgOp::Sequence(sequence), operations)) => self.in_session(sequence, operations).await,
            Some((operation, _)) => reply(vec![self.alone(operation)]),
            None => Reply::GarbageArguments,
        };
        self.running.fetch_sub(1, SeqCst);
        reply
    }
}

pub fn options() -> Options {
    let clock = ManualClock::new(Duration::from_secs(10));
    Options::new(Environment { clock, ..Environment::real() })
}

pub async fn connect(address: SocketAddr) -> Client {
    Client::connect(&[address], options(), None).await.unwrap()
}

/// PUTROOTFH and so many LOOKUPs.
pub fn lookups(count: usize) -> Vec<NfsArgOp> {
    let mut operations = vec![NfsArgOp::PutRootFh];
    operations.resize_with(count + 1, || nfs4_client::operations::lookup("x"));
    operations
}

/// Something that is not to be done twice.
pub fn removal() -> [NfsArgOp; 2] {
    [NfsArgOp::PutRootFh, nfs4_client::operations::remove("x")]
}

pub fn is_unknown<T>(result: &Result<T, ClientError>) -> bool {
    matches!(result, Err(ClientError::Unknown))
}
