//! What is written by one call after the other, and sent later (V35).

use std::task::Poll;

use bytes::Bytes;
use proptest::prelude::*;
use vector_client::{AttributeSet, Client, Error, NewAttributes, Open, Read, Step, TO_END, Write};

use super::super::same::runtime;
use super::restart::Restarting;
use super::{content, cost, whole};
use crate::world::World;

#[tokio::test]
async fn small_writes_are_sent_together_and_are_there_for_all_after_the_close() {
    let world = World::new().await;
    let (client, other) = (&world.client, world.another().await);
    let data = content(3 << 20, 1);
    let file = client.create("/home/a", 0o600).await.unwrap();
    let all = async {
        for start in (0..data.len()).step_by(1024) {
            assert_eq!(client.write(file, data.slice(start..start + 1024)).await.unwrap(), 1024);
        }
        client.close_file(file).await.unwrap();
    };
    let ((), round_trips, _) = cost(client, all).await;
    assert!(round_trips < 1000, "{round_trips} instead of 3073");
    assert!(whole(&other, "/home/a").await == data);
    client.close().await.unwrap();
}

#[tokio::test]
async fn after_fsync_and_after_close_of_the_client_everything_is_there_for_all() {
    let world = World::new().await;
    let (client, other) = (world.another().await, world.another().await);
    let file = client.create("/home/a", 0o600).await.unwrap();
    client.pwrite(file, 3, "late").await.unwrap();
    client.fsync(file).await.unwrap();
    assert_eq!(whole(&other, "/home/a").await, "\0\0\0late");
    client.pwrite(file, 0, "all").await.unwrap();
    client.close().await.unwrap();
    assert_eq!(whole(&other, "/home/a").await, "alllate");
}

#[tokio::test]
async fn what_this_client_does_next_sees_what_was_written() {
    let world = World::new().await;
    let client = &world.client;
    let one = client.create("/home/a", 0o600).await.unwrap();
    let two = client.open(Open::write("/home/a")).await.unwrap();
    client.pwrite(one, 0, "1111").await.unwrap();
    client.pwrite(two, 1, "22").await.unwrap();
    client.pwrite(one, 2, "3").await.unwrap();
    assert_eq!(client.pread(two, 0, 9).await.unwrap().into_bytes(), "1231");
    client.pwrite(one, 4, "44").await.unwrap();
    assert_eq!(client.fstat(two).await.unwrap().size, Some(6));
    client.pwrite(one, 6, "5").await.unwrap();
    assert_eq!(whole(client, "/home/a").await, "1231445");
    client.pwrite(one, 7, "6").await.unwrap();
    let listed = client.list("/home", AttributeSet::SIZE).await.unwrap();
    assert_eq!(listed[0].attributes.size, Some(8));
    client.pwrite(one, 0, "7").await.unwrap();
    client.vwrite(vec![Write::new(one, 0, "8")]).await.unwrap();
    client.pwrite(one, 1, "9").await.unwrap();
    client.transaction(|t| drop_ticket(t.write(Write::append("/home/a", "!")))).await.unwrap();
    assert_eq!(whole(client, "/home/a").await, "89314456!");
}

fn drop_ticket(_: vector_client::Ticket<u64>) {}

