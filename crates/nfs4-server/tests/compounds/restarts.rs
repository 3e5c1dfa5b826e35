//! A server that comes back lets its clients reclaim, and only them (RFC 8881 §8.4.2).

use std::time::Duration;

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{
    DelegationClaim, DelegationType, LockArgs, LockType, Locker, NfsArgOp, NfsResOp, NfsStatus, OpenArgs,
    OpenClaim, OpenDelegation, OpenHow, Outcome, ReclaimCompleteArgs, StableHow, StateId, WantDelegationArgs,
};
use nfs4_client::operations::{get_attributes, owner, put_handle, read};
use nfs4_client::{Config, Session};
use onc_rpc::{AuthSys, Credential};

use crate::harness::{LEASE, Running, World, home, outcome, status};

fn reclaim() -> NfsArgOp {
    reclaim_for(share_access::BOTH, DelegationType::None)
}

fn reclaim_for(share_access: u32, delegation: DelegationType) -> NfsArgOp {
    NfsArgOp::Open(OpenArgs {
        seqid: 0,
        share_access,
        share_deny: 0,
        owner: owner("open"),
        how: OpenHow::NoCreate,
        claim: OpenClaim::Previous(delegation),
    })
}

const COMPLETE: NfsArgOp = NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });

async fn returning(running: &Running, owner: &str) -> Session {
    running.connect(Config { reclaim_complete: false, ..Config::new(owner.to_owned(), [1; 8]) }).await
}

/// Nobody knows after a restart what was open: who says that a file of somebody else was must have a right to it.
#[tokio::test]
async fn nobody_reclaims_what_he_may_not_open() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let somebody = || Credential::Sys(AuthSys::new(4711, 4711));
    let root = home(&session).await;
    let secret = session.create(&root, "secret", 0o600).await.unwrap();
    let readable = session.create(&root, "readable", 0o644).await.unwrap();
    let own = session.with_credential(somebody()).create(&root, "own", 0o400).await.unwrap();
    running.stop().await;

    let running = world.start().await;
    let session = returning(&running, "a").await.with_credential(somebody());
    for kind in [DelegationType::None, DelegationType::Read, DelegationType::Write] {
        for access in [share_access::READ, share_access::WRITE, share_access::BOTH] {
            let request = [put_handle(&secret.handle), reclaim_for(access, kind)];
            assert_eq!(outcome(&session, &request).await, (NfsStatus::Access, 2), "{kind:?}");
        }
        let want = NfsArgOp::WantDelegation(WantDelegationArgs {
            want: share_access::WANT_NO_PREFERENCE,
            claim: DelegationClaim::Previous(kind),
        });
        let results = session.execute(&[put_handle(&secret.handle), want]).await.unwrap();
        let Some(NfsResOp::WantDelegation(Outcome::Ok(wanted))) = results.last() else {
            panic!("{results:?}")
        };
        assert!(matches!(wanted, OpenDelegation::NoneExt(_)), "{wanted:?}");
    }
    let request = [put_handle(&readable.handle), reclaim_for(share_access::READ, DelegationType::Write)];
    let results = session.execute(&request).await.unwrap();
    let Some(NfsResOp::Open(Outcome::Ok(opened))) = results.last() else { panic!("{results:?}") };
    assert_eq!(opened.delegation, OpenDelegation::None, "it would be a right to write");
    let request = [put_handle(&own.handle), reclaim_for(share_access::BOTH, DelegationType::Write)];
    let results = session.execute(&request).await.unwrap();
    let Some(NfsResOp::Open(Outcome::Ok(opened))) = results.last() else { panic!("{results:?}") };
    assert!(matches!(opened.delegation, OpenDelegation::Write(_)), "an owner needs no mode");
    running.stop().await;
}

#[tokio::test]
async fn opens_and_locks_are_reclaimed_and_grace_ends_when_everybody_is_back() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o600).await.unwrap();
    session.write(&file, 0, StableHow::FileSync, Bytes::from_static(b"data")).await.unwrap();
    session.lock(&file, owner("l"), LockType::Write, 0, 4).await.unwrap();
    running.stop().await;

    let running = world.start().await;
    let stranger = running.client("stranger").await;
    assert_eq!(status(stranger.create(&root, "g", 0o600).await), NfsStatus::Grace);
    let attributes = get_attributes(nfs4::Attribute::set(&[nfs4::Attribute::Size]));
    assert_eq!(
        outcome(&stranger, &[put_handle(&file.handle), attributes]).await.0,
        NfsStatus::Ok,
        "handles live"
    );

    let session = returning(&running, "a").await;
    let lock = NfsArgOp::Lock(LockArgs {
        lock_type: LockType::Write,
        reclaim: true,
        offset: 0,
        length: 4,
        locker: Locker::New {
            open_seqid: 0,
            open_state_id: StateId::CURRENT,
            lock_seqid: 0,
            owner: owner("l"),
        },
    });
    let request = [put_handle(&file.handle), reclaim(), read(StateId::CURRENT, 0, 9), lock];
    assert_eq!(outcome(&session, &request).await, (NfsStatus::Ok, 4));
    assert!(running.server.metrics().census.in_grace);
    assert_eq!(outcome(&session, &[COMPLETE]).await.0, NfsStatus::Ok);
    assert_eq!(outcome(&session, &[COMPLETE]).await.0, NfsStatus::CompleteAlready);
    assert!(!running.server.metrics().census.in_grace);
    let made = stranger.create(&root, "f", 0o600).await.unwrap();
    assert_eq!(status(stranger.lock(&made, owner("l"), LockType::Read, 3, 1).await), NfsStatus::Denied);
    running.stop().await;
}

#[tokio::test]
async fn without_known_clients_there_is_no_grace() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    session.destroy_client().await.unwrap();
    assert!(world.records.load().await.unwrap().is_empty());
    running.stop().await;
    let running = world.start().await;
    let session = running.client("b").await;
    let root = home(&session).await;
    session.create(&root, "f", 0o600).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn who_misses_the_grace_period_cannot_reclaim_not_even_after_the_next_restart() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("late").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o600).await.unwrap();
    running.stop().await;

    let running = world.start().await;
    let other = running.client("other").await;
    let half = LEASE / 2 + Duration::from_secs(1);
    world.clock.advance(half);
    other.renew().await.unwrap();
    world.clock.advance(half);
    while running.server.metrics().census.in_grace {
        tokio::task::yield_now().await;
    }
    assert!(world.records.load().await.unwrap().is_empty(), "nor does the other one hold anything");
    other.create(&root, "f", 0o600).await.unwrap();
    let late = returning(&running, "late").await;
    let request = [put_handle(&file.handle), reclaim()];
    assert_eq!(outcome(&late, &request).await, (NfsStatus::NoGrace, 2));
    running.stop().await;

    let running = world.start().await;
    let late = returning(&running, "late").await;
    assert_eq!(outcome(&late, &request).await, (NfsStatus::NoGrace, 2));
    running.stop().await;
}
