//! The server: connections in, replies out.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use file_system::FileId;
use nfs4::OwnerName;
use onc_rpc::{
    Budget, Call, Connection, ConnectionId, Listener, Peer, Registration, Reply, RpcError, Security, Service,
    Stream,
};
use parking_lot::{Mutex, RwLock};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::callbacks;
use crate::compound;
use crate::connections::Connections;
use crate::expected_reply;
use crate::exports::{ExportTable, Loss};
use crate::file_handle::HandleKey;
use crate::in_flight::InFlight;
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::minor0::Duplicates;
use crate::offloads::{self, Offloads};
use crate::owner_names::OwnerNames;
use crate::recording::Turns;
use crate::refusals::{Refusals, Refused};
use crate::shared::Shared;
use crate::state::{Dial, State, StateConfig};
use crate::{Export, NameMapping, Network, ServerConfig, ServerError};

/// How often leases and the grace period are looked at.
const TICK: Duration = Duration::from_secs(1);

/// How often records of clients are looked at.
const BETWEEN_REVIEWS: Duration = Duration::from_millis(999);

/// How long it may take to connect to a client for callbacks.
const DIAL_LIMIT: Duration = Duration::from_secs(5);

/// How long a stop waits for requests that are being run.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How long a stop waits for the removal of records that the next start need not know, as when the journal is full.
const RECORDS_LIMIT: Duration = Duration::from_secs(5);

/// An NFS server. Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Shared,
    /// Open connections: for callbacks, and to close them at the end.
    peers: Mutex<HashMap<ConnectionId, Peer>>,
    in_flight: Arc<InFlight>,
    connections: Arc<Connections>,
    /// Memory for what goes over them.
    traffic: Budget,
    /// What connections made from now on offer and demand.
    security: RwLock<Security>,
    stopping: AtomicBool,
}

impl Server {
    /// A server that begins its grace period now, if the records name clients.
    pub async fn new(config: ServerConfig) -> Result<Server, ServerError> {
        if !ServerConfig::LEASES.contains(&config.lease) {
            return Err(ServerError::Lease(config.lease));
        }
        let length = config.server_id.len();
        let server_id = match OwnerName::new(config.server_id) {
            Ok(id) if length > 0 => id,
            _ => return Err(ServerError::ServerId(length)),
        };
        let known = config.records.load().await?;
        let now = config.environment.clock.monotonic();
        let known: Vec<Arc<[u8]>> = known.into_iter().map(Into::into).collect();
        let state = State::new(
            StateConfig {
                lease: config.lease,
                courtesy: config.courtesy,
                // Never 0, which would make state ids that look special (RFC 8881 §8.2.3).
                instance: (config.environment.entropy.next_u64() as u32).clamp(1, u32::MAX - 1),
                delegations: config.delegations,
                limits: config.limits,
            },
            &known,
            now,
        );
        let shared = Shared {
            exports: ExportTable::new(config.exports, config.environment.clock.wall())?,
            handles: HandleKey::new(config.handle_key),
            owners: OwnerNames::default(),
            records: config.records,
            records_in_turn: Turns::new(),
            environment: config.environment,
            server_id,
            lease: config.lease,
            limits: config.limits,
            signals: state.signals.clone(),
            state: Arc::new(Mutex::new(state)),
            waiting_for_returns: Semaphore::new(config.limits.waiting_for_returns),
            metrics: Metrics::new(),
            refusals: Refusals::default(),
            copies: Semaphore::new(config.limits.copies),
            offloads: Offloads::default(),
            duplicates: Duplicates::default(),
        };
        Ok(Server {
            inner: Arc::new(Inner {
                shared,
                peers: Mutex::default(),
                in_flight: Arc::default(),
                connections: Connections::new(config.limits.connections),
                traffic: Budget::new(config.limits.traffic_bytes),
                security: RwLock::default(),
                stopping: AtomicBool::new(false),
            }),
        })
    }

