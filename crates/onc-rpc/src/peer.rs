use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use xdr::Encoder;

use crate::connection::prepare;
use crate::message::{Procedure, put_call, put_reply};
use crate::outbox::{CallPermit, Outbox};
use crate::record::LAST_FRAGMENT;
use crate::tls::TlsClient;
use crate::transport::{Input, Output};
use crate::{Connection, Credential, Limits, OpaqueAuth, Reply, RpcError, Service, Stream, Transport};

/// Room for the header of a reply or of a call with AUTH_SYS and few groups.
const HEADER_BYTES: usize = 128;

/// Names a connection within this process; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    fn next() -> ConnectionId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ConnectionId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The other side of a connection: what to call it with. Cheap to clone; does not keep the connection open.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
}

struct Shared {
    id: ConnectionId,
    address: SocketAddr,
    outbox: Outbox,
    /// Our calls that wait for a reply, by xid.
    waiting: Mutex<Waiting>,
    next_xid: AtomicU32,
    /// Bounds `waiting`.
    outgoing: Semaphore,
    closed: CancellationToken,
    /// Set once, before the first call, if it is not the default.
    transport: OnceLock<Transport>,
}

#[derive(Default)]
struct Waiting {
    calls: HashMap<u32, oneshot::Sender<Result<Bytes, RpcError>>>,
    closed: bool,
}

impl Peer {
    /// Connects to a server. `service` executes the calls the server makes back. The connection runs as a task
    /// of the present tokio runtime until it fails or is closed.
    pub async fn connect(
        address: impl ToSocketAddrs,
        service: Arc<dyn Service>,
        limits: Limits,
    ) -> Result<Peer, RpcError> {
        let connection = Connection::tcp(TcpStream::connect(address).await?, service, limits)?;
        Ok(Peer::spawn(connection))
    }

    /// The same over a stream that is open already.
    pub fn over(stream: Stream, service: Arc<dyn Service>, limits: Limits) -> Result<Peer, RpcError> {
        Ok(Peer::spawn(Connection::over(stream, service, limits)?))
    }

    /// By TLS (RFC 9289), to a server of this version of this program. Fails if the server does not agree, or
    /// is not who `tls` says; nothing but the request for TLS goes over the network in the clear.
    pub async fn connect_tls(
        address: impl ToSocketAddrs,
        service: Arc<dyn Service>,
        limits: Limits,
        tls: &TlsClient,
        program: u32,
        version: u32,
    ) -> Result<Peer, RpcError> {
        let stream = TcpStream::connect(address).await?;
        prepare(&stream)?;
        let address = stream.peer_addr()?;
        let (reader, writer) = stream.into_split();
        let stream = tokio::io::join(Input::Tcp(reader), Output::Tcp(writer));
        let (stream, server) = tls.connect(stream, program, version).await?;
        let (reader, writer) = tokio::io::split(stream);
        let connection = Connection::new(Box::new(reader), Box::new(writer), address, service, limits);
        connection.peer().set_transport(Transport::Tls(Arc::new(server)));
        Ok(Peer::spawn(connection))
    }

    fn spawn(connection: Connection) -> Peer {
        let peer = connection.peer().clone();
        tokio::spawn(async move {
            if let Err(error) = connection.run().await {
                tracing::debug!(%error, "connection to a server ended");
            }
        });
        peer
    }

    pub(crate) fn new(writer: Output, address: SocketAddr, limits: &Limits) -> Peer {
        let shared = Shared {
            id: ConnectionId::next(),
            address,
            outbox: Outbox::new(writer, limits.queued_bytes, limits.patience),
            waiting: Mutex::default(),
            next_xid: AtomicU32::new(1),
            outgoing: Semaphore::new(limits.outgoing_calls),
            closed: CancellationToken::new(),
            transport: OnceLock::new(),
        };
        Peer { shared: Arc::new(shared) }
    }

    /// Calls a procedure of the other side. `body` is the encoded arguments, a multiple of 4 bytes in all; the
    /// encoded results come back. `timeout` counts from now, waiting for [`Limits`] included.
    ///
    /// May be dropped at any time: the call may then be executed or not, like after [`RpcError::TimedOut`].
    pub async fn call(
        &self,
        procedure: Procedure,
        credential: &Credential,
        body: Vec<Bytes>,
        timeout: Duration,
    ) -> Result<Bytes, RpcError> {
        match tokio::time::timeout(timeout, self.call_now(procedure, credential, body)).await {
            Ok(result) => result,
            Err(_) => Err(RpcError::TimedOut),
        }
    }

