//! A way to a server on which is seen what passes; the bytes are the same behind it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::capture::{Conversation, Records, Seen};

pub struct Relay {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _stop: DropGuard,
}

impl Relay {
    pub async fn to(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, seen) = (CancellationToken::new(), Arc::new(Mutex::new(Seen::default())));
        let (stopped, all) = (stop.clone(), seen.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server).await.unwrap();
                let both = pass(client, server, all.clone());
                tokio::spawn(stopped.clone().run_until_cancelled_owned(both));
            }
        }));
        Relay { address, seen, _stop: stop.drop_guard() }
    }

    /// What has passed so far. What is seen is seen before it is passed on.
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
}

async fn pass(client: TcpStream, server: TcpStream, seen: Arc<Mutex<Seen>>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let conversation = Mutex::new(Conversation::default());
    let requests = pump(from_client, to_server, |record| {
        conversation.lock().unwrap().request(&record, &mut seen.lock().unwrap());
    });
    let answers = pump(from_server, to_client, |record| {
        conversation.lock().unwrap().answer(&record, &mut seen.lock().unwrap());
    });
    tokio::join!(requests, answers);
}

/// Passes bytes on until either side has no more.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut each: impl FnMut(bytes::Bytes)) {
    let (mut records, mut data) = (Records::default(), vec![0; 256 << 10]);
    while let Ok(length @ 1..) = from.read(&mut data).await {
        records.feed(&data[..length], &mut each);
        if to.write_all(&data[..length]).await.is_err() {
            return;
        }
    }
}
