//! One session over several connections (RFC 8881 §2.10.5).

use nfs4::NfsArgOp;
use nfs4_client::Options;
use nfs4_client::operations::put_handle;

use crate::world::{World, home, make_directory, until};

#[tokio::test]
async fn calls_spread_over_four_connections_of_one_session() {
    let world = World::new().await;
    let client = world.connect(Options { connections: 4, ..world.options() }).await;
    assert_eq!(client.connections(), 4);
    let home = home(&client).await;
    let before: usize = world.proxy.connections().iter().sum();
    let request = [put_handle(&home), NfsArgOp::GetFh];
    let calls = (0..32).map(|_| client.compound(&request));
    futures_all(calls).await;
    let bytes = world.proxy.connections();
    assert_eq!(bytes.len(), 4);
    let all: usize = bytes.iter().sum::<usize>() - before;
    assert!(bytes.iter().all(|bytes| *bytes > all / 8), "{bytes:?}");
    let clients = world.server().clients(None, 9).clients;
    assert_eq!(clients.len(), 1);
}

#[tokio::test]
async fn all_connections_come_back_after_a_cut_and_after_a_restart() {
    let mut world = World::new().await;
    let client = world.connect(Options { connections: 4, ..world.options() }).await;
    let home = home(&client).await;
    world.proxy.cut_all();
    until(|| client.statistics().reconnects >= 4).await;
    make_directory(&client, &home, "a").await.unwrap();
    until(|| client.connections() == 4).await;
    assert_eq!(client.statistics().recoveries, 0);
    world.restart().await;
    self::home(&client).await;
    make_directory(&client, &home, "b").await.unwrap();
    until(|| client.connections() == 4).await;
}

#[tokio::test]
async fn a_server_is_found_at_the_second_address() {
    let world = World::new().await;
    // Nobody listens at the first one.
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let options = Options { connections: 2, ..world.options() };
    let client = nfs4_client::Client::connect(&[closed, world.proxy.address], options, None).await.unwrap();
    home(&client).await;
    until(|| client.connections() == 2).await;
}

#[tokio::test]
async fn an_address_of_another_server_is_not_used_while_the_first_one_is_there() {
    let (one, mut other) = (World::new().await, World::new().await);
    let options = Options { connections: 2, ..one.options() };
    let addresses = [one.proxy.address, other.proxy.address];
    let client = nfs4_client::Client::connect(&addresses, options, None).await.unwrap();
    let home = home(&client).await;
    until(|| client.connections() == 2).await;
    make_directory(&client, &home, "d").await.unwrap();
    assert_eq!(client.statistics().recoveries, 0);
    assert_eq!(other.proxy.connections().len(), 1, "asked once who it is");
    other.stop().await;
    make_directory(&client, &home, "e").await.unwrap();
}

/// Polls all of them at once.
async fn futures_all<T, E: std::fmt::Debug>(calls: impl Iterator<Item = impl Future<Output = Result<T, E>>>) {
    let mut calls: Vec<_> = calls.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        calls.retain_mut(|call| match call.as_mut().poll(context) {
            std::task::Poll::Ready(result) => result.is_err_and(|error| panic!("{error:?}")),
            std::task::Poll::Pending => true,
        });
        if calls.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
