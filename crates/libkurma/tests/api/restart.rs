//! Servers that restart under a program.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use file_system::memory::MemoryFileSystem;
use ids::VolumeId;
use nfs4_server::{Export, Limits, MemoryClientRecords, Server, ServerConfig};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::silence::check;

/// A server that can be started again at the same address with the same files, and remembers who its clients were.
struct Restarting {
    /// Stays, so that nobody else gets the port; who connects between two servers waits for the second.
    listener: TcpListener,
    volume: Arc<MemoryFileSystem>,
    records: Arc<MemoryClientRecords>,
    running: Option<Runtime>,
}

impl Restarting {
    fn start() -> Restarting {
        let clock = Environment::real().clock;
        let volume = Arc::new(MemoryFileSystem::with(VolumeId(1), clock).writable_by_all());
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut server = Restarting { listener, volume, records: Arc::default(), running: None };
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
        let listener = self.listener.try_clone().unwrap();
        runtime.block_on(async {
            let server = Server::new(config).await.unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            tokio::spawn(async move { server.serve(listener, CancellationToken::new()).await.unwrap() });
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

fn check_restarts(case: &str) {
    let mut server = Restarting::start();
    let address = server.listener.local_addr().unwrap().to_string();
    check(case, &address, || server.restart());
}

#[test]
fn what_a_server_loses_in_a_restart_is_written_again() {
    check_restarts("what_a_server_loses_in_a_restart_is_written_again");
}

#[test]
fn a_copy_from_an_open_file_survives_a_restart_of_the_server() {
    check_restarts("a_copy_from_an_open_file_survives_a_restart_of_the_server");
}

#[test]
fn nothing_is_done_behind_data_that_turns_out_to_be_lost() {
    check_restarts("nothing_is_done_behind_data_that_turns_out_to_be_lost");
}

#[test]
fn after_a_restart_of_the_server_everything_is_as_true_as_before() {
    check_restarts("after_a_restart_of_the_server_everything_is_as_true_as_before");
}
