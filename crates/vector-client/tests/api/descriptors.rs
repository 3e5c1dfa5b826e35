//! Open files (V6 to V9).

use vector_client::{AttributeSet, Copy, Creation, Error, NewAttributes, Open, Read, Step, Target, Write};

use crate::restart::{Restarting, known};
use crate::world::World;

#[tokio::test]
async fn files_are_opened_as_each_is_wanted_in_one_round_trip() {
    for world in World::each().await {
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, "a")]).await.unwrap();
        let opens = vec![
            Open::read("/home/a"),
            Open::create("/home/b", 0o640),
            Open { truncate: true, ..Open::write("/home/a") },
        ];
        let opened = world.costing(1, world.client.vopen(opens)).await;
        let [read, create, write] = opened.unwrap()[..] else { panic!() };
        assert!(world.opens().is_none_or(|opens| opens > 0));
        let refused = world.client.vwrite(vec![Write::new(read, 0, "x")]).await.unwrap_err();
        assert_eq!(refused.error.errno(), 9, "{refused}");
        let writes =
            vec![Write::new(create, 0, "made"), Write { stable: true, ..Write::new(write, 0, "again") }];
        world.client.vwrite(writes).await.unwrap();
        world.client.vcommit(vec![create]).await.unwrap();
        let closed = world.costing(1, world.client.vclose(vec![read, create, write])).await;
        closed.unwrap();
        assert!(world.opens().is_none_or(|opens| opens == 0), "the server holds nothing open");
        let closed = world.client.vread(vec![Read::new(read, 0, 1)]).await.unwrap_err();
        assert!(matches!(closed.error, Error::NotOpen(_)));
        let other = world.another().await;
        let reads = vec![Read::new("/home/a", 0, 9), Read::new("/home/b", 0, 9)];
        let data = other.vread(reads).await.unwrap();
        assert_eq!(data[0].clone().into_bytes(), "again");
        assert_eq!(data[1].clone().into_bytes(), "made");
    }
}

#[tokio::test]
async fn files_are_opened_all_in_the_same_way_in_one_round_trip() {
    for world in World::each().await {
        let client = &world.client;
        let targets = || ["/home/a", "/home/b", "/home/c"].map(Target::from).to_vec();
        let none = client.vopen_simple(targets(), false, None).await.unwrap_err();
        assert!(none.index() == 0 && none.error.is_not_found(), "{none}");
        let create = Some(Creation { mode: 0o640, exclusive: false });
        let made = world.costing(1, client.vopen_simple(targets(), true, create)).await.unwrap();
        client.vwrite(made.iter().map(|file| Write::new(*file, 0, "x")).collect()).await.unwrap();
        client.vclose(made).await.unwrap();
        assert_eq!(client.stat("/home/c").await.unwrap().mode, Some(0o640));
        let read = world.costing(1, client.vopen_simple(targets(), false, None)).await.unwrap();
        let data = client.vread(read.iter().map(|file| Read::new(*file, 0, 9)).collect()).await.unwrap();
        assert!(data.into_iter().all(|data| data.into_bytes() == "x"));
        let refused = client.vwrite(vec![Write::new(read[0], 0, "y")]).await.unwrap_err();
        assert_eq!(refused.error.errno(), 9, "{refused}");
        client.vclose(read).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_open_for_reading_alone_is_not_written_however_little() {
    let strangers = World::with(Default::default(), |options| options.extensions = false).await;
    let [server, local] = World::of_ours().await;
    for world in [server, local, strangers] {
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, "a")]).await.unwrap();
        let read = world.client.vopen(vec![Open::read("/home/a")]).await.unwrap()[0];
        for data in ["", "x"] {
            for write in [Write::append(read, data), Write::new(read, 0, data)] {
                let refused = world.client.vwrite(vec![write]).await.unwrap_err();
                assert_eq!(refused.error.errno(), 9, "{refused}");
            }
        }
        let nothing = Copy { length: 0, create: None, truncate: false, ..Copy::whole("/home/a", read, 0) };
        let refused = world.client.vsscopy(vec![nothing]).await.unwrap_err();
        assert_eq!(refused.error.errno(), 9, "{refused}");
    }
}

