//! A server with a clock that only moves when told, and clients of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use environment::{Clock, Environment};
use file_system::memory::MemoryFileSystem;
use ids::{Timestamp, VolumeId};
use nfs4::{FileHandle, NfsArgOp, NfsResOp, NfsStatus};
use nfs4_client::{ClientError, Config, Session};
use nfs4_server::{ClientRecords, Export, Limits, MemoryClientRecords, Server, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::conflicting::Conflicting;

pub const LEASE: Duration = Duration::from_secs(90);

/// Stands still until it is moved.
pub struct ManualClock {
    now: watch::Sender<Duration>,
}

impl ManualClock {
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now += by);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        let now = *self.now.borrow();
        Timestamp { seconds: 1_000_000 + now.as_secs() as i64, nanos: now.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        *self.now.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let until = *self.now.borrow() + duration;
        let mut now = self.now.subscribe();
        // The sender is this clock, which is borrowed.
        now.wait_for(|now| *now >= until).await.expect("the clock lives");
    }
}

/// What outlives a restart of the server.
pub struct World {
    pub clock: Arc<ManualClock>,
    pub home: Arc<Conflicting>,
    pub other: Arc<MemoryFileSystem>,
    pub records: Arc<dyn ClientRecords>,
    pub limits: Limits,
    pub delegations: bool,
}

/// A server that runs.
pub struct Running {
    pub address: SocketAddr,
    pub server: Server,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl World {
    /// Two volumes, `home` and `other`, whose roots everybody may write.
    pub async fn new() -> World {
        let clock = Arc::new(ManualClock { now: watch::Sender::new(Duration::from_secs(1)) });
        let volume = |id| Arc::new(MemoryFileSystem::with(VolumeId(id), clock.clone()).writable_by_all());
        let (home, other) = (volume(1), volume(2));
        let records = Arc::new(MemoryClientRecords::default());
        World {
            clock,
            home: Arc::new(Conflicting::new(home)),
            other,
            records,
            limits: Limits::default(),
            delegations: true,
        }
    }

    pub async fn start(&self) -> Running {
        let environment = Environment { clock: self.clock.clone(), ..Environment::real() };
        let exports = vec![Export::new("home", self.home.clone()), Export::new("other", self.other.clone())];
        let config = ServerConfig {
            records: self.records.clone(),
            lease: LEASE,
            delegations: self.delegations,
            limits: self.limits,
            ..ServerConfig::in_memory(exports, environment)
        };
        let server = Server::new(config).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (serving, stopped) = (server.clone(), stop.clone());
        let task = tokio::spawn(async move { serving.serve(listener, stopped).await.unwrap() });
        Running { address, server, stop, task }
    }
}

impl Running {
    /// A client with one session.
    pub async fn client(&self, owner: &str) -> Session {
        self.connect(Config::new(owner.to_owned(), [1; 8])).await
    }

    pub async fn connect(&self, config: Config) -> Session {
        Session::connect(self.address, config, None).await.unwrap()
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

pub async fn home(session: &Session) -> FileHandle {
    session.lookup(&["home"]).await.unwrap()
}

/// The status that a compound ends with, and how many results it has.
pub async fn outcome(session: &Session, operations: &[NfsArgOp]) -> (NfsStatus, usize) {
    match session.compound(operations).await {
        Ok(reply) => (reply.status, reply.results.len()),
        Err(ClientError::Refused { status }) => (status, 0),
        Err(error) => panic!("{error}"),
    }
}

pub fn status<T: std::fmt::Debug>(result: Result<T, ClientError>) -> NfsStatus {
    let error = result.unwrap_err();
    error.status().unwrap_or_else(|| panic!("{error}"))
}

pub fn statuses(results: &[NfsResOp]) -> Vec<NfsStatus> {
    results.iter().map(NfsResOp::status).collect()
}
