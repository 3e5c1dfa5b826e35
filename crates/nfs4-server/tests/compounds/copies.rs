//! COPY (RFC 7862 §15.2).

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{
    AllocateArgs, Attribute, Bitmap, CloneArgs, CopyArgs, CopyOk, CopyRes, DataContent, NetLocation,
    NfsArgOp, NfsResOp, NfsStatus, OpenHow, Outcome, SeekArgs, StableHow,
};
use nfs4_client::operations::{owner, put_handle, write};
use nfs4_client::{OpenFile, Session};

use crate::harness::{World, home, outcome};

const MIB: u64 = 1 << 20;

fn arguments(from: &OpenFile, to: &OpenFile, source: u64, destination: u64, count: u64) -> CopyArgs {
    CopyArgs {
        source_state_id: from.state_id,
        destination_state_id: to.state_id,
        source_offset: source,
        destination_offset: destination,
        count,
        consecutive: true,
        synchronous: true,
        source_servers: Vec::new(),
    }
}

fn request(from: &OpenFile, to: &OpenFile, args: CopyArgs) -> [NfsArgOp; 4] {
    [put_handle(&from.handle), NfsArgOp::SaveFh, put_handle(&to.handle), NfsArgOp::Copy(args)]
}

async fn copy(
    session: &Session,
    from: &OpenFile,
    to: &OpenFile,
    args: CopyArgs,
) -> Result<CopyOk, NfsStatus> {
    let reply = session.compound(&request(from, to, args)).await.unwrap();
    match reply.results.last() {
        Some(NfsResOp::Copy(CopyRes::Ok(done))) => Ok(*done),
        _ => Err(reply.status),
    }
}

async fn content(session: &Session, file: &OpenFile) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let part = session.read(file, content.len() as u64, 4 << 20).await.unwrap();
        content.extend_from_slice(&part.data.into_bytes());
        if part.eof {
            return content;
        }
    }
}

async fn size(session: &Session, file: &OpenFile) -> u64 {
    let size = Bitmap::EMPTY.with(Attribute::Size);
    session.attributes(&file.handle, size).await.unwrap().size.unwrap()
}

#[tokio::test]
async fn a_range_is_copied_within_a_volume_and_to_another() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let (root, other) = (home(&session).await, session.lookup(&["other"]).await.unwrap());
    let from = session.create(&root, "from", 0o644).await.unwrap();
    session.write(&from, 0, StableHow::FileSync, Bytes::from_static(b"0123456789")).await.unwrap();
    for directory in [&root, &other] {
        let to = session.create(directory, "to", 0o644).await.unwrap();
        session.write(&to, 0, StableHow::FileSync, Bytes::from_static(b"abcdef")).await.unwrap();
        let done = copy(&session, &from, &to, arguments(&from, &to, 2, 3, 5)).await.unwrap();
        assert_eq!((done.response.count, done.response.committed), (5, StableHow::FileSync));
        assert_eq!(done.response.callback_id, None);
        assert!(done.requirements.consecutive && done.requirements.synchronous);
        assert_eq!(content(&session, &to).await, b"abc23456");
        let rest = copy(&session, &from, &to, arguments(&from, &to, 7, 0, 0)).await.unwrap();
        assert_eq!(rest.response.count, 3, "zero: up to the end");
        assert_eq!(content(&session, &to).await, b"78923456");
    }
    running.stop().await;
}

#[tokio::test]
async fn what_is_large_is_copied_in_pieces() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let from = session.create(&root, "from", 0o644).await.unwrap();
    let to = session.create(&root, "to", 0o644).await.unwrap();
    for piece in 0..3_u64 {
        let data: Vec<u8> = (0..4 * MIB).map(|at| (at % 251 + piece) as u8).collect();
        session.write(&from, piece * 4 * MIB, StableHow::Unstable, data.into()).await.unwrap();
    }
    let (mut done, mut pieces) = (0, 0);
    while done < 12 * MIB {
        // Not in step with blocks, so that none can be shared.
        let args = arguments(&from, &to, done, done + 1, 12 * MIB - done);
        let count = copy(&session, &from, &to, args).await.unwrap().response.count;
        assert!(count > 0);
        done += count;
        pieces += 1;
    }
    assert_eq!(pieces, 3);
    assert!(content(&session, &to).await[1..] == content(&session, &from).await);
    // In step, with one block that is not whole at each end.
    let args = arguments(&from, &to, 5, MIB + 5, 12 * MIB - 10);
    assert_eq!(copy(&session, &from, &to, args).await.unwrap().response.count, 12 * MIB - 10);
    let (source, target) = (content(&session, &from).await, content(&session, &to).await);
    assert!(target[MIB as usize + 5..][..12 * MIB as usize - 10] == source[5..][..12 * MIB as usize - 10]);
    assert_eq!((target[1], target[MIB as usize + 4]), (source[0], source[MIB as usize + 3]));
    assert_eq!(target.len() as u64, 13 * MIB - 5);
    running.stop().await;
}

