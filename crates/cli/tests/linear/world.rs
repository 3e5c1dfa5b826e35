//! What all clients have in common: the server, the clock, and when the server died.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use environment::Environment;
use nfs4_client::{ClientError, Options};
use tokio::sync::watch;

/// How long a client waits for one answer. The server is killed as soon as the others have done enough, so that one that is put
/// off in each grace period, and is late after it, may get nothing of many servers in a row.
const PATIENCE: Duration = Duration::from_secs(3600);

pub struct World {
    pub server: SocketAddr,
    /// Of each client.
    pub operations: usize,
    began: Instant,
    deaths: Mutex<Vec<Duration>>,
    done: watch::Sender<usize>,
    has_failed: AtomicBool,
    stay: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl World {
    pub fn new(server: SocketAddr, operations: usize) -> World {
        let (deaths, done) = (Mutex::default(), watch::Sender::new(0));
        let (has_failed, stay) = (AtomicBool::new(false), Mutex::default());
        World { server, operations, began: Instant::now(), deaths, done, has_failed, stay }
    }

    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// So many operations have ended.
    pub fn did(&self, operations: usize) {
        self.done.send_modify(|done| *done += operations);
    }

    /// A client has failed, and will do no more.
    pub fn fail(&self) {
        self.has_failed.store(true, SeqCst);
        self.did(0);
    }

    /// Waits until so many have; says whether no client has failed.
    pub async fn reached(&self, operations: usize) -> bool {
        let has_failed = || self.has_failed.load(SeqCst);
        self.done.subscribe().wait_for(|done| *done >= operations || has_failed()).await.unwrap();
        !has_failed()
    }

    /// A client that has come to its end. It stays until all have: a server that starts again waits for everybody it knew.
    pub fn keep(&self, client: impl Any + Send) {
        self.stay.lock().unwrap().push(Box::new(client));
    }

    /// Has the server killed. Whoever has lost an answer by that, and asks when, waits until it is dead.
    pub fn kill(&self, kill: impl FnOnce()) {
        let mut deaths = self.deaths.lock().unwrap();
        kill();
        deaths.push(self.now());
    }

    /// When the server was dead that lost the answer to a request sent at this time, of a client that lost so many answers until now, and has just
    /// learnt it: the request is done by then, or never. The last death, as a call that was put off may have outlived others.
    pub fn last_death(&self, called: Duration, lost: usize) -> Duration {
        let deaths = self.deaths.lock().unwrap();
        assert!(lost <= deaths.len(), "an answer is lost only with its server");
        // If there was none after it, it was sent to a server that was dead already.
        deaths.last().copied().unwrap_or(called).max(called)
    }

    /// A client of its own.
    pub async fn connect(&self, name: &str) -> nfs4_client::Client {
        let owner = name.to_owned().into();
        let options = Options { owner, patience: PATIENCE, ..Options::new(Environment::real()) };
        nfs4_client::Client::connect(&[self.server], options, None).await.unwrap()
    }

    /// The same for vectors, with something in memory or not; what is, is found by paths that are believed. Nobody changes directories.
    pub async fn connect_vectors(&self, name: &str, cache_bytes: u64) -> vector_client::Client {
        let entry_timeout = Duration::from_secs(600);
        let mut options =
            vector_client::Options { cache_bytes, entry_timeout, ..vector_client::Options::default() };
        options.nfs.owner = name.to_owned().into();
        options.nfs.patience = PATIENCE;
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