    async fn call_now(
        &self,
        procedure: Procedure,
        credential: &Credential,
        body: Vec<Bytes>,
    ) -> Result<Bytes, RpcError> {
        let shared = &*self.shared;
        let _permit = shared.outgoing.acquire().await.map_err(|_| RpcError::Closed)?;
        shared.outbox.room().await;
        let (xid, reply) = self.register()?;
        // Forgets the call when this future is dropped.
        let _registration = Registration { shared, xid };
        let mut out = unmarked();
        put_call(&mut out, xid, procedure, credential);
        let header = marked(out, &body)?;
        shared.outbox.send(header, body, None);
        reply.await.unwrap_or(Err(RpcError::Closed))
    }

    fn register(&self) -> Result<(u32, oneshot::Receiver<Result<Bytes, RpcError>>), RpcError> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.shared.waiting.lock();
        if waiting.closed {
            return Err(RpcError::Closed);
        }
        loop {
            let xid = self.shared.next_xid.fetch_add(1, Ordering::Relaxed);
            // Taken only by a call that waits since the counter went round.
            if let Entry::Vacant(entry) = waiting.calls.entry(xid) {
                entry.insert(sender);
                return Ok((xid, receiver));
            }
        }
    }

    /// Where the other side is.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Names this connection.
    pub fn connection_id(&self) -> ConnectionId {
        self.shared.id
    }

    /// How the connection is protected. The same for all calls: TLS is begun before the first one.
    pub fn transport(&self) -> &Transport {
        self.shared.transport.get().unwrap_or(&Transport::Clear)
    }

    pub(crate) fn set_transport(&self, transport: Transport) {
        // Only who makes the connection calls this, once.
        let _ = self.shared.transport.set(transport);
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.is_cancelled()
    }

    /// Returns when the connection has ended.
    pub async fn closed(&self) {
        self.shared.closed.cancelled().await;
    }

    /// Ends the connection. Waiting calls fail with [`RpcError::Closed`], unwritten replies are lost.
    pub fn close(&self) {
        let shared = &*self.shared;
        shared.closed.cancel();
        shared.outgoing.close();
        shared.outbox.close();
        let mut waiting = shared.waiting.lock();
        waiting.closed = true;
        waiting.calls.clear();
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.shared.outbox
    }

    /// Hands a reply to the call that waits for it; if none does, it came too late or is made up.
    pub(crate) fn complete(&self, xid: u32, result: Result<Bytes, RpcError>) {
        let call = self.shared.waiting.lock().calls.remove(&xid);
        match call {
            Some(call) => drop(call.send(result)), // fails when the caller has just given up
            None => tracing::debug!(xid, peer = %self.shared.address, "reply to no call"),
        }
    }

    /// Sends a reply; `permit` is held until it is written.
    pub(crate) fn reply(&self, xid: u32, reply: Reply, verifier: &OpaqueAuth, permit: Option<CallPermit>) {
        let mut out = unmarked();
        let Some(body) = put_reply(&mut out, xid, reply, verifier) else { return };
        match marked(out, &body) {
            Ok(header) => self.shared.outbox.send(header, body, permit),
            Err(error) => {
                tracing::error!(%error, "reply dropped");
                self.reply(xid, Reply::SystemError, verifier, permit);
            }
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Peer({}, {})", self.shared.id.0, self.shared.address)
    }
}

struct Registration<'a> {
    shared: &'a Shared,
    xid: u32,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.shared.waiting.lock().calls.remove(&self.xid);
    }
}

/// Starts a message with room for its record mark.
fn unmarked() -> Encoder {
    let mut out = Encoder::with_capacity(HEADER_BYTES);
    out.put_u32(0);
    out
}

/// The header with its record mark filled in: `out` and `body` are one fragment (RFC 5531 §11).
fn marked(mut out: Encoder, body: &[Bytes]) -> Result<Bytes, RpcError> {
    let bytes = out.len() - 4 + body.iter().map(Bytes::len).sum::<usize>();
    match u32::try_from(bytes) {
        Ok(length) if length < LAST_FRAGMENT => out.patch_u32(0, length | LAST_FRAGMENT),
        _ => return Err(RpcError::MessageTooLarge { bytes }),
    }
    Ok(out.into_bytes())
}