#[tokio::test]
async fn a_copy_between_open_files_may_replace_what_is_there() {
    for world in World::of_ours().await {
        let files = vec![Write::whole("/home/a", 0o600, "new"), Write::whole("/home/b", 0o600, "longer")];
        world.client.vwrite(files.clone()).await.unwrap();
        let opens = vec![Open::read("/home/a"), Open::write("/home/b")];
        let opened = world.client.vopen(opens).await.unwrap();
        let (from, to) = (Target::from(opened[0]), Target::from(opened[1]));
        for source in [from, "/home/a".into()] {
            for destination in [to.clone(), "/home/b".into()] {
                world.client.vwrite(files.clone()).await.unwrap();
                let copy = Copy { create: None, ..Copy::whole(source.clone(), destination, 0) };
                world.client.vsscopy(vec![copy]).await.unwrap();
                let data = world.client.vread(vec![Read::new("/home/b", 0, 9)]).await.unwrap().remove(0);
                assert_eq!(data.into_bytes(), "new");
            }
        }
    }
}

#[tokio::test]
async fn an_open_file_is_a_target_of_every_kind_of_call() {
    for world in World::of_ours().await {
        world.client.vwrite(vec![Write::whole("/home/c", 0o600, "here")]).await.unwrap();
        let open = world.client.vopen(vec![Open::write("/home/c")]).await.unwrap()[0];
        world.client.vrename(vec![("/home/c".into(), "/home/d".into())]).await.unwrap();
        let sizes = world.client.vgetattrs(vec![open.into()], AttributeSet::SIZE).await.unwrap();
        assert_eq!(sizes[0].size, Some(4));
        world.client.vsetattrs(vec![(open.into(), NewAttributes::size(3))]).await.unwrap();
        world.client.vhardlink(vec![(open.into(), "/home/e".into())]).await.unwrap();
        world.client.vsscopy(vec![Copy::whole(open, "/home/f", 0o600)]).await.unwrap();
        let reads = ["/home/e", "/home/f"].map(|path| Read::new(path, 0, 9));
        let data = world.client.vread(reads.into()).await.unwrap();
        assert!(data.into_iter().all(|data| data.into_bytes() == "her"));
        let again = world.client.vopen(vec![Open::read(open)]).await.unwrap()[0];
        let data = world.client.vread(vec![Read::new(again, 1, 9)]).await.unwrap().remove(0);
        assert_eq!(data.into_bytes(), "er");
        let below = Target::at(open, "below");
        let failure = world.client.vread(vec![Read::new(below, 0, 9)]).await.unwrap_err();
        assert_eq!(failure.error.errno(), 20, "{failure}");
        let failure = world.client.vremove(vec![open.into()]).await.unwrap_err();
        assert!(matches!(failure.error, Error::Invalid { .. }), "{failure}");
    }
}

#[tokio::test]
async fn a_path_may_begin_at_a_handle() {
    let world = World::over_nfs().await;
    world.client.vmkdir(vec![("/home/a".into(), 0o755), ("/home/a/b".into(), 0o755)]).await.unwrap();
    world.client.vwrite(vec![Write::whole("/home/a/b/c", 0o600, "here")]).await.unwrap();
    let handle =
        world.client.vgetattrs(vec!["/home/a".into()], AttributeSet::HANDLE).await.unwrap().remove(0);
    let target = Target::at(handle.handle.unwrap(), "b/c");
    let data = world.client.vread(vec![Read::new(&target, 0, 9)]).await.unwrap().remove(0);
    assert_eq!(data.into_bytes(), "here");
    let failure = World::local().client.vread(vec![Read::new(target, 0, 9)]).await.unwrap_err();
    assert!(matches!(failure.error, Error::Unsupported(_)), "{failure}");
}

#[tokio::test]
async fn what_was_opened_before_a_failure_stays_open() {
    for world in World::each().await {
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, "a")]).await.unwrap();
        let opens = vec![Open::read("/home/a"), Open::read("/home/none"), Open::read("/home/a")];
        let failure = world.client.vopen(opens).await.unwrap_err();
        assert_eq!(failure.done.len(), 1);
        let data = world.client.vread(vec![Read::new(failure.done[0], 0, 9)]).await.unwrap().remove(0);
        assert_eq!(data.into_bytes(), "a");
    }
}

