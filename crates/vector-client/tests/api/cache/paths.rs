//! Paths that are believed for a time: files that are read by them again and again cost nothing, and only what others do to the directories above is
//! seen late.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::Duration;

use environment::Environment;
use nfs4_server::Limits;
use vector_client::{Client, Open, Options, Read, TO_END, Write};

use super::delegations::AheadClock;
use super::{content, cost, read, whole};
use crate::restart::{Restarting, known};
use crate::world::World;

const TIMEOUT: Duration = Duration::from_secs(30);

fn believing(options: &mut Options) {
    options.entry_timeout = TIMEOUT;
}

async fn world() -> World {
    World::with(Limits::default(), believing).await
}

/// Reads until nothing is asked any more; fails if that never comes.
async fn until_held(client: &Client, path: &str) {
    for _ in 0..10_000 {
        let (_, round_trips, _) = cost(client, whole(client, path)).await;
        // Opening it is a round trip as well, in the background.
        if round_trips == 0 && cost(client, whole(client, path)).await.1 == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{path} costs a round trip each time");
}

#[tokio::test]
async fn what_is_read_again_and_again_costs_nothing() {
    let world = world().await;
    let client = &world.client;
    for length in [1, 10_000, (9 << 20) + 5] {
        let data = content(length, 1);
        client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
        until_held(client, "/home/a").await;
        let again = async {
            assert!(whole(client, "/home/a").await == data);
            for wanted in [Read::new("/home/a", 0, 1), Read::new("/home/a", length as u64 - 1, 10)] {
                let start = wanted.offset as usize;
                let end = length.min(start + wanted.length as usize);
                assert_eq!(read(client, wanted).await.into_bytes(), data[start..end]);
            }
            assert!(read(client, Read::new("/home/a", length as u64, 1)).await.end_of_file);
        };
        let ((), round_trips, bytes_in) = cost(client, again).await;
        assert_eq!((round_trips, bytes_in), (0, 0));
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_is_read_alone_is_delegated_with_that() {
    let world = world().await;
    let client = &world.client;
    for length in [1, 10_000, 1 << 20] {
        let data = content(length, 1);
        client.vwrite(vec![Write::whole("/home/a", 0o600, data.clone())]).await.unwrap();
        for round_trips in [1, 0, 0] {
            let wanted = Read::new("/home/a", 0, length as u64);
            let (again, cost, _) = cost(client, read(client, wanted)).await;
            assert!(again.into_bytes() == data);
            assert_eq!(cost, round_trips, "{length}");
        }
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_was_moved_while_nothing_was_delegated_is_not_believed() {
    let world = world().await;
    let (client, other) = (&world.client, world.another().await);
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123")]).await.unwrap();
    let before = client.open(Open::read("/home/a")).await.unwrap();
    client.pread(before, 0, 9).await.unwrap();
    for _ in 0..5 {
        assert_eq!(whole(client, "/home/a").await, "0123");
    }
    client.close_file(before).await.unwrap();
    other.rename("/home/a", "/home/x").await.unwrap();
    let after = client.open(Open::read("/home/x")).await.unwrap();
    for _ in 0..3 {
        assert_eq!(client.pread(after, 0, 9).await.unwrap().into_bytes(), "0123");
    }
    let failure = client.vread(vec![Read::new("/home/a", 0, TO_END)]).await.unwrap_err();
    assert_eq!(failure.error.errno(), 2);
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_directory_that_the_client_itself_has_moved_is_not_believed_in_though_its_files_are_known() {
    let world = world().await;
    let client = &world.client;
    client.mkdir("/home/d", 0o755).await.unwrap();
    client.vwrite(vec![Write::whole("/home/d/a", 0o600, "old")]).await.unwrap();
    until_held(client, "/home/d/a").await;
    client.rename("/home/d", "/home/e").await.unwrap();
    until_held(client, "/home/e/a").await;
    let failure = client.vread(vec![Read::new("/home/d/a", 0, TO_END)]).await.unwrap_err();
    assert_eq!(failure.error.errno(), 2);
    client.mkdir("/home/d", 0o755).await.unwrap();
    client.vwrite(vec![Write::whole("/home/d/a", 0o600, "new")]).await.unwrap();
    for _ in 0..5 {
        assert_eq!(whole(client, "/home/d/a").await, "new");
        assert_eq!(whole(client, "/home/e/a").await, "old");
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_vector_of_files_that_were_read_costs_nothing() {
    let world = world().await;
    let client = &world.client;
    let names = || (0..100).map(|number| format!("/home/{number}"));
    client.vwrite(names().map(|name| Write::whole(name.clone(), 0o600, name)).collect()).await.unwrap();
    let all = || names().map(|name| Read::new(name, 0, TO_END)).collect::<Vec<_>>();
    for attempt in 0.. {
        let (data, round_trips, _) = cost(client, client.vread(all())).await;
        for (name, data) in names().zip(data.unwrap()) {
            assert_eq!(data.into_bytes(), name);
        }
        if round_trips == 0 {
            break;
        }
        assert!(attempt < 10_000, "it costs {round_trips} each time");
        tokio::task::yield_now().await;
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_others_do_to_the_file_is_seen_at_once() {
    let world = world().await;
    let (client, other) = (&world.client, world.another().await);
    for (number, act) in ["write", "cut", "remove", "rename", "replace"].into_iter().enumerate() {
        let path = format!("/home/{number}");
        other.vwrite(vec![Write::whole(&path, 0o600, "0123")]).await.unwrap();
        until_held(client, &path).await;
        let expected = match act {
            "write" => {
                other.vwrite(vec![Write::new(&path, 1, "x")]).await.unwrap();
                Some("0x23")
            }
            "cut" => {
                other.truncate(&path, 2).await.unwrap();
                Some("01")
            }
            "remove" => {
                other.unlink(&path).await.unwrap();
                None
            }
            "rename" => {
                other.rename(&path, "/home/elsewhere").await.unwrap();
                None
            }
            _ => {
                other.vwrite(vec![Write::whole("/home/new", 0o600, "new")]).await.unwrap();
                other.rename("/home/new", &path).await.unwrap();
                Some("new")
            }
        };
        for _ in 0..3 {
            let data = client.vread(vec![Read::new(&path, 0, TO_END)]).await;
            let data = data.ok().map(|mut data| data.remove(0).into_bytes());
            assert_eq!(data.as_deref(), expected.map(str::as_bytes), "{act}");
        }
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_the_client_does_itself_is_seen_at_once() {
    let world = world().await;
    let client = &world.client;
    client.mkdir("/home/d", 0o755).await.unwrap();
    client.vwrite(vec![Write::whole("/home/d/a", 0o600, "0123")]).await.unwrap();
    let fails =
        || async { client.vread(vec![Read::new("/home/d/a", 0, 9)]).await.unwrap_err().error.errno() };
    until_held(client, "/home/d/a").await;
    client.vwrite(vec![Write::new("/home/d/a", 1, "x")]).await.unwrap();
    assert_eq!(whole(client, "/home/d/a").await, "0x23");
    until_held(client, "/home/d/a").await;
    client.rename("/home/d", "/home/e").await.unwrap();
    assert_eq!(fails().await, 2, "the directory has another name");
    client.rename("/home/e", "/home/d").await.unwrap();
    until_held(client, "/home/d/a").await;
    client.rename("/home/d/a", "/home/d/b").await.unwrap();
    assert_eq!(fails().await, 2);
    client.rename("/home/d/b", "/home/d/a").await.unwrap();
    until_held(client, "/home/d/a").await;
    let transaction = client.transaction(|t| {
        t.remove("/home/d/a");
    });
    transaction.await.unwrap();
    assert_eq!(fails().await, 2);
    client.vwrite(vec![Write::whole("/home/d/a", 0o600, "new")]).await.unwrap();
    assert_eq!(whole(client, "/home/d/a").await, "new");
    client.close().await.unwrap();
}

#[tokio::test]
async fn reads_that_nobody_waits_for_leave_nothing_behind() {
    let world = world().await;
    let (client, other) = (&world.client, world.another().await);
    let names: Vec<_> = (0..8).map(|number| format!("/home/{number}")).collect();
    other.vwrite(names.iter().map(|name| Write::whole(name.clone(), 0o600, "0123")).collect()).await.unwrap();
    for name in &names {
        // Sent, and given up at once.
        let read = client.vread(vec![Read::new(name.clone(), 0, 9)]);
        futures::pin_mut!(read);
        assert!(matches!(futures::poll!(read.as_mut()), Poll::Pending));
    }
    for name in &names {
        until_held(client, name).await;
    }
    for name in &names {
        let write = other.vwrite(vec![Write::new(name.clone(), 0, "x")]);
        tokio::time::timeout(Duration::from_secs(20), write).await.expect("nobody has to wait").unwrap();
        assert_eq!(whole(client, name).await, "x123");
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_client_is_closed_beside_its_reads() {
    for _ in 0..20 {
        let world = world().await;
        let client = &world.client;
        let names: Vec<_> = (0..8).map(|number| format!("/home/{number}")).collect();
        let writes = names.iter().map(|name| Write::whole(name.clone(), 0o600, vec![7; 3 << 20]));
        client.vwrite(writes.collect()).await.unwrap();
        let reads = names.iter().map(|name| async {
            for _ in 0..5 {
                if client.vread(vec![Read::new(name.clone(), 0, TO_END)]).await.is_err() {
                    return;
                }
            }
        });
        let close = async {
            tokio::task::yield_now().await;
            client.close().await
        };
        let (_, closed) = tokio::join!(futures::future::join_all(reads), close);
        closed.unwrap();
    }
}

#[tokio::test]
async fn what_others_do_to_directories_is_seen_when_the_time_is_over() {
    let clock = Arc::new(AheadClock { real: Environment::real().clock, by: AtomicU64::new(0) });
    let change = |options: &mut Options| {
        options.nfs.environment.clock = clock.clone();
        // Every lease is longer.
        options.entry_timeout = Duration::from_secs(10);
    };
    let world = World::with(Limits::default(), change).await;
    let (client, other) = (&world.client, world.another().await);
    other.mkdir("/home/d", 0o755).await.unwrap();
    other.vwrite(vec![Write::whole("/home/d/a", 0o600, "old")]).await.unwrap();
    until_held(client, "/home/d/a").await;
    other.rename("/home/d", "/home/e").await.unwrap();
    other.mkdir("/home/d", 0o755).await.unwrap();
    other.vwrite(vec![Write::whole("/home/d/a", 0o600, "new")]).await.unwrap();
    clock.by.store(10, SeqCst);
    assert_eq!(whole(client, "/home/d/a").await, "new");
    until_held(client, "/home/d/a").await;
    assert_eq!(whole(client, "/home/d/a").await, "new");
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_held_is_in_nobodys_way() {
    let world = world().await;
    let (client, other) = (&world.client, world.another().await);
    client.vwrite(vec![Write::whole("/home/a", 0o600, "a")]).await.unwrap();
    until_held(client, "/home/a").await;
    // The same client as often as it likes, and with descriptors of its own.
    let open = client.open(Open::read("/home/a")).await.unwrap();
    assert_eq!(client.pread(open, 0, 9).await.unwrap().into_bytes(), "a");
    client.close_file(open).await.unwrap();
    until_held(client, "/home/a").await;
    for round in ["b", "c", "d"] {
        let write = other.vwrite(vec![Write::new("/home/a", 0, round)]);
        tokio::time::timeout(Duration::from_secs(20), write).await.expect("nobody has to wait").unwrap();
        assert_eq!(whole(client, "/home/a").await, round);
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn after_a_restart_of_the_server_paths_lead_where_they_lead() {
    let mut world = Restarting::start().await;
    let client = world.client_with(believing).await;
    let other = world.client().await;
    client.vwrite(vec![Write::whole("/home/a", 0o600, "0123")]).await.unwrap();
    for round in ["x", "y", "z"] {
        for _ in 0..5 {
            whole(&client, "/home/a").await;
        }
        world.restart().await;
        known(async || other.vwrite(vec![Write::new("/home/a", 1, round)]).await).await.unwrap();
        for _ in 0..3 {
            assert_eq!(whole(&client, "/home/a").await, format!("0{round}23"));
        }
    }
    client.close().await.unwrap();
}
