//! What was read before (V35): what a READ of it costs, and that it is never anything but what is there.

mod coherence;
mod delegations;
mod paths;
mod readahead;

use std::future::Future;

use bytes::Bytes;
use vector_client::{
    AttributeSet, Client, Data, Error, NewAttributes, Open, Read, Statistics, Step, TO_END, Write,
};

use crate::restart::Restarting;
use crate::world::World;

/// Bytes of messages without any content of files.
const NO_PAYLOAD: u64 = 1024;

/// What comes of `call`, the requests it took, and the bytes that came.
async fn cost<T>(client: &Client, call: impl Future<Output = T>) -> (T, u64, u64) {
    let before = client.statistics();
    let result = call.await;
    let Statistics { round_trips, bytes_in, .. } = client.statistics();
    (result, round_trips - before.round_trips, bytes_in - before.bytes_in)
}

fn content(length: usize, seed: u8) -> Bytes {
    (0..length).map(|index| (index / 7) as u8 ^ seed).collect::<Vec<u8>>().into()
}

async fn read(client: &Client, read: Read) -> Data {
    client.vread(vec![read]).await.unwrap().remove(0)
}

async fn whole(client: &Client, path: &str) -> Bytes {
    read(client, Read::new(path, 0, TO_END)).await.into_bytes()
}

#[tokio::test]
async fn an_unchanged_file_is_read_again_in_one_round_trip_without_its_content() {
    let world = World::new().await;
    for length in [0, 1, 10_000, 1 << 20, (9 << 20) + 5] {
        let data = content(length, 1);
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
        assert!(whole(&world.client, "/home/a").await == data);
        for wanted in [TO_END, length as u64, length as u64 + 10] {
            let wanted = Read::new("/home/a", 0, wanted.max(1));
            let (again, round_trips, bytes_in) = cost(&world.client, read(&world.client, wanted)).await;
            assert!(again.end_of_file);
            assert!(again.into_bytes() == data);
            assert_eq!(round_trips, 1, "{length}");
            assert!(bytes_in < NO_PAYLOAD, "{length}: {bytes_in}");
        }
    }
}

#[tokio::test]
async fn what_another_client_has_changed_comes_in_the_same_round_trip() {
    let world = World::over_nfs().await;
    let other = world.another().await;
    let data = content(5000, 1);
    other.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
    assert!(whole(&world.client, "/home/a").await == data);
    for change in 2..5 {
        let data = content(5000, change);
        other.vwrite(vec![Write::new("/home/a", 0, data.clone())]).await.unwrap();
        let wanted = Read::new("/home/a", 0, 5000);
        let (again, round_trips, _) = cost(&world.client, read(&world.client, wanted)).await;
        assert!(again.into_bytes() == data);
        assert_eq!(round_trips, 1);
    }
}

#[tokio::test]
async fn a_long_file_that_was_changed_is_read_anew_whole() {
    let world = World::new().await;
    let other = world.another().await;
    for seed in 1..4 {
        let data = content((6 << 20) + 3, seed);
        other.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
        assert!(whole(&world.client, "/home/a").await == data);
        assert!(whole(&world.client, "/home/a").await == data);
    }
}

