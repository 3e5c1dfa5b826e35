//! OPEN and what its state ids are good for.

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{
    CreateHow, CreateType, Fattr, NfsArgOp, NfsResOp, NfsStatus, OpenArgs, OpenClaim, OpenDelegation,
    OpenHow, Outcome, StableHow, StateId, Verifier,
};
use nfs4_client::operations::{
    close, create, guarded, open, owner, put_handle, read, remove, unchecked, write,
};
use nfs4_client::{Config, Session};
use onc_rpc::{AuthSys, Credential};

use crate::harness::{World, home, outcome, status, statuses};

const R: u32 = share_access::READ;
const W: u32 = share_access::WRITE;

fn user(session: &Session, uid: u32) -> Session {
    session.with_credential(Credential::Sys(AuthSys::new(uid, uid)))
}

#[tokio::test]
async fn the_current_state_id_is_that_of_the_open_before() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let request = [
        put_handle(&root),
        open("f", share_access::BOTH, unchecked(0o600), owner("o")),
        write(StateId::CURRENT, 0, StableHow::FileSync, Bytes::from_static(b"hello")),
        NfsArgOp::SaveFh,
        put_handle(&root),
        read(StateId::CURRENT, 0, 1),
    ];
    let reply = session.compound(&request).await.unwrap();
    assert_eq!(statuses(&reply.results)[..5], [NfsStatus::Ok; 5]);
    assert_ne!(reply.status, NfsStatus::Ok, "PUTFH forgets it");
    let request = [
        put_handle(&root),
        open("f", R, OpenHow::NoCreate, owner("p")),
        NfsArgOp::SaveFh,
        put_handle(&root),
        NfsArgOp::RestoreFh,
        read(StateId::CURRENT, 0, 9),
        close(StateId::CURRENT),
        read(StateId::CURRENT, 0, 9),
    ];
    let reply = session.compound(&request).await.unwrap();
    assert_eq!(statuses(&reply.results)[..7], [NfsStatus::Ok; 7]);
    assert_eq!(reply.status, NfsStatus::BadStateId, "CLOSE leaves none");
    let NfsResOp::Read(Outcome::Ok(data)) = &reply.results[5] else { panic!("no READ") };
    assert_eq!(data.data.clone().into_bytes(), "hello");
    running.stop().await;
}

#[tokio::test]
async fn mode_bits_are_checked_at_open_and_hold_for_as_long_as_the_file_is_open() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let (alice, bob) = (user(&session, 1000), user(&session, 1001));
    // Whoever makes a file may use it whatever its mode.
    let made = alice.open(&root, "f", share_access::BOTH, guarded(0), owner("alice")).await.unwrap();
    alice.write(&made, 0, StableHow::FileSync, Bytes::from_static(b"data")).await.unwrap();
    assert_eq!(status(bob.open(&root, "f", R, OpenHow::NoCreate, owner("bob")).await), NfsStatus::Access);
    assert_eq!(status(alice.open(&root, "f", R, OpenHow::NoCreate, owner("x")).await), NfsStatus::Access);
    // Who has it open keeps it after the mode was taken away.
    let mode = |mode| nfs4::AttributeValues { mode: Some(mode), ..Default::default() };
    alice.set_attributes(&made.handle, StateId::ANONYMOUS, &mode(0o644)).await.unwrap();
    let opened = bob.open(&root, "f", R, OpenHow::NoCreate, owner("bob")).await.unwrap();
    alice.set_attributes(&made.handle, StateId::ANONYMOUS, &mode(0)).await.unwrap();
    assert_eq!(bob.read(&opened, 0, 4).await.unwrap().data.into_bytes(), "data");
    assert_eq!(
        status(bob.write(&opened, 0, StableHow::FileSync, Bytes::from_static(b"x")).await),
        NfsStatus::OpenMode
    );
    let anonymous = [put_handle(&made.handle), read(StateId::ANONYMOUS, 0, 4)];
    assert_eq!(outcome(&bob, &anonymous).await.0, NfsStatus::Access);
    // Execute is enough to read.
    alice.set_attributes(&made.handle, StateId::ANONYMOUS, &mode(0o711)).await.unwrap();
    assert_eq!(outcome(&bob, &anonymous).await.0, NfsStatus::Ok);
    running.stop().await;
}

#[tokio::test]
async fn a_refused_truncating_open_leaves_the_file_as_it_was() {
    let world = World::new().await;
    let running = world.start().await;
    let (a, b) = (running.client("a").await, running.client("b").await);
    let root = home(&a).await;
    let file = a.create(&root, "f", 0o644).await.unwrap();
    a.write(&file, 0, StableHow::FileSync, Bytes::from_static(b"data")).await.unwrap();
    let size = nfs4::AttributeValues { size: Some(0), ..Default::default() }.to_fattr();
    let truncate = || OpenHow::Create(CreateHow::Unchecked(size.clone()));
    // By mode bits.
    assert_eq!(status(user(&b, 1000).open(&root, "f", R, truncate(), owner("o")).await), NfsStatus::Access);
    // By a share reservation.
    let deny = NfsArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: R,
        share_deny: W,
        owner: owner("deny"),
        how: OpenHow::NoCreate,
        claim: OpenClaim::Null("f".into()),
    });
    a.close(&file).await.unwrap();
    assert_eq!(outcome(&a, &[put_handle(&root), deny]).await.0, NfsStatus::Ok);
    assert_eq!(status(b.open(&root, "f", W, truncate(), owner("o")).await), NfsStatus::ShareDenied);
    let opened = b.open(&root, "f", R, OpenHow::NoCreate, owner("o")).await.unwrap();
    assert_eq!(b.read(&opened, 0, 9).await.unwrap().data.into_bytes(), "data");
    running.stop().await;
}

