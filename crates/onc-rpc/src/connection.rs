use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::budget::{Account, Charge};
use crate::complaints::{Complaint, Line, may_tell};
use crate::gss::{GssServer, Sealed, Verdict};
use crate::message::Message;
use crate::outbox::CallPermit;
use crate::record::{Record, RecordReader};
use crate::tls::{self, AUTH_TLS};
use crate::transport::{Input, Output};
use crate::{
    AuthStatus, Budget, Call, Credential, Limits, OpaqueAuth, Peer, Reply, RpcError, Security, Service,
    Stream, Transport,
};

/// Bytes of a record that one permit of the connection's own byte budget stands for.
const PERMIT_BYTES: usize = 1024;

/// What a call takes at least of the [`Budget`].
const CALL_BYTES: usize = 4 << 10;

/// After this long without a word the other side is asked whether it is still there, so that the connections
/// of vanished machines end.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// One connection, to be [run](Self::run) as a task. Its [`Peer`] is valid from the start.
pub struct Connection {
    reader: RecordReader<Input>,
    dispatcher: Dispatcher,
    security: Security,
    limits: Limits,
}

/// What turns records into tasks.
struct Dispatcher {
    peer: Peer,
    service: Arc<dyn Service>,
    calls: Arc<Semaphore>,
    call_bytes: Arc<Semaphore>,
    all_call_bytes: u32,
    account: Arc<Account>,
    patience: Duration,
}

impl Connection {
    /// Over a TCP stream, which is set to send small messages at once and to notice a vanished peer.
    pub fn tcp(stream: TcpStream, service: Arc<dyn Service>, limits: Limits) -> Result<Connection, RpcError> {
        prepare(&stream)?;
        let address = stream.peer_addr()?;
        let (reader, writer) = stream.into_split();
        Ok(Connection::assemble(Input::Tcp(reader), Output::Tcp(writer), address, service, limits))
    }

    /// Over a stream of either kind.
    pub fn over(stream: Stream, service: Arc<dyn Service>, limits: Limits) -> Result<Connection, RpcError> {
        match stream {
            Stream::Tcp(stream) => Connection::tcp(stream, service, limits),
            Stream::Other { reader, writer, address } => {
                Ok(Connection::new(reader, writer, address, service, limits))
            }
        }
    }

    /// Over any reliable byte stream that is connected to `address`.
    pub fn new(
        reader: Box<dyn AsyncRead + Send + Unpin>,
        writer: Box<dyn AsyncWrite + Send + Unpin>,
        address: SocketAddr,
        service: Arc<dyn Service>,
        limits: Limits,
    ) -> Connection {
        Connection::assemble(Input::Other(reader), Output::Other(writer), address, service, limits)
    }

    fn assemble(
        reader: Input,
        writer: Output,
        address: SocketAddr,
        service: Arc<dyn Service>,
        limits: Limits,
    ) -> Connection {
        let account = Account::new(None, address.ip());
        let all_call_bytes = limits.call_bytes.div_ceil(PERMIT_BYTES).clamp(1, u32::MAX as usize >> 3);
        let dispatcher = Dispatcher {
            peer: Peer::new(writer, address, &limits),
            service,
            calls: Arc::new(Semaphore::new(limits.calls)),
            call_bytes: Arc::new(Semaphore::new(all_call_bytes)),
            all_call_bytes: all_call_bytes as u32,
            account: account.clone(),
            patience: limits.patience,
        };
        let reader = RecordReader::new(reader, &limits, account);
        Connection { reader, dispatcher, security: Security::default(), limits }
    }

    /// The same, with what a server offers and demands. TLS can be begun over [`tcp`](Self::tcp) only.
    #[must_use]
    pub fn with_security(mut self, security: &Security) -> Connection {
        self.security = security.clone();
        self
    }

    /// The same, with its requests and replies counted in `budget`.
    #[must_use]
    pub fn with_budget(mut self, budget: &Budget) -> Connection {
        let account = Account::new(Some(budget.clone()), self.peer().address().ip());
        self.reader.count_in(account.clone());
        self.dispatcher.account = account;
        self
    }

    /// The other side.
    pub fn peer(&self) -> &Peer {
        &self.dispatcher.peer
    }

    /// Serves the connection until it ends. `Ok` when the other side ended it between two records or
    /// [`Peer::close`] was called. Calls that are executing then go on; their replies are lost.
    pub async fn run(mut self) -> Result<(), RpcError> {
        let peer = self.dispatcher.peer.clone();
        tokio::select! {
            result = self.read() => result,
            error = peer.outbox().drive() => Err(error),
            () = peer.closed() => Ok(()),
        }
    }