#[tokio::test]
async fn holes_are_copied_as_holes_over_whatever_was_there() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let from = session.create(&root, "from", 0o644).await.unwrap();
    let to = session.create(&root, "to", 0o644).await.unwrap();
    session.write(&from, 0, StableHow::FileSync, Bytes::from_static(b"start")).await.unwrap();
    session.write(&from, 1 << 40, StableHow::FileSync, Bytes::from_static(b"end")).await.unwrap();
    let all = AllocateArgs { state_id: from.state_id, offset: 0, length: 2 << 40 };
    session.execute(&[put_handle(&from.handle), NfsArgOp::Allocate(all)]).await.unwrap();
    session.write(&to, 0, StableHow::FileSync, vec![7; 3 * MIB as usize].into()).await.unwrap();
    let args = arguments(&from, &to, 0, 0, 2 << 40);
    assert_eq!(copy(&session, &from, &to, args).await.unwrap().response.count, 2 << 40);
    assert_eq!(size(&session, &to).await, 2 << 40);
    let head = session.read(&to, 0, 3 * MIB as u32).await.unwrap().data.into_bytes();
    assert!(head.starts_with(b"start") && head[5..].iter().all(|&byte| byte == 0));
    let data = SeekArgs { state_id: to.state_id, offset: MIB, what: DataContent::Data };
    let results = session.execute(&[put_handle(&to.handle), NfsArgOp::Seek(data)]).await.unwrap();
    let NfsResOp::Seek(Outcome::Ok(found)) = &results[1] else { panic!("{results:?}") };
    assert_eq!((found.eof, found.offset), (false, 1 << 40));
    running.stop().await;
}

#[tokio::test]
async fn a_file_is_copied_into_itself_if_nothing_overlaps() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let file = session.create(&home(&session).await, "f", 0o644).await.unwrap();
    session.write(&file, 0, StableHow::FileSync, Bytes::from_static(b"0123456789")).await.unwrap();
    assert!(copy(&session, &file, &file, arguments(&file, &file, 0, 10, 10)).await.is_ok());
    assert_eq!(content(&session, &file).await, b"01234567890123456789");
    for (source, destination) in [(0, 0), (0, 9), (9, 0)] {
        let args = arguments(&file, &file, source, destination, 10);
        assert_eq!(copy(&session, &file, &file, args).await.err(), Some(NfsStatus::Inval));
    }
    running.stop().await;
}

#[tokio::test]
async fn what_cannot_be_copied_is_refused_and_changes_nothing() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let from = session.create(&root, "from", 0o644).await.unwrap();
    let to = session.create(&root, "to", 0o644).await.unwrap();
    session.write(&from, 0, StableHow::FileSync, Bytes::from_static(b"0123456789")).await.unwrap();
    let read = session.open(&root, "to", share_access::READ, OpenHow::NoCreate, owner("r")).await.unwrap();
    let directory = OpenFile { handle: root.clone(), ..to.clone() };
    let elsewhere = CopyArgs {
        source_servers: vec![NetLocation::Name("elsewhere".into())],
        ..arguments(&from, &to, 0, 0, 1)
    };
    let cases = [
        (&from, &to, arguments(&from, &to, 11, 0, 0), NfsStatus::Inval),
        (&from, &to, arguments(&from, &to, 5, 0, 6), NfsStatus::Inval),
        (&from, &to, arguments(&from, &to, 5, 0, u64::MAX), NfsStatus::Inval),
        (&from, &to, arguments(&from, &to, 0, u64::MAX, 1), NfsStatus::Fbig),
        (&from, &read, arguments(&from, &read, 0, 0, 1), NfsStatus::OpenMode),
        (&from, &directory, arguments(&from, &directory, 0, 0, 1), NfsStatus::WrongType),
        (&from, &to, elsewhere, NfsStatus::OffloadDenied),
    ];
    for (source, destination, args, status) in cases {
        assert_eq!(copy(&session, source, destination, args.clone()).await.err(), Some(status), "{args:?}");
    }
    assert_eq!(size(&session, &to).await, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_copy_sees_what_its_own_compound_wrote() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let (root, other) = (home(&session).await, session.lookup(&["other"]).await.unwrap());
    let from = session.create(&root, "from", 0o644).await.unwrap();
    for (directory, data) in [(&root, "first"), (&other, "later")] {
        let to = session.create(directory, "to", 0o644).await.unwrap();
        let mut operations = vec![
            put_handle(&from.handle),
            write(from.state_id, 0, StableHow::Unstable, Bytes::from_static(data.as_bytes())),
        ];
        operations.extend(request(&from, &to, arguments(&from, &to, 0, 0, 0)));
        assert_eq!(outcome(&session, &operations).await, (NfsStatus::Ok, 6));
        assert_eq!(content(&session, &to).await, data.as_bytes());
    }
    running.stop().await;
}

