//! The real server, which can be stopped and started, behind a proxy; and clients of it.

use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use file_system::memory::MemoryFileSystem;
use ids::VolumeId;
use nfs4::{CreateType, FileHandle, NfsArgOp, NfsResOp, Outcome};
use nfs4_client::operations::{create, lookup, put_handle};
use nfs4_client::{Callback, Client, ClientError, Options};
use nfs4_server::{Export, Limits, MemoryClientRecords, Server, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::ManualClock;
use crate::proxy::Proxy;

pub const LEASE: Duration = Duration::from_secs(90);

/// What outlives a restart of the server.
pub struct World {
    pub clock: Arc<ManualClock>,
    pub limits: Limits,
    home: Arc<MemoryFileSystem>,
    records: Arc<MemoryClientRecords>,
    running: Option<Running>,
    pub proxy: Arc<Proxy>,
    /// Of the clients.
    pub client_clock: Arc<ManualClock>,
}

struct Running {
    server: Server,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl World {
    /// One volume, `home`, whose root everybody may write; the server runs.
    pub async fn new() -> World {
        World::with(Limits::default()).await
    }

    pub async fn with(limits: Limits) -> World {
        let clock = ManualClock::new(Duration::ZERO);
        let home = Arc::new(MemoryFileSystem::with(VolumeId(1), clock.clone()).writable_by_all());
        let mut world = World {
            clock,
            limits,
            home,
            records: Arc::default(),
            running: None,
            proxy: Proxy::start(([127, 0, 0, 1], 9).into()).await,
            client_clock: ManualClock::new(Duration::from_secs(10)),
        };
        world.start().await;
        world
    }

    /// Starts the server, and lets clients connect to it.
    pub async fn start(&mut self) {
        let exports = vec![Export::new("home", self.home.clone())];
        let environment = Environment { clock: self.clock.clone(), ..Environment::real() };
        let config = ServerConfig {
            records: self.records.clone(),
            lease: LEASE,
            limits: self.limits,
            ..ServerConfig::in_memory(exports, environment)
        };
        let server = Server::new(config).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (serving, stopped) = (server.clone(), stop.clone());
        let task = tokio::spawn(async move { serving.serve(listener, stopped).await.unwrap() });
        self.running = Some(Running { server, stop, task });
        self.proxy.open(address);
    }

    /// Stops the server, and lets nobody connect.
    pub async fn stop(&mut self) {
        self.proxy.close();
        let running = self.running.take().unwrap();
        running.stop.cancel();
        running.task.await.unwrap();
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.start().await;
    }

    pub fn server(&self) -> &Server {
        &self.running.as_ref().unwrap().server
    }

    pub fn options(&self) -> Options {
        Options::new(Environment { clock: self.client_clock.clone(), ..Environment::real() })
    }

    pub async fn client(&self) -> Client {
        self.connect(self.options()).await
    }

    pub async fn connect(&self, options: Options) -> Client {
        Client::connect(&[self.proxy.address], options, None).await.unwrap()
    }

    pub async fn connect_with(&self, options: Options, callback: Arc<dyn Callback>) -> Client {
        Client::connect(&[self.proxy.address], options, Some(callback)).await.unwrap()
    }
}

/// The root of the volume.
pub async fn home(client: &Client) -> FileHandle {
    let request = [NfsArgOp::PutRootFh, lookup("home"), NfsArgOp::GetFh];
    let results = client.compound(&request).await.unwrap().into_results().unwrap();
    match results.into_iter().next_back() {
        Some(NfsResOp::GetFh(Outcome::Ok(handle))) => handle,
        other => panic!("{other:?}"),
    }
}

/// Fails with `NFS4ERR_EXIST` if it is done twice.
pub async fn make_directory(client: &Client, parent: &FileHandle, name: &str) -> Result<(), ClientError> {
    let request = [put_handle(parent), create(CreateType::Directory, name.to_owned(), 0o755)];
    client.compound(&request).await?.into_results().map(drop)
}

/// Waits until it is so.
pub async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}
