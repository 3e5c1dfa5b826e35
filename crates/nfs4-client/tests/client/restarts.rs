//! The server comes back, and with it all that was open (RFC 8881 §8.4.2).

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{LockType, NfsArgOp, NfsResOp, NfsStatus, OpCode, OpenDelegation, Outcome, StableHow, StateId};
use nfs4_client::operations::{owner, put_handle, read, unchecked, write};
use nfs4_client::{Client, ClientError, OpenState};
use onc_rpc::{AuthSys, Credential};

use crate::proxy::Direction;
use crate::scripted::{self, Said, Scripted};
use crate::world::{World, home, make_directory, until};

const BOTH: u32 = share_access::BOTH | share_access::WANT_NO_DELEG;

async fn read_all(client: &Client, open: &OpenState) -> Result<Bytes, ClientError> {
    let build = || Ok(vec![put_handle(open.handle()), read(open.state_id()?, 0, 100)]);
    match client.compound_with(build).await?.into_results()?.pop() {
        Some(NfsResOp::Read(Outcome::Ok(read))) => Ok(read.data.into_bytes()),
        other => panic!("{other:?}"),
    }
}

async fn write_all(client: &Client, open: &OpenState, data: &'static [u8]) -> Result<(), ClientError> {
    let build = || {
        let write = write(open.state_id()?, 0, StableHow::FileSync, Bytes::from_static(data));
        Ok(vec![put_handle(open.handle()), write])
    };
    client.compound_with(build).await?.into_results().map(drop)
}

#[tokio::test]
async fn opens_and_locks_survive_restarts_one_after_the_other() {
    let mut world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    let mut opens = Vec::new();
    for number in 0..100 {
        let name = format!("{number}");
        opens.push(client.open_file(&home, name, BOTH, unchecked(0o600), owner("o")).await.unwrap());
    }
    write_all(&client, &opens[7], b"data").await.unwrap();
    let (one, other) = (owner("one"), owner("other"));
    for range in 0..70 {
        client.lock(&opens[7], &one, LockType::Write, range * 10, 4).await.unwrap();
    }
    client.lock(&opens[7], &other, LockType::Read, 5, 2).await.unwrap();
    client.unlock(&opens[7], &one, 12, 1).await.unwrap();
    let somebody = client.with_credential(Credential::Sys(AuthSys::new(4711, 4711)));
    let own = somebody.open_file(&home, "own", BOTH, unchecked(0o600), owner("o")).await.unwrap();

    for restart in 1..=2 {
        let before = opens[7].state_id().unwrap();
        world.restart().await;
        assert_eq!(read_all(&client, &opens[7]).await.unwrap(), b"data"[..]);
        assert_ne!(opens[7].state_id().unwrap(), before);
        assert_eq!(client.statistics().recoveries, restart);
        for open in &opens {
            read_all(&client, open).await.unwrap();
        }
        write_all(&somebody, &own, b"own").await.unwrap();
    }

    let stranger = world.client().await;
    let file = stranger.open_file(&home, "7", BOTH, unchecked(0o600), owner("s")).await.unwrap();
    let status = |result: Result<(), ClientError>| result.err().and_then(|error| error.status());
    for (offset, expected) in [(690, Some(NfsStatus::Denied)), (12, None), (5, Some(NfsStatus::Denied))] {
        let lock = stranger.lock(&file, &owner("s"), LockType::Write, offset, 1).await;
        assert_eq!(status(lock), expected, "{offset}");
    }
    let before = client.statistics();
    client.close().await.unwrap();
    assert!((client.statistics() - before).compounds < 10, "many in one");
    stranger.lock(&file, &owner("s"), LockType::Write, 0, u64::MAX).await.unwrap();
    assert_eq!(world.server().metrics().census.opens, 1);
}

#[tokio::test]
async fn a_change_whose_answer_the_restart_swallowed_is_unknown_and_a_read_is_repeated() {
    for is_executed in [false, true] {
        let mut world = World::new().await;
        let client = world.client().await;
        let home = home(&client).await;
        // The server gets part of the request, or all of it.
        let (direction, bytes) =
            if is_executed { (Direction::Replies, 0) } else { (Direction::Requests, 20) };
        world.proxy.cut_for_good(direction, bytes);
        let (made, ()) = tokio::join!(make_directory(&client, &home, "d"), async {
            world.proxy.cuts(1).await;
            world.restart().await;
        });
        assert!(matches!(made, Err(ClientError::Unknown)), "{made:?}");
        let again = make_directory(&client, &home, "d").await;
        let status = again.err().and_then(|error| error.status());
        assert_eq!(status, is_executed.then_some(NfsStatus::Exist));

        world.proxy.cut_for_good(direction, bytes);
        let request = [put_handle(&home), NfsArgOp::GetFh];
        let (found, ()) = tokio::join!(client.compound(&request), async {
            world.proxy.cuts(2).await;
            world.restart().await;
        });
        assert_eq!(found.unwrap().status, NfsStatus::Ok);
    }
}

