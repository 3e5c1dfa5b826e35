use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use environment::Environment;
use nfs4::{ChannelAttrs, Verifier};
use onc_rpc::tls::TlsClient;
use onc_rpc::{AuthSys, Credential, Network, Tcp};

/// How a [`Client`](crate::Client) presents itself, what it asks of the server, and how long it tries.
#[derive(Clone)]
pub struct Options {
    /// Time for leases and back-off, and random numbers for its spread.
    pub environment: Environment,
    /// The client's name, unique among the clients of a server; at most 1024 bytes. Whoever uses the name of another
    /// process takes its state away.
    pub owner: Bytes,
    /// Changes with every start of the program: with another one than before, the server drops the state of the former
    /// start.
    pub verifier: Verifier,
    /// What connections are made with, those by TLS excepted, which is over TCP always.
    pub network: Arc<dyn Network>,
    /// Connect by TLS (RFC 9289) only; `None`: in the clear.
    pub tls: Option<TlsClient>,
    /// Who makes the calls, and who owns the client id.
    pub credential: Credential,
    /// Minor versions of NFSv4 to try, the best first: 2 and 1.
    pub minor_versions: Vec<u32>,
    /// Connections that the one session uses at once (RFC 8881 §2.10.5); at least one.
    pub connections: usize,
    /// Compounds at once; the server may grant fewer.
    pub slots: u32,
    /// Largest request and largest reply in bytes, RPC headers included; the server may grant less.
    pub message_bytes: u32,
    /// Largest reply to a compound that changes something, in bytes: the server keeps it for a repetition. It may grant
    /// less.
    pub cached_response_bytes: u32,
    /// Most operations of a compound, SEQUENCE included; the server may grant fewer.
    pub operations: u32,
    /// How long a request may be unanswered before its connection is given up and it is sent again on another one.
    pub timeout: Duration,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// How long a compound may take in all, with everything that has to be repeated, established again and waited for.
    pub patience: Duration,
    /// Shortest and longest pause before something is tried again.
    pub back_off: RangeInclusive<Duration>,
}

impl Options {
    /// In the clear, root with AUTH_SYS, NFSv4.2 or 4.1, one connection, 64 slots, messages of a little more than 4 MiB;
    /// a new connection after half a minute, an error after five minutes. The owner is unique to this process: the
    /// machine's name, the process id and a random number.
    pub fn new(environment: Environment) -> Options {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let random = environment.entropy.next_u64();
        let verifier = Verifier(environment.entropy.next_u64().to_le_bytes());
        Options {
            owner: format!("{host}/{}/{random:016x}", std::process::id()).into(),
            environment,
            verifier,
            network: Arc::new(Tcp),
            tls: None,
            credential: Credential::Sys(AuthSys::new(0, 0)),
            minor_versions: vec![2, 1],
            connections: 1,
            slots: 64,
            message_bytes: (4 << 20) + (64 << 10),
            cached_response_bytes: 128 << 10,
            operations: 1024,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            patience: Duration::from_secs(300),
            back_off: Duration::from_millis(20)..=Duration::from_secs(5),
        }
    }

    pub(super) fn fore_channel(&self) -> ChannelAttrs {
        ChannelAttrs {
            header_pad_size: 0,
            max_request_size: self.message_bytes,
            max_response_size: self.message_bytes,
            max_response_size_cached: self.cached_response_bytes,
            max_operations: self.operations,
            max_requests: self.slots.max(1),
            rdma_ird: None,
        }
    }
}