    async fn read(&mut self) -> Result<(), RpcError> {
        let mut first = true;
        loop {
            self.dispatcher.peer.outbox().room().await;
            let Some(Record { data, charge }) = self.reader.next().await? else { return Ok(()) };
            let bytes = data.len();
            match Message::parse(data)? {
                Message::Call(call) if is_for_tls(&call) => self.begin_tls(call, first).await?,
                Message::Call(call) => self.call(call, None, bytes, charge).await?,
                Message::GssCall { call, header } => {
                    let gss = self.security.gss.clone().map(|server| GssCall { server, header });
                    self.call(call, gss, bytes, charge).await?;
                }
                Message::Refused { xid, reply } => self.dispatcher.answer(xid, reply),
                Message::Reply { xid, result } => self.dispatcher.peer.complete(xid, result),
            }
            first = false;
        }
    }

    async fn call(
        &mut self,
        call: Call,
        gss: Option<GssCall>,
        bytes: usize,
        charge: Charge,
    ) -> Result<(), RpcError> {
        let dispatcher = &self.dispatcher;
        if self.security.tls_required && call.procedure != 0 && dispatcher.peer.transport().tls().is_none() {
            let client = dispatcher.peer.address();
            if let Some(Line { suppressed }) = may_tell(client.ip(), Complaint::ClearText, &"") {
                tracing::warn!(%client, suppressed, "call refused: in clear text, and TLS is required");
            }
            dispatcher.answer(call.xid, Reply::AuthError(AuthStatus::TooWeak));
            return Ok(());
        }
        let permit = dispatcher.admit(&call, bytes, charge).await?;
        dispatcher.execute(call, gss, permit, !self.reader.has_more()).await;
        Ok(())
    }

    /// The client asks for TLS (RFC 9289 §4.1). It may as its first call only, so that all calls of a connection are
    /// protected or none is.
    async fn begin_tls(&mut self, call: Call, first: bool) -> Result<(), RpcError> {
        let peer = self.dispatcher.peer.clone();
        let refusal = match &self.security.tls {
            None => Err("TLS is not configured"),
            Some(_) if peer.transport().tls().is_some() => Err("the connection is TLS already"),
            Some(_) if !first => Err("other calls came before"),
            Some(_) if !tls::is_probe(&call) => Err("it is not an empty call of NULL"),
            Some(tls) => Ok(tls.clone()),
        };
        let tls = match refusal {
            Ok(tls) => tls,
            Err(reason) => {
                let client = peer.address();
                if let Some(Line { suppressed }) = may_tell(client.ip(), Complaint::TlsRequest, &reason) {
                    tracing::info!(%client, reason, suppressed, "request for TLS refused");
                }
                self.dispatcher.answer(call.xid, Reply::AuthError(AuthStatus::BadCredential));
                return Ok(());
            }
        };
        let result = self.shake_hands(&tls, call.xid).await;
        match &result {
            Ok(()) => match peer.transport().tls().and_then(|tls| tls.certificate.as_ref()) {
                Some(certificate) => tracing::debug!(client = %peer.address(), %certificate, "TLS begun"),
                None => tracing::debug!(client = %peer.address(), "TLS begun without a client certificate"),
            },
            Err(error) => {
                let client = peer.address();
                if let Some(Line { suppressed }) = may_tell(client.ip(), Complaint::Handshake, error) {
                    tracing::warn!(%client, %error, suppressed, "client refused: no TLS");
                }
            }
        }
        result
    }

    async fn shake_hands(&mut self, tls: &tls::TlsServer, xid: u32) -> Result<(), RpcError> {
        let peer = &self.dispatcher.peer;
        let nothing = Input::Other(Box::new(tokio::io::empty()));
        let nothing = RecordReader::new(nothing, &self.limits, self.dispatcher.account.clone());
        let reader =
            std::mem::replace(&mut self.reader, nothing).into_stream().ok_or(RpcError::TlsInjection)?;
        peer.outbox().send(tls::put_accepted(xid), Vec::new(), None);
        // The first few bytes of a connection are written at once; nothing was sent before.
        let writer = peer.outbox().take_writer().ok_or(RpcError::Closed)?;
        let (Input::Tcp(reader), Output::Tcp(writer)) = (reader, writer) else {
            return Err(RpcError::TlsUnavailable);
        };
        let stream = reader.reunite(writer).map_err(|_| RpcError::TlsUnavailable)?;
        let (stream, client) = tls.accept(stream).await?;
        peer.set_transport(Transport::Tls(Arc::new(client)));
        let (reader, writer) = tokio::io::split(stream);
        let account = self.dispatcher.account.clone();
        self.reader = RecordReader::new(Input::Other(Box::new(reader)), &self.limits, account);
        peer.outbox().go_on(Output::Other(Box::new(writer)));
        Ok(())
    }
}

/// Whether a call asks for TLS, rightly or not.
fn is_for_tls(call: &Call) -> bool {
    matches!(&call.credential, Credential::Other(raw) if raw.flavor == AUTH_TLS)
}

