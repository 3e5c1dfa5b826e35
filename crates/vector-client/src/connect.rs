use std::time::Duration;

use environment::Environment;

use crate::nfs::Nfs;
use crate::{Client, Error};

/// Bytes of data in one READ or WRITE, unless said otherwise.
const TRANSFER: usize = 1 << 20;

/// Bytes of memory for what was read, unless said otherwise.
const CACHE: u64 = 64 << 20;

/// How to connect.
#[derive(Clone)]
pub struct Options {
    /// The NFS client underneath: connections, credentials, limits.
    pub nfs: nfs4_client::Options,
    /// Most bytes of data in one READ or WRITE. A message is a little longer, or four times as long if it has more than one WRITE.
    pub transfer: usize,
    /// Whether to use what only Kurma has: transactions, and appending in one round trip.
    pub extensions: bool,
    /// Whether each compound that changes something is to be done whole or not at all (T1), and seen whole or not at all by others:
    /// a small file is there with its content, or it is not. What does not fit into one compound is several, and large copies
    /// within the server may be seen growing. [`Client::connect`] fails with a server that has no transactions.
    pub atomic: bool,
    /// Bytes of memory for what was read, names included (V35); 0 for none.
    pub cache_bytes: u64,
    /// How long a path is believed to lead to the file that it led to when the server was asked last, if the file is delegated to this client; then reading again
    /// what is kept costs no round trip. Changes of the file, its name included, are seen at once as ever; what others do to the directories
    /// above it may be seen that much later, as with the kernel's client, for which it is 30 s and more (`acdirmin`). Zero, the
    /// usual: each path is walked anew.
    pub entry_timeout: Duration,
}

impl Options {
    /// The usual ones, for a client of its own.
    pub fn new(environment: Environment) -> Options {
        let mut nfs = nfs4_client::Options::new(environment);
        nfs.operations = 1537;
        nfs.cached_response_bytes = 256 << 10;
        Options {
            nfs,
            transfer: TRANSFER,
            extensions: true,
            atomic: false,
            cache_bytes: CACHE,
            entry_timeout: Duration::ZERO,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::new(Environment::real())
    }
}

impl Client {
    /// Connects to a server: a host name or an address, with or without a port. Paths begin at its root. To be called on a
    /// tokio runtime, where the client's tasks run from then on.
    pub async fn connect(server: impl ToString, options: Options) -> Result<Client, Error> {
        Ok(Client::over(Nfs::connect(&server.to_string(), options).await?))
    }
}
