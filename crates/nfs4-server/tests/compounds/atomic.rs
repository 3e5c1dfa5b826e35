//! COMPOUND_MODE: compounds that are done whole or not at all (decision 15, `T1`-`T10`).

mod crowds;
pub mod scene;

use bytes::Bytes;
use file_system::{CommitMode, Mode};
use nfs4::bits::{compound_mode, share_access, share_deny};
use nfs4::{
    CompoundModeArgs, CompoundModeOk, CreateType, LinkArgs, LockType, NfsArgOp, NfsResOp, NfsStatus, OpCode,
    OpenArgs, OpenClaim, OpenHow, Outcome, StableHow, StateId, TestStateIdArgs,
};
use nfs4_client::operations::{self as op, put_handle};
use nfs4_client::{Config, Session};
use nfs4_server::Limits;

use crate::access_control_lists::start_with_lists;
use crate::harness::{World, home, outcome, status, statuses};
use scene::{Scene, again, atomic, data, try_every_operation};

fn mode(flags: u32) -> NfsArgOp {
    NfsArgOp::CompoundMode(CompoundModeArgs { flags })
}

fn directory(name: &str) -> NfsArgOp {
    op::create(CreateType::Directory, name, 0o755)
}

async fn exists(session: &Session, root: &nfs4::FileHandle, name: &str) -> bool {
    match outcome(session, &[put_handle(root), op::lookup(name)]).await.0 {
        NfsStatus::Ok => true,
        NfsStatus::NoEnt => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_compound_is_atomic_only_when_asked_to_be() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let here = put_handle(&root);
    let (made, failing) =
        ([here.clone(), directory("d"), here.clone(), directory("e")], [here, op::remove("absent")]);
    let rest = [&made[..], &failing, &[directory("f")]].concat();
    for (first, remains) in [(mode(compound_mode::ATOMIC), false), (mode(0), true)] {
        let request = [&[first][..], &rest].concat();
        assert_eq!(outcome(&session, &request).await, (NfsStatus::NoEnt, 7), "the operation that failed");
        assert_eq!(exists(&session, &root, "d").await, remains);
        assert_eq!(exists(&session, &root, "e").await, remains);
    }
    for name in ["d", "e"] {
        session.remove(&root, name).await.unwrap();
    }
    assert_eq!(outcome(&session, &rest).await, (NfsStatus::NoEnt, 6));
    assert!(exists(&session, &root, "d").await, "without COMPOUND_MODE");
    running.stop().await;
}

#[tokio::test]
async fn whatever_fails_wherever_it_stands_nothing_of_the_rest_is_done() {
    let world = World::new().await;
    let running = start_with_lists(&world).await;
    let session = running.client("a").await;
    let kinds = try_every_operation(&session, &home(&session).await).await;
    assert!(kinds.contains(&"setattr-acl"), "{kinds:?}");
    running.stop().await;
}

/// A directory, a file in it, its content, a directory that moves, a file that goes.
fn mixed(root: &nfs4::FileHandle, last: NfsArgOp) -> Vec<NfsArgOp> {
    vec![
        atomic(),
        put_handle(root),
        NfsArgOp::SaveFh,
        directory("new"),
        op::open("file", share_access::BOTH, op::guarded(0o644), op::owner("o")),
        op::write(StateId::CURRENT, 0, StableHow::Unstable, data(100_000, 1)),
        op::close(StateId::CURRENT),
        NfsArgOp::RestoreFh,
        op::rename("d", "moved"),
        op::remove("old"),
        last,
    ]
}

#[tokio::test]
async fn operations_of_all_kinds_are_done_together_or_not_at_all() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    session.make_directory(&root, "d", 0o755).await.unwrap();
    let old = session.create(&root, "old", 0o644).await.unwrap();
    session.close(&old).await.unwrap();
    let names = ["d", "old", "new", "moved"];
    let seen = async || {
        let mut seen = Vec::new();
        for name in names {
            seen.push(exists(&session, &root, name).await);
        }
        seen
    };
    let (status, results) = outcome(&session, &mixed(&root, op::lookup("d"))).await;
    assert_eq!((status, results), (NfsStatus::NoEnt, 11), "it has moved, says the compound to itself");
    assert_eq!(seen().await, [true, true, false, false]);
    world.home.take_commits();
    assert_eq!(outcome(&session, &mixed(&root, op::lookup("moved"))).await, (NfsStatus::Ok, 11));
    assert_eq!(world.home.take_commits(), [CommitMode::Durable], "once, whatever WRITE said");
    assert_eq!(seen().await, [false, false, true, true]);
    let file = session.lookup_in(&root, &["new", "file"]).await.unwrap();
    let read = [put_handle(&file), op::read(StateId::ANONYMOUS, 0, 200_000)];
    let results = session.execute(&read).await.unwrap();
    let NfsResOp::Read(Outcome::Ok(read)) = &results[1] else { panic!("{results:?}") };
    assert_eq!(read.data.clone().into_bytes(), data(100_000, 1));
    assert_eq!(running.server.metrics().census.opens, 0);
    running.stop().await;
}

