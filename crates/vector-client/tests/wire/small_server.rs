use std::net::SocketAddr;
use std::sync::Arc;

use environment::Environment;
use file_system::memory::MemoryFileSystem;
use ids::VolumeId;
use nfs4_server::{Export, Server, ServerConfig};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A server in this process that keeps its files in memory, and has room for so many bytes of them. One export, `/home`.
pub struct SmallServer {
    pub address: SocketAddr,
    _stop: DropGuard,
}

impl SmallServer {
    /// Serves on the runtime that this is called on.
    pub async fn start(room: u64) -> SmallServer {
        let environment = Environment::real();
        let clock = environment.clock.clone();
        let files = MemoryFileSystem::with_room(VolumeId(1), clock, room).writable_by_all();
        let exports = vec![Export::new("home", Arc::new(files))];
        let server = Server::new(ServerConfig::in_memory(exports, environment)).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move { server.serve(listener, stopped).await.unwrap() });
        SmallServer { address, _stop: stop.drop_guard() }
    }
}
