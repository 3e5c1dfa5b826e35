//! One budget for many connections.

#![allow(clippy::unwrap_used)] // set-up is test code, though not inside a test function

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use onc_rpc::{
    Budget, Call, Connection, Credential, Limits, NoService, Peer, Procedure, Reply, RpcError, Service,
};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

const MIB: usize = 1 << 20;
const PROCEDURE: Procedure = Procedure { program: 100_003, version: 4, number: 1 };
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Replies with as many bytes as the argument says; knows that beforehand.
struct Sized;

fn asked(call: &Call) -> usize {
    xdr::from_bytes::<u32>(call.body.slice(..4)).unwrap() as usize
}

#[async_trait]
impl Service for Sized {
    async fn call(&self, call: Call, _peer: &Peer) -> Reply {
        tokio::task::yield_now().await;
        Reply::Success(vec![Bytes::from(vec![0; asked(&call)])])
    }

    fn reply_bytes(&self, call: &Call) -> usize {
        asked(call)
    }
}

/// The client's end of a connection to a server that counts in `budget`.
fn serve(budget: &Budget, client: u8) -> (DuplexStream, JoinHandle<Result<(), RpcError>>) {
    let (server, stream) = duplex(64 << 10);
    let (reader, writer) = tokio::io::split(server);
    let address = SocketAddr::from(([10, 0, 0, client], 700));
    let connection =
        Connection::new(Box::new(reader), Box::new(writer), address, Arc::new(Sized), Limits::default());
    (stream, tokio::spawn(connection.with_budget(budget).run()))
}

fn client(stream: DuplexStream) -> Peer {
    let (reader, writer) = tokio::io::split(stream);
    let address = SocketAddr::from(([10, 0, 0, 99], 2049));
    let connection =
        Connection::new(Box::new(reader), Box::new(writer), address, Arc::new(NoService), Limits::default());
    let peer = connection.peer().clone();
    tokio::spawn(connection.run());
    peer
}

fn request(reply: usize, padding: usize) -> Vec<Bytes> {
    vec![xdr::to_bytes(&(reply as u32)), Bytes::from(vec![0; padding])]
}

/// A call of procedure 1 as it is on the wire.
fn wire(xid: u32, reply: u32) -> Vec<u8> {
    let words = [44 | 1 << 31, xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0, reply];
    words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

#[tokio::test(start_paused = true)]
async fn clients_that_read_nothing_starve_nobody_and_are_cut() {
    let budget = Budget::new(8 * MIB);
    let mut hostile = Vec::new();
    // From one address over many connections, and from another one.
    for (client, number) in [(1, 0), (1, 1), (1, 2), (1, 3), (2, 4)] {
        let (mut stream, end) = serve(&budget, client);
        for xid in 0..100 {
            stream.write_all(&wire(number * 100 + xid, MIB as u32)).await.unwrap();
        }
        hostile.push((stream, end));
    }
    let (stream, _) = serve(&budget, 3);
    let honest = client(stream);
    let start = tokio::time::Instant::now();
    for _ in 0..50 {
        let reply = honest.call(PROCEDURE, &Credential::None, request(MIB, MIB / 2), TIMEOUT).await.unwrap();
        assert_eq!(reply.len(), MIB);
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "the honest client waited until the others were cut");
    assert!(budget.free() < 4 * MIB, "the others hold something");
    for (stream, end) in hostile {
        assert!(matches!(end.await.unwrap(), Err(RpcError::Stalled)));
        drop(stream);
    }
    honest.close();
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_each_other_end() {
    let budget = Budget::new(4 * MIB);
    // Each holds a request and wants more than is left for its reply.
    let peers: Vec<Peer> = (1..=6).map(|number| client(serve(&budget, number).0)).collect();
    let calls = peers.iter().map(|peer| {
        let peer = peer.clone();
        tokio::spawn(async move {
            peer.call(PROCEDURE, &Credential::None, request(3 * MIB / 2, MIB), TIMEOUT).await.is_ok()
        })
    });
    let calls: Vec<_> = calls.collect();
    let mut answered = 0;
    for call in calls {
        answered += usize::from(call.await.unwrap());
    }
    assert!(answered > 0, "nobody got anything");
    let late = client(serve(&budget, 9).0);
    late.call(PROCEDURE, &Credential::None, request(MIB, MIB), TIMEOUT).await.unwrap();
    peers.iter().for_each(Peer::close);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_nobody_announced_holds_back_the_next_requests() {
    struct Surprise(Arc<AtomicUsize>);

    #[async_trait]
    impl Service for Surprise {
        async fn call(&self, _call: Call, _peer: &Peer) -> Reply {
            self.0.fetch_add(1, Ordering::SeqCst);
            Reply::Success(vec![Bytes::from(vec![0; 2 * MIB])])
        }
    }

    let executed = Arc::new(AtomicUsize::new(0));
    let surprise = Surprise(executed.clone());
    let budget = Budget::new(4 * MIB);
    let (server, mut stream) = duplex(4 * MIB);
    let (reader, writer) = tokio::io::split(server);
    let address = SocketAddr::from(([10, 0, 0, 1], 700));
    let limits = Limits { queued_bytes: usize::MAX, calls: 1000, ..Limits::default() };
    let connection = Connection::new(Box::new(reader), Box::new(writer), address, Arc::new(surprise), limits);
    let server = tokio::spawn(connection.with_budget(&budget).run());
    for xid in 0..500 {
        stream.write_all(&wire(xid, 0)).await.unwrap();
    }
    assert!(matches!(server.await.unwrap(), Err(RpcError::Stalled)));
    drop(stream);
    let executed = executed.load(Ordering::SeqCst);
    assert!(executed < 100, "{executed} calls were executed though nobody read the first reply");
    assert_eq!(budget.free(), 4 * MIB);
}
