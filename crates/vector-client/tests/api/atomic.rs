//! Vectors whose compounds are done whole or not at all.

use nfs4_server::Limits;
use tokio_util::sync::CancellationToken;
use vector_client::{AttributeSet, Client, Copy, Error, Open, Options, Read, Target, Write};

use crate::world::{World, server_of};

async fn atomic() -> World {
    World::with(Limits::default(), |options| options.atomic = true).await
}

fn files(numbers: std::ops::Range<u32>) -> Vec<Target> {
    numbers.map(|n| format!("/home/{n}").into()).collect()
}

async fn text(client: &Client, path: &str) -> String {
    let data = client.vread(vec![Read::new(path, 0, 100)]).await.unwrap().remove(0);
    String::from_utf8(data.into_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn a_vector_is_one_round_trip_and_done_up_to_the_first_that_fails() {
    let world = atomic().await;
    let write = |target| Write::whole(target, 0o600, "content");
    world.costing(1, world.client.vwrite(files(0..50).into_iter().map(write).collect())).await.unwrap();

    let mut targets = files(0..50);
    targets[20] = "/home/missing".into();
    // All of them; those before the one that failed; that one.
    let failure = world.costing(3, world.client.vremove(targets)).await.unwrap_err();
    assert_eq!((failure.index(), failure.error.errno(), failure.unknown), (20, 2, 0), "{failure}");
    let left = world.client.list("/home", AttributeSet::NONE).await.unwrap();
    assert_eq!(left.len(), 30, "those behind are there, and so is the one that was left out");
}

#[tokio::test]
async fn a_file_is_as_it_was_when_it_cannot_be_written() {
    let world = atomic().await;
    let plain = world.another().await;
    world.client.vwrite(vec![Write::whole("/home/file", 0o600, "old")]).await.unwrap();
    let beyond = Write { offset: i64::MAX as u64, ..Write::whole("/home/file", 0o600, "new") };
    let failure = world.client.vwrite(vec![beyond.clone()]).await.unwrap_err();
    assert_eq!((failure.index(), failure.unknown), (0, 0), "{failure}");
    assert_eq!(text(&plain, "/home/file").await, "old");
    let new = Write { target: "/home/new".into(), ..beyond.clone() };
    world.client.vwrite(vec![new]).await.unwrap_err();
    assert_eq!(plain.list("/home", AttributeSet::NONE).await.unwrap().len(), 1);

    plain.vwrite(vec![beyond]).await.unwrap_err();
    assert_eq!(text(&plain, "/home/file").await, "", "otherwise it is empty by then");
}

#[tokio::test]
async fn what_opens_asks_and_copies_goes_as_it_always_does() {
    let world = atomic().await;
    let client = &world.client;
    client.vwrite(vec![Write::whole("/home/file", 0o600, "content")]).await.unwrap();
    let opens = vec![Open::read("/home/file"), Open::create("/home/new", 0o600)];
    let opened = client.vopen(opens).await.unwrap();
    client.vwrite(vec![Write::new(opened[1], 0, "more")]).await.unwrap();
    let read = client.vread(vec![Read::new(opened[0], 0, 100)]).await.unwrap().remove(0);
    assert_eq!(read.into_bytes(), "content");
    client.vclose(opened).await.unwrap();
    client.vsscopy(vec![Copy::whole("/home/file", "/home/copy", 0o600)]).await.unwrap();
    client.vwrite(vec![Write::append("/home/copy", "!")]).await.unwrap();
    assert_eq!(text(client, "/home/copy").await, "content!");
    assert_eq!(text(client, "/home/new").await, "more");
}

#[tokio::test]
async fn a_copy_that_no_transaction_can_hold_is_made_without_one() {
    let stop = CancellationToken::new();
    let server = server_of(&["home", "other"], Limits::default(), stop.clone()).await;
    let options = Options { atomic: true, ..Options::default() };
    let client = Client::connect(server, options).await.unwrap();
    client.vwrite(vec![Write::whole("/home/file", 0o600, "content")]).await.unwrap();
    let copy = |to: &str| Copy::whole("/home/file", to, 0o600);
    // A transaction is of one volume.
    let copies = vec![copy("/home/copy"), copy("/other/copy"), copy("/home/more")];
    assert_eq!(client.vsscopy(copies).await.unwrap(), [7; 3]);
    assert_eq!(text(&client, "/other/copy").await, "content");
    // What cannot be done in two, either, is refused.
    let rename = vec![("/home/file".into(), "/other/file".into())];
    assert_eq!(client.vrename(rename).await.unwrap_err().error.errno(), 18);
    stop.cancel();
}

#[tokio::test]
async fn a_server_without_transactions_is_refused() {
    let world = World::new().await;
    let mut options = Options { atomic: true, extensions: false, ..Options::default() };
    let refused = Client::connect(world.address().unwrap(), options.clone()).await;
    assert!(matches!(refused, Err(Error::Unsupported("a transaction"))), "{:?}", refused.err());
    options.extensions = true;
    Client::connect(world.address().unwrap(), options).await.unwrap();
}
