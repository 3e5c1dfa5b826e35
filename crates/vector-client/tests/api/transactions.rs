//! All or nothing (T1 to T3, T10).

use vector_client::{
    AttributeSet, Copy, Data, Error, NewAttributes, Open, Read, Step, Target, Ticket, Write,
};

use crate::world::World;

async fn names(world: &World) -> Vec<(String, Option<u64>, Option<u32>)> {
    let mut names = Vec::new();
    let wanted = AttributeSet::SIZE | AttributeSet::LINKS;
    world
        .client
        .vlistdir(vec!["/home".into()], wanted, true, |directory, entry| {
            names.push((
                directory.join(&entry.name).to_string(),
                entry.attributes.size,
                entry.attributes.links,
            ));
        })
        .await
        .unwrap();
    names.sort();
    names
}

#[tokio::test]
async fn steps_of_all_kinds_are_done_at_once_in_one_round_trip() {
    let world = World::new().await;
    world.client.vwrite(vec![Write::whole("/home/old", 0o600, "old")]).await.unwrap();
    let ((committed, tickets), trips) = world
        .round_trips(async {
            let mut tickets = None;
            let committed = world.client.transaction(|t| {
                t.make_directory("/home/d", 0o755);
                let written = t.write(Write::whole("/home/d/a", 0o600, "content"));
                t.write(Write::append("/home/d/a", " and more"));
                let read = t.read(Read::new("/home/d/a", 3, 100));
                t.rename("/home/d", "/home/e");
                t.copy(Copy::whole("/home/e/a", "/home/e/b", 0o600));
                t.symbolic_link("/home/e/link", "b");
                t.hard_link("/home/e/a", "/home/e/c");
                t.set_attributes("/home/e/a", NewAttributes::mode(0o640));
                let attributes = t.get_attributes("/home/e/c", AttributeSet::MODE | AttributeSet::LINKS);
                t.remove("/home/old");
                let open = t.open(Open::write("/home/e/b"));
                tickets = Some((written, read, attributes, open));
            });
            (committed.await.unwrap(), tickets.unwrap())
        })
        .await;
    assert_eq!(trips, 1);
    let (mut committed, (written, read, attributes, open)) = (committed, tickets);
    assert_eq!(committed.get(&written), Some(7));
    assert_eq!(committed.get(&read).unwrap().into_bytes(), "tent and more");
    let attributes = committed.get(&attributes).unwrap();
    assert_eq!((attributes.mode, attributes.links), (Some(0o640), Some(2)));
    let open = committed.get(&open).unwrap();
    world.client.vwrite(vec![Write::new(open, 0, "CON")]).await.unwrap();
    world.client.vclose(vec![open]).await.unwrap();
    let data = world.client.vread(vec![Read::new("/home/e/link", 0, 100)]).await.unwrap().remove(0);
    assert_eq!(data.into_bytes(), "CONtent and more");
}

#[tokio::test]
async fn wherever_a_step_fails_nothing_is_done() {
    let world = World::new().await;
    world.client.vwrite(vec![Write::whole("/home/here", 0o600, "as it was")]).await.unwrap();
    let before = names(&world).await;
    let good = || {
        vec![
            Step::MakeDirectory { target: "/home/d".into(), mode: 0o755 },
            Step::Write(Write::whole("/home/d/a", 0o600, vec![7; 1000])),
            Step::Write(Write::whole("/home/here", 0o600, "overwritten")),
            Step::HardLink { existing: "/home/here".into(), new: "/home/d/link".into() },
            Step::Rename { from: "/home/here".into(), to: "/home/d/moved".into() },
            Step::Remove("/home/d/a".into()),
        ]
    };
    for bad in 0..=good().len() {
        let mut steps = good();
        steps.insert(bad, Step::Remove("/home/none".into()));
        let aborted = world
            .client
            .transaction(|t| {
                for step in steps {
                    // What comes of them does not matter.
                    let _ = t.step::<()>(step);
                }
            })
            .await
            .unwrap_err();
        assert_eq!((aborted.step, aborted.unknown), (Some(bad), false), "{aborted}");
        assert!(aborted.error.is_not_found(), "{aborted}");
        assert_eq!(names(&world).await, before);
        let data = world.client.vread(vec![Read::new("/home/here", 0, 100)]).await.unwrap().remove(0);
        assert_eq!(data.into_bytes(), "as it was");
    }
}