#[tokio::test]
async fn what_compounds_of_the_program_open_and_close_is_kept_in_between() {
    let mut world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    let request = [
        put_handle(&home),
        nfs4_client::operations::open("f", BOTH, unchecked(0o600), owner("o")),
        NfsArgOp::GetFh,
    ];
    let results = client.compound(&request).await.unwrap().into_results().unwrap();
    let [_, NfsResOp::Open(Outcome::Ok(opened)), NfsResOp::GetFh(Outcome::Ok(handle))] = &results[..] else {
        panic!("{results:?}")
    };
    let open = client.adopt(handle.clone(), (BOTH, 0), owner("o"), opened);
    world.restart().await;
    assert_eq!(read_all(&client, &open).await.unwrap(), b""[..]);
    let close = || Ok(vec![put_handle(open.handle()), nfs4_client::operations::close(open.state_id()?)]);
    client.compound_with(close).await.unwrap().into_results().unwrap();
    client.closed(&open);
    world.restart().await;
    self::home(&client).await;
    assert_eq!(world.server().metrics().census.opens, 0);
    assert!(matches!(open.state_id(), Err(ClientError::OpenLost { .. })));
}

#[tokio::test]
async fn a_file_is_closed_even_if_the_restart_swallowed_the_answer() {
    let mut world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    for is_executed in [false, true] {
        let open = client.open_file(&home, "f", BOTH, unchecked(0o600), owner("o")).await.unwrap();
        client.lock(&open, &owner("l"), LockType::Write, 0, 1).await.unwrap();
        let (direction, bytes) =
            if is_executed { (Direction::Replies, 0) } else { (Direction::Requests, 20) };
        world.proxy.cut_for_good(direction, bytes);
        let (closed, ()) = tokio::join!(client.close_file(&open), async {
            world.proxy.cuts(1 + usize::from(is_executed)).await;
            world.restart().await;
        });
        closed.unwrap();
        assert!(matches!(open.state_id(), Err(ClientError::OpenLost { .. })));
        assert_eq!(world.server().metrics().census.opens, 0);
    }
}

#[tokio::test]
async fn what_was_unlocked_is_not_reclaimed_even_if_the_restart_swallowed_the_answer() {
    for has_more in [false, true] {
        let mut world = World::new().await;
        let client = world.client().await;
        let home = home(&client).await;
        let open = client.open_file(&home, "f", BOTH, unchecked(0o600), owner("o")).await.unwrap();
        client.lock(&open, &owner("l"), LockType::Write, 0, 10).await.unwrap();
        if has_more {
            client.lock(&open, &owner("l"), LockType::Write, 20, 10).await.unwrap();
        }
        world.proxy.cut_for_good(Direction::Replies, 0);
        let locker = owner("l");
        let (unlocked, ()) = tokio::join!(client.unlock(&open, &locker, 0, 10), async {
            world.proxy.cuts(1).await;
            world.restart().await;
        });
        unlocked.unwrap();
        // Between the two somebody may have locked it, and has reclaimed it.
        let stranger = world.client().await;
        let file = stranger.open_file(&home, "f", BOTH, unchecked(0o600), owner("s")).await.unwrap();
        stranger.lock(&file, &owner("s"), LockType::Write, 0, 10).await.unwrap();
        let rest = stranger.lock(&file, &owner("s"), LockType::Write, 20, 10).await;
        assert_eq!(rest.is_err(), has_more);
        // What is not locked can be unlocked.
        client.unlock(&open, &owner("nobody"), 0, 10).await.unwrap();
        assert_eq!(read_all(&client, &open).await.unwrap(), b""[..]);
    }
}

#[tokio::test]
async fn a_lock_that_became_one_for_reading_is_reclaimed_as_that_even_if_the_restart_swallowed_the_answer() {
    let mut world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    let open = client.open_file(&home, "f", BOTH, unchecked(0o600), owner("o")).await.unwrap();
    let locker = owner("l");
    client.lock(&open, &locker, LockType::Write, 0, 30).await.unwrap();
    world.proxy.cut_for_good(Direction::Replies, 0);
    let (locked, ()) = tokio::join!(client.lock(&open, &locker, LockType::Read, 10, 10), async {
        world.proxy.cuts(1).await;
        world.restart().await;
    });
    assert!(matches!(locked, Err(ClientError::Unknown)), "{locked:?}");
    read_all(&client, &open).await.unwrap();
    let stranger = world.client().await;
    let file = stranger.open_file(&home, "f", BOTH, unchecked(0o600), owner("s")).await.unwrap();
    for (offset, is_free) in [(0, false), (10, true), (20, false)] {
        let lock = stranger.lock(&file, &owner("s"), LockType::Read, offset, 10).await;
        assert_eq!(lock.is_ok(), is_free, "{offset}");
    }
}