/// What a call by RPCSEC_GSS needs besides.
struct GssCall {
    server: Arc<GssServer>,
    header: bytes::Bytes,
}

/// Sends small messages at once, and notices a vanished peer.
pub(crate) fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.dispatcher.peer.close();
    }
}

impl Dispatcher {
    /// Answers a call that is not executed.
    fn answer(&self, xid: u32, reply: Reply) {
        self.peer.reply(xid, reply, &OpaqueAuth::default(), None);
    }

    /// Waits until a call with a record of `bytes` bytes may execute.
    async fn admit(&self, call: &Call, bytes: usize, mut charge: Charge) -> Result<CallPermit, RpcError> {
        let unpaid = CALL_BYTES.saturating_sub(charge.bytes()) + self.service.reply_bytes(call);
        if charge.bytes() == 0 {
            charge.grow(unpaid).await;
        } else {
            // Not without end: the request is held meanwhile, perhaps by all who wait.
            tokio::time::timeout(self.patience, charge.grow(unpaid)).await.map_err(|_| RpcError::NoMemory)?;
        }
        let bytes = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX).min(self.all_call_bytes);
        let closed = |_| RpcError::Closed;
        Ok(CallPermit {
            _count: self.calls.clone().acquire_owned().await.map_err(closed)?,
            _bytes: self.call_bytes.clone().acquire_many_owned(bytes).await.map_err(closed)?,
            charge,
        })
    }

    /// Starts a call. When nothing else has arrived it is tried here first: one that needs to wait for nothing is
    /// then answered without the detour over another task. What is answered while others that have arrived are still to be tried
    /// is sent with their answers.
    async fn execute(&self, call: Call, gss: Option<GssCall>, permit: CallPermit, alone: bool) {
        let mut execution =
            Execution { xid: call.xid, peer: self.peer.clone(), permit: Some(permit), sealed: None };
        let service = self.service.clone();
        let task = async move {
            let call = match gss {
                None => call,
                Some(gss) => match gss.server.open(call, &gss.header, &execution.peer).await {
                    Verdict::Execute(call, sealed) => {
                        execution.sealed = Some(sealed);
                        call
                    }
                    Verdict::Answer(reply, verifier) => return execution.send(reply, &verifier),
                },
            };
            let reply = service.call(call, &execution.peer).await;
            execution.finish(reply);
        };
        let together = Together::new(&self.peer);
        if !alone {
            tokio::spawn(async move {
                let (mut task, mut together) = (std::pin::pin!(task), Some(together));
                let tried = std::future::poll_fn(|context| {
                    let polled = task.as_mut().poll(context);
                    together = None;
                    polled
                });
                tried.await;
            });
            return;
        }
        let mut task = Box::pin(task);
        let attempt = std::future::poll_fn(|context| {
            // A panic ends the call, as it does in a task of its own, and not the connection.
            let attempt = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context)));
            Poll::Ready(attempt.unwrap_or(Poll::Ready(())))
        });
        let attempted = attempt.await;
        drop(together);
        if attempted.is_pending() {
            tokio::spawn(task);
        }
    }
}

/// A call that has arrived and was not tried yet: answers of its connection may wait for its own.
struct Together(Peer);

impl Together {
    fn new(peer: &Peer) -> Together {
        peer.outbox().hold();
        Together(peer.clone())
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        self.0.outbox().let_go();
    }
}

/// A call in progress; answers with a system error if it is dropped unfinished, as after a panic.
struct Execution {
    xid: u32,
    peer: Peer,
    permit: Option<CallPermit>,
    /// How to protect the reply, if the call was.
    sealed: Option<Sealed>,
}

impl Execution {
    fn finish(mut self, reply: Reply) {
        self.seal(reply);
    }

    fn seal(&mut self, reply: Reply) {
        match self.sealed.take() {
            None => self.send(reply, &OpaqueAuth::default()),
            Some(sealed) => {
                let (reply, verifier) = sealed.seal(reply);
                self.send(reply, &verifier);
            }
        }
    }

    fn send(&mut self, reply: Reply, verifier: &OpaqueAuth) {
        if let Some(mut permit) = self.permit.take() {
            if let Reply::Success(segments) = &reply {
                let bytes = segments.iter().map(bytes::Bytes::len).sum::<usize>();
                permit.charge.set(bytes.max(CALL_BYTES));
            }
            self.peer.reply(self.xid, reply, verifier, Some(permit));
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if self.permit.is_some() {
            self.seal(Reply::SystemError);
        }
    }
}

/// Serves an accepted TCP stream until it ends, see [`Connection::run`]. `on_open` gets the peer before its
/// first call.
pub async fn serve_connection(
    stream: TcpStream,
    service: Arc<dyn Service>,
    limits: Limits,
    on_open: impl FnOnce(&Peer),
) -> Result<(), RpcError> {
    let connection = Connection::tcp(stream, service, limits)?;
    on_open(connection.peer());
    connection.run().await
}
