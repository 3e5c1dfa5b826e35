//! What a reply promises to be on stable storage (decision D1).

use bytes::Bytes;
use file_system::CommitMode;
use nfs4::bits::share_access;
use nfs4::{
    AttributeValues, CreateHow, CreateType, NfsResOp, NfsStatus, OpenHow, Outcome, StableHow, StateId,
};
use nfs4_client::operations::{close, commit, create, open, owner, put_handle, set_attributes, write};

use crate::harness::{World, home, outcome};

#[tokio::test]
async fn only_unstable_writes_alone_may_be_lost() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let data = Bytes::from_static(b"data");
    let unstable = write(file.state_id, 0, StableHow::Unstable, data.clone());
    let stable = |how| write(file.state_id, 0, how, data.clone());
    let there = || put_handle(&file.handle);
    let cases = [
        (vec![there(), unstable.clone(), unstable.clone()], CommitMode::Visible),
        (vec![there(), stable(StableHow::DataSync)], CommitMode::Durable),
        (vec![there(), unstable.clone(), stable(StableHow::FileSync)], CommitMode::Durable),
        (vec![there(), unstable.clone(), commit(0, 0)], CommitMode::Durable),
        (
            vec![there(), unstable.clone(), put_handle(&root), create(CreateType::Directory, "d", 0o755)],
            CommitMode::Durable,
        ),
    ];
    for (request, mode) in cases {
        world.home.take_commits();
        assert_eq!(outcome(&session, &request).await, (NfsStatus::Ok, request.len()));
        assert_eq!(world.home.take_commits(), [mode], "{request:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn files_of_an_archive_are_one_commit_with_their_attributes() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let access = share_access::WRITE | share_access::WANT_NO_DELEG;
    let mut request = Vec::new();
    for name in ["f", "g", "h"] {
        let attributes = AttributeValues { mode: Some(0o444), ..AttributeValues::default() };
        let how = OpenHow::Create(CreateHow::Guarded(AttributeValues::default().to_fattr()));
        request.extend([
            put_handle(&root),
            open(name, access, how, owner("o")),
            write(StateId::CURRENT, 0, StableHow::FileSync, Bytes::from_static(b"data")),
            close(StateId::CURRENT),
            set_attributes(StateId::ANONYMOUS, &attributes),
        ]);
    }
    world.home.take_commits();
    assert_eq!(outcome(&session, &request).await, (NfsStatus::Ok, request.len()));
    assert_eq!(world.home.take_commits(), [CommitMode::Durable]);
    running.stop().await;
}

#[tokio::test]
async fn write_says_what_it_did_and_commit_has_the_same_verifier() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let mut verifiers = Vec::new();
    for (how, committed) in [
        (StableHow::Unstable, StableHow::Unstable),
        (StableHow::DataSync, StableHow::FileSync),
        (StableHow::FileSync, StableHow::FileSync),
    ] {
        let written = session.write(&file, 0, how, Bytes::from_static(b"0123456")).await.unwrap();
        assert_eq!((written.count, written.committed), (7, committed));
        verifiers.push(written.verifier);
    }
    let syncs = world.home.syncs();
    verifiers.push(session.commit(&file.handle, 0, 0).await.unwrap());
    assert_eq!(world.home.syncs(), syncs + 1);
    assert!(verifiers.windows(2).all(|pair| pair[0] == pair[1]));
    let reply = session.compound(&[put_handle(&file.handle), commit(u64::MAX, 2)]).await.unwrap();
    assert!(matches!(reply.results[1], NfsResOp::Commit(Outcome::Err(NfsStatus::Inval))));
    running.stop().await;
}

#[tokio::test]
async fn large_data_comes_back_as_it_was() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let data: Bytes = (0..4 << 20).map(|index: u32| (index % 251) as u8).collect::<Vec<_>>().into();
    let written = session.write(&file, 3, StableHow::Unstable, data.clone()).await.unwrap();
    assert_eq!(written.count as usize, data.len());
    let read = session.read(&file, 3, 4 << 20).await.unwrap();
    assert!(read.eof && read.data.into_bytes() == data);
    let head = session.read(&file, 0, 4).await.unwrap();
    assert!(!head.eof && head.data.into_bytes() == [0, 0, 0, 0][..]);
    running.stop().await;
}
