//! A server, two clients, and what must hold of every reply and at the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use environment::LocalDisk;
use file_system::memory::MemoryFileSystem;
use file_system::{Caller, CommitMode, CreateKind, FileSystem, Mode, Name, OpenCreate, SetAttributes};
use ids::VolumeId;
use nfs4::*;
use nfs4_server::{Export, Limits, MemoryClientRecords, Server, ServerConfig};
use onc_rpc::{AuthSys, Call, Connection, Credential, NoService, OpaqueAuth, Peer, Reply, Service};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use xdr::{Decode, Decoder, Encode, Encoder};

use crate::machine::{HandClock, environment};

pub(super) const CLIENTS: usize = 2;
const OWNERS: [&str; CLIENTS] = ["a", "b"];
const USERS: [u32; CLIENTS] = [0, 1000];
const SLOTS: usize = 4;
const LEASE: Duration = Duration::from_secs(90);
const COURTESY: Duration = Duration::from_secs(1000);

const MESSAGE_BYTES: u32 = 64 << 10;

/// Small, so that they are met.
fn limits() -> Limits {
    Limits {
        clients: 12,
        sessions_per_client: 3,
        slots: SLOTS as u32,
        message_bytes: MESSAGE_BYTES,
        operations: 18,
        cached_reply_bytes: 2048,
        reply_cache_bytes: 32 << 10,
        large_reply_bytes: 8 << 10,
        opens_per_client: 6,
        locks_per_file: 8,
        lock_owners_per_client: 4,
        optimistic_tries: 2,
        exclusive_tries: 2,
        // Time stands still while a request is run.
        waiting_for_returns: 0,
        ..Limits::default()
    }
}

pub(super) struct World {
    server: Server,
    volumes: Vec<Export>,
    records: Arc<MemoryClientRecords>,
    clock: Arc<HandClock>,
    /// How often the server was started.
    process: u32,
    /// The server's housekeeping, once time passes.
    housekeeping: Option<(CancellationToken, JoinHandle<()>)>,
    connection: Connection,
    pub clients: Vec<Client>,
    /// All that the server ever gave.
    pub handles: Vec<FileHandle>,
    pub state_ids: Vec<StateId>,
    pub client_ids: Vec<ClientId>,
}

pub(super) struct Client {
    pub id: ClientId,
    pub session: SessionId,
    incarnation: u8,
    sequences: [u32; SLOTS],
    /// The last request that the server ran, and its reply.
    last: Option<(Bytes, Bytes)>,
}

impl Client {
    const NOBODY: Client = Client {
        id: ClientId(0),
        session: SessionId([0; 16]),
        incarnation: 0,
        sequences: [0; SLOTS],
        last: None,
    };
}

impl World {
    /// Two volumes with some files, two clients.
    pub async fn new() -> World {
        let clock = HandClock::new();
        let mut volumes = Vec::new();
        for (number, name) in [(1, "home"), (2, "other")] {
            let file_system = MemoryFileSystem::with(VolumeId(number), clock.clone()).writable_by_all();
            populate(&file_system).await;
            volumes.push(Export::new(name, Arc::new(file_system)));
        }
        let records = Arc::new(MemoryClientRecords::default());
        let server = start(&clock, &volumes, &records, 1).await;
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let (input, output) = (Box::new(tokio::io::empty()), Box::new(tokio::io::sink()));
        let connection =
            Connection::new(input, output, address, Arc::new(NoService), onc_rpc::Limits::default());
        let mut world = World {
            server,
            volumes,
            records,
            clock,
            process: 1,
            housekeeping: None,
            connection,
            clients: Vec::new(),
            handles: Vec::new(),
            state_ids: Vec::new(),
            client_ids: Vec::new(),
        };
        for client in 0..CLIENTS {
            world.clients.push(Client::NOBODY);
            assert!(world.restart_client(client).await);
        }
        world.look_around().await;
        world
    }

    /// Learns the handles of what there is from the beginning.
    async fn look_around(&mut self) {
        let lookup = |name: &str| NfsArgOp::Lookup(LookupArgs { name: name.into() });
        for path in
            [&["home"][..], &["home", "f"], &["home", "d"], &["other"], &["home", "l"], &["other", "f"], &[]]
        {
            let mut operations = vec![NfsArgOp::PutRootFh];
            operations.extend(path.iter().map(|name| lookup(name)));
            operations.push(NfsArgOp::GetFh);
            self.run(0, &operations).await;
        }
        assert_eq!(self.handles.len(), 7);
    }