    /// Serves every connection to `listener` until `shutdown` is cancelled, then finishes the requests that are
    /// being run, answers them and closes all connections. Clients that come meanwhile wait for the next start.
    pub async fn serve(
        &self,
        listener: impl Listener,
        shutdown: CancellationToken,
    ) -> Result<(), ServerError> {
        let result = tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            result = self.accept(&listener) => result,
            () = self.keep_house() => Ok(()),
            () = self.keep_records() => Ok(()),
            () = self.call_back() => Ok(()),
            () = self.go_on_copying() => Ok(()),
        };
        drop(listener);
        self.stop().await;
        result
    }

    /// Offers these volumes from now on. Handles of a volume that is not among them are stale until it comes back;
    /// requests that are being run still end on it. Delegations are recalled whose holders may do less than before.
    pub fn replace_exports(&self, exports: Vec<Export>) -> Result<(), ServerError> {
        let shared = &self.inner.shared;
        let before = shared.exports.all();
        shared.exports.replace(exports, shared.environment.clock.wall())?;
        let (after, now) = (shared.exports.all(), shared.now());
        let is_lost = |file: FileId, writing| match before.loss(&after, file.volume) {
            Loss::None => false,
            Loss::Writing => writing,
            Loss::Access => true,
        };
        let recalled = shared.state.lock().recall_lost(is_lost, now);
        if recalled > 0 {
            tracing::info!(recalled, "delegations are recalled, as their exports allow less than before");
        }
        Ok(())
    }

    /// Offers TLS and RPCSEC_GSS, or demands them, on connections made from now on. At first it does neither.
    pub fn replace_security(&self, security: Security) {
        *self.inner.security.write() = security;
    }

    /// Calls users and groups by names from now on, or by numbers again (RFC 8881 §5.9). At first they are numbers.
    pub fn replace_names(&self, mapping: Option<NameMapping>) {
        let shared = &self.inner.shared;
        shared.owners.replace(mapping, shared.environment.clock.clone());
    }

    /// What a portmapper tells of a server at this address.
    pub fn registration(address: SocketAddr) -> Registration {
        Registration { program: nfs4::PROGRAM, version: nfs4::VERSION, address }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    /// Where an open connection comes from.
    pub(crate) fn address_of(&self, connection: ConnectionId) -> Option<SocketAddr> {
        self.inner.peers.lock().get(&connection).map(Peer::address)
    }

    /// Everything counted so far.
    pub fn metrics(&self) -> MetricsSnapshot {
        let shared = &self.inner.shared;
        let (census, counts) = {
            let state = shared.state.lock();
            (state.census(), state.counts)
        };
        let refusals = shared.refusals.counts();
        MetricsSnapshot { census, counts, refusals, ..shared.metrics.snapshot() }
    }

    async fn accept(&self, listener: &dyn Listener) -> Result<(), ServerError> {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => match after(&error) {
                    AcceptFailure::Connection => continue,
                    AcceptFailure::Resources => {
                        tracing::warn!(%error, "cannot accept more connections now");
                        self.inner.shared.environment.clock.sleep(TICK).await;
                        continue;
                    }
                    AcceptFailure::Listener => return Err(error.into()),
                },
            };
            // In the listener's queue it would be in the way of others.
            let Some(admission) = self.inner.connections.admit(address.ip()) else {
                let shared = &self.inner.shared;
                let client = Network::of_client(address.ip());
                if shared.refusals.is_news(Refused::Connection(client), shared.now()) {
                    tracing::warn!(%client, "connection refused: this client has as many as are free");
                }
                continue;
            };
            let server = self.clone();
            tokio::spawn(async move {
                let _admission = admission;
                if let Err(error) = server.connection(stream).await {
                    tracing::debug!(%error, "connection to a client ended");
                }
            });
        }
    }

    /// Serves one connection until it ends.
    async fn connection(&self, stream: Stream) -> Result<(), RpcError> {
        let security = self.inner.security.read().clone();
        let connection = Connection::over(stream, Arc::new(self.clone()), self.rpc_limits())?
            .with_budget(&self.inner.traffic)
            .with_security(&security);
        let id = connection.peer().connection_id();
        self.inner.peers.lock().insert(id, connection.peer().clone());
        let end = connection.run().await;
        self.inner.peers.lock().remove(&id);
        self.inner.shared.state.lock().connection_lost(id);
        end
    }

    async fn keep_house(&self) {
        loop {
            self.inner.shared.environment.clock.sleep(TICK).await;
            if let Err(status) = self.inner.shared.tick().await {
                tracing::warn!(%status, "leases could not be looked after");
            }
        }
    }

    /// By itself: the records may have to wait for room on the disk, which leases cannot.
    async fn keep_records(&self) {
        loop {
            self.inner.shared.environment.clock.sleep(BETWEEN_REVIEWS).await;
            if let Err(status) = self.inner.shared.review_records().await {
                tracing::warn!(%status, "records of clients could not be looked after");
            }
        }
    }

    /// Sends callbacks as they come up, each as a task of its own.
    async fn call_back(&self) {
        let shared = &self.inner.shared;
        loop {
            shared.signals.to_call.notified().await;
            loop {
                let Some(probe) = shared.state.lock().next_probe() else { break };
                let server = self.clone();
                tokio::spawn(async move {
                    let shared = &server.inner.shared;
                    if !probe.pause.is_zero() {
                        shared.environment.clock.sleep(probe.pause).await;
                    }
                    let peer = server.inner.peers.lock().get(&probe.connection).cloned();
                    callbacks::probe(shared, peer, probe).await;
                });
            }
            loop {
                let Some(dial) = shared.state.lock().next_dial() else { break };
                let server = self.clone();
                tokio::spawn(async move {
                    let peer = server.dial(&dial).await;
                    let connection = peer.as_ref().map(Peer::connection_id);
                    let is_wanted =
                        server.inner.shared.state.lock().end_dial(dial.client, dial.path, connection);
                    if let (false, Some(peer)) = (is_wanted, peer) {
                        peer.close();
                    }
                });
            }
            loop {
                let Some(connection) = shared.state.lock().next_hang_up() else { break };
                if let Some(peer) = self.inner.peers.lock().get(&connection) {
                    peer.close();
                }
            }
            loop {
                let Some(callback) = shared.state.lock().next_callback() else { break };
                let peer = self.inner.peers.lock().get(&callback.connection).cloned();
                let server = self.clone();
                tokio::spawn(async move { callbacks::send(&server.inner.shared, peer, callback).await });
            }
        }
    }

    /// Makes a connection to where a client of 4.0 listens for callbacks, as one of the connections that its address may have,
    /// and finds out whether callbacks are taken there.
    async fn dial(&self, dial: &Dial) -> Option<Peer> {
        let inner = &self.inner;
        if inner.stopping.load(Ordering::SeqCst) {
            return None;
        }
        let admission = inner.connections.admit(dial.address.ip())?;
        let connecting = tokio::time::timeout(DIAL_LIMIT, TcpStream::connect(dial.address));
        let connected = connecting.await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
        let made = connected
            .map_err(RpcError::from)
            .and_then(|stream| Connection::tcp(stream, Arc::new(Uncalled), UNCALLED));
        let connection = match made {
            Ok(connection) => connection.with_budget(&inner.traffic),
            Err(error) => {
                tracing::debug!(%error, address = %dial.address, "client cannot be called back");
                return None;
            }
        };
        let peer = connection.peer().clone();
        let id = peer.connection_id();
        inner.peers.lock().insert(id, peer.clone());
        let server = self.clone();
        tokio::spawn(async move {
            let _admission = admission;
            if let Err(error) = connection.run().await {
                tracing::debug!(%error, "connection for callbacks ended");
            }
            server.inner.peers.lock().remove(&id);
            server.inner.shared.state.lock().connection_lost(id);
        });
        if callbacks::prove(&inner.shared, &peer, dial).await {
            Some(peer)
        } else {
            peer.close();
            None
        }
    }

    /// Runs copies as they come up, each as a task of its own that a stop waits for.
    async fn go_on_copying(&self) {
        let offloads = &self.inner.shared.offloads;
        loop {
            offloads.queued.notified().await;
            while let Some(job) = offloads.next() {
                let (server, running) = (self.clone(), self.inner.in_flight.begin());
                tokio::spawn(async move {
                    let _running = running;
                    offloads::run(&server.inner.shared, job).await;
                });
            }
        }
    }

    /// Lets running requests end, and copies where they are, then closes.
    async fn stop(&self) {
        self.inner.stopping.store(true, Ordering::SeqCst);
        self.inner.shared.offloads.stop.cancel();
        tokio::select! {
            () = self.inner.in_flight.none() => {}
            () = self.inner.shared.environment.clock.sleep(STOP_LIMIT) => {
                tracing::warn!("requests were still running when the time to stop was over");
            }
        }
        self.remove_unused_records().await;
        let peers: Vec<Peer> = self.inner.peers.lock().values().cloned().collect();
        peers.iter().for_each(Peer::close);
    }

    /// After a stop it is known who holds something: the next start waits for nobody else.
    async fn remove_unused_records(&self) {
        let shared = &self.inner.shared;
        let unused = shared.state.lock().unused_records(Duration::ZERO, shared.now());
        let mut removals = JoinSet::new();
        for owner in unused {
            let server = self.clone();
            removals.spawn(async move {
                server.inner.shared.remove_unused_record(&owner, Duration::ZERO).await.ok()
            });
        }
        tokio::select! {
            _ = removals.join_all() => {}
            () = shared.environment.clock.sleep(RECORDS_LIMIT) => {
                tracing::warn!("records of clients that hold nothing are left: the next start waits for those clients");
            }
        }
    }

    fn rpc_limits(&self) -> onc_rpc::Limits {
        let limits = &self.inner.shared.limits;
        let defaults = onc_rpc::Limits::default();
        onc_rpc::Limits {
            record_bytes: limits.message_bytes as usize + (64 << 10),
            calls: defaults.calls.max(2 * limits.slots as usize),
            ..defaults
        }
    }
}

