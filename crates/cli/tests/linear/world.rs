//! What all clients have in common: the server, the clock, and when the server died.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use environment::Environment;
use nfs4_client::{ClientError, Options};
use tokio::sync::watch;

pub struct World {
    pub server: SocketAddr,
    /// Of each client.
    pub operations: usize,
    began: Instant,
    deaths: Mutex<Vec<Duration>>,
    done: watch::Sender<usize>,
}

impl World {
    pub fn new(server: SocketAddr, operations: usize) -> World {
        let (deaths, done) = (Mutex::default(), watch::Sender::new(0));
        World { server, operations, began: Instant::now(), deaths, done }
    }

    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// So many operations have ended.
    pub fn did(&self, operations: usize) {
        self.done.send_modify(|done| *done += operations);
    }

    /// Waits until so many have.
    pub async fn reached(&self, operations: usize) {
        self.done.subscribe().wait_for(|done| *done >= operations).await.unwrap();
    }

    /// The server is dead now, and there is no other yet.
    pub fn died(&self) {
        self.deaths.lock().unwrap().push(self.now());
    }

    /// When the server died that had a request sent at this time: it is done by then, or never.
    pub fn death_after(&self, called: Duration) -> Duration {
        let deaths = self.deaths.lock().unwrap();
        let death = deaths.iter().find(|death| **death >= called);
        *death.expect("an answer is lost only with its server")
    }

    /// A client of its own.
    pub async fn connect(&self, name: &str) -> nfs4_client::Client {
        let options = Options { owner: name.to_owned().into(), ..Options::new(Environment::real()) };
        nfs4_client::Client::connect(&[self.server], options, None).await.unwrap()
    }

    /// The same for vectors.
    pub async fn connect_vectors(&self, name: &str, cache_bytes: u64) -> vector_client::Client {
        let mut options = vector_client::Options { cache_bytes, ..vector_client::Options::default() };
        options.nfs.owner = name.to_owned().into();
        vector_client::Client::connect(self.server, options).await.unwrap()
    }
}

/// The result of a call; nothing if its answer is lost.
pub fn unless_lost<T>(result: Result<T, ClientError>) -> Option<Result<T, ClientError>> {
    match result {
        Err(ClientError::Unknown) => None,
        result => Some(result),
    }
}
