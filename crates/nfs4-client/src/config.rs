use std::time::Duration;

use bytes::Bytes;
use nfs4::{ChannelAttrs, Verifier};
use onc_rpc::tls::TlsClient;
use onc_rpc::{AuthSys, Credential};

use crate::wire::Manner;

/// How a client presents itself, and what it asks of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The client's name, unique among the clients of a server; at most 1024 bytes.
    pub owner: Bytes,
    /// Changes with every start of the client; with another one than before, the server drops the state of the
    /// former start.
    pub verifier: Verifier,
    /// Connect by TLS (RFC 9289) only; `None`: in the clear.
    pub tls: Option<TlsClient>,
    /// Who makes the calls.
    pub credential: Credential,
    /// 1 for NFSv4.1, 2 for NFSv4.2.
    pub minor_version: u32,
    /// Compounds at once; the server may grant fewer.
    pub slots: u32,
    /// Largest request and largest reply in bytes, RPC headers included; the server may grant less.
    pub message_bytes: u32,
    /// Most operations of a compound, SEQUENCE included; the server may grant fewer.
    pub operations: u32,
    /// How long a compound may take once it has a slot.
    pub timeout: Duration,
    /// Whether to say RECLAIM_COMPLETE at once; without it the server refuses new state. Off only in order to
    /// reclaim state after a restart of the server.
    pub reclaim_complete: bool,
}

impl Config {
    /// In the clear, root with AUTH_SYS, NFSv4.2, 64 slots, messages of a little more than 4 MiB, half a minute.
    pub fn new(owner: impl Into<Bytes>, verifier: [u8; 8]) -> Config {
        Config {
            owner: owner.into(),
            verifier: Verifier(verifier),
            tls: None,
            credential: Credential::Sys(AuthSys::new(0, 0)),
            minor_version: 2,
            slots: 64,
            message_bytes: (4 << 20) + (64 << 10),
            operations: 256,
            timeout: Duration::from_secs(30),
            reclaim_complete: true,
        }
    }

    pub(crate) fn manner(&self) -> Manner<'_> {
        Manner { minor_version: self.minor_version, credential: &self.credential, timeout: self.timeout }
    }

    pub(crate) fn fore_channel(&self) -> ChannelAttrs {
        ChannelAttrs {
            header_pad_size: 0,
            max_request_size: self.message_bytes,
            max_response_size: self.message_bytes,
            max_response_size_cached: 16 << 10,
            max_operations: self.operations,
            max_requests: self.slots,
            rdma_ird: None,
        }
    }
}
