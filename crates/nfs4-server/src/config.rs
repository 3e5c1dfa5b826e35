//! What a server is made from.

use std::sync::Arc;
use std::time::Duration;

use environment::Environment;

use crate::{ClientRecords, Export, Limits, MemoryClientRecords, RecordsError};

/// Everything a [`Server`](crate::Server) needs.
pub struct ServerConfig {
    /// The volumes, each under a name of its own.
    pub exports: Vec<Export>,
    /// Authenticates filehandles: the same after every restart, or all handles go bad (decision D10).
    pub handle_key: [u8; 32],
    /// Which clients may reclaim after a restart.
    pub records: Arc<dyn ClientRecords>,
    /// Time and randomness.
    pub environment: Environment,
    /// How the server names itself to clients (1 to 1,024 bytes): the same after every restart, different from
    /// that of every other server.
    pub server_id: Vec<u8>,
    /// How long a client may be silent before it can lose what it holds: 10 seconds to an hour.
    pub lease: Duration,
    /// How long a client that was silent for longer keeps what it holds if nobody else wants it.
    pub courtesy: Duration,
    /// Whether files are delegated to clients that can be called back.
    pub delegations: bool,
    /// Bounds on what clients may have.
    pub limits: Limits,
}

impl ServerConfig {
    /// 90 seconds.
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(90);
    /// One day.
    pub const DEFAULT_COURTESY: Duration = Duration::from_secs(24 * 3600);
    /// Leases that make sense: shorter ones flood the network with renewals, longer ones make every restart long.
    pub const LEASES: std::ops::RangeInclusive<Duration> =
        Duration::from_secs(10)..=Duration::from_secs(3600);

    /// A server that remembers nothing over a restart, with all else as usual: for tests and examples, which change
    /// what they care about. Its handles are not secret.
    pub fn in_memory(exports: Vec<Export>, environment: Environment) -> ServerConfig {
        ServerConfig {
            exports,
            handle_key: [3; 32],
            records: Arc::new(MemoryClientRecords::default()),
            environment,
            server_id: b"in memory".to_vec(),
            lease: Self::DEFAULT_LEASE,
            courtesy: Self::DEFAULT_COURTESY,
            delegations: true,
            limits: Limits::default(),
        }
    }
}

/// Why a server cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The export's name cannot be a name in the pseudo root.
    #[error("export name {0:?} is not usable: 1 to 255 bytes without '/', neither '.' nor '..'")]
    ExportName(String),
    /// Two exports have one name, or are one volume.
    #[error("export {0:?} appears twice; give each volume one name")]
    DuplicateExport(String),
    /// The lease time is out of range.
    #[error("a lease of {0:?} is outside of 10 s to 1 h")]
    Lease(Duration),
    /// The server's name for itself is empty or too long.
    #[error("the server id has {0} bytes; it must have 1 to 1024")]
    ServerId(usize),
    /// The client records could not be read or changed.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The listening socket failed.
    #[error("cannot accept connections: {0}")]
    Accept(#[from] std::io::Error),
}