#[tokio::test]
async fn an_open_that_a_failed_vector_left_behind_is_closed() {
    for world in World::of_ours().await {
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, "a")]).await.unwrap();
        // Fails after the OPEN, in the READ: there is nothing so far out.
        let steps = vec![Step::Write(Write::new("/home/a", u64::MAX - 1, "beyond"))];
        let failure = world.client.execute(steps).await.unwrap_err();
        assert_eq!(failure.index(), 0);
        world.client.vremove(vec!["/home/a".into()]).await.unwrap();
        // The client can go only when it holds nothing (RFC 8881 §18.50).
        world.client.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_open_that_makes_no_sense_is_refused_and_changes_nothing() {
    for world in World::each().await {
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, "a")]).await.unwrap();
        let opens = [
            Open { truncate: true, ..Open::read("/home/a") },
            Open { read: false, ..Open::read("/home/a") },
            Open { read: false, write: false, ..Open::create("/home/b", 0o600) },
        ];
        for open in opens {
            let failure = world.client.vopen(vec![open]).await.unwrap_err();
            assert!(matches!(failure.error, Error::Invalid { .. }), "{failure}");
        }
        assert_eq!(world.client.stat("/home/a").await.unwrap().size, Some(1));
        assert!(!world.client.exists("/home/b").await.unwrap());
    }
}

#[tokio::test]
async fn a_copy_from_an_open_file_survives_a_restart_of_the_server() {
    let mut server = Restarting::start().await;
    let client = server.client().await;
    let files = vec![Write::whole("/home/a", 0o600, "new"), Write::whole("/home/b", 0o600, "before")];
    client.vwrite(files).await.unwrap();
    let open = client.open(Open::read("/home/a")).await.unwrap();
    server.restart().await;
    known(async || client.vsscopy(vec![Copy::whole(open, "/home/b", 0o600)]).await).await.unwrap();
    let data = client.vread(vec![Read::new("/home/b", 0, 9)]).await.unwrap().remove(0);
    assert_eq!(data.into_bytes(), "new");
}

#[tokio::test]
async fn what_is_written_and_closed_by_one_vector_is_safe() {
    let world = World::over_nfs().await;
    let operations = async |steps: Vec<Step>| {
        let before = world.client.statistics().operations;
        world.client.execute(steps).await.unwrap();
        world.client.statistics().operations - before
    };
    let open = async || world.client.open(Open::create("/home/a", 0o600)).await.unwrap();
    let written = |open, stable| Step::Write(Write { stable, ..Write::new(open, 0, "x") });
    let (one, two) = (open().await, open().await);
    let safe = operations(vec![written(one, true), Step::Close(one)]).await;
    let made_safe = operations(vec![written(two, false), Step::Close(two)]).await;
    assert_eq!(made_safe, safe + 1, "COMMIT");
}

#[tokio::test]
async fn nothing_is_done_behind_data_that_turns_out_to_be_lost() {
    for closes in [false, true] {
        let mut server = Restarting::start().await;
        let client = server.client().await;
        client.vwrite(vec![Write::whole("/home/final", 0o600, "before")]).await.unwrap();
        let opens = vec![Open::create("/home/new", 0o600), Open::create("/home/other", 0o600)];
        let opened = client.vopen(opens).await.unwrap();
        client.vwrite(opened.iter().map(|file| Write::new(*file, 0, "after")).collect()).await.unwrap();
        server.stop().await;
        server.lose();
        server.start_again().await;
        let safe = if closes { Step::Close } else { Step::Commit };
        let rename = Step::Rename { from: "/home/new".into(), to: "/home/final".into() };
        let steps = vec![safe(opened[0]), safe(opened[1]), rename];
        let failure = known(async || client.execute(steps.clone()).await).await.unwrap_err();
        assert!(failure.done.is_empty() && matches!(failure.error, Error::DataLost(_)), "{failure}");
        let data = client.vread(vec![Read::new("/home/final", 0, 9)]).await.unwrap().remove(0);
        assert_eq!(data.into_bytes(), "before");
        // Both were closed in one compound, or none.
        let again = client.vclose(opened).await;
        assert_eq!(again.is_err_and(|failure| matches!(failure.error, Error::NotOpen(_))), closes);
        client.close().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_too_far_out_for_a_file_is_not_appended() {
    let strangers = World::with(Default::default(), |options| options.extensions = false).await;
    let [server, local] = World::of_ours().await;
    for world in [server, local, strangers] {
        world.client.vwrite(vec![Write::whole("/home/a", 0o600, "keep")]).await.unwrap();
        let open = world.client.open(Open::write("/home/a")).await.unwrap();
        for target in [open.into(), Target::from("/home/a")] {
            let far = Write::new(target, u64::MAX - (2 << 20), vec![1; 5 << 20]);
            world.client.vwrite(vec![far]).await.unwrap_err();
            let sizes = world.client.vgetattrs(vec!["/home/a".into()], AttributeSet::SIZE).await.unwrap();
            assert_eq!(sizes[0].size, Some(4));
        }
    }
}