#[tokio::test]
async fn what_is_written_in_an_atomic_compound_is_stable_when_it_is_answered() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let file = session.create(&home(&session).await, "f", 0o644).await.unwrap();
    world.home.take_commits();
    let write = op::write(file.state_id, 0, StableHow::Unstable, Bytes::from_static(b"data"));
    let results = session.execute(&[atomic(), put_handle(&file.handle), write]).await.unwrap();
    let NfsResOp::Write(Outcome::Ok(written)) = &results[2] else { panic!("{results:?}") };
    assert_eq!((written.count, written.committed), (4, StableHow::FileSync));
    assert_eq!(world.home.take_commits(), [CommitMode::Durable]);
    running.stop().await;
}

#[tokio::test]
async fn what_is_closed_in_an_atomic_compound_is_open_until_its_end() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, other) = (running.client("a").await, running.client("b").await);
    let root = home(&session).await;
    let args = OpenArgs {
        seqid: 0,
        share_access: share_access::BOTH | share_access::WANT_NO_DELEG,
        share_deny: share_deny::BOTH,
        owner: op::owner("o"),
        how: op::unchecked(0o666),
        claim: OpenClaim::Null("f".into()),
    };
    let results = session.execute(&[put_handle(&root), NfsArgOp::Open(args), NfsArgOp::GetFh]).await.unwrap();
    let [_, NfsResOp::Open(Outcome::Ok(opened)), NfsResOp::GetFh(Outcome::Ok(handle))] = &results[..] else {
        panic!("{results:?}")
    };
    let id = opened.state_id;
    session
        .execute(&[put_handle(handle), op::first_lock(id, op::owner("l"), LockType::Write, 0, 10)])
        .await
        .unwrap();
    let test = NfsArgOp::TestStateId(TestStateIdArgs { state_ids: vec![id] });
    let close = [atomic(), put_handle(handle), op::close(id), test];
    let failing = [&close[..], &[op::lookup("x")]].concat();
    let reply = session.compound(&failing).await.unwrap();
    assert_eq!(reply.status, NfsStatus::NotDir);
    let NfsResOp::TestStateId(Outcome::Ok(valid)) = &reply.results[3] else { panic!("{reply:?}") };
    assert_eq!(valid, &[NfsStatus::Ok]);
    let take = |session: &Session| {
        let (session, root) = (session.clone(), root.clone());
        async move { session.open(&root, "f", share_access::READ, OpenHow::NoCreate, op::owner("p")).await }
    };
    assert_eq!(status(take(&other).await), NfsStatus::ShareDenied);
    let before = running.server.metrics().census;
    assert_eq!(outcome(&session, &close).await, (NfsStatus::Ok, 4));
    let after = running.server.metrics().census;
    assert_eq!((before.opens - after.opens, before.locks - after.locks), (1, 1));
    take(&other).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn what_is_opened_again_after_it_was_closed_stays_open() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let again =
        op::open("f", share_access::BOTH | share_access::WANT_NO_DELEG, OpenHow::NoCreate, op::owner("open"));
    let request = [atomic(), put_handle(&file.handle), op::close(file.state_id), put_handle(&root), again];
    let results = session.execute(&request).await.unwrap();
    let NfsResOp::Open(Outcome::Ok(opened)) = &results[4] else { panic!("{results:?}") };
    let read = [put_handle(&file.handle), op::read(opened.state_id, 0, 1)];
    assert_eq!(outcome(&session, &read).await.0, NfsStatus::Ok);
    running.stop().await;
}

