//! Requests and replies that are too large are refused before anything happens (RFC 8881 §2.10.6.4).

use std::net::SocketAddr;

use bytes::Bytes;
use nfs4::{CreateType, NfsArgOp, NfsStatus, StableHow};
use nfs4_client::Config;
use nfs4_client::operations::{create, get_attributes, put_handle, read, remove, write};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{World, home, outcome};

fn config(message_bytes: u32, operations: u32) -> Config {
    Config { message_bytes, operations, ..Config::new("a", [1; 8]) }
}

#[tokio::test]
async fn a_compound_of_1024_operations_is_run() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.connect(config((4 << 20) + 65536, 1100)).await;
    assert!(session.fore_channel().max_operations >= 1024);
    assert!(session.fore_channel().max_request_size >= (4 << 20) + 65536);
    let root = home(&session).await;
    let mut request = Vec::new();
    while request.len() < 1023 {
        let number = request.len();
        request.push(put_handle(&root));
        request.push(create(CreateType::Directory, format!("d{number}"), 0o755));
        request.push(NfsArgOp::GetFh);
    }
    world.home.take_commits();
    // The reply is larger than what this client has kept for retries.
    let slot = session.slot().await.unwrap();
    let reply = session.send(slot.arguments(false), &request).await.unwrap();
    assert_eq!((reply.status, reply.results.len()), (NfsStatus::Ok, 1024));
    assert_eq!(world.home.take_commits().len(), 1, "one transaction");
    running.stop().await;
}

#[tokio::test]
async fn more_operations_than_granted_are_refused() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.connect(config(1 << 20, 4)).await;
    let root = home(&session).await;
    let request = vec![put_handle(&root); 4];
    assert_eq!(outcome(&session, &request).await, (NfsStatus::TooManyOps, 0));
    assert_eq!(outcome(&session, &request[1..]).await, (NfsStatus::Ok, 3), "the slot is as it was");
    running.stop().await;
}

#[tokio::test]
async fn a_request_larger_than_granted_is_refused() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.connect(config(64 << 10, 16)).await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let data = Bytes::from(vec![0; 64 << 10]);
    let request = [put_handle(&file.handle), write(file.state_id, 0, StableHow::FileSync, data)];
    assert_eq!(outcome(&session, &request).await, (NfsStatus::ReqTooBig, 0));
    running.stop().await;
}

#[tokio::test]
async fn nothing_is_changed_when_the_reply_would_not_fit() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.connect(config(1024, 100)).await;
    let root = home(&session).await;
    let filler = |count| {
        let mut request = vec![put_handle(&root)];
        request.extend(std::iter::repeat_n(NfsArgOp::GetFh, count));
        request.push(create(CreateType::Directory, "d", 0o755));
        request
    };
    let mut refused = 0;
    for count in (0..30).rev() {
        let request = filler(count);
        let (status, results) = outcome(&session, &request).await;
        match status {
            NfsStatus::RepTooBig => {
                refused += 1;
                assert_eq!(outcome(&session, &[put_handle(&root), remove("d")]).await.0, NfsStatus::NoEnt);
            }
            NfsStatus::Ok => {
                assert_eq!(results, count + 2);
                assert_eq!(outcome(&session, &[put_handle(&root), remove("d")]).await.0, NfsStatus::Ok);
            }
            status => panic!("{status} with {count} results before"),
        }
    }
    assert!((1..30).contains(&refused));
    running.stop().await;
}

#[tokio::test]
async fn a_reply_that_must_be_kept_has_the_limit_of_the_cache() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.connect(config(1 << 20, 1100)).await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    session.write(&file, 0, StableHow::FileSync, Bytes::from(vec![1; 100_000])).await.unwrap();
    let request = [put_handle(&file.handle), read(file.state_id, 0, 100_000)];
    let slot = session.slot().await.unwrap();
    let reply = session.send(slot.arguments(true), &request).await.unwrap();
    assert!(reply.status == NfsStatus::Ok, "a shorter read fits: {}", reply.status);
    drop(slot);
    let many = vec![get_attributes(nfs4::Attribute::set(&[nfs4::Attribute::SupportedAttrs])); 1000];
    let mut request = vec![put_handle(&root)];
    request.extend(many);
    let mut slot = session.slot().await.unwrap();
    slot.executed(); // the request before
    let reply = session.send(slot.arguments(true), &request).await.unwrap();
    assert_eq!(reply.status, NfsStatus::RepTooBigToCache);
    running.stop().await;
}

/// A connection from an address of loopback, if the server serves it.
async fn served_from(address: [u8; 4], server: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((address, 0))).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    // NULL in one fragment (RFC 5531 §9, §11).
    let call = [1 << 31 | 40, 7, 0, 2, nfs4::PROGRAM, nfs4::VERSION, 0, 0, 0, 0, 0];
    let call: Vec<u8> = call.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
    let mut reply = [0; 28];
    stream.write_all(&call).await.ok()?;
    stream.read_exact(&mut reply).await.ok()?;
    assert_eq!(reply[4..8], 7u32.to_be_bytes());
    Some(stream)
}

#[tokio::test]
async fn who_takes_half_of_the_connections_gets_no_more_and_others_still_do() {
    let mut world = World::new().await;
    world.limits.connections = 8;
    let running = world.start().await;
    let [greedy, other] = [[127, 0, 0, 1], [127, 0, 0, 2]];
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(served_from(greedy, running.address).await.unwrap());
    }
    assert!(served_from(greedy, running.address).await.is_none());
    let others = [served_from(other, running.address).await, served_from(other, running.address).await];
    assert!(others.iter().all(Option::is_some));
    assert!(served_from(greedy, running.address).await.is_none());
    assert!(served_from(other, running.address).await.is_none(), "two are left, and it has two");
    assert!(served_from([127, 0, 0, 3], running.address).await.is_some());
    // The server notices in its own time that connections end.
    drop(held);
    while served_from(greedy, running.address).await.is_none() {
        tokio::task::yield_now().await;
    }
    running.stop().await;
}