#[tokio::test]
async fn what_would_have_been_given_up_is_reclaimed_if_nobody_was_asked_before_the_restart() {
    let mut world = World::new().await;
    let (client, other) = (world.client().await, world.client().await);
    let home = home(&client).await;
    let open = client.open_file(&home, "f", BOTH, unchecked(0o600), owner("o")).await.unwrap();
    let (one, two) = (owner("one"), owner("two"));
    client.lock(&open, &one, LockType::Write, 0, 10).await.unwrap();
    client.lock(&open, &two, LockType::Write, 20, 10).await.unwrap();
    let file = other.open_file(&home, "f", BOTH, unchecked(0o600), owner("s")).await.unwrap();
    other.lock(&file, &owner("s"), LockType::Write, 10, 10).await.unwrap();
    world.stop().await;
    until(|| client.connections() == 0).await;
    let (locked, unlocked, ()) = tokio::join!(
        client.lock(&open, &one, LockType::Read, 0, 20),
        client.unlock(&open, &two, 20, 5),
        async {
            tokio::task::yield_now().await;
            world.start().await;
        }
    );
    // It is denied for what is behind its own, and nothing has changed.
    assert_eq!(locked.unwrap_err().status(), Some(NfsStatus::Denied));
    unlocked.unwrap();
    for (offset, is_free) in [(0, false), (20, true), (25, false)] {
        let lock = other.lock(&file, &owner("t"), LockType::Read, offset, 5).await;
        assert_eq!(lock.is_ok(), is_free, "{offset}");
    }
}

#[tokio::test]
async fn a_change_that_was_not_sent_before_the_restart_is_done_after_it() {
    let mut world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    world.stop().await;
    until(|| client.connections() == 0).await;
    let (made, ()) = tokio::join!(make_directory(&client, &home, "d"), async {
        tokio::task::yield_now().await;
        world.start().await;
    });
    made.unwrap();
}

#[tokio::test]
async fn what_was_given_up_before_it_was_sent_is_not_done() {
    let world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    world.proxy.close();
    until(|| client.connections() == 0).await;
    tokio::select! {
        biased;
        made = make_directory(&client, &home, "d") => panic!("{made:?} without a server"),
        () = std::future::ready(()) => {}
    }
    world.proxy.reopen();
    let found = client.compound(&[put_handle(&home), nfs4_client::operations::lookup("d")]).await.unwrap();
    assert_eq!(found.status, NfsStatus::NoEnt);
    make_directory(&client, &home, "d").await.unwrap();
}

#[tokio::test]
async fn opens_come_back_from_a_server_that_keeps_small_replies_only() {
    let limits = nfs4_server::Limits { cached_reply_bytes: 1280, ..nfs4_server::Limits::default() };
    let mut world = World::with(limits).await;
    let client = world.client().await;
    let home = home(&client).await;
    let mut opens = Vec::new();
    for number in 0..60 {
        let name = format!("{number}");
        opens.push(client.open_file(&home, name, BOTH, unchecked(0o600), owner("o")).await.unwrap());
    }
    for open in &opens {
        let (one, other) = (owner("one"), owner("other"));
        client.lock(open, &one, LockType::Write, 0, 1).await.unwrap();
        client.lock(open, &other, LockType::Read, 1, 1).await.unwrap();
    }
    for range in 1..=60 {
        client.lock(&opens[0], &owner("one"), LockType::Write, range * 10, 4).await.unwrap();
    }
    world.restart().await;
    for open in &opens {
        read_all(&client, open).await.unwrap();
    }
    assert_eq!(world.server().metrics().census.locks, 180);
    client.close().await.unwrap();
    assert_eq!(world.server().metrics().census.opens, 0);
}

#[tokio::test]
async fn a_lock_owner_that_held_nothing_at_the_restart_locks_again() {
    let mut world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    let open = client.open_file(&home, "f", BOTH, unchecked(0o600), owner("o")).await.unwrap();
    let locker = owner("l");
    client.lock(&open, &locker, LockType::Write, 0, 9).await.unwrap();
    client.unlock(&open, &locker, 0, u64::MAX).await.unwrap();
    world.restart().await;
    assert_eq!(read_all(&client, &open).await.unwrap(), b""[..]);
    client.lock(&open, &locker, LockType::Write, 0, 9).await.unwrap();
    assert_eq!(world.server().metrics().census.locks, 1);
}

