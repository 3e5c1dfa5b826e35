//! NFSv4.0 (RFC 7530), alone and beside clients with sessions.

mod back;
mod callbacks;
mod delegations;
pub mod old;

use std::time::Duration;

use bytes::Bytes;
use nfs4::bits::{open_result, share_access, share_deny};
use nfs4::{
    Attribute, Bitmap, CompoundArgs, CompoundRes, CreateType, Fattr, LockType, NfsArgOp, NfsResOp, NfsStatus,
    OpCode, OpenArgs, OpenClaim, OpenConfirmArgs, OpenDelegation, OpenHow, Outcome, ReleaseLockOwnerArgs,
    RenewArgs, SecInfoArgs, StableHow, StateId,
};
use nfs4_client::operations::{
    create, get_attributes, open, owner, put_handle, read, read_directory, remove, unchecked, write,
};
use proptest::prelude::*;

use crate::harness::{LEASE, World, outcome, status, statuses};
use old::{Old, words};

fn renew(old: &Old) -> NfsArgOp {
    NfsArgOp::Renew(RenewArgs { client: old.client })
}

#[tokio::test]
async fn a_file_is_made_written_read_and_closed() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    let args = old.open_args("f", share_access::BOTH, 0);
    let (file, opened) = old.open(&root, args).await.unwrap();
    assert_eq!(opened.flags, open_result::LOCKTYPE_POSIX | open_result::CONFIRM);
    assert_eq!(opened.delegation, OpenDelegation::None);
    let id = opened.state_id;
    let data = Bytes::from_static(b"data");
    let reply = old
        .compound(&[put_handle(&file), write(id, 0, StableHow::FileSync, data.clone()), read(id, 0, 9)])
        .await;
    let NfsResOp::Read(Outcome::Ok(read)) = &reply.results[2] else { panic!("{reply:?}") };
    assert_eq!((read.data.clone().into_bytes(), read.eof), (data, true));

    // The owner is known by now.
    let args = old.open_args("f", share_access::READ, 0);
    let (_, again) = old.open(&root, args).await.unwrap();
    assert_eq!(again.flags, open_result::LOCKTYPE_POSIX);
    assert_eq!(again.state_id, StateId { seqid: id.seqid + 1, ..id });
    let close = old.close_op(again.state_id);
    assert_eq!(old.status(&[put_handle(&file), close]).await, NfsStatus::Ok);
    assert_eq!(running.server.metrics().census.opens, 0);
    running.stop().await;
}

/// RFC 7530 §9.1.9: the owner's count, whatever the transport says.
#[tokio::test]
async fn an_operation_of_an_owner_that_comes_again_is_answered_and_not_done_again() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    let args = old.open_args("f", share_access::BOTH, 0);
    let request = [put_handle(&root), NfsArgOp::Open(args.clone()), NfsArgOp::GetFh];
    let first = old.compound(&request).await;
    assert_eq!(old.compound(&request).await, first, "the handle, too");
    let other = OpenArgs { share_access: share_access::READ, ..args };
    let (file, id) = {
        let NfsResOp::Open(Outcome::Ok(opened)) = &first.results[1] else { panic!("{first:?}") };
        let NfsResOp::GetFh(Outcome::Ok(file)) = &first.results[2] else { panic!("{first:?}") };
        (file.clone(), opened.state_id)
    };
    let confirm = NfsArgOp::OpenConfirm(OpenConfirmArgs { state_id: id, seqid: old.seqid("o") });
    let confirmed = old.compound(&[put_handle(&file), confirm.clone()]).await;
    assert_eq!(confirmed.status, NfsStatus::Ok);
    assert_eq!(old.compound(&[put_handle(&file), confirm]).await, confirmed);
    assert_eq!(
        old.status(&[put_handle(&root), NfsArgOp::Open(other)]).await,
        NfsStatus::BadSeqId,
        "not what had that number"
    );
    let id = StateId { seqid: id.seqid + 1, ..id };
    let close = old.close_op(id);
    let closed = old.compound(&[put_handle(&file), close.clone()]).await;
    assert_eq!(closed.status, NfsStatus::Ok);
    assert_eq!(old.compound(&[put_handle(&file), close]).await, closed, "though it is closed");
    assert_eq!(running.server.metrics().replays, 3);
    running.stop().await;
}