#[tokio::test]
async fn one_copy_too_many_comes_again_and_none_is_counted_twice() {
    let mut world = World::new().await;
    for (limit, status) in [(0, NfsStatus::Delay), (1, NfsStatus::Ok)] {
        world.limits.copies = limit;
        let running = world.start().await;
        let session = running.client("a").await;
        let root = home(&session).await;
        let from = session.create(&root, "from", 0o644).await.unwrap();
        let to = session.create(&root, "to", 0o644).await.unwrap();
        session.write(&from, 0, StableHow::FileSync, Bytes::from_static(b"0123")).await.unwrap();
        // Twice in a compound, twice in a row, and again after a conflict: each gives back what it took.
        let mut operations = request(&from, &to, arguments(&from, &to, 0, 0, 0)).to_vec();
        operations.extend(request(&from, &to, arguments(&from, &to, 0, 4, 0)));
        for conflicts in [0, 0, 2] {
            world.home.refuse_commits(conflicts);
            assert_eq!(outcome(&session, &operations).await.0, status);
        }
        running.stop().await;
    }
}

async fn clone(
    session: &Session,
    from: &OpenFile,
    to: &OpenFile,
    (source, destination, count): (u64, u64, u64),
) -> NfsStatus {
    let args = CloneArgs {
        source_state_id: from.state_id,
        destination_state_id: to.state_id,
        source_offset: source,
        destination_offset: destination,
        count,
    };
    let operations =
        [put_handle(&from.handle), NfsArgOp::SaveFh, put_handle(&to.handle), NfsArgOp::Clone(args)];
    outcome(session, &operations).await.0
}

#[tokio::test]
async fn a_clone_is_the_content_of_its_source() {
    // RFC 7862 §15.13
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let unit = session.attributes(&root, Bitmap::EMPTY.with(Attribute::CloneBlksize)).await.unwrap();
    let unit = u64::from(unit.clone_blksize.unwrap());
    let from = session.create(&root, "from", 0o644).await.unwrap();
    let to = session.create(&root, "to", 0o644).await.unwrap();
    let data: Vec<u8> = (0..2 * unit + 7).map(|at| (at / unit) as u8 + 1).collect();
    session.write(&from, 0, StableHow::FileSync, data.clone().into()).await.unwrap();
    assert_eq!(clone(&session, &from, &to, (0, 0, 0)).await, NfsStatus::Ok);
    assert!(content(&session, &to).await == data);
    assert_eq!(clone(&session, &from, &to, (0, unit, unit)).await, NfsStatus::Ok);
    session.write(&from, 0, StableHow::FileSync, Bytes::from_static(b"later")).await.unwrap();
    let expected = [&data[..unit as usize], &data[..unit as usize], &data[2 * unit as usize..]].concat();
    assert!(content(&session, &to).await == expected);
    running.stop().await;
}

#[tokio::test]
async fn what_cannot_be_cloned_is_refused_and_changes_nothing() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let (root, other) = (home(&session).await, session.lookup(&["other"]).await.unwrap());
    let from = session.create(&root, "from", 0o644).await.unwrap();
    let to = session.create(&root, "to", 0o644).await.unwrap();
    let far = session.create(&other, "far", 0o644).await.unwrap();
    session.write(&from, 0, StableHow::FileSync, vec![1; 2 * MIB as usize].into()).await.unwrap();
    let read = session.open(&root, "to", share_access::READ, OpenHow::NoCreate, owner("r")).await.unwrap();
    let directory = OpenFile { handle: root.clone(), ..to.clone() };
    for (source, destination, range, status) in [
        (&from, &to, (1, 0, 0), NfsStatus::Inval),
        (&from, &to, (0, 1, 0), NfsStatus::Inval),
        (&from, &to, (0, 0, 7), NfsStatus::Inval),
        (&from, &to, (0, 0, 3 * MIB), NfsStatus::Inval),
        (&from, &to, (3 * MIB, 0, 0), NfsStatus::Inval),
        (&from, &from, (0, MIB, 0), NfsStatus::Inval),
        (&from, &read, (0, 0, 0), NfsStatus::OpenMode),
        (&from, &directory, (0, 0, 0), NfsStatus::WrongType),
        (&directory, &to, (0, 0, 0), NfsStatus::WrongType),
        (&from, &far, (0, 0, 0), NfsStatus::Xdev),
    ] {
        assert_eq!(clone(&session, source, destination, range).await, status, "{range:?}");
    }
    assert_eq!(size(&session, &to).await, 0);
    running.stop().await;
}
