//! Writing while the program goes on (V35).

use std::io::Write as _;

use bytes::Bytes;
use futures::future::poll_immediate;
use vector_client::{AttributeSet, Client, Descriptor, Error, Open, Read, TO_END, blocking};

use crate::restart::Restarting;
use crate::world::World;

const MIB: usize = 1 << 20;

fn bytes(length: usize) -> Bytes {
    (0..length).map(|n| ((n * 7919) >> 8) as u8).collect()
}

async fn new(client: &Client, path: &str) -> Descriptor {
    client.vopen(vec![Open::create(path, 0o600)]).await.unwrap()[0]
}

async fn content(client: &Client, path: &str) -> Bytes {
    client.vread(vec![Read::new(path, 0, TO_END)]).await.unwrap().remove(0).into_bytes()
}

/// Until others see a file of this size.
async fn until_it_has(client: &Client, path: &str, size: u64) {
    while client.vgetattrs(vec![path.into()], AttributeSet::SIZE).await.unwrap()[0].size != Some(size) {}
}

#[tokio::test]
async fn what_is_written_in_pieces_of_any_size_is_one_file() {
    for world in World::of_ours().await {
        let all = bytes(7 * MIB + 77);
        let mut writer = world.client.writer(new(&world.client, "/home/a").await, 0);
        let mut synced = 0;
        let (mut rest, mut sizes) = (all.clone(), [1, 1000, 3 * MIB, 70_000, MIB, 0, 12_345].iter().cycle());
        while !rest.is_empty() {
            let now = rest.split_to(rest.len().min(*sizes.next().unwrap()));
            writer.write(now).await.unwrap();
            assert_eq!(writer.position(), (all.len() - rest.len()) as u64);
            if rest.len() < 3 * MIB && rest.len() > 2 * MIB {
                synced += 1;
                writer.sync().await.unwrap();
                let until = writer.position() as usize;
                assert!(content(&world.another().await, "/home/a").await == all[..until]);
            }
        }
        writer.close().await.unwrap();
        assert!(synced > 0 && content(&world.another().await, "/home/a").await == all);

        let mut writer = world.client.writer(new(&world.client, "/home/a").await, 100);
        writer.write("in the middle").await.unwrap();
        writer.close().await.unwrap();
        let data = content(&world.another().await, "/home/a").await;
        assert!(
            data[..100] == all[..100] && data[113..] == all[113..] && &data[100..113] == b"in the middle"
        );
    }
}

#[tokio::test]
async fn a_small_file_is_one_round_trip_and_a_large_one_one_for_each_piece() {
    for world in World::of_ours().await {
        let descriptor = new(&world.client, "/home/small").await;
        let small = async {
            let mut writer = world.client.writer(descriptor, 0);
            for _ in 0..1000 {
                writer.write("line\n").await.unwrap();
            }
            writer.close().await
        };
        world.costing(1, small).await.unwrap();
        let empty = world.client.writer(new(&world.client, "/home/empty").await, 0);
        world.costing(1, empty.close()).await.unwrap();
        let descriptor = new(&world.client, "/home/large").await;
        let large = async {
            let mut writer = world.client.writer(descriptor, 0);
            for _ in 0..140 {
                writer.write(bytes(MIB / 2)).await.unwrap();
            }
            writer.close().await
        };
        // Seventy pieces; what is not safe is made so after 64, and at the end; the file is closed.
        world.costing(70 + 1 + 1 + 1, large).await.unwrap();
        let sizes = ["/home/small", "/home/empty", "/home/large"].map(Into::into).into();
        let sizes = world.another().await.vgetattrs(sizes, AttributeSet::SIZE).await.unwrap();
        let sizes: Vec<_> = sizes.into_iter().map(|attributes| attributes.size.unwrap()).collect();
        assert_eq!(sizes, [5000, 0, 70 << 20]);
    }
}