#[tokio::test]
async fn of_many_files_those_that_were_changed_cost_one_round_trip_more() {
    let world = World::new().await;
    let other = world.another().await;
    let names = || (0..256).map(|number| format!("/home/{number}"));
    let writes = names().map(|name| Write::whole(name, 0o600, content(4096, 1)));
    other.vwrite(writes.collect()).await.unwrap();
    let all = || names().map(|name| Read::new(name, 0, 4096)).collect::<Vec<_>>();
    let (_, round_trips, _) = cost(&world.client, world.client.vread(all())).await;
    assert_eq!(round_trips, 1, "keeping costs no round trip");
    let (again, round_trips, bytes_in) = cost(&world.client, world.client.vread(all())).await;
    assert!(again.unwrap().into_iter().all(|data| data.end_of_file && data.into_bytes() == content(4096, 1)));
    assert_eq!(round_trips, 1);
    assert!(bytes_in < 256 * 256, "{bytes_in}");
    for changed in [vec![7], vec![0, 1, 100, 255], (0..256).collect()] {
        let writes = changed.iter().map(|number| Write::new(format!("/home/{number}"), 0, content(4096, 2)));
        other.vwrite(writes.collect()).await.unwrap();
        let (again, round_trips, _) = cost(&world.client, world.client.vread(all())).await;
        assert_eq!(round_trips, 2, "{} changed", changed.len());
        for (number, data) in again.unwrap().into_iter().enumerate() {
            let seed = if changed.contains(&number) { 2 } else { 1 };
            assert!(data.into_bytes() == content(4096, seed), "{number}");
        }
        let writes = changed.iter().map(|number| Write::new(format!("/home/{number}"), 0, content(4096, 1)));
        other.vwrite(writes.collect()).await.unwrap();
        world.client.vread(all()).await.unwrap();
    }
}

#[tokio::test]
async fn of_more_files_than_one_request_holds_those_that_were_changed_cost_one_round_more() {
    let world = World::new().await;
    let other = world.another().await;
    let names = || (0..600).map(|number| format!("/home/{number}"));
    let all = || names().map(|name| Read::new(name, 0, 100)).collect::<Vec<_>>();
    other.vwrite(names().map(|name| Write::whole(name, 0o600, "1")).collect()).await.unwrap();
    world.client.vread(all()).await.unwrap();
    let (again, round_trips, _) = cost(&world.client, world.client.vread(all())).await;
    again.unwrap();
    assert_eq!(round_trips, 3, "one for each 256");
    let changed = [3, 250, 300, 301, 511, 512, 599];
    let writes = changed.map(|number| Write::new(format!("/home/{number}"), 0, "2"));
    other.vwrite(writes.into()).await.unwrap();
    let (again, round_trips, _) = cost(&world.client, world.client.vread(all())).await;
    for (number, data) in again.unwrap().into_iter().enumerate() {
        assert_eq!(data.into_bytes(), if changed.contains(&number) { "2" } else { "1" }, "{number}");
    }
    assert!(round_trips <= 6, "{round_trips}");
}