#[tokio::test]
async fn a_client_id_that_comes_back_by_chance_is_a_new_one() {
    // The scripted server knows one id only, and has never confirmed it.
    let (address, server) = Scripted::start(|sequence, _| {
        (sequence.session.0[0] == 1).then_some(Said::Refused(NfsStatus::BadSession))
    })
    .await;
    let client = scripted::connect(address).await;
    server.restarted.store(true, std::sync::atomic::Ordering::SeqCst);
    client.compound(&scripted::lookups(1)).await.unwrap().into_results().unwrap();
    assert_eq!(server.asked(OpCode::ExchangeId), 2);
    assert_eq!(server.asked(OpCode::ReclaimComplete), 2);
}

#[tokio::test]
async fn a_delegation_comes_back_even_after_its_open_is_closed() {
    struct Deaf;

    #[async_trait::async_trait]
    impl nfs4_client::Callback for Deaf {
        async fn call(&self, operation: nfs4::NfsCbArgOp) -> nfs4::NfsCbResOp {
            nfs4::NfsCbResOp::failure(operation.op_code(), NfsStatus::NotSupp)
        }
    }

    let mut world = World::new().await;
    let client = world.connect_with(world.options(), std::sync::Arc::new(Deaf)).await;
    let home = home(&client).await;
    let file = client.open_file(&home, "f", BOTH, unchecked(0o600), owner("o")).await.unwrap();
    write_all(&client, &file, b"data").await.unwrap();
    client.close_file(&file).await.unwrap();
    let access = share_access::READ | share_access::WANT_READ_DELEG;
    let open = client.open_handle(file.handle(), access, owner("o")).await.unwrap();
    let delegated = |open: &OpenState| matches!(open.delegation(), OpenDelegation::Read(_));
    assert!(delegated(&open), "{:?}", open.delegation());
    for is_closed in [false, true] {
        if is_closed {
            client.close_file(&open).await.unwrap();
        }
        let before = open.state_id().unwrap();
        world.restart().await;
        assert_eq!(read_all(&client, &open).await.unwrap(), b"data"[..]);
        assert!(delegated(&open), "{is_closed}");
        assert_ne!(open.state_id().unwrap(), before);
    }
    client.return_delegation(&open).await.unwrap();
    assert!(matches!(open.state_id(), Err(ClientError::OpenLost { .. })));
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_the_server_does_not_give_back_must_be_opened_again() {
    let mut world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    let open = client.open_file(&home, "f", BOTH, unchecked(0o600), owner("o")).await.unwrap();
    // Gone without a trace, so that nothing can be reclaimed.
    world.server().evict(client.client_id().unwrap()).await.unwrap();
    let lost = read_all(&client, &open).await;
    assert!(matches!(lost, Err(ClientError::OpenLost { .. })), "{lost:?}");
    let kept = client.open_file(&home, "kept", BOTH, unchecked(0o600), owner("o")).await.unwrap();
    world.restart().await;
    read_all(&client, &kept).await.unwrap();
    assert_eq!(world.server().metrics().census.opens, 1, "what is lost is not reclaimed later");
    client.close_file(&open).await.unwrap();
    let open = client.open_file(&home, "f", BOTH, unchecked(0o600), owner("o")).await.unwrap();
    assert_eq!(read_all(&client, &open).await.unwrap(), b""[..]);
    world.restart().await;
    read_all(&client, &open).await.unwrap();
    let stale = [put_handle(open.handle()), read(StateId { seqid: 1, other: [9; 12] }, 0, 1)];
    assert_eq!(client.compound(&stale).await.unwrap().status, NfsStatus::BadStateId);
    assert!(open.lost().is_none(), "that was none of ours");
}

#[tokio::test]
async fn an_open_is_upgraded_where_it_is() {
    let world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    let access = share_access::READ | share_access::WANT_NO_DELEG;
    let open = client.open_file(&home, "f", access, unchecked(0o600), owner("o")).await.unwrap();
    let refused = write_all(&client, &open, b"x").await.unwrap_err();
    assert_eq!(refused.status(), Some(NfsStatus::OpenMode));
    client.upgrade(&open, BOTH).await.unwrap();
    assert_eq!(open.access(), share_access::BOTH);
    write_all(&client, &open, b"x").await.unwrap();
}