    pub fn owner(client: usize) -> &'static str {
        OWNERS[client]
    }

    pub fn exchange_id(owner: &str, incarnation: u8, flags: u32) -> ExchangeIdArgs {
        let owner_id = OwnerName::new(owner.as_bytes().to_vec()).unwrap();
        ExchangeIdArgs {
            client_owner: ClientOwner { verifier: Verifier([incarnation; 8]), owner_id },
            flags,
            state_protect: StateProtectArgs::None,
            implementation: None,
        }
    }

    pub fn session_arguments(&self, client: ClientId, sequence_id: u32) -> CreateSessionArgs {
        let channel = ChannelAttrs {
            header_pad_size: 0,
            max_request_size: 64 << 10,
            max_response_size: 16 << 10,
            max_response_size_cached: 2048,
            max_operations: 18,
            max_requests: SLOTS as u32,
            rdma_ird: None,
        };
        CreateSessionArgs {
            client,
            sequence_id,
            flags: 0,
            fore_channel: channel,
            back_channel: channel,
            callback_program: 1,
            callback_security: vec![CallbackSecParms::None],
        }
    }

    /// Sends the body of a COMPOUND call and checks the shape of what comes back; `None` when the server could make
    /// nothing of it.
    pub async fn call(&mut self, client: usize, body: Bytes) -> Option<CompoundRes> {
        let user = USERS.get(client).copied().unwrap_or(0);
        let call = Call {
            xid: 1,
            program: PROGRAM,
            version: VERSION,
            procedure: PROCEDURE_COMPOUND,
            credential: Credential::Sys(AuthSys::new(user, user)),
            verifier: OpaqueAuth::default(),
            body: body.clone(),
        };
        let peer: Peer = self.connection.peer().clone();
        let segments = match self.server.call(call, &peer).await {
            Reply::Success(segments) => segments,
            Reply::GarbageArguments => {
                assert!(CompoundHeader::decode(&mut Decoder::new(body)).is_err(), "a good header is garbage");
                return None;
            }
            other => panic!("{other:?}"),
        };
        let wire = Bytes::from(segments.concat());
        assert!(wire.len() <= MESSAGE_BYTES as usize, "a reply of {} bytes", wire.len());
        let reply: CompoundRes = xdr::from_bytes(wire.clone()).unwrap();
        let header = CompoundHeader::decode(&mut Decoder::new(body.clone())).unwrap();
        assert!(reply.tag == header.tag || reply.tag.is_empty());
        assert!(reply.results.len() <= header.op_count as usize, "more results than operations");
        if let Some((last, before)) = reply.results.split_last() {
            assert_eq!(last.status(), reply.status);
            assert!(before.iter().all(|result| result.status() == NfsStatus::Ok), "{reply:?}");
        }
        assert_ne!(reply.status, NfsStatus::ServerFault, "{reply:?}");
        self.learn(&reply);
        if let Some(NfsResOp::Sequence(Outcome::Ok(sequence))) = reply.results.first()
            && let Some(client) = self.clients.get_mut(client)
            && client.session == sequence.session
        {
            client.sequences[sequence.slot as usize] = sequence.sequence_id;
            client.last = Some((body, wire));
        }
        Some(reply)
    }

    fn learn(&mut self, reply: &CompoundRes) {
        for result in &reply.results {
            match result {
                NfsResOp::GetFh(Outcome::Ok(handle)) => self.handles.push(handle.clone()),
                NfsResOp::Open(Outcome::Ok(open)) => {
                    self.state_ids.push(open.state_id);
                    match &open.delegation {
                        OpenDelegation::Read(read) => self.state_ids.push(read.state_id),
                        OpenDelegation::Write(write) => self.state_ids.push(write.state_id),
                        _ => {}
                    }
                }
                NfsResOp::Lock(LockRes::Ok(id))
                | NfsResOp::Unlock(Outcome::Ok(id))
                | NfsResOp::OpenDowngrade(Outcome::Ok(id))
                | NfsResOp::Close(Outcome::Ok(id)) => self.state_ids.push(*id),
                NfsResOp::ExchangeId(Outcome::Ok(exchanged)) => self.client_ids.push(exchanged.client),
                _ => {}
            }
        }
    }

    /// `operations`, `count` of them, behind SEQUENCE. A client whose session has gone makes another one first.
    pub async fn compound(
        &mut self,
        client: usize,
        slot: u32,
        cache_this: bool,
        count: u32,
        operations: Bytes,
    ) -> Option<CompoundRes> {
        for _ in 0..2 {
            let Client { session, sequences, .. } = &self.clients[client];
            let sequence = SequenceArgs {
                session: *session,
                sequence_id: sequences[slot as usize].wrapping_add(1),
                slot,
                highest_slot: SLOTS as u32 - 1,
                cache_this,
            };
            let mut out = Encoder::new();
            CompoundHeader { tag: "tag".into(), minor_version: 2, op_count: count + 1 }.encode(&mut out);
            NfsArgOp::Sequence(sequence).encode(&mut out);
            out.put_raw(operations.clone());
            let reply = self.call(client, out.into_bytes()).await?;
            if reply.status != NfsStatus::BadSession || !self.restart_client(client).await {
                return Some(reply);
            }
        }
        None
    }

    async fn run(&mut self, client: usize, operations: &[NfsArgOp]) -> Vec<NfsResOp> {
        let mut out = Encoder::new();
        operations.iter().for_each(|operation| operation.encode(&mut out));
        let reply = self.compound(client, 0, false, operations.len() as u32, out.into_bytes()).await;
        reply.map(|reply| reply.results).unwrap_or_default()
    }

    async fn alone(&mut self, client: usize, operation: NfsArgOp) -> NfsResOp {
        let args = CompoundArgs { tag: "".into(), minor_version: 2, ops: vec![operation] };
        self.call(client, xdr::to_bytes(&args)).await.unwrap().results.remove(0)
    }

    /// Sends the last request that was run again. Its reply must be the same, or say that it was not kept.
    pub async fn repeat(&mut self, client: usize) {
        let Some((request, reply)) = self.clients[client].last.clone() else { return };
        let Some(again) = self.call(client, request.clone()).await else { return };
        let forgotten = [NfsStatus::RetryUncachedRep, NfsStatus::BadSession, NfsStatus::SeqMisordered];
        if !forgotten.contains(&again.status) {
            assert_eq!(
                xdr::from_bytes::<CompoundRes>(reply).unwrap(),
                again,
                "a repeated request was run again"
            );
        }
    }

    /// The client loses its memory and comes back under its name: what it held is released. `false` when it is refused.
    pub async fn restart_client(&mut self, client: usize) -> bool {
        let incarnation = self.clients[client].incarnation.wrapping_add(1);
        self.clients[client] = Client { incarnation, ..Client::NOBODY };
        let exchange = World::exchange_id(OWNERS[client], 0x80 | incarnation, 0);
        let NfsResOp::ExchangeId(Outcome::Ok(exchanged)) =
            self.alone(client, NfsArgOp::ExchangeId(exchange)).await
        else {
            return false;
        };
        // The second can be called back, though nobody answers: until that is found out it is delegated files.
        let flags = if client == 1 { bits::create_session::CONN_BACK_CHAN } else { 0 };
        let create =
            CreateSessionArgs { flags, ..self.session_arguments(exchanged.client, exchanged.sequence_id) };
        let NfsResOp::CreateSession(Outcome::Ok(created)) =
            self.alone(client, NfsArgOp::CreateSession(create)).await
        else {
            return false;
        };
        self.clients[client].id = exchanged.client;
        self.clients[client].session = created.session;
        if !self.server.metrics().census.in_grace {
            let done = NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
            Box::pin(self.run(client, &[done])).await;
        }
        true
    }

    /// The server loses its memory; files and client records stay.
    pub async fn restart_server(&mut self) {
        self.stop_housekeeping().await;
        self.process += 1;
        self.server = start(&self.clock, &self.volumes, &self.records, self.process).await;
    }

    /// Lets time pass, with the server's housekeeping at work.
    pub async fn pass(&mut self, seconds: u64) {
        if self.housekeeping.is_none() {
            let stop = CancellationToken::new();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (server, stopped) = (self.server.clone(), stop.clone());
            let task = tokio::spawn(async move { server.serve(listener, stopped).await.unwrap() });
            tokio::task::yield_now().await;
            self.housekeeping = Some((stop, task));
        }
        self.clock.advance(Duration::from_secs(seconds)).await;
    }

    async fn stop_housekeeping(&mut self) {
        // It removes records until its end.
        if let Some((stop, task)) = self.housekeeping.take() {
            stop.cancel();
            task.await.unwrap();
        }
    }

    /// When all clients have gone, in order or by silence, nothing may be left of them: no state, no lock, no file that
    /// has lost its last name.
    pub async fn end(mut self) {
        // Ends a grace period, and whatever clients the tape has made up.
        self.pass((LEASE + COURTESY).as_secs() + 10).await;
        for client in 0..CLIENTS {
            assert!(self.restart_client(client).await, "client {client} is refused");
            let Client { id, session, .. } = self.clients[client];
            let destroyed =
                self.alone(client, NfsArgOp::DestroySession(DestroySessionArgs { session })).await;
            assert_eq!(destroyed.status(), NfsStatus::Ok);
            let destroyed =
                self.alone(client, NfsArgOp::DestroyClientId(DestroyClientIdArgs { client: id })).await;
            assert_eq!(destroyed.status(), NfsStatus::Ok);
        }
        assert_eq!(self.server.metrics().census, Default::default());
        self.check_files().await;
        self.stop_housekeeping().await;
    }

    async fn check_files(&mut self) {
        let handles: Vec<FileHandle> = std::mem::take(&mut self.handles);
        assert!(self.restart_client(0).await);
        let owner = StateOwner { client: ClientId(0), owner: OwnerName::new(&b"end"[..]).unwrap() };
        for handle in handles.into_iter().rev().take(4) {
            let put = NfsArgOp::PutFh(PutFhArgs { file_handle: handle });
            let request = Attribute::set(&[Attribute::Type, Attribute::Numlinks]);
            let get = NfsArgOp::GetAttr(GetAttrArgs { request });
            let results = self.run(0, &[put.clone(), get]).await;
            let Some(NfsResOp::GetAttr(Outcome::Ok(attributes))) = results.get(2) else { continue };
            let values = attributes.values().unwrap();
            assert_ne!(values.numlinks, Some(0), "a file without a name is left");
            if values.r#type != Some(FileType::Regular) {
                continue;
            }
            let open = NfsArgOp::Open(OpenArgs {
                seqid: 0,
                share_access: bits::share_access::BOTH,
                share_deny: bits::share_deny::BOTH,
                owner: owner.clone(),
                how: OpenHow::NoCreate,
                claim: OpenClaim::FileHandle,
            });
            let locker = Locker::New {
                open_seqid: 0,
                open_state_id: StateId::CURRENT,
                lock_seqid: 0,
                owner: owner.clone(),
            };
            let lock_type = LockType::Write;
            let lock =
                NfsArgOp::Lock(LockArgs { lock_type, reclaim: false, offset: 0, length: u64::MAX, locker });
            let results = self.run(0, &[put, open, lock]).await;
            let statuses: Vec<_> = results.iter().map(NfsResOp::status).collect();
            let held = [NfsStatus::ShareDenied, NfsStatus::Denied, NfsStatus::Locked];
            assert!(
                !statuses.iter().any(|status| held.contains(status)),
                "somebody still holds it: {statuses:?}"
            );
        }
    }
}

async fn start(
    clock: &Arc<HandClock>,
    volumes: &[Export],
    records: &Arc<MemoryClientRecords>,
    process: u32,
) -> Server {
    let environment = environment(clock, Arc::new(LocalDisk), process);
    let config = ServerConfig {
        records: records.clone(),
        lease: LEASE,
        courtesy: COURTESY,
        limits: limits(),
        ..ServerConfig::in_memory(volumes.to_vec(), environment)
    };
    Server::new(config).await.unwrap()
}

async fn populate(file_system: &MemoryFileSystem) {
    let mut tx = file_system.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
    let root = tx.root();
    let attributes = SetAttributes::with_mode(0o777);
    tx.open_create(root, &Name::new("f").unwrap(), OpenCreate::Guarded, &attributes).await.unwrap();
    for (name, kind) in [("d", CreateKind::Directory), ("l", CreateKind::Symlink(Bytes::from_static(b"f")))] {
        tx.create(root, &Name::new(name).unwrap(), kind, &attributes).await.unwrap();
    }
    tx.commit(CommitMode::Durable).await.unwrap();
}