#[tokio::test]
async fn of_many_files_that_were_changed_the_content_of_the_last_comes_once() {
    const LAST: u64 = 500_000;
    let world = World::new().await;
    let other = world.another().await;
    for (many, expected) in [(2, 2), (256, 2), (257, 4)] {
        let name = |number| format!("/home/{many}-{number}");
        let length = |number| if number + 1 == many { LAST as usize } else { 1 };
        let write = async |seed| {
            let writes = (0..many).map(|it| Write::whole(name(it), 0o600, content(length(it), seed)));
            other.vwrite(writes.collect()).await.unwrap();
        };
        let all =
            || (0..many).map(|number| Read::new(name(number), 0, length(number) as u64)).collect::<Vec<_>>();
        write(0).await;
        world.client.vread(all()).await.unwrap();
        write(1).await;
        let (data, round_trips, bytes_in) = cost(&world.client, world.client.vread(all())).await;
        for (number, data) in data.unwrap().into_iter().enumerate() {
            assert!(data.into_bytes() == content(length(number), 1), "{number}");
        }
        assert_eq!(round_trips, expected, "{many}");
        assert_eq!(bytes_in / LAST, 1, "{many}: {bytes_in}");
    }
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_is_never_the_file_it_led_to() {
    let world = World::over_nfs().await;
    let other = world.another().await;
    let both = ["/home/a", "/home/b"];
    other.vwrite(both.map(|name| Write::whole(name, 0o600, name)).to_vec()).await.unwrap();
    let reads = || both.map(|name| Read::new(name, 0, 100)).to_vec();
    for _ in 0..2 {
        let data = world.client.vread(reads()).await.unwrap();
        assert_eq!(data[0].clone().into_bytes(), "/home/a");
    }
    other.rename("/home/b", "/home/a").await.unwrap();
    assert_eq!(whole(&world.client, "/home/a").await, "/home/b");
    let failure = world.client.vread(reads()).await.unwrap_err();
    assert_eq!((failure.index(), failure.error.is_not_found()), (1, true));
    other.rename("/home/a", "/home/c").await.unwrap();
    other.symlink("c", "/home/a").await.unwrap();
    assert_eq!(whole(&world.client, "/home/a").await, "/home/b");
    assert_eq!(whole(&world.client, "/home/a").await, "/home/b", "through the link");
    let read = Read { follow: false, ..Read::new("/home/a", 0, 100) };
    assert_eq!(world.client.vread(vec![read]).await.unwrap_err().error.errno(), 40);
    other.unlink("/home/a").await.unwrap();
    other.mkdir("/home/a", 0o700).await.unwrap();
    let failure = world.client.vread(vec![Read::new("/home/a", 0, 100)]).await.unwrap_err();
    assert_eq!(failure.error.errno(), 21);
}

#[tokio::test]
async fn files_that_have_the_same_change_are_told_apart_when_their_directories_change_places() {
    let world = Restarting::start_at_one_instant().await;
    let (client, other) = (world.client().await, world.client().await);
    for directory in ["/home/x", "/home/y"] {
        other.mkdir(directory, 0o700).await.unwrap();
        let write = Write::whole(format!("{directory}/f"), 0o600, directory);
        other.vwrite(vec![write]).await.unwrap();
    }
    let both = ["/home/x/f", "/home/y/f"];
    let changes = other.vgetattrs(both.map(Into::into).into(), AttributeSet::CHANGE).await.unwrap();
    assert_eq!(changes[0], changes[1], "nothing else tells them apart");
    let reads = || both.map(|name| Read::new(name, 0, 100)).to_vec();
    let all = || async {
        let data = client.vread(reads()).await.unwrap();
        data.into_iter().map(Data::into_bytes).collect::<Vec<_>>()
    };
    assert_eq!(all().await, ["/home/x", "/home/y"]);
    for (from, to) in [("/home/x", "/home/z"), ("/home/y", "/home/x"), ("/home/z", "/home/y")] {
        other.rename(from, to).await.unwrap();
    }
    assert_eq!(all().await, ["/home/y", "/home/x"]);
    assert_eq!(whole(&client, "/home/x/f").await, "/home/y");
    other.rename("/home/x", "/home/z").await.unwrap();
    other.rename("/home/y", "/home/x").await.unwrap();
    assert_eq!(whole(&client, "/home/x/f").await, "/home/x");
}

#[tokio::test]
async fn what_must_not_be_read_any_more_is_not_read() {
    let world = World::over_nfs().await;
    let change = |options: &mut vector_client::Options| {
        options.nfs.credential = onc_rpc::Credential::Sys(onc_rpc::AuthSys::new(1000, 1000));
    };
    let user = world.another_with(change).await;
    world.client.vwrite(vec![Write::whole("/home/a", 0o644, "secret")]).await.unwrap();
    assert_eq!(whole(&user, "/home/a").await, "secret");
    world.client.chmod("/home/a", 0o600).await.unwrap();
    for _ in 0..2 {
        let failure = user.vread(vec![Read::new("/home/a", 0, 100)]).await.unwrap_err();
        assert_eq!(failure.error.errno(), 13);
    }
}

#[tokio::test]
async fn a_vector_that_changes_a_file_reads_it_as_it_is_at_that_place() {
    let world = World::over_nfs().await;
    world.client.vwrite(vec![Write::whole("/home/a", 0o600, "one")]).await.unwrap();
    assert_eq!(whole(&world.client, "/home/a").await, "one");
    let read = || Step::Read(Read::new("/home/a", 0, 10));
    let steps = vec![read(), Step::Write(Write::new("/home/a", 0, "two")), read()];
    let done = world.client.execute(steps).await.unwrap();
    let data = [0, 2].map(|index| match &done[index] {
        vector_client::Done::Read(data) => data.clone().into_bytes(),
        other => panic!("{other:?}"),
    });
    assert_eq!(data, ["one", "two"]);
}

#[tokio::test]
async fn what_is_open_for_writing_alone_is_not_read_from_memory_either() {
    let world = World::over_nfs().await;
    world.client.vwrite(vec![Write::whole("/home/a", 0o600, "one")]).await.unwrap();
    let both = world.client.open(Open::write("/home/a")).await.unwrap();
    let only = world.client.open(Open { read: false, ..Open::write("/home/a") }).await.unwrap();
    assert_eq!(world.client.pread(both, 0, 10).await.unwrap().into_bytes(), "one");
    let uncached = world.another_with(|options| options.cache_bytes = 0).await;
    let as_ever = uncached.open(Open { read: false, ..Open::write("/home/a") }).await.unwrap();
    let (with, without) = (world.client.pread(only, 0, 10).await, uncached.pread(as_ever, 0, 10).await);
    assert_eq!(with.map_err(|error: Error| error.errno()), without.map_err(|error| error.errno()));
    world.client.close_file(both).await.unwrap();
    let closed = world.client.pread(both, 0, 10).await.unwrap_err();
    assert_eq!(closed.errno(), 9);
}

#[tokio::test]
async fn without_memory_everything_is_read() {
    let world = World::with(nfs4_server::Limits::default(), |options| options.cache_bytes = 0).await;
    let data = content(100_000, 1);
    world.client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
    for _ in 0..2 {
        let wanted = Read::new("/home/a", 0, 100_000);
        let (got, round_trips, bytes_in) = cost(&world.client, read(&world.client, wanted)).await;
        assert!(got.into_bytes() == data && round_trips == 1);
        assert!(bytes_in > 100_000);
    }
}

#[tokio::test]
async fn a_file_longer_than_the_memory_is_read_as_it_is() {
    let world = World::with(nfs4_server::Limits::default(), |options| options.cache_bytes = 3 << 20).await;
    let other = world.another().await;
    for seed in 1..3 {
        let data = content(8 << 20, seed);
        other.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
        for _ in 0..3 {
            assert!(whole(&world.client, "/home/a").await == data);
        }
    }
}

#[tokio::test]
async fn own_changes_are_seen_however_the_file_is_named() {
    let world = World::new().await;
    let client = &world.client;
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123456789")]).await.unwrap();
    client.link("/home/a", "/home/b").await.unwrap();
    let open = client.open(Open::write("/home/a")).await.unwrap();
    let all = || async {
        let data = client.pread(open, 0, 100).await.unwrap().into_bytes();
        assert_eq!(whole(client, "/home/a").await, data);
        assert_eq!(whole(client, "/home/b").await, data);
        data
    };
    assert_eq!(all().await, "0123456789");
    client.vwrite(vec![Write::new("/home/b", 1, "x")]).await.unwrap();
    assert_eq!(all().await, "0x23456789");
    client.pwrite(open, 2, "y").await.unwrap();
    assert_eq!(all().await, "0xy3456789");
    client.truncate("/home/b", 4).await.unwrap();
    assert_eq!(all().await, "0xy3");
    client.vsetattrs(vec![(open.into(), NewAttributes::size(6))]).await.unwrap();
    assert_eq!(all().await, "0xy3\0\0");
    client.vsscopy(vec![vector_client::Copy::whole("/home/a", "/home/c", 0o600)]).await.unwrap();
    client.vwrite(vec![Write::new("/home/c", 0, "C")]).await.unwrap();
    let copy = vector_client::Copy {
        truncate: false,
        create: None,
        ..vector_client::Copy::whole("/home/c", "/home/b", 0)
    };
    client.vsscopy(vec![copy]).await.unwrap();
    assert_eq!(all().await, "Cxy3\0\0");
    let transaction = client.transaction(|t| {
        t.write(Write::new("/home/b", 0, "T"));
    });
    transaction.await.unwrap();
    assert_eq!(all().await, "Txy3\0\0");
}