#[tokio::test]
async fn a_server_is_asked_for_its_limits_and_keeps_them() {
    let limits = Limits { atomic_operations: 6, atomic_bytes: 10_000, ..Limits::default() };
    let world = World { limits, ..World::new().await };
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let results = session.execute(&[mode(0)]).await.unwrap();
    let told = CompoundModeOk { flags: compound_mode::ALL, max_operations: 6, max_bytes: 10_000 };
    assert_eq!(results, [NfsResOp::CompoundMode(Outcome::Ok(told))]);

    let refused = async |operations: &[NfsArgOp]| {
        let reply = session.compound(operations).await.unwrap();
        assert_eq!(reply.results.len(), 1, "before any effect");
        assert_eq!(reply.results[0].op_code(), OpCode::CompoundMode);
        reply.status
    };
    let many = |first: NfsArgOp| [first, put_handle(&root), directory("d"), NfsArgOp::GetFh, NfsArgOp::GetFh];
    let five = many(atomic());
    assert_eq!(refused(&[&five[..], &[NfsArgOp::GetFh]].concat()).await, NfsStatus::TooManyOps);
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let write = |first: NfsArgOp, length| {
        [first, put_handle(&file.handle), op::write(file.state_id, 0, StableHow::FileSync, data(length, 1))]
    };
    assert_eq!(refused(&write(atomic(), 10_000)).await, NfsStatus::ReqTooBig);
    assert_eq!(outcome(&session, &write(atomic(), 9_000)).await.0, NfsStatus::Ok);
    assert_eq!(refused(&[mode(4)]).await, NfsStatus::Inval);
    // Neither limit is one of other compounds.
    assert_eq!(outcome(&session, &write(mode(0), 10_000)).await.0, NfsStatus::Ok);
    assert!(!exists(&session, &root, "d").await);
    assert_eq!(outcome(&session, &five).await.0, NfsStatus::Ok);
    running.stop().await;
}

#[tokio::test]
async fn compound_mode_stands_behind_sequence_and_only_there() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let request = [NfsArgOp::PutRootFh, mode(compound_mode::ATOMIC)];
    assert_eq!(outcome(&session, &request).await, (NfsStatus::SequencePos, 2));
    assert_eq!(outcome(&session, &[mode(0), mode(0)]).await, (NfsStatus::SequencePos, 2));
    let bare = session.bare_compound(&[mode(0)]).await.unwrap();
    assert_eq!(bare.status, NfsStatus::OpNotInSession);
    let one = running.connect(Config { minor_version: 1, ..Config::new("one", [1; 8]) }).await;
    assert_eq!(outcome(&one, &[mode(compound_mode::ATOMIC)]).await.0, NfsStatus::Ok);
    running.stop().await;
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_not_done_in_an_atomic_compound() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let lock = session.lock(&file, op::owner("l"), LockType::Write, 0, 10).await.unwrap();
    let waiting = op::first_lock(file.state_id, op::owner("m"), LockType::WriteWait, 50, 10);
    let refused = [
        op::unlock(lock, 0, 10),
        waiting,
        NfsArgOp::OpenDowngrade(nfs4::OpenDowngradeArgs {
            state_id: file.state_id,
            seqid: 0,
            share_access: share_access::READ,
            share_deny: share_deny::NONE,
        }),
        NfsArgOp::FreeStateId(nfs4::FreeStateIdArgs { state_id: lock }),
        NfsArgOp::DelegReturn(nfs4::DelegReturnArgs { state_id: lock }),
        NfsArgOp::DestroyClientId(nfs4::DestroyClientIdArgs { client: session.client_id() }),
    ];
    for operation in refused {
        let made = [put_handle(&root), directory("d"), put_handle(&file.handle), operation];
        let request = [&[atomic()][..], &made].concat();
        assert_eq!(outcome(&session, &request).await, (NfsStatus::NotSupp, 5), "{:?}", made[3]);
        assert!(!exists(&session, &root, "d").await);
    }
    running.stop().await;
}

