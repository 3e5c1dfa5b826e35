//! A server that can be stopped and started; what it stores stays.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, Environment};
use file_system::memory::MemoryFileSystem;
use file_system::{Authority, Caller, CommitMode, FileSystem, Mode, SetAttributes};
use ids::{Timestamp, VolumeId};
use nfs4_server::{Export, Limits, MemoryClientRecords, Server, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vector_client::{Client, Failure, Options};

/// Of the server.
pub const LEASE: Duration = Duration::from_secs(20);

pub struct Restarting {
    address: SocketAddr,
    volume: Arc<MemoryFileSystem>,
    records: Arc<MemoryClientRecords>,
    running: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Restarting {
    pub async fn start() -> Restarting {
        Restarting::start_with(Environment::real().clock).await
    }

    /// Files to which the same is done have the same `change`.
    pub async fn start_at_one_instant() -> Restarting {
        Restarting::start_with(Arc::new(Stopped)).await
    }

    async fn start_with(clock: Arc<dyn Clock>) -> Restarting {
        let volume = Arc::new(MemoryFileSystem::with(VolumeId(1), clock));
        let mut transaction = volume.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
        let root = transaction.root();
        let mode = SetAttributes::with_mode(0o777);
        transaction.set_attributes(root, &mode, Authority::Checked).await.unwrap();
        transaction.commit(CommitMode::Durable).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut world = Restarting { address, volume, records: Arc::default(), running: None };
        world.serve(listener).await;
        world
    }

    async fn serve(&mut self, listener: TcpListener) {
        let server = Server::new(ServerConfig {
            exports: vec![Export::new("home", self.volume.clone())],
            handle_key: [3; 32],
            records: self.records.clone(),
            environment: Environment::real(),
            server_id: b"test".to_vec(),
            // Nobody waits for it: whoever holds something reclaims it.
            lease: LEASE,
            courtesy: ServerConfig::DEFAULT_COURTESY,
            delegations: true,
            limits: Limits::default(),
        })
        .await
        .unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { server.serve(listener, stopped).await.unwrap() });
        self.running = Some((stop, task));
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }

    /// To be called while the server is stopped: it says that what was not safe may be lost.
    pub fn lose(&self) {
        self.volume.change_write_verifier();
    }

    pub async fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            task.await.unwrap();
        }
    }

    pub async fn start_again(&mut self) {
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        self.serve(listener).await;
    }

    pub async fn client(&self) -> Client {
        self.client_with(|_| {}).await
    }

    pub async fn client_with(&self, change: impl FnOnce(&mut Options)) -> Client {
        let mut options = Options::default();
        change(&mut options);
        Client::connect(self.address, options).await.unwrap()
    }
}

impl Drop for Restarting {
    fn drop(&mut self) {
        if let Some((stop, _)) = self.running.take() {
            stop.cancel();
        }
    }
}

/// What came of a call, which is made again as long as that is unknown: the server was stopped while it was on its way.
pub async fn known<T, D>(mut call: impl AsyncFnMut() -> Result<T, Failure<D>>) -> Result<T, Failure<D>> {
    loop {
        match call().await {
            Err(failure) if failure.error.is_unknown() => {}
            known => return known,
        }
    }
}

/// Time that stands still.
struct Stopped;

#[async_trait::async_trait]
impl Clock for Stopped {
    fn wall(&self) -> Timestamp {
        Timestamp { seconds: 1_000_000, nanos: 0 }
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }
}
