//! The calls that wait.

use std::path::Path;
use std::thread;

use vector_client::blocking::Client;
use vector_client::{AttributeSet, Creation, Error, Options, Read, Target, Write};

use crate::world::World;

/// A client of each kind, and the asynchronous one beside it.
async fn each(worlds: impl IntoIterator<Item = World>) -> Vec<(World, Client)> {
    let mut both = Vec::new();
    for world in worlds {
        let address = world.address().map(|it| it.to_string());
        let directory = world.directory().map(Path::to_path_buf);
        let client = outside(|| match (address, directory) {
            (Some(address), _) => Client::connect(address, Options::default()).unwrap(),
            (None, directory) => Client::local(directory.unwrap()).unwrap(),
        });
        both.push((world, client));
    }
    both
}

/// On a thread that no runtime has to do with, while the server goes on.
fn outside<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    tokio::task::block_in_place(|| thread::scope(|scope| scope.spawn(call).join().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_call_waits_for_its_result() {
    for (world, client) in each(World::each().await).await {
        outside(|| {
            client.vmkdir(vec![("/home/a".into(), 0o755)]).unwrap();
            client.vwrite(vec![Write::whole("/home/a/b", 0o600, "content")]).unwrap();
            let data = client.vread(vec![Read::new("/home/a/b", 0, 9)]).unwrap().remove(0);
            assert_eq!(data.into_bytes(), "content");
            let mut found = Vec::new();
            let listed =
                client.vlistdir(vec!["/home".into()], AttributeSet::KIND, true, |directory, entry| {
                    let target = directory.join(&entry.name);
                    // Another call from within.
                    assert_eq!(client.lstat(&target).unwrap().kind, entry.attributes.kind);
                    found.push(target);
                });
            assert_eq!(listed.unwrap(), 2);
            assert_eq!(found, ["/home/a", "/home/a/b"].map(Target::from));
            let mut walk = client.walk(vec!["/home/none".into()], AttributeSet::NONE, false);
            assert!(walk.next().unwrap().entries.is_err_and(|error| error.is_not_found()));
            assert!(walk.next().is_none());
            let descriptor = client.create("/home/c", 0o600).unwrap();
            client.write(descriptor, "one").unwrap();
            client.fsync(descriptor).unwrap();
            client.close_file(descriptor).unwrap();
            let size = client.wait(async |client| client.stat("/home/c").await.unwrap().size);
            assert_eq!(size.unwrap(), Some(3));
            let failure = client.vremove(vec!["/home/c".into(), "/home/a".into()]).unwrap_err();
            assert_eq!((failure.index(), failure.error.errno()), (1, 39));
        });
        assert_eq!(client.statistics().round_trips > 0, world.is_nfs());
        outside(|| client.close().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_threads_call_at_once() {
    for (_world, client) in each(World::of_ours().await).await {
        let create = Some(Creation { mode: 0o600, exclusive: false });
        outside(|| {
            thread::scope(|scope| {
                for thread in 0..16 {
                    let client = client.clone();
                    scope.spawn(move || {
                        for round in 0..20 {
                            let line = format!("{thread:02} {round:02}\n");
                            let write = Write { create, ..Write::append("/home/log", line.clone()) };
                            let own = Write::whole(format!("/home/{thread}"), 0o600, line.clone());
                            client.vwrite(vec![write, own]).unwrap();
                            let read = Read::new(format!("/home/{thread}"), 0, 99);
                            assert_eq!(client.vread(vec![read]).unwrap().remove(0).into_bytes(), line);
                        }
                    });
                }
            });
            let log = client.vread(vec![Read::new("/home/log", 0, 1 << 20)]).unwrap().remove(0);
            assert_eq!(log.len(), 16 * 20 * 6);
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn asynchronous_code_gets_an_error_instead_of_waiting_and_may_drop_the_client() {
    for (world, client) in each(World::each().await).await {
        let failure = client.vmkdir(vec![("/home/a".into(), 0o755)]).unwrap_err();
        assert!(matches!(failure.error, Error::Unsupported(_)), "{failure}");
        assert_eq!((failure.index(), failure.unknown), (0, 0));
        let mut walk = client.walk(vec!["/home".into()], AttributeSet::NONE, false);
        assert!(walk.next().unwrap().entries.is_err());
        assert!(walk.next().is_none());
        assert!(client.stat("/home").is_err());
        let there = world.client.vgetattrs(vec!["/home/a".into()], AttributeSet::KIND).await;
        assert!(there.unwrap_err().error.is_not_found());
        drop(client);
    }
}