#[tokio::test]
async fn exclusive_creation_can_be_repeated_and_guarded_cannot() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let exclusive = |verifier| OpenHow::Create(CreateHow::Exclusive(Verifier([verifier; 8])));
    for how in [exclusive(1), exclusive(1)] {
        session.open(&root, "f", W, how, owner("o")).await.unwrap();
    }
    assert_eq!(status(session.open(&root, "f", W, exclusive(2), owner("o")).await), NfsStatus::Exist);
    assert_eq!(status(session.open(&root, "f", W, guarded(0o644), owner("o")).await), NfsStatus::Exist);
    running.stop().await;
}

#[tokio::test]
async fn only_regular_files_are_opened() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let link = CreateType::SymbolicLink(nfs4::LinkText::from("target"));
    for (kind, name, error) in [
        (CreateType::Directory, "d", NfsStatus::IsDir),
        (link, "l", NfsStatus::Symlink),
        (CreateType::Fifo, "p", NfsStatus::WrongType),
    ] {
        session.execute(&[put_handle(&root), create(kind, name, 0o777)]).await.unwrap();
        for how in [OpenHow::NoCreate, unchecked(0o644)] {
            assert_eq!(status(session.open(&root, name, R, how, owner("o")).await), error, "{name}");
        }
        assert_eq!(status(session.open(&root, name, R, guarded(0o644), owner("o")).await), NfsStatus::Exist);
    }
    let pseudo_root = session.lookup(&[]).await.unwrap();
    assert_eq!(
        status(session.open(&pseudo_root, "home", R, OpenHow::NoCreate, owner("o")).await),
        NfsStatus::IsDir
    );
    assert_eq!(
        status(session.open(&pseudo_root, "x", R, unchecked(0o644), owner("o")).await),
        NfsStatus::Rofs
    );
    running.stop().await;
}

#[tokio::test]
async fn an_open_by_handle_is_for_what_the_handle_names() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o600).await.unwrap();
    let by_handle = |claim| {
        NfsArgOp::Open(OpenArgs {
            seqid: 0,
            share_access: R | share_access::WANT_READ_DELEG,
            share_deny: 0,
            owner: owner("h"),
            how: OpenHow::NoCreate,
            claim,
        })
    };
    let request = [put_handle(&file.handle), by_handle(OpenClaim::FileHandle), read(StateId::CURRENT, 0, 1)];
    let reply = session.compound(&request).await.unwrap();
    assert_eq!(statuses(&reply.results), [NfsStatus::Ok; 3]);
    let NfsResOp::Open(Outcome::Ok(opened)) = &reply.results[1] else { panic!("no OPEN") };
    assert!(matches!(opened.delegation, OpenDelegation::NoneExt(_)), "it said what it wants");
    let cases = [
        (OpenClaim::Previous(nfs4::DelegationType::None), NfsStatus::NoGrace),
        (OpenClaim::DelegateCurrentFileHandle(StateId::ANONYMOUS), NfsStatus::BadStateId),
        (OpenClaim::DelegatePreviousFileHandle, NfsStatus::NotSupp),
    ];
    for (claim, error) in cases {
        assert_eq!(outcome(&session, &[put_handle(&file.handle), by_handle(claim)]).await.0, error);
    }
    running.stop().await;
}

#[tokio::test]
async fn an_open_file_outlives_its_name() {
    let world = World::new().await;
    let running = world.start().await;
    let (a, b) = (running.client("a").await, running.client("b").await);
    let root = home(&a).await;
    let file = a.create(&root, "f", 0o600).await.unwrap();
    a.write(&file, 0, StableHow::FileSync, Bytes::from_static(b"data")).await.unwrap();
    b.remove(&root, "f").await.unwrap();
    assert_eq!(a.read(&file, 0, 9).await.unwrap().data.into_bytes(), "data");
    a.close(&file).await.unwrap();
    let anonymous = [put_handle(&file.handle), read(StateId::ANONYMOUS, 0, 4)];
    assert_eq!(outcome(&a, &anonymous).await.0, NfsStatus::Stale);
    running.stop().await;
}

#[tokio::test]
async fn bad_arguments_are_refused_before_anything_is_made() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.connect(Config { minor_version: 1, ..Config::new("a", [1; 8]) }).await;
    let root = home(&session).await;
    let attempt = |access, deny, name: &'static str| {
        NfsArgOp::Open(OpenArgs {
            seqid: 0,
            share_access: access,
            share_deny: deny,
            owner: owner("o"),
            how: OpenHow::Create(CreateHow::Unchecked(Fattr::EMPTY)),
            claim: OpenClaim::Null(name.into()),
        })
    };
    let cases = [
        (attempt(0, 0, "f"), NfsStatus::Inval),
        (attempt(R, 4, "f"), NfsStatus::Inval),
        (attempt(R | 0x8000_0000, 0, "f"), NfsStatus::Inval),
        (attempt(R, 0, ""), NfsStatus::Inval),
        (attempt(R, 0, "a/b"), NfsStatus::BadName),
        (attempt(R, 0, ".."), NfsStatus::BadName),
    ];
    for (operation, error) in cases {
        assert_eq!(
            outcome(&session, &[put_handle(&root), operation.clone()]).await.0,
            error,
            "{operation:?}"
        );
    }
    assert_eq!(outcome(&session, &[put_handle(&root), remove("f")]).await.0, NfsStatus::NoEnt);
    running.stop().await;
}