/// RFC 7530 §9.1.7.
#[tokio::test]
async fn a_refused_operation_counts_unless_the_error_says_that_it_does_not() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    let (file, id) = old.make(&root, "f").await;
    let missing = OpenArgs { how: OpenHow::NoCreate, ..old.open_args("missing", share_access::READ, 0) };
    let request = [put_handle(&root), NfsArgOp::Open(missing)];
    let first = old.compound(&request).await;
    assert_eq!(first.status, NfsStatus::NoEnt);
    assert_eq!(old.compound(&request).await, first);
    // No handle: the number is free again.
    let close = old.close_op(id);
    assert_eq!(old.status(std::slice::from_ref(&close)).await, NfsStatus::NoFileHandle);
    assert_eq!(old.status(&[put_handle(&file), close]).await, NfsStatus::Ok);
    running.stop().await;
}

/// RFC 7530 §3.1.1.
#[tokio::test]
async fn a_request_that_is_repeated_after_the_connection_was_lost_is_done_once() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    let make = [put_handle(&root), create(CreateType::Directory, "d", 0o755)];
    let made = old.compound_as(7, &make).await;
    assert_eq!(made.status, NfsStatus::Ok);
    assert_eq!(old.compound_as(7, &make).await, made);
    assert_eq!(old.status(&make).await, NfsStatus::Exist, "another request");
    let mut neighbour = Old::stranger(&running, 1000).await;
    assert_eq!(neighbour.compound_as(7, &make).await.status, NfsStatus::Exist, "from elsewhere");
    let unmake = [put_handle(&root), remove("d")];
    let removed = old.compound_as(8, &unmake).await;
    old.reconnect().await;
    assert_eq!(old.compound_as(8, &unmake).await, removed);
    assert_eq!(old.status(&unmake).await, NfsStatus::NoEnt);
    running.stop().await;
}

#[tokio::test]
async fn shares_and_locks_are_in_the_way_of_clients_of_all_versions() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let session = running.client("new").await;
    let root = old.home().await;
    let deny = old.open_args("f", share_access::BOTH, share_deny::WRITE);
    let (file, opened) = old.open(&root, deny).await.unwrap();
    let their = |name: &'static str| {
        [put_handle(&root), open(name, share_access::WRITE, unchecked(0o666), owner("o"))]
    };
    assert_eq!(outcome(&session, &their("f")).await, (NfsStatus::ShareDenied, 2));
    let data = write(StateId::ANONYMOUS, 0, StableHow::FileSync, Bytes::from_static(b"x"));
    assert_eq!(outcome(&session, &[put_handle(&file), data]).await.0, NfsStatus::Locked);

    let made = session.create(&root, "g", 0o666).await.unwrap();
    let (g, mine) = old.make(&root, "g").await;
    session.lock(&made, owner("l"), LockType::Write, 5, 1).await.unwrap();
    let lock = old.lock_op(mine, "l", false);
    let denied = old.compound(&[put_handle(&g), lock]).await;
    assert_eq!(denied.status, NfsStatus::Denied);
    session.close(&made).await.unwrap();
    let lock = old.lock_op(mine, "l", false);
    assert_eq!(old.status(&[put_handle(&g), lock]).await, NfsStatus::Ok);
    let made = session.create(&root, "g", 0o666).await.unwrap();
    assert_eq!(status(session.lock(&made, owner("l"), LockType::Read, 0, 1).await), NfsStatus::Denied);

    let release = NfsArgOp::ReleaseLockOwner(ReleaseLockOwnerArgs { owner: old.owner("l") });
    assert_eq!(old.status(&[release]).await, NfsStatus::LocksHeld);
    let close_f = old.close_op(opened.state_id);
    assert_eq!(old.status(&[put_handle(&file), close_f]).await, NfsStatus::Ok);
    let close_g = old.close_op(mine);
    assert_eq!(old.status(&[put_handle(&g), close_g]).await, NfsStatus::Ok);
    session.lock(&made, owner("l"), LockType::Read, 0, 1).await.unwrap();
    let foreign = [put_handle(&g), read(made.state_id, 0, 1)];
    assert_eq!(old.status(&foreign).await, NfsStatus::BadStateId, "a state id of a session");
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_went_silent_loses_to_who_wants_it_and_is_told_so() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    let deny = old.open_args("f", share_access::BOTH, share_deny::BOTH);
    let (file, opened) = old.open(&root, deny).await.unwrap();
    let half = LEASE / 2 + Duration::from_secs(1);
    world.clock.advance(half);
    let renewed = renew(&old);
    assert_eq!(old.status(std::slice::from_ref(&renewed)).await, NfsStatus::Ok);
    world.clock.advance(half);
    let session = running.client("new").await;
    let wanted = [put_handle(&root), open("f", share_access::READ, unchecked(0o666), owner("o"))];
    assert_eq!(outcome(&session, &wanted).await.0, NfsStatus::ShareDenied, "it was heard of");
    world.clock.advance(half);
    session.renew().await.unwrap();
    world.clock.advance(half);
    assert_eq!(outcome(&session, &wanted).await.0, NfsStatus::Ok);
    let close = old.close_op(opened.state_id);
    assert_eq!(old.status(&[put_handle(&file), close]).await, NfsStatus::Expired);
    assert_eq!(old.status(&[renewed]).await, NfsStatus::Expired);
    let args = old.open_args("f", share_access::READ, 0);
    assert_eq!(old.open(&root, args).await.err(), Some(NfsStatus::Expired));
    assert_eq!(world.records.load().await.unwrap(), [b"new"], "nor may it reclaim after a restart");
    running.stop().await;
}

