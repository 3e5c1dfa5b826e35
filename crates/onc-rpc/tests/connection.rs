//! Connections over real sockets.

#![allow(clippy::unwrap_used)] // set-up is test code, though not inside a test function

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use onc_rpc::{
    AuthStatus, AuthSys, Call, Connection, Credential, Limits, NoService, Peer, Procedure, Reply, RpcError,
    Service, serve_connection,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// Far longer than anything here takes; only a failing test waits for it.
const TIMEOUT: Duration = Duration::from_secs(20);

const fn procedure(number: u32) -> Procedure {
    Procedure { program: 100_003, version: 4, number }
}

/// A server for one connection; resolves to how the connection ended.
async fn serve(
    service: impl Service + 'static,
    limits: Limits,
) -> (std::net::SocketAddr, JoinHandle<Result<(), RpcError>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve_connection(stream, Arc::new(service), limits, |peer| assert!(!peer.is_closed())).await
    });
    (address, server)
}

async fn connect(address: std::net::SocketAddr) -> Peer {
    Peer::connect(address, Arc::new(NoService), Limits::default()).await.unwrap()
}

/// Procedure 1 echoes, 2 says who calls, 3 panics, 4 never answers, 5 panics after a wait, 6 calls back.
struct Server;

#[async_trait]
impl Service for Server {
    async fn call(&self, call: Call, peer: &Peer) -> Reply {
        if call.program != 100_003 {
            return Reply::ProgramUnavailable;
        }
        if call.version != 4 {
            return Reply::ProgramMismatch { low: 4, high: 4 };
        }
        match call.procedure {
            1 => Reply::Success(vec![call.body]),
            2 => match call.credential {
                Credential::Sys(sys) => Reply::Success(vec![xdr::to_bytes(&sys.uid)]),
                _ => Reply::AuthError(AuthStatus::TooWeak),
            },
            3 => panic!("as asked for"),
            4 => Reply::Drop,
            5 => {
                tokio::task::yield_now().await;
                panic!("as asked for");
            }
            6 => match peer.call(procedure(1), &Credential::None, vec![call.body], TIMEOUT).await {
                Ok(answer) => Reply::Success(vec![answer]),
                Err(_) => Reply::SystemError,
            },
            _ => Reply::ProcedureUnavailable,
        }
    }
}

#[tokio::test]
async fn results_and_refusals_reach_the_caller() {
    let (address, _) = serve(Server, Limits::default()).await;
    let peer = connect(address).await;
    let call = |procedure, credential| {
        let peer = peer.clone();
        async move { peer.call(procedure, &credential, vec![xdr::to_bytes(&7u32)], TIMEOUT).await }
    };
    assert_eq!(call(procedure(1), Credential::None).await.unwrap(), xdr::to_bytes(&7u32));
    let root = Credential::Sys(AuthSys::new(1000, 100));
    assert_eq!(call(procedure(2), root).await.unwrap(), xdr::to_bytes(&1000u32));
    assert!(matches!(
        call(procedure(2), Credential::None).await,
        Err(RpcError::AuthError(AuthStatus::TooWeak))
    ));
    assert!(matches!(call(procedure(99), Credential::None).await, Err(RpcError::ProcedureUnavailable)));
    let other_version = Procedure { version: 3, ..procedure(1) };
    assert!(matches!(
        call(other_version, Credential::None).await,
        Err(RpcError::ProgramMismatch { low: 4, high: 4 })
    ));
    let other_program = Procedure { program: 1, ..procedure(1) };
    assert!(matches!(call(other_program, Credential::None).await, Err(RpcError::ProgramUnavailable)));
}

