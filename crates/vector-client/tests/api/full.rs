//! A server without room.

use vector_client::{Client, Open, Options, Read, Write};

use crate::small_server::SmallServer;

/// ENOSPC.
const NO_SPACE: i32 = 28;

/// A client of a server that has room for so many bytes.
async fn small(room: u64) -> (Client, SmallServer) {
    let server = SmallServer::start(room).await;
    (Client::connect(server.address, Options::default()).await.unwrap(), server)
}

#[tokio::test]
async fn a_vector_ends_at_what_has_no_room_and_a_transaction_leaves_nothing() {
    let (client, _server) = small(1 << 20).await;
    let write = |name: &str, bytes: usize| Write::whole(format!("/home/{name}"), 0o600, vec![b'x'; bytes]);
    let failure =
        client.vwrite(vec![write("a", 1000), write("b", 1 << 20), write("c", 1000)]).await.unwrap_err();
    assert_eq!((failure.index(), failure.error.errno(), failure.unknown), (1, NO_SPACE, 0), "{failure}");
    assert!(!client.exists("/home/c").await.unwrap());
    assert_eq!(client.vread(vec![Read::new("/home/a", 0, 2000)]).await.unwrap()[0].len(), 1000);

    let aborted = client.transaction(|t| {
        t.make_directory("/home/d", 0o700);
        t.write(write("d/e", 1000));
        t.write(write("d/f", 1 << 20));
    });
    let aborted = aborted.await.unwrap_err();
    assert_eq!(
        (aborted.step, aborted.error.errno(), aborted.unknown),
        (Some(2), NO_SPACE, false),
        "{aborted}"
    );
    assert!(!client.exists("/home/d").await.unwrap());

    // A file of many pieces.
    let failure = client.vwrite(vec![write("large", 20 << 20)]).await.unwrap_err();
    assert_eq!((failure.index(), failure.error.errno()), (0, NO_SPACE), "{failure}");
    client.vremove(vec!["/home/large".into(), "/home/b".into()]).await.unwrap();
    client.vwrite(vec![write("c", 900 << 10)]).await.unwrap();
}

#[tokio::test]
async fn a_writer_says_at_the_latest_when_it_is_closed_that_there_is_no_room() {
    let (client, _server) = small(4 << 20).await;
    let file = client.vopen(vec![Open::create("/home/a", 0o600)]).await.unwrap()[0];
    let mut writer = client.writer(file, 0);
    let mut refused = None;
    for _ in 0..64 {
        if let Err(error) = writer.write(vec![b'x'; 256 << 10]).await {
            refused = Some(error.errno());
            break;
        }
    }
    let closed = writer.close().await.err().map(|error| error.errno());
    assert_eq!(refused.or(closed), Some(NO_SPACE));
    assert_eq!(closed, Some(NO_SPACE), "whoever looks only there is told as well");
}