#[tokio::test]
async fn a_failure_is_said_once_and_that_there_was_one_ever_after() {
    for world in World::each().await {
        world.client.close_file(new(&world.client, "/home/b").await).await.unwrap();
        let cannot = async || world.client.vopen(vec![Open::read("/home/b")]).await.unwrap()[0];

        let mut writer = world.client.writer(cannot().await, 0);
        writer.write("gathered").await.unwrap();
        assert_eq!(writer.sync().await.unwrap_err().errno(), 9);
        assert!(matches!(writer.sync().await, Err(Error::Invalid { .. })));
        assert!(matches!(writer.write("more").await, Err(Error::Invalid { .. })));
        assert!(matches!(writer.close().await, Err(Error::Invalid { .. })));

        let descriptor = cannot().await;
        let mut writer = world.client.writer(descriptor, 0);
        writer.write("gathered").await.unwrap();
        assert_eq!(writer.close().await.unwrap_err().errno(), 9);
        let closed = world.client.vclose(vec![descriptor]).await.unwrap_err();
        assert!(matches!(closed.error, Error::NotOpen(_)), "{closed}");

        let mut writer = world.client.writer(cannot().await, 0);
        let failed = loop {
            if let Err(error) = writer.write(bytes(MIB)).await {
                break error;
            }
        };
        assert_eq!(failed.errno(), 9);
        assert!(matches!(writer.close().await, Err(Error::Invalid { .. })));

        let mut writer = world.client.writer(new(&world.client, "/home/c").await, i64::MAX as u64 - 1);
        assert!(matches!(writer.write("too far").await, Err(Error::Invalid { .. })));
        writer.close().await.unwrap();
        world.client.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_has_taken_all_and_a_writer_that_is_dropped_goes_on() {
    for world in World::of_ours().await {
        let all = bytes(40 * MIB + 3);
        let mut writer = world.client.writer(new(&world.client, "/home/d").await, 0);
        // There is room for sixteen pieces.
        assert!(poll_immediate(std::pin::pin!(writer.write(all.slice(..39 * MIB)))).await.is_none());
        assert_eq!(writer.position(), 39 << 20);
        writer.write(all.slice(39 * MIB..)).await.unwrap();
        drop(writer);
        let other = world.another().await;
        // The last piece may be there before others.
        while content(&other, "/home/d").await != all {}
    }
}

#[tokio::test]
async fn what_a_server_loses_in_a_restart_is_written_again() {
    let mut server = Restarting::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let all = bytes(5 * MIB + 5);
    let mut writer = client.writer(new(&client, "/home/e").await, 0);
    writer.write(all.slice(..3 * MIB)).await.unwrap();
    until_it_has(&other, "/home/e", 3 << 20).await;
    other.truncate("/home/e", 7).await.unwrap();
    server.stop().await;
    server.lose();
    // While it is away.
    writer.write(all.slice(3 * MIB..)).await.unwrap();
    server.start_again().await;
    writer.close().await.unwrap();
    assert!(content(&other, "/home/e").await == all);
}

#[test]
fn programs_that_wait_write_as_to_any_file() {
    let directory = tempfile::tempdir().unwrap();
    let client = blocking::Client::local(directory.path()).unwrap();
    let mut writer = client.writer(client.create("/a", 0o600).unwrap(), 0).unwrap();
    let mut all = Vec::new();
    for n in 0..200_000 {
        writeln!(writer, "line {n}").unwrap();
        writeln!(all, "line {n}").unwrap();
    }
    assert_eq!(writer.position(), all.len() as u64);
    writer.flush().unwrap();
    assert!(std::fs::read(directory.path().join("a")).unwrap() == all);
    writer.write_all(&bytes(3 * MIB)).unwrap();
    writer.close().unwrap();
    all.extend(bytes(3 * MIB));
    assert!(std::fs::read(directory.path().join("a")).unwrap() == all);

    let descriptor = client.create("/b", 0o600).unwrap();
    client.writer(descriptor, 0).unwrap().write_all(b"dropped").unwrap();
    assert_eq!(std::fs::read(directory.path().join("b")).unwrap(), b"dropped");
    assert!(matches!(client.close_file(descriptor), Err(Error::NotOpen(_))));

    let cannot = client.open(Open::read("/b")).unwrap();
    let mut writer = client.writer(cannot, 0).unwrap();
    writer.write_all(b"never").unwrap();
    assert!(writer.flush().is_err());
    assert!(writer.close().is_err());

    let mut writer = client.writer(client.create("/c", 0o600).unwrap(), 0).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let in_it = runtime.enter();
    assert!(matches!(writer.write(b"taken twice"), Err(Error::Unsupported(_))));
    drop(in_it);
    // In several turns, and that is not seen.
    writer.write(&bytes(9 * MIB)).unwrap();
    writer.close().unwrap();
    assert!(std::fs::read(directory.path().join("c")).unwrap() == bytes(9 * MIB));

    let mut writer =
        client.writer(client.create("/d", 0o600).unwrap(), i64::MAX as u64 - 5 * MIB as u64).unwrap();
    assert!(matches!(writer.write(&bytes(6 * MIB)), Err(Error::Invalid { .. })));
    assert_eq!(writer.position(), i64::MAX as u64 - 5 * MIB as u64);
    writer.close().unwrap();
}