/// RFC 7530 §9.6.2, §9.6.3.
#[tokio::test]
async fn opens_and_locks_are_reclaimed_after_every_restart() {
    let world = World::new().await;
    let mut running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    assert!(world.records.load().await.unwrap().is_empty(), "it has nothing yet");
    let root = old.home().await;
    let (file, id) = old.make(&root, "f").await;
    let lock = old.lock_op(id, "l", false);
    assert_eq!(old.status(&[put_handle(&file), lock]).await, NfsStatus::Ok);
    for restart in 0..2 {
        running.stop().await;
        running = world.start().await;
        let mut lost = Old::stranger(&running, 1000).await;
        lost.client = old.client;
        assert_eq!(lost.status(&[renew(&old)]).await, NfsStatus::StaleClientId);
        assert_eq!(lost.status(&[put_handle(&file), read(id, 0, 1)]).await, NfsStatus::StaleStateId);

        old = Old::connect(&running, "old").await;
        let args = old.open_args("f", share_access::BOTH, 0);
        assert_eq!(old.open(&root, args).await.err(), Some(NfsStatus::Grace));
        let reclaim = |old: &mut Old| OpenArgs {
            how: OpenHow::NoCreate,
            claim: OpenClaim::Previous(nfs4::DelegationType::None),
            ..old.open_args("", share_access::BOTH, 0)
        };
        let args = reclaim(&mut old);
        let (same, opened) = old.open(&file, args).await.unwrap();
        assert_eq!(
            (same, opened.flags),
            (file.clone(), open_result::LOCKTYPE_POSIX),
            "and needs no OPEN_CONFIRM"
        );
        let lock = old.lock_op(opened.state_id, "l", true);
        assert_eq!(old.status(&[put_handle(&file), lock]).await, NfsStatus::Ok);
        let mut stranger = Old::connect(&running, &format!("stranger {restart}")).await;
        let args = reclaim(&mut stranger);
        assert_eq!(stranger.open(&file, args).await.err(), Some(NfsStatus::NoGrace));

        world.clock.advance(LEASE);
        while running.server.metrics().census.in_grace {
            tokio::task::yield_now().await;
        }
        let args = reclaim(&mut old);
        assert_eq!(old.open(&file, args).await.err(), Some(NfsStatus::NoGrace));
        let args = stranger.open_args("f", share_access::BOTH, 0);
        let (_, opened) = stranger.open(&root, args).await.unwrap();
        let lock = stranger.lock_op(opened.state_id, "l", false);
        assert_eq!(stranger.status(&[put_handle(&file), lock]).await, NfsStatus::Denied);
    }
    running.stop().await;
}