#[tokio::test]
async fn an_atomic_compound_is_of_one_volume() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let other = session.lookup(&["other"]).await.unwrap();
    let two = [put_handle(&root), directory("d"), put_handle(&other), directory("e")];
    assert_eq!(outcome(&session, &[&[atomic()][..], &two].concat()).await, (NfsStatus::Xdev, 5));
    assert!(!exists(&session, &root, "d").await && !exists(&session, &other, "e").await);
    let (from, to) =
        (session.create(&other, "f", 0o644).await.unwrap(), session.create(&root, "f", 0o644).await.unwrap());
    let copy = NfsArgOp::Copy(nfs4::CopyArgs {
        source_state_id: from.state_id,
        destination_state_id: to.state_id,
        source_offset: 0,
        destination_offset: 0,
        count: 0,
        consecutive: true,
        synchronous: true,
        source_servers: Vec::new(),
    });
    let request = [atomic(), put_handle(&from.handle), NfsArgOp::SaveFh, put_handle(&to.handle), copy];
    assert_eq!(outcome(&session, &request).await, (NfsStatus::Xdev, 5));
    assert_eq!(outcome(&session, &two).await.0, NfsStatus::Ok, "a plain one is of several");
    running.stop().await;
}

#[tokio::test]
async fn a_copy_is_made_whole_and_at_once_or_not_at_all() {
    const MIB: usize = 1 << 20;
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let (from, to) = (
        session.create(&root, "from", 0o644).await.unwrap(),
        session.create(&root, "to", 0o644).await.unwrap(),
    );
    for part in 0..2 {
        let write = session.write(&from, part * 3 * MIB as u64, StableHow::FileSync, data(3 * MIB, 1));
        assert_eq!(write.await.unwrap().count as usize, 3 * MIB);
    }
    let copied = async |count: u64| {
        let args = nfs4::CopyArgs {
            source_state_id: from.state_id,
            destination_state_id: to.state_id,
            source_offset: 1, // so that no block can be shared
            destination_offset: 0,
            count,
            consecutive: true,
            synchronous: false,
            source_servers: Vec::new(),
        };
        let copy = [put_handle(&from.handle), NfsArgOp::SaveFh, put_handle(&to.handle), NfsArgOp::Copy(args)];
        let reply = session.compound(&[&[atomic()][..], &copy].concat()).await.unwrap();
        match reply.results.last() {
            Some(NfsResOp::Copy(nfs4::CopyRes::Ok(done))) => {
                Ok((done.response.callback_id, done.response.count))
            }
            _ => Err(reply.status),
        }
    };
    assert_eq!(copied(5 * MIB as u64).await, Err(NfsStatus::ReqTooBig));
    assert!(session.read(&to, 0, 1).await.unwrap().data.into_bytes().is_empty());
    assert_eq!(copied(3 * MIB as u64).await, Ok((None, 3 * MIB as u64)));
    running.stop().await;
}

#[tokio::test]
async fn how_an_atomic_compound_ended_is_kept_for_a_retry() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    for last in [directory("e"), op::remove("absent")] {
        let mut slot = session.slot().await.unwrap();
        let request = [atomic(), put_handle(&root), directory("d"), put_handle(&root), last];
        let first = session.send(slot.arguments(false), &request).await.unwrap();
        let before = running.server.metrics().replays;
        assert_eq!(session.send(slot.arguments(false), &request).await.unwrap(), first, "not asked to be");
        assert_eq!(running.server.metrics().replays, before + 1);
        slot.executed();
        if first.status == NfsStatus::Ok {
            session.remove(&root, "d").await.unwrap();
        }
    }
    assert!(!exists(&session, &root, "d").await && exists(&session, &root, "e").await);
    running.stop().await;
}

#[tokio::test]
async fn a_reply_that_cannot_be_kept_means_that_nothing_was_done() {
    let world =
        World { limits: Limits { cached_reply_bytes: 4096, ..Limits::default() }, ..World::new().await };
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    session.write(&file, 0, StableHow::FileSync, data(10_000, 1)).await.unwrap();
    let read = [put_handle(&file.handle), op::read(file.state_id, 0, 10_000)];
    let change = [put_handle(&root), directory("d")];
    let send = async |parts: &[&[NfsArgOp]]| {
        let mut slot = session.slot().await.unwrap();
        let reply = session.send(slot.arguments(false), &parts.concat()).await.unwrap();
        slot.executed();
        (reply.status, reply.results.len() - 1)
    };
    let first = &[atomic()][..];
    assert_eq!(send(&[first, &read, &change]).await, (NfsStatus::RepTooBigToCache, 5));
    assert!(!exists(&session, &root, "d").await);
    assert_eq!(send(&[first, &read]).await, (NfsStatus::Ok, 3), "nothing changes");
    assert_eq!(send(&[first, &change, &read]).await, (NfsStatus::Ok, 5), "READ takes the room there is");
    assert!(exists(&session, &root, "d").await);
    assert_eq!(send(&[&read, &[put_handle(&root), directory("e")]]).await, (NfsStatus::Ok, 4), "a plain one");
    running.stop().await;
}