#[tokio::test]
async fn what_could_not_be_written_is_said_by_fsync_and_by_close_and_by_nothing_else() {
    // No file is that long.
    const BEYOND: u64 = i64::MAX as u64 - 100;
    let world = World::new().await;
    let client = &world.client;
    let file = client.create("/home/a", 0o600).await.unwrap();
    let errno = |result: Result<(), Error>| result.unwrap_err().errno();
    client.pwrite(file, BEYOND, "x").await.unwrap();
    client.pwrite(file, 0, "good").await.unwrap();
    let as_ever = client.vwrite(vec![Write { stable: true, ..Write::new("/home/a", BEYOND, "x") }]).await;
    let expected = as_ever.unwrap_err().error.errno();
    // Of other files nothing is wrong.
    client.vwrite(vec![Write::whole("/home/b", 0o600, "b")]).await.unwrap();
    assert_eq!(whole(client, "/home/b").await, "b");
    let other = client.open(Open::write("/home/a")).await.unwrap();
    assert_eq!(errno(client.fsync(other).await), expected, "it is the same file");
    client.close_file(other).await.unwrap();
    assert_eq!(errno(client.fsync(file).await), expected);
    assert_eq!(errno(client.fsync(file).await), expected, "it is kept, and not safe now either");
    // Done up to there, and not further.
    let steps = vec![
        Step::Write(Write::whole("/home/c", 0o600, "c")),
        Step::Commit(file),
        Step::Write(Write::whole("/home/d", 0o600, "d")),
    ];
    let failure = client.execute(steps).await.unwrap_err();
    assert_eq!((failure.index(), failure.error.errno(), failure.unknown), (1, expected, 0));
    assert!(client.exists("/home/c").await.unwrap() && !client.exists("/home/d").await.unwrap());
    assert_eq!(errno(client.close_file(file).await), expected);
    assert_eq!(errno(client.close_file(file).await), 9, "it is closed");
    assert_eq!(whole(client, "/home/a").await, "good", "what could be written is written");
    // All room is free again.
    let file = client.create("/home/a", 0o600).await.unwrap();
    client.pwrite(file, 0, content(16 << 20, 1)).await.unwrap();
    client.close_file(file).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_could_not_be_written_is_never_written_over_what_the_client_wrote_after_it() {
    const BEYOND: u64 = i64::MAX as u64 - 100;
    let world = World::new().await;
    let client = &world.client;
    let file = client.create("/home/a", 0o600).await.unwrap();
    client.pwrite(file, BEYOND, "x").await.unwrap();
    client.pwrite(file, 0, "old").await.unwrap();
    assert!(client.fsync(file).await.is_err());
    client.vwrite(vec![Write::new("/home/a", 0, "new")]).await.unwrap();
    assert!(client.fsync(file).await.is_err());
    assert!(client.pwrite(file, 5, "more").await.is_err());
    assert!(client.pread(file, 0, 9).await.is_err(), "that would be neither the old nor the new");
    assert!(client.close_file(file).await.is_err());
    assert_eq!(whole(client, "/home/a").await, "new");
}

#[tokio::test]
async fn no_more_is_kept_than_may_be() {
    let mut world = Restarting::start().await;
    let client = world.client_with(|options| options.write_behind_bytes = 100_000).await;
    let file = client.create("/home/a", 0o600).await.unwrap();
    world.stop().await;
    for part in 0..10 {
        client.pwrite(file, part * 10_000, content(10_000, part as u8)).await.unwrap();
    }
    {
        let more = client.pwrite(file, 100_000, "more");
        futures::pin_mut!(more);
        for _ in 0..100 {
            assert!(matches!(futures::poll!(more.as_mut()), Poll::Pending), "it waits for room");
            tokio::task::yield_now().await;
        }
        world.start_again().await;
        assert_eq!(more.await.unwrap(), 4);
    }
    client.close_file(file).await.unwrap();
    let data = whole(&client, "/home/a").await;
    for part in 0..10_usize {
        assert!(data[part * 10_000..(part + 1) * 10_000] == content(10_000, part as u8));
    }
    assert_eq!(data[100_000..], *b"more");
}

#[tokio::test]
async fn nothing_is_lost_with_a_server_that_restarts() {
    let mut world = Restarting::start().await;
    let client = world.client().await;
    let data = content(1 << 20, 3);
    let file = client.create("/home/a", 0o600).await.unwrap();
    for start in (0..data.len()).step_by(4096) {
        client.write(file, data.slice(start..start + 4096)).await.unwrap();
        if start % (256 << 10) == 128 << 10 {
            world.restart().await;
        }
    }
    // What nobody knows of whether it was done is done again by who asks whether it is safe.
    client.fsync(file).await.unwrap();
    let other = world.client().await;
    assert!(whole(&other, "/home/a").await == data);
    client.close_file(file).await.unwrap();
}

#[derive(Clone, Debug)]
enum Act {
    Write(usize, u64, Vec<u8>),
    Vector(usize, u64, Vec<u8>),
    ByPath(u64, Vec<u8>),
    Read(usize, u64, u64),
    Cut(usize, u64),
    Size(usize),
    Whole,
    Sync(usize),
    Again(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let which = || 0..3_usize;
    let text = || prop::collection::vec(b'a'..=b'z', 1..40);
    prop_oneof![
        12 => (which(), 0..120_u64, text()).prop_map(|(which, offset, text)| Act::Write(which, offset, text)),
        1 => (which(), 0..120_u64, text()).prop_map(|(which, offset, text)| Act::Vector(which, offset, text)),
        1 => (0..120_u64, text()).prop_map(|(offset, text)| Act::ByPath(offset, text)),
        2 => (which(), 0..120_u64, 1..80_u64).prop_map(|(which, offset, length)| Act::Read(which, offset, length)),
        1 => (which(), 0..120_u64).prop_map(|(which, size)| Act::Cut(which, size)),
        1 => which().prop_map(Act::Size),
        1 => Just(Act::Whole),
        1 => which().prop_map(Act::Sync),
        1 => which().prop_map(Act::Again),
    ]
}

/// What comes of it all, by a client with three descriptors, two of them of one file.
async fn play(client: &Client, acts: &[Act]) -> Vec<Bytes> {
    let path = |which: usize| if which < 2 { "/home/a" } else { "/home/b" };
    let mut told = Vec::new();
    let mut open = Vec::new();
    for which in 0..3 {
        open.push(client.open(Open::create(path(which), 0o600)).await.unwrap());
    }
    for act in acts {
        match act {
            Act::Write(which, offset, text) => {
                let written = client.pwrite(open[*which], *offset, text.clone()).await.unwrap();
                assert_eq!(written, text.len() as u64);
            }
            Act::Vector(which, offset, text) => {
                client.vwrite(vec![Write::new(open[*which], *offset, text.clone())]).await.unwrap();
            }
            Act::ByPath(offset, text) => {
                client.vwrite(vec![Write::new("/home/a", *offset, text.clone())]).await.unwrap();
            }
            Act::Read(which, offset, length) => {
                told.push(client.pread(open[*which], *offset, *length).await.unwrap().into_bytes());
            }
            Act::Cut(which, size) => {
                client.vsetattrs(vec![(open[*which].into(), NewAttributes::size(*size))]).await.unwrap();
            }
            Act::Size(which) => {
                told.push(format!("{:?}", client.fstat(open[*which]).await.unwrap().size).into());
            }
            Act::Whole => told.push(whole(client, "/home/a").await),
            Act::Sync(which) => client.fsync(open[*which]).await.unwrap(),
            Act::Again(which) => {
                client.close_file(open[*which]).await.unwrap();
                open[*which] = client.open(Open::write(path(*which))).await.unwrap();
            }
        }
    }
    client.vclose(open).await.unwrap();
    for path in ["/home/a", "/home/b"] {
        let data = client.vread(vec![Read::new(path, 0, TO_END)]).await.unwrap().remove(0);
        told.push(data.into_bytes());
    }
    client.close().await.unwrap();
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_client_sees_what_it_wrote_whenever_that_is_sent(
        acts in prop::collection::vec(act(), 1..80),
        (bytes, transfer) in prop::sample::select(vec![(0, 1 << 20), (50, 1 << 20), (1000, 7), (16 << 20, 1 << 20)]),
    ) {
        runtime().block_on(async {
            let nfs = World::with(nfs4_server::Limits::default(), |options| {
                (options.write_behind_bytes, options.transfer) = (bytes, transfer);
            });
            let over_nfs = play(&nfs.await.client, &acts).await;
            let here = play(&World::local().client, &acts).await;
            assert_eq!(over_nfs, here, "NFS left, this machine right");
        });
    }
}