#[tokio::test]
async fn an_open_that_meets_a_conflict_is_counted_once() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    world.home.refuse_commits(3);
    let (file, id) = old.make(&root, "f").await;
    assert_eq!(running.server.metrics().census.opens, 1);
    let close = old.close_op(id);
    assert_eq!(old.status(&[put_handle(&file), close]).await, NfsStatus::Ok);

    world.home.refuse_commits(u32::MAX);
    let args = old.open_args("g", share_access::BOTH, 0);
    let request = [put_handle(&root), NfsArgOp::Open(args)];
    let delayed = old.compound(&request).await;
    assert_eq!(statuses(&delayed.results), [NfsStatus::Ok, NfsStatus::Delay]);
    world.home.refuse_commits(0);
    assert_eq!(old.compound(&request).await, delayed, "that was the answer to this number");
    let (_, id) = old.make(&root, "g").await;
    assert_eq!((id.seqid, running.server.metrics().census.opens), (1, 1), "the owner is known");
    running.stop().await;
}

#[tokio::test]
async fn an_open_that_cannot_be_stored_is_refused_and_leaves_nothing() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    world.home.break_next_commit();
    let args = old.open_args("f", share_access::BOTH, 0);
    assert_eq!(old.open(&root, args).await.err(), Some(NfsStatus::Io));
    assert_eq!(running.server.metrics().census.opens, 0);
    old.make(&root, "f").await;
    running.stop().await;
}

#[tokio::test]
async fn attributes_and_operations_of_later_versions_do_not_exist() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    let supported = |reply: CompoundRes| {
        let Some(NfsResOp::GetAttr(Outcome::Ok(fattr))) = reply.results.last() else { panic!("{reply:?}") };
        (fattr.bitmap, fattr.values().unwrap().supported_attrs.unwrap())
    };
    let asked = Attribute::set(&[Attribute::SupportedAttrs, Attribute::SuppattrExclcreat, Attribute::Mode]);
    for place in [put_handle(&root), NfsArgOp::PutRootFh] {
        let (told, supported) = supported(old.compound(&[place.clone(), get_attributes(asked)]).await);
        assert_eq!(told, asked.without(Attribute::SuppattrExclcreat));
        assert!(Attribute::OF_MINOR_0.contains_all(supported), "{supported:?}");
        assert!(supported.contains(Attribute::MountedOnFileid));
        let list = read_directory(0, nfs4::Verifier([0; 8]), 4096, asked);
        let reply = old.compound(&[place, list]).await;
        let Some(NfsResOp::ReadDir(Outcome::Ok(listed))) = reply.results.last() else { panic!("{reply:?}") };
        for entry in &listed.entries {
            let supported = entry.attributes.values().unwrap().supported_attrs.unwrap();
            assert!(Attribute::OF_MINOR_0.contains_all(supported), "{supported:?}");
        }
    }
    let attributes =
        Fattr { bitmap: Bitmap::of(&[Attribute::ModeUmask as u32]), encoded: Bytes::from(vec![0; 8]) };
    let how = OpenHow::Create(nfs4::CreateHow::Guarded(attributes));
    let args = OpenArgs { how, ..old.open_args("f", share_access::READ, 0) };
    assert_eq!(old.open(&root, args).await.err(), Some(NfsStatus::AttrNotSupp));

    for operation in [OpCode::Sequence, OpCode::ExchangeId, OpCode::ReadPlus, OpCode::GetXattr] {
        let reply = old.raw(1, words(&[operation as u32, 0, 0, 0, 0, 0])).await;
        assert_eq!(statuses(&reply.results), [NfsStatus::OpIllegal], "{operation}");
        assert!(matches!(reply.results[0], NfsResOp::Illegal(_)));
    }
    let by_handle = OpenArgs {
        how: OpenHow::NoCreate,
        claim: OpenClaim::FileHandle,
        ..old.open_args("", share_access::READ, 0)
    };
    assert_eq!(old.open(&root, by_handle.clone()).await.err(), Some(NfsStatus::BadXdr));
    let wish = OpenArgs {
        share_access: share_access::READ | share_access::WANT_NO_DELEG,
        how: OpenHow::NoCreate,
        claim: OpenClaim::Null("f".into()),
        ..by_handle
    };
    assert_eq!(old.open(&root, wish).await.err(), Some(NfsStatus::Inval));
    running.stop().await;
}

