//! Where the calls are tried: a server over a file system in memory, and a directory of this machine; with KURMA_SERVER=ganesha
//! a server of that make, where a test has nothing that it lacks.

#[path = "../wire/ganesha_server.rs"]
pub mod ganesha_server;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use environment::Environment;
use file_system::memory::MemoryFileSystem;
use ids::VolumeId;
use nfs4_server::{Export, Limits, Server, ServerConfig};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use vector_client::{Client, Options, Statistics};

use ganesha_server::Ganesha;

/// Operations that Ganesha takes at once at the least, whatever it grants.
const GANESHA_OPERATIONS: u64 = 50;

/// A server, with volumes that everybody may write to.
pub async fn server_of(names: &[&str], limits: Limits, stop: CancellationToken) -> SocketAddr {
    started(names, limits, stop).await.0
}

async fn started(names: &[&str], limits: Limits, stop: CancellationToken) -> (SocketAddr, Server) {
    let environment = Environment::real();
    let volume = |n| MemoryFileSystem::with(VolumeId(n), environment.clock.clone()).writable_by_all();
    let exports = names.iter().zip(1..).map(|(name, n)| Export::new(*name, Arc::new(volume(n)))).collect();
    let config = ServerConfig { limits, ..ServerConfig::in_memory(exports, environment) };
    let server = Server::new(config).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, stop).await.unwrap() });
    (address, server)
}

/// A client, and the files it has to itself: all below `/home`.
pub struct World {
    pub client: Client,
    back_end: BackEnd,
}

enum BackEnd {
    Nfs { address: SocketAddr, server: Server, _stop: DropGuard },
    Ganesha(Ganesha),
    Local(TempDir),
}

impl World {
    /// One over NFS.
    pub async fn new() -> World {
        World::with(Limits::default(), |_| {}).await
    }

    /// One over NFS.
    pub async fn with(limits: Limits, change: impl FnOnce(&mut Options)) -> World {
        let stop = CancellationToken::new();
        let (address, server) = started(&["home"], limits, stop.clone()).await;
        let mut options = Options::default();
        change(&mut options);
        let client = Client::connect(address, options).await.unwrap();
        World { client, back_end: BackEnd::Nfs { address, server, _stop: stop.drop_guard() } }
    }

    /// One in a directory of this machine.
    pub fn local() -> World {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        for (path, mode) in [(directory.path(), 0o755), (&home, 0o777)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        World { client: Client::local(directory.path()).unwrap(), back_end: BackEnd::Local(directory) }
    }

    /// One over NFS, with a server of another make: it has neither COPY nor appends, and no file of more than 2 MiB.
    async fn ganesha() -> World {
        let server = Ganesha::start().await;
        let client = Client::connect(server.address, Options::default()).await.unwrap();
        World { client, back_end: BackEnd::Ganesha(server) }
    }

    /// One of each kind, or the one that is wanted.
    pub async fn each() -> Vec<World> {
        match std::env::var("KURMA_SERVER").as_deref() {
            Ok("ganesha") => vec![World::ganesha().await],
            Ok(other) => panic!("KURMA_SERVER may be ganesha: {other}"),
            Err(_) => World::of_ours().await.into(),
        }
    }

    /// One of each kind that can do everything.
    pub async fn of_ours() -> [World; 2] {
        [World::new().await, World::local()]
    }

    /// The one over NFS of [`World::each`].
    pub async fn over_nfs() -> World {
        World::each().await.swap_remove(0)
    }

    pub fn is_nfs(&self) -> bool {
        self.address().is_some()
    }

    pub fn is_ganesha(&self) -> bool {
        matches!(self.back_end, BackEnd::Ganesha(_))
    }

    /// Where the server is.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.back_end {
            BackEnd::Nfs { address, .. } => Some(*address),
            BackEnd::Ganesha(server) => Some(server.address),
            BackEnd::Local(_) => None,
        }
    }

    /// Files that clients have open, as the server says that can be asked.
    pub fn opens(&self) -> Option<usize> {
        match &self.back_end {
            BackEnd::Nfs { server, .. } => Some(server.metrics().census.opens),
            _ => None,
        }
    }

    /// Who makes the calls.
    pub fn user(&self) -> u32 {
        if self.is_nfs() { 0 } else { rustix::process::getuid().as_raw() }
    }

    /// The directory of the machine that is the root.
    pub fn directory(&self) -> Option<&Path> {
        match &self.back_end {
            BackEnd::Local(directory) => Some(directory.path()),
            _ => None,
        }
    }

    /// Another client of the same files.
    pub async fn another(&self) -> Client {
        match &self.back_end {
            BackEnd::Local(directory) => Client::local(directory.path()).unwrap(),
            _ => self.another_with(|_| {}).await,
        }
    }

    /// Another client of the same server.
    pub async fn another_with(&self, change: impl FnOnce(&mut Options)) -> Client {
        let mut options = Options::default();
        change(&mut options);
        Client::connect(self.address().unwrap(), options).await.unwrap()
    }

    /// What `call` sent: round trips.
    pub async fn round_trips<T>(&self, call: impl Future<Output = T>) -> (T, u64) {
        let before = self.client.statistics();
        let result = call.await;
        let Statistics { round_trips, .. } = self.client.statistics();
        (result, round_trips - before.round_trips)
    }

    /// What comes of `call`, which sends `round_trips` requests if there is a server to send any to.
    pub async fn costing<T>(&self, round_trips: u64, call: impl Future<Output = T>) -> T {
        self.costing_one_of(round_trips..=round_trips, call).await
    }

    /// What comes of `call`, which sends so many requests if there is a server to send any to; more, if that takes fewer
    /// operations at once.
    pub async fn costing_one_of<T>(
        &self,
        round_trips: RangeInclusive<u64>,
        call: impl Future<Output = T>,
    ) -> T {
        let before = self.client.statistics().operations;
        let (result, sent) = self.round_trips(call).await;
        let operations = self.client.statistics().operations - before;
        let expected = match &self.back_end {
            BackEnd::Nfs { .. } => round_trips,
            BackEnd::Ganesha(_) => *round_trips.start()..=round_trips.end() + operations / GANESHA_OPERATIONS,
            BackEnd::Local(_) => 0..=0,
        };
        assert!(expected.contains(&sent), "{sent} round trips, not {expected:?}");
        result
    }
}

impl Drop for World {
    #[allow(clippy::print_stderr)] // which of several it was
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with files {}", if self.is_nfs() { "over NFS" } else { "of this machine" });
        }
    }
}