#[tokio::test]
async fn endless_conflicts_end_in_delay_on_the_whole_with_nothing_done() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let request = [
        atomic(),
        put_handle(&root),
        op::open("f", share_access::BOTH, op::unchecked(0o644), op::owner("o")),
        op::write(StateId::CURRENT, 0, StableHow::FileSync, data(10, 1)),
    ];
    world.home.take_modes();
    world.home.refuse_commits(u32::MAX);
    let reply = session.compound(&request).await.unwrap();
    assert_eq!(statuses(&reply.results), [NfsStatus::Delay]);
    assert_eq!(reply.results[0].op_code(), OpCode::CompoundMode);
    let tries = world.home.take_modes();
    let limits = &world.limits;
    assert_eq!(tries.len() as u32, limits.optimistic_tries + limits.exclusive_tries, "and no more");
    assert_eq!(tries.last(), Some(&Mode::Exclusive));
    world.home.refuse_commits(0);
    assert_eq!(running.server.metrics().census.opens, 0);
    assert!(!exists(&session, &root, "f").await);
    assert_eq!(outcome(&session, &request).await, (NfsStatus::Ok, 4));
    running.stop().await;
}

#[tokio::test]
#[should_panic(expected = "put off more than 100 times")]
async fn who_is_put_off_for_ever_is_noticed() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    world.home.refuse_commits(u32::MAX);
    again(&session, &[atomic(), put_handle(&root), directory("d")]).await;
}

#[tokio::test]
async fn a_commit_whose_end_nobody_knows_is_an_io_error_on_the_whole() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    world.home.break_next_commit();
    let open = op::open("f", share_access::BOTH, op::unchecked(0o644), op::owner("o"));
    let reply = session.compound(&[atomic(), put_handle(&root), open]).await.unwrap();
    assert_eq!(statuses(&reply.results), [NfsStatus::Io]);
    assert_eq!(reply.results[0].op_code(), OpCode::CompoundMode);
    assert_eq!(running.server.metrics().census.opens, 0);
    running.stop().await;
}

#[tokio::test]
async fn links_and_new_files_are_seen_by_the_operations_behind_them() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let scene = Scene::new(&session, &root, "scene").await;
    let request = [
        atomic(),
        put_handle(&scene.folder),
        op::open("new", share_access::BOTH, op::guarded(0o600), op::owner("o")),
        op::write(StateId::CURRENT, 0, StableHow::FileSync, data(5, 5)),
        op::read(StateId::CURRENT, 0, 10),
        NfsArgOp::SaveFh,
        put_handle(&scene.folder),
        NfsArgOp::Link(LinkArgs { new_name: "again".into() }),
        op::remove("new"),
        op::lookup("again"),
    ];
    let reply = again(&session, &request).await;
    assert_eq!(reply.status, NfsStatus::Ok);
    let NfsResOp::Read(Outcome::Ok(read)) = &reply.results[4] else { panic!("{reply:?}") };
    assert_eq!(read.data.clone().into_bytes(), data(5, 5));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_all_of_a_set_or_nothing_of_it() {
    let running = World::new().await.start().await;
    crowds::see_all_or_nothing(running.address, 150).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_several_write_to_the_same_files_never_mixes() {
    let running = World::new().await.start().await;
    crowds::never_mix(running.address, 60).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_with_overlapping_sets_are_as_one_after_the_other() {
    // In memory there is nothing to wait for but the others: whoever has its turn alone once is done.
    let limits = Limits { exclusive_tries: 1, ..Limits::default() };
    let running = World { limits, ..World::new().await }.start().await;
    assert_eq!(crowds::are_as_one_after_the_other(running.address, 60).await, 0, "put off");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_eight_clients_append_is_all_there_and_whole() {
    let running = World::new().await.start().await;
    crowds::append_whole_records(running.address, 1000).await;
    running.stop().await;
}
