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
use crate::message::Message;
use crate::outbox::CallPermit;
use crate::record::{Record, RecordReader};
use crate::{Budget, Call, Limits, Peer, Reply, RpcError, Service};

/// Bytes of a record that one permit of the connection's own byte budget stands for.
const PERMIT_BYTES: usize = 1024;

/// What a call takes at least of the [`Budget`].
const CALL_BYTES: usize = 4 << 10;

/// After this long without a word the other side is asked whether it is still there, so that the connections
/// of vanished machines end.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// One connection, to be [run](Self::run) as a task. Its [`Peer`] is valid from the start.
pub struct Connection {
    reader: RecordReader<Box<dyn AsyncRead + Send + Unpin>>,
    dispatcher: Dispatcher,
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
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        let address = stream.peer_addr()?;
        let (reader, writer) = stream.into_split();
        Ok(Connection::new(Box::new(reader), Box::new(writer), address, service, limits))
    }

    /// Over any reliable byte stream, such as TLS, that is connected to `address`.
    pub fn new(
        reader: Box<dyn AsyncRead + Send + Unpin>,
        writer: Box<dyn AsyncWrite + Send + Unpin>,
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
        Connection { reader: RecordReader::new(reader, &limits, account), dispatcher }
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
        loop {
            self.dispatcher.peer.outbox().room().await;
            let Some(Record { data, charge }) = self.reader.next().await? else { return Ok(()) };
            let bytes = data.len();
            match Message::parse(data)? {
                Message::Call(call) => {
                    let permit = self.dispatcher.admit(&call, bytes, charge).await?;
                    self.dispatcher.execute(call, permit, !self.reader.has_more()).await;
                }
                Message::Refused { xid, reply } => self.dispatcher.peer.reply(xid, reply, None),
                Message::Reply { xid, result } => self.dispatcher.peer.complete(xid, result),
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.dispatcher.peer.close();
    }
}

impl Dispatcher {
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
    /// then answered without the detour over another task.
    async fn execute(&self, call: Call, permit: CallPermit, alone: bool) {
        let execution = Execution { xid: call.xid, peer: self.peer.clone(), permit: Some(permit) };
        let service = self.service.clone();
        let task = async move {
            let reply = service.call(call, &execution.peer).await;
            execution.finish(reply);
        };
        if !alone {
            tokio::spawn(task);
            return;
        }
        let mut task = Box::pin(task);
        let attempt = std::future::poll_fn(|context| {
            // A panic ends the call, as it does in a task of its own, and not the connection.
            let attempt = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context)));
            Poll::Ready(attempt.unwrap_or(Poll::Ready(())))
        });
        if attempt.await.is_pending() {
            tokio::spawn(task);
        }
    }
}

/// A call in progress; answers with a system error if it is dropped unfinished, as after a panic.
struct Execution {
    xid: u32,
    peer: Peer,
    permit: Option<CallPermit>,
}

impl Execution {
    fn finish(mut self, reply: Reply) {
        self.send(reply);
    }

    fn send(&mut self, reply: Reply) {
        if let Some(mut permit) = self.permit.take() {
            if let Reply::Success(segments) = &reply {
                permit.charge.set(segments.iter().map(bytes::Bytes::len).sum::<usize>().max(CALL_BYTES));
            }
            self.peer.reply(self.xid, reply, Some(permit));
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.send(Reply::SystemError);
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