#[tokio::test]
async fn a_panic_costs_the_call_and_not_the_connection() {
    let (address, _) = serve(Server, Limits::default()).await;
    let peer = connect(address).await;
    for panicking in [3, 5] {
        let result = peer.call(procedure(panicking), &Credential::None, Vec::new(), TIMEOUT).await;
        assert!(matches!(result, Err(RpcError::SystemError)));
    }
    peer.call(procedure(1), &Credential::None, Vec::new(), TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn the_server_calls_back_while_it_executes_a_call() {
    struct Callback;

    #[async_trait]
    impl Service for Callback {
        async fn call(&self, call: Call, _peer: &Peer) -> Reply {
            let number: u32 = xdr::from_bytes(call.body).unwrap();
            Reply::Success(vec![xdr::to_bytes(&(number + 1))])
        }
    }

    let (address, _) = serve(Server, Limits::default()).await;
    let peer = Peer::connect(address, Arc::new(Callback), Limits::default()).await.unwrap();
    let answer =
        peer.call(procedure(6), &Credential::None, vec![xdr::to_bytes(&7u32)], TIMEOUT).await.unwrap();
    assert_eq!(answer, xdr::to_bytes(&8u32));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_of_all_sizes_at_once_each_get_their_own_answer() {
    let (address, _) = serve(Server, Limits::default()).await;
    let peer = connect(address).await;
    let tasks: Vec<_> = (0..500u32)
        .map(|index| {
            let peer = peer.clone();
            tokio::spawn(async move {
                let len = if index % 20 == 0 { 600_000 } else { index as usize * 13 };
                let body = xdr::to_bytes(&Bytes::from(vec![index as u8; len]));
                let segments = vec![body.slice(..body.len() / 2), body.slice(body.len() / 2..)];
                let answer = peer.call(procedure(1), &Credential::None, segments, TIMEOUT).await.unwrap();
                assert!(answer == body, "call {index} got the answer of another");
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_call_overtakes_one_that_waits() {
    struct Gate(Semaphore);

    #[async_trait]
    impl Service for Gate {
        async fn call(&self, call: Call, _peer: &Peer) -> Reply {
            match call.procedure {
                1 => self.0.acquire().await.unwrap().forget(),
                _ => self.0.add_permits(1),
            }
            Reply::Success(Vec::new())
        }
    }

    let (address, _) = serve(Gate(Semaphore::new(0)), Limits::default()).await;
    let peer = connect(address).await;
    let (first, second) = tokio::join!(
        peer.call(procedure(1), &Credential::None, Vec::new(), TIMEOUT),
        peer.call(procedure(2), &Credential::None, Vec::new(), TIMEOUT),
    );
    assert!(first.unwrap().is_empty() && second.unwrap().is_empty());
}

#[tokio::test]
async fn no_more_calls_execute_at_once_than_the_limit() {
    struct Counting {
        now: AtomicUsize,
        most: AtomicUsize,
        started: mpsc::UnboundedSender<()>,
        gate: Arc<Semaphore>,
    }

    #[async_trait]
    impl Service for Counting {
        async fn call(&self, call: Call, _peer: &Peer) -> Reply {
            if call.procedure == 2 {
                return Reply::Success(vec![xdr::to_bytes(&(self.most.load(Ordering::SeqCst) as u32))]);
            }
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            self.started.send(()).unwrap();
            self.gate.acquire().await.unwrap().forget();
            self.now.fetch_sub(1, Ordering::SeqCst);
            Reply::Success(Vec::new())
        }
    }

    let (started, mut starts) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let service =
        Counting { now: AtomicUsize::new(0), most: AtomicUsize::new(0), started, gate: gate.clone() };
    let (address, _) = serve(service, Limits { calls: 3, ..Limits::default() }).await;
    let peer = connect(address).await;
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call(procedure(1), &Credential::None, Vec::new(), TIMEOUT).await })
        })
        .collect();
    for _ in 0..3 {
        starts.recv().await.unwrap();
    }
    gate.add_permits(10);
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let most = peer.call(procedure(2), &Credential::None, Vec::new(), TIMEOUT).await.unwrap();
    assert_eq!(most, xdr::to_bytes(&3u32));
}

#[tokio::test]
async fn no_answer_is_a_timeout_and_the_connection_goes_on() {
    let (address, _) = serve(Server, Limits::default()).await;
    let peer = connect(address).await;
    let short = Duration::from_millis(5);
    let result = peer.call(procedure(4), &Credential::None, Vec::new(), short).await;
    assert!(matches!(result, Err(RpcError::TimedOut)));
    peer.call(procedure(1), &Credential::None, Vec::new(), TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn waiting_calls_fail_when_the_connection_closes() {
    let (address, server) = serve(Server, Limits::default()).await;
    let peer = connect(address).await;
    let (result, ()) = tokio::join!(peer.call(procedure(4), &Credential::None, Vec::new(), TIMEOUT), async {
        peer.call(procedure(1), &Credential::None, Vec::new(), TIMEOUT).await.unwrap();
        peer.close();
    });
    assert!(matches!(result, Err(RpcError::Closed)));
    server.await.unwrap().unwrap();
    peer.closed().await;
    let result = peer.call(procedure(1), &Credential::None, Vec::new(), TIMEOUT).await;
    assert!(matches!(result, Err(RpcError::Closed)));
}

/// What a client sends that calls procedure 1 with the number 7; 44 bytes after the record mark.
fn raw_call(xid: u32) -> Vec<u8> {
    let words = [xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0, 7];
    words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

fn marked(record: &[u8]) -> Vec<u8> {
    [&(record.len() as u32 | 1 << 31).to_be_bytes(), record].concat()
}

#[tokio::test]
async fn a_call_in_fragments_of_one_byte_is_answered_in_one_fragment() {
    let (address, _) = serve(Server, Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let call = raw_call(5);
    for (index, byte) in call.iter().enumerate() {
        let last = if index + 1 == call.len() { 0x80 } else { 0 };
        stream.write_all(&[last, 0, 0, 1, *byte]).await.unwrap();
    }
    let mut reply = [0; 32];
    stream.read_exact(&mut reply).await.unwrap();
    let words: Vec<u32> = reply.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [28 | 1 << 31, 5, 1, 0, 0, 0, 0, 7]);
}

#[tokio::test]
async fn another_version_of_rpc_is_told_ours() {
    let (address, _) = serve(Server, Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut call = raw_call(5);
    call[11] = 3;
    stream.write_all(&marked(&call)).await.unwrap();
    let mut reply = [0; 28];
    stream.read_exact(&mut reply).await.unwrap();
    let words: Vec<u32> = reply.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [24 | 1 << 31, 5, 1, 1, 0, 2, 2]);
}

/// How a server with a record limit of 1000 bytes ends after it was sent `wire`.
async fn end_after(wire: &[u8]) -> Result<(), RpcError> {
    let (address, server) = serve(Server, Limits { record_bytes: 1000, ..Limits::default() }).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(wire).await.unwrap();
    let end = server.await.unwrap();
    let mut rest = Vec::new();
    let closed = stream.read_to_end(&mut rest).await; // reset counts as closed: not all was read
    assert!(closed.is_err() || rest.is_empty());
    end
}

#[tokio::test]
async fn what_is_no_message_closes_the_connection() {
    assert!(matches!(end_after(&marked(&[0; 1001])).await, Err(RpcError::RecordTooLarge { .. })));
    assert!(matches!(end_after(&marked(b"")).await, Err(RpcError::Malformed(_))));
    assert!(matches!(end_after(&marked(b"hello")).await, Err(RpcError::Malformed(_))));
    assert!(matches!(end_after(&marked(&[9; 40])).await, Err(RpcError::Malformed(_))));
    assert!(matches!(end_after(b"GET / HTTP/1.1\r\n\r\n").await, Err(RpcError::RecordTooLarge { .. })));
    let mut long_credential = raw_call(1);
    long_credential[30] = 2; // 512 bytes
    assert!(matches!(end_after(&marked(&long_credential)).await, Err(RpcError::Malformed(_))));
}

#[tokio::test]
async fn replies_to_no_call_are_ignored() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut call = [0; 44];
        stream.read_exact(&mut call).await.unwrap();
        let xid = u32::from_be_bytes(call[4..8].try_into().unwrap());
        for (xid, result) in [(xid + 1, 1u32), (xid, 2), (xid, 3)] {
            let words = [xid, 1, 0, 0, 0, 0, result];
            let reply: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
            stream.write_all(&marked(&reply)).await.unwrap();
        }
        stream
    });
    let peer = connect(address).await;
    let answer = peer.call(procedure(1), &Credential::None, Vec::new(), TIMEOUT).await.unwrap();
    assert_eq!(answer, xdr::to_bytes(&2u32));
    let _stream = server.await.unwrap();
    assert!(!peer.is_closed());
}

#[tokio::test]
async fn a_connection_that_is_never_run_fails_its_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let connection = Connection::tcp(stream, Arc::new(NoService), Limits::default()).unwrap();
    let peer = connection.peer().clone();
    drop(connection);
    let result = peer.call(procedure(1), &Credential::None, Vec::new(), TIMEOUT).await;
    assert!(matches!(result, Err(RpcError::Closed)));
}
