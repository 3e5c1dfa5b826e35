//! A server with a clock that only moves when told, and what outlives its restarts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::{Clock, Environment};
use file_system::memory::MemoryFileSystem;
use file_system::{Caller, CommitMode, FileSystem, Mode, Name, OpenCreate, SetAttributes};
use ids::{Timestamp, VolumeId};
use nfs4_server::{Census, ClientRecords, Export, Limits, MemoryClientRecords, Server, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::conflicting::Conflicting;

pub const LEASE: Duration = Duration::from_secs(90);
pub const COURTESY: Duration = Duration::from_secs(900);

/// How long the server's housekeeping sleeps, and its review of client records; nothing else sleeps so long.
const TICKS: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(999)];

/// Stands still until it is moved, and knows when the server's housekeeping has seen that.
struct ManualClock {
    now: watch::Sender<Duration>,
    /// When each of these went to sleep for the last time.
    asleep_since: watch::Sender<[Duration; 2]>,
}

#[async_trait]
impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        Timestamp { seconds: 1_000_000 + self.now.borrow().as_secs() as i64, nanos: 0 }
    }

    fn monotonic(&self) -> Duration {
        *self.now.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let now = *self.now.borrow();
        if let Some(sleeper) = TICKS.iter().position(|tick| *tick == duration) {
            self.asleep_since.send_modify(|since| since[sleeper] = now);
        }
        let until = now + duration;
        // The sender is this clock, which is borrowed.
        self.now.subscribe().wait_for(|now| *now >= until).await.expect("the clock lives");
    }
}

pub struct World {
    clock: Arc<ManualClock>,
    pub volume: Arc<Conflicting>,
    records: Arc<MemoryClientRecords>,
    running: Option<Running>,
}

struct Running {
    address: SocketAddr,
    server: Server,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl World {
    /// A volume with these files, which everybody may read and write.
    pub async fn start(files: &[&str]) -> World {
        let start = Duration::from_secs(1);
        let clock = ManualClock { now: watch::Sender::new(start), asleep_since: watch::Sender::default() };
        let clock = Arc::new(clock);
        let volume = Arc::new(MemoryFileSystem::with(VolumeId(1), clock.clone()).writable_by_all());
        let mut transaction = volume.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
        let root = transaction.root();
        let everybody = SetAttributes::with_mode(0o777);
        for file in files {
            let name = Name::new(Bytes::copy_from_slice(file.as_bytes())).unwrap();
            transaction.open_create(root, &name, OpenCreate::Guarded, &everybody).await.unwrap();
        }
        transaction.commit(CommitMode::Durable).await.unwrap();
        let volume = Arc::new(Conflicting::new(volume));
        let mut world = World { clock, volume, records: Arc::default(), running: None };
        world.running = Some(world.serve().await);
        world
    }

    async fn serve(&self) -> Running {
        let exports = vec![Export::new("home", self.volume.clone())];
        let environment = Environment { clock: self.clock.clone(), ..Environment::real() };
        let config = ServerConfig {
            records: self.records.clone(),
            lease: LEASE,
            courtesy: COURTESY,
            // Whoever meets a delegation is told to come again, at once.
            limits: Limits { waiting_for_returns: 0, ..Limits::default() },
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

    pub async fn restart(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.cancel();
            running.task.await.unwrap();
        }
        // The housekeeping of the next one has not slept yet.
        self.clock.asleep_since.send_replace([Duration::ZERO; 2]);
        self.running = Some(self.serve().await);
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs but for a moment")
    }

    pub fn address(&self) -> SocketAddr {
        self.running().address
    }

    pub fn census(&self) -> Census {
        self.running().server.metrics().census
    }

    /// Owner ids of the clients that may reclaim after a restart.
    pub async fn records(&self) -> Vec<Vec<u8>> {
        self.records.load().await.unwrap()
    }

    pub fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Lets time go by (a tick at least), and the server take notice.
    pub async fn pass(&self, time: Duration) {
        assert!(time >= TICKS[0], "too short for the housekeeping to see it");
        // It has begun to sleep before the clock moves.
        let mut asleep = self.clock.asleep_since.subscribe();
        let now = self.now();
        asleep.wait_for(|since| *since == [now; 2]).await.unwrap();
        self.clock.now.send_modify(|now| *now += time);
        asleep.wait_for(|since| *since == [now + time; 2]).await.unwrap();
    }
}