/// RFC 7530 §13.2, §16.
#[tokio::test]
async fn errors_are_those_of_this_version() {
    let world = World::new().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    let fifo = old.handle(&[put_handle(&root), create(CreateType::Fifo, "fifo", 0o666)]).await;
    let args = OpenArgs { how: OpenHow::NoCreate, ..old.open_args("fifo", share_access::READ, 0) };
    assert_eq!(old.open(&root, args).await.err(), Some(NfsStatus::Symlink));
    assert_eq!(old.status(&[put_handle(&fifo), read(StateId::ANONYMOUS, 0, 1)]).await, NfsStatus::Inval);
    assert_eq!(old.status(&[put_handle(&fifo), NfsArgOp::ReadLink]).await, NfsStatus::Inval);
    assert_eq!(old.status(&[NfsArgOp::RestoreFh]).await, NfsStatus::RestoreFh);
    let ask = NfsArgOp::SecInfo(SecInfoArgs { name: "fifo".into() });
    let kept = old.handle(&[put_handle(&root), ask]).await;
    assert_eq!(kept, root, "SECINFO leaves the handle");
    let many = vec![NfsArgOp::PutRootFh; world.limits.operations as usize + 1];
    assert_eq!(old.status(&many).await, NfsStatus::Resource);
    assert_eq!(old.status(&many[1..]).await, NfsStatus::Ok);
    assert_eq!(old.compound(&[]).await.status, NfsStatus::Ok);
    let (file, id) = old.make(&root, "f").await;
    // 0 does not stand for the newest here, and nothing stands for the current state id.
    for (id, expected) in [(id.newest(), NfsStatus::OldStateId), (StateId::CURRENT, NfsStatus::BadStateId)] {
        assert_eq!(old.status(&[put_handle(&file), read(id, 0, 1)]).await, expected, "{id:?}");
    }
    running.stop().await;
}

/// Whatever arrives is answered, and what it left behind is gone with the client.
#[test]
fn any_words_get_an_answer_and_leave_nothing_that_outlives_the_client() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (running, session, mut old, good) = runtime.block_on(async {
        let world = World::new().await;
        let running = world.start().await;
        let session = running.client("new").await;
        let mut old = Old::connect(&running, "old").await;
        let root = old.home().await;
        let (file, id) = old.make(&root, "f").await;
        let (open, close) = (old.open_args("g", share_access::BOTH, 0), old.close_op(id));
        let lock = old.lock_op(id, "l", false);
        let good = vec![
            renew(&old),
            put_handle(&root),
            NfsArgOp::Open(open),
            put_handle(&file),
            lock,
            read(id, 0, 9),
            close,
            NfsArgOp::ReleaseLockOwner(ReleaseLockOwnerArgs { owner: old.owner("l") }),
        ];
        (running, session, old, xdr::to_bytes(&CompoundArgs { tag: "".into(), minor_version: 0, ops: good }))
    });
    let send = |body: Vec<u8>| {
        let timeout = Duration::from_secs(20);
        let compound = onc_rpc::Procedure { program: nfs4::PROGRAM, version: nfs4::VERSION, number: 1 };
        let call = session.peer().call(compound, &onc_rpc::Credential::None, vec![body.into()], timeout);
        match runtime.block_on(call) {
            Ok(reply) => {
                xdr::from_bytes::<CompoundRes>(reply).expect("the reply is well-formed").results.len()
            }
            Err(onc_rpc::RpcError::GarbageArguments) => 0,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(send(good.to_vec()), 5, "the lock takes the owner's number that CLOSE was to have");
    let word = prop_oneof![3 => 0..45u32, 1 => Just(u32::MAX), 1 => any::<u32>()];
    let changes = prop::collection::vec((3..good.len() / 4, word.clone()), 0..4);
    let strategy = (prop::collection::vec(word, 0..40), changes, 12..good.len());
    proptest::test_runner::TestRunner::default()
        .run(&strategy, |(words, changes, cut)| {
            let mut noise = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, words.len().min(9) as u8];
            words.iter().for_each(|word| noise.extend(word.to_be_bytes()));
            send(noise);
            let mut changed = good.to_vec();
            for (at, word) in changes {
                changed[at * 4..at * 4 + 4].copy_from_slice(&word.to_be_bytes());
            }
            send(changed.clone());
            changed.truncate(cut & !3);
            send(changed);
            Ok(())
        })
        .unwrap();
    runtime.block_on(async {
        let again = old.set_client_id("old", 2).await.unwrap();
        assert_eq!(old.status(&[NfsArgOp::SetClientIdConfirm(again)]).await, NfsStatus::Ok);
        let census = running.server.metrics().census;
        assert_eq!((census.opens, census.lock_owners), (0, 0));
        running.stop().await;
    });
}