#[tokio::test]
async fn what_is_too_much_is_refused_before_anything_is_sent() {
    let world = World::new().await;
    let limits = world.client.transaction_limits().unwrap();
    let (aborted, trips) = world
        .round_trips(world.client.transaction(|t| {
            t.make_directory("/home/d", 0o755);
            t.write(Write::whole("/home/d/a", 0o600, vec![0; limits.bytes as usize + 1]));
        }))
        .await;
    assert_eq!(trips, 0);
    let aborted = aborted.unwrap_err();
    assert!(matches!(aborted.error, Error::TooBig { unit: "bytes", .. }), "{aborted}");
    let many = world.client.transaction(|t| {
        for n in 0..limits.operations {
            t.make_directory(format!("/home/{n}"), 0o755);
        }
    });
    let aborted = many.await.unwrap_err();
    assert!(matches!(aborted.error, Error::TooBig { .. }), "{aborted}");
    assert!(names(&world).await.is_empty());
}

#[tokio::test]
async fn large_writes_and_links_on_the_way_are_part_of_it() {
    let world = World::new().await;
    world.client.vmkdir(vec![("/home/real".into(), 0o755)]).await.unwrap();
    world.client.vsymlink(vec![("/home/link".into(), "real".into())]).await.unwrap();
    world.client.vsymlink(vec![("/home/real/last".into(), "data".into())]).await.unwrap();
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 5) as u8).collect();
    let mut size = None;
    let committed = world.client.transaction(|t| {
        t.write(Write::whole("/home/link/data", 0o600, data.clone()));
        size = Some(t.get_attributes(Target::from("/home/real/data"), AttributeSet::SIZE));
    });
    let mut committed = committed.await.unwrap();
    assert_eq!(committed.get(&size.unwrap()).unwrap().size, Some(3_000_000));
    let read = Read::new("/home/real/last", 0, 3_000_000);
    assert_eq!(world.client.vread(vec![read]).await.unwrap().remove(0).into_bytes(), data);
}

/// What is chained to a file is one OPEN, what is done with it, and one CLOSE; all of it, of all files, is one compound (V44).
#[tokio::test]
async fn what_is_chained_to_files_is_one_compound() {
    for world in World::each().await {
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, "content of a")]).await.unwrap();
        let before = world.client.statistics().operations;
        let mut tickets = None;
        let batch = world.client.batch(|batch| {
            let (head, written, tail) =
                batch.chain("/home/a", |a| (a.read(0, 7), a.write(0, "C"), a.read(8, 100)));
            let again = batch.chain_new("/home/b", 0o640, |b| {
                b.write(0, "b and");
                b.write(5, " more");
                b.read(0, 100)
            });
            let c = batch.chain_new("/home/c", 0o600, |c| c.read(0, 100));
            batch.chain_new("/home/empty", 0o600, |_| {});
            batch.chain("/home/a", |_| {});
            batch.rename("/home/b", "/home/d");
            tickets = Some((head, written, tail, again, c));
        });
        let mut done = world.costing(1, batch).await.unwrap();
        let (head, written, tail, again, c) = tickets.unwrap();
        let mut text = |ticket: Ticket<Data>| {
            String::from_utf8(done.get(&ticket).unwrap().into_bytes().to_vec()).unwrap()
        };
        assert_eq!([head, tail, again, c].map(&mut text), ["content", "of a", "b and more", ""]);
        assert_eq!(done.get(&written), Some(1));
        if world.is_nfs() {
            // The way there, five OPENs and CLOSEs with the ways between, ten READs and WRITEs, and RENAME with what it needs.
            assert_eq!(world.client.statistics().operations - before, 33, "nothing is opened twice");
        }
        assert_eq!(
            names(&world).await.into_iter().map(|(name, size, _)| (name, size)).collect::<Vec<_>>(),
            [("/home/a", 12), ("/home/c", 0), ("/home/d", 10), ("/home/empty", 0)]
                .map(|(name, size)| (name.to_owned(), Some(size)))
        );
        let failed = world.client.batch(|batch| {
            batch.make_directory("/home/new", 0o700);
            batch.chain("/home/none", |none| none.read(0, 1));
            batch.chain_new("/home/never", 0o600, |_| {});
        });
        let failure = failed.await.unwrap_err();
        assert!(failure.index() == 1 && failure.error.is_not_found(), "{failure}");
        assert_eq!(names(&world).await.len(), 5);
    }
}

#[tokio::test]
async fn what_is_chained_in_a_transaction_is_done_with_the_rest_or_not_at_all() {
    let world = World::new().await;
    let failed = world.client.transaction(|t| {
        t.chain_new("/home/a", 0o600, |a| a.write(0, "x"));
        t.chain("/home/none", |none| none.read(0, 1));
    });
    assert_eq!(failed.await.unwrap_err().step, Some(1));
    assert!(names(&world).await.is_empty());
    let mut read = None;
    let done = world.client.transaction(|t| {
        read = Some(t.chain_new("/home/a", 0o600, |a| {
            a.write(0, "who");
            a.append("le");
            a.read(1, 3)
        }));
    });
    let (done, trips) = world.round_trips(done).await;
    assert_eq!(trips, 1);
    assert_eq!(done.unwrap().get(&read.unwrap()).unwrap().into_bytes(), "hol");
}
