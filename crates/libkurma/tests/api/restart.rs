//! Servers that restart under a program.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use file_system::memory::MemoryFileSystem;
use ids::VolumeId;
use nfs4_server::{Export, Limits, MemoryClientRecords, Server, ServerConfig};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::silence::check;

/// A server that can be started again at the same address with the same files, and remembers who its clients were.
struct Restarting {
    address: SocketAddr,
    volume: Arc<MemoryFileSystem>,
    records: Arc<MemoryClientRecords>,
    running: Option<Runtime>,
}

impl Restarting {
    fn start() -> Restarting {
        let clock = Environment::real().clock;
        let volume = Arc::new(MemoryFileSystem::with(VolumeId(1), clock).writable_by_all());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Restarting { address: any, volume, records: Arc::default(), running: None };
        server.serve();
        server
    }

    fn serve(&mut self) {
        let runtime = Runtime::new().unwrap();
        let config = ServerConfig {
            exports: vec![Export::new("home", self.volume.clone())],
            handle_key: [3; 32],
            records: self.records.clone(),
            environment: Environment::real(),
            server_id: b"test".to_vec(),
            // Nobody waits for it: whoever holds something reclaims it.
            lease: Duration::from_secs(20),
            courtesy: ServerConfig::DEFAULT_COURTESY,
            delegations: true,
            limits: Limits::default(),
        };
        self.address = runtime.block_on(async {
            let server = Server::new(config).await.unwrap();
            let listener = listen(self.address);
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move { server.serve(listener, CancellationToken::new()).await.unwrap() });
            address
        });
        self.running = Some(runtime);
    }

    /// Ends it with all its connections, and starts it anew: what was not safe may be lost.
    fn restart(&mut self) {
        drop(self.running.take());
        self.volume.change_write_verifier();
        self.serve();
    }
}

/// Also where connections are that have just ended.
fn listen(address: SocketAddr) -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket.listen(64).unwrap()
}

#[test]
fn what_a_server_loses_in_a_restart_is_written_again() {
    let mut server = Restarting::start();
    let address = server.address.to_string();
    check("what_a_server_loses_in_a_restart_is_written_again", &address, || server.restart());
}