/// What clients find on connections that are made to them: nobody.
struct Uncalled;

/// Replies to callbacks are short.
const UNCALLED: onc_rpc::Limits = onc_rpc::Limits {
    record_bytes: 16 << 10,
    fragments: 16,
    calls: 4,
    call_bytes: 64 << 10,
    queued_bytes: 64 << 10,
    outgoing_calls: 32,
    patience: Duration::from_secs(60),
    recycled_bytes: 0,
};

#[async_trait]
impl Service for Uncalled {
    async fn call(&self, _: Call, _: &Peer) -> Reply {
        Reply::ProgramUnavailable
    }
}

/// What an error of accept(2) is about.
enum AcceptFailure {
    /// The connection, which ended before it was accepted.
    Connection,
    /// File descriptors or memory, which others may give back.
    Resources,
    /// The listener.
    Listener,
}

fn after(error: &std::io::Error) -> AcceptFailure {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    match error.kind() {
        ErrorKind::ConnectionAborted
        | ErrorKind::ConnectionReset
        | ErrorKind::Interrupted
        | ErrorKind::NetworkDown
        | ErrorKind::NetworkUnreachable
        | ErrorKind::HostUnreachable
        | ErrorKind::TimedOut => AcceptFailure::Connection,
        ErrorKind::OutOfMemory => AcceptFailure::Resources,
        _ if matches!(error.raw_os_error(), Some(ENFILE | EMFILE | ENOBUFS)) => AcceptFailure::Resources,
        _ => AcceptFailure::Listener,
    }
}

#[async_trait]
impl Service for Server {
    async fn call(&self, call: Call, peer: &Peer) -> Reply {
        if call.program != nfs4::PROGRAM {
            return Reply::ProgramUnavailable;
        }
        if call.version != nfs4::VERSION {
            return Reply::ProgramMismatch { low: nfs4::VERSION, high: nfs4::VERSION };
        }
        let request = self.inner.in_flight.begin();
        // After the count, so that a stop either sees this request or makes it wait for the next start.
        if self.inner.stopping.load(Ordering::SeqCst) {
            return Reply::Drop;
        }
        let reply = match call.procedure {
            nfs4::PROCEDURE_NULL => Reply::Success(Vec::new()),
            nfs4::PROCEDURE_COMPOUND => compound::handle(&self.inner.shared, call, peer).await,
            _ => Reply::ProcedureUnavailable,
        };
        request.until_written(reply)
    }

    fn reply_bytes(&self, call: &Call) -> usize {
        if call.program != nfs4::PROGRAM || call.procedure != nfs4::PROCEDURE_COMPOUND {
            return 0;
        }
        expected_reply::bytes(&call.body, self.inner.shared.limits.message_bytes as usize)
    }
}
