//! Data and holes (RFC 7862 §6, §15).

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{
    AllocateArgs, Attribute, Bitmap, DataContent, IoAdviseArgs, NfsArgOp, NfsResOp, NfsStatus, OpenHow,
    Outcome, ReadArgs, ReadPlusContent, ReadPlusOk, SeekArgs, SeekOk, StableHow, StateId,
};
use nfs4_client::operations::{owner, put_handle};
use nfs4_client::{OpenFile, Session};

use crate::harness::{World, home, outcome};

const MIB: u64 = 1 << 20;

async fn write(session: &Session, file: &OpenFile, offset: u64, data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    session.write(file, offset, StableHow::FileSync, data).await.unwrap();
}

fn range(file: &OpenFile, offset: u64, length: u64) -> AllocateArgs {
    AllocateArgs { state_id: file.state_id, offset, length }
}

async fn seek(
    session: &Session,
    file: &OpenFile,
    offset: u64,
    what: DataContent,
) -> Result<SeekOk, NfsStatus> {
    let args = SeekArgs { state_id: file.state_id, offset, what };
    let reply = session.compound(&[put_handle(&file.handle), NfsArgOp::Seek(args)]).await.unwrap();
    match &reply.results[1] {
        NfsResOp::Seek(Outcome::Ok(found)) => Ok(*found),
        other => Err(other.status()),
    }
}

async fn read_plus(session: &Session, file: &OpenFile, offset: u64, count: u32) -> ReadPlusOk {
    let args = ReadArgs { state_id: file.state_id, offset, count };
    let reply = session.execute(&[put_handle(&file.handle), NfsArgOp::ReadPlus(args)]).await.unwrap();
    match reply.into_iter().next_back() {
        Some(NfsResOp::ReadPlus(Outcome::Ok(found))) => found,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn data_and_holes_are_found() {
    use DataContent::{Data, Hole};
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let file = session.create(&home(&session).await, "f", 0o644).await.unwrap();
    assert_eq!(seek(&session, &file, 0, Hole).await, Err(NfsStatus::Nxio), "an empty file");
    write(&session, &file, 0, &[1; 65_536]).await;
    write(&session, &file, 4 * MIB, &[2; 65_536]).await;
    let end = 4 * MIB + 65_536;
    for (offset, what, found) in [
        (0, Data, (false, 0)),
        (1, Hole, (false, 65_536)),
        (65_536, Hole, (false, 65_536)),
        (MIB, Hole, (false, MIB)),
        (MIB, Data, (false, 4 * MIB)),
        (4 * MIB + 9, Data, (false, 4 * MIB + 9)),
        (4 * MIB, Hole, (true, end)),
    ] {
        let SeekOk { eof, offset: at } = seek(&session, &file, offset, what).await.unwrap();
        assert_eq!((eof, at), found, "{what:?} from {offset}");
    }
    assert_eq!(seek(&session, &file, end, Data).await, Err(NfsStatus::Nxio));
    let all = NfsArgOp::Deallocate(range(&file, MIB, u64::MAX));
    session.execute(&[put_handle(&file.handle), all]).await.unwrap();
    let found = seek(&session, &file, MIB, Data).await.unwrap();
    assert_eq!((found.eof, found.offset), (true, end), "no more data");
    running.stop().await;
}

#[tokio::test]
async fn space_is_allocated_and_given_back() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    write(&session, &file, 0, b"0123456789").await;
    let there = || put_handle(&file.handle);
    session.execute(&[there(), NfsArgOp::Allocate(range(&file, 8, MIB))]).await.unwrap();
    session.execute(&[there(), NfsArgOp::Deallocate(range(&file, 2, 3))]).await.unwrap();
    session.execute(&[there(), NfsArgOp::Deallocate(range(&file, MIB, MIB))]).await.unwrap();
    let size = Bitmap::EMPTY.with(Attribute::Size);
    assert_eq!(session.attributes(&file.handle, size).await.unwrap().size, Some(MIB + 8));
    let data = session.read(&file, 0, 12).await.unwrap().data.into_bytes();
    assert_eq!(data, &b"01\0\0\x0056789\0\0"[..]);

    let reader = session.open(&root, "f", share_access::READ, OpenHow::NoCreate, owner("r")).await.unwrap();
    for make in [NfsArgOp::Allocate as fn(AllocateArgs) -> NfsArgOp, NfsArgOp::Deallocate] {
        for (handle, args, status) in [
            (&file.handle, range(&reader, 0, 1), NfsStatus::OpenMode),
            (&file.handle, range(&file, 0, 0), NfsStatus::Inval),
            (
                &root,
                AllocateArgs { state_id: StateId::ANONYMOUS, ..range(&file, 0, 1) },
                NfsStatus::WrongType,
            ),
        ] {
            assert_eq!(outcome(&session, &[put_handle(handle), make(args)]).await.0, status);
        }
    }
    let beyond = NfsArgOp::Allocate(range(&file, u64::MAX, 9));
    assert_eq!(outcome(&session, &[there(), beyond]).await.0, NfsStatus::Fbig);
    running.stop().await;
}

#[tokio::test]
async fn read_plus_tells_holes_and_brings_data() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let file = session.create(&home(&session).await, "f", 0o644).await.unwrap();
    write(&session, &file, 0, &[1; 65_536]).await;
    let whole = read_plus(&session, &file, 10, MIB as u32).await;
    let data =
        |offset, byte, length| ReadPlusContent::Data { offset, data: Bytes::from(vec![byte; length]).into() };
    assert_eq!(whole, ReadPlusOk { eof: true, contents: vec![data(10, 1, 65_526)] });
    write(&session, &file, 2 * MIB, &[2; 65_536]).await;
    session.execute(&[put_handle(&file.handle), NfsArgOp::Allocate(range(&file, 0, 3 * MIB))]).await.unwrap();
    let hole = |start, end| ReadPlusContent::Hole { offset: start, length: end - start };
    let contents = vec![
        data(0, 1, 65_536),
        hole(65_536, 2 * MIB),
        data(2 * MIB, 2, 65_536),
        hole(2 * MIB + 65_536, 3 * MIB),
    ];
    assert_eq!(read_plus(&session, &file, 0, 4 << 20).await, ReadPlusOk { eof: true, contents });
    let part = read_plus(&session, &file, MIB, 4096).await;
    assert_eq!(part, ReadPlusOk { eof: false, contents: vec![hole(MIB, MIB + 4096)] });
    // Where a client has room for a page and no more, a short hole is zeros.
    let short = read_plus(&session, &file, MIB, 4095).await;
    assert_eq!(short, ReadPlusOk { eof: false, contents: vec![data(MIB, 0, 4095)] });
    assert_eq!(read_plus(&session, &file, 3 * MIB, 9).await, ReadPlusOk { eof: true, contents: vec![] });
    assert_eq!(read_plus(&session, &file, 0, 0).await, ReadPlusOk { eof: false, contents: vec![] });
    running.stop().await;
}

#[tokio::test]
async fn read_plus_is_never_larger_than_the_reply_may_be() {
    let world = World::new().await;
    let running = world.start().await;
    let config = nfs4_client::Config { message_bytes: 70_000, ..nfs4_client::Config::new("small", [1; 8]) };
    let session = running.connect(config).await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    write(&session, &file, MIB, &[1; 60_000]).await;
    write(&session, &file, 2 * MIB, &[2; 60_000]).await;
    let mut content = Vec::new();
    for _ in 0..9 {
        let part = read_plus(&session, &file, content.len() as u64, u32::MAX).await;
        for piece in part.contents {
            match piece {
                ReadPlusContent::Data { offset, data } => {
                    assert_eq!(offset, content.len() as u64);
                    content.extend_from_slice(&data.into_bytes());
                }
                ReadPlusContent::Hole { offset, length } => {
                    assert_eq!(offset, content.len() as u64);
                    content.resize(content.len() + length as usize, 0);
                }
            }
        }
        if part.eof {
            break;
        }
    }
    let mut expected = vec![0; 2 * MIB as usize + 60_000];
    expected[MIB as usize..MIB as usize + 60_000].fill(1);
    expected[2 * MIB as usize..].fill(2);
    assert!(content == expected);
    running.stop().await;
}

#[tokio::test]
async fn read_plus_of_what_is_no_file_fails_as_read_does() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let read = NfsArgOp::ReadPlus(ReadArgs { state_id: StateId::ANONYMOUS, offset: 0, count: 9 });
    assert_eq!(outcome(&session, &[put_handle(&root), read.clone()]).await.0, NfsStatus::IsDir);
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, read]).await.0, NfsStatus::IsDir);
    running.stop().await;
}

#[tokio::test]
async fn advice_is_taken_politely() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let args = IoAdviseArgs { state_id: file.state_id, offset: 0, count: 0, hints: Bitmap::of(&[1, 4]) };
    let results = session.execute(&[put_handle(&file.handle), NfsArgOp::IoAdvise(args)]).await.unwrap();
    assert!(matches!(results[1], NfsResOp::IoAdvise(Outcome::Ok(Bitmap::EMPTY))));
    let args = IoAdviseArgs { state_id: StateId::ANONYMOUS, ..args };
    let directory = [put_handle(&root), NfsArgOp::IoAdvise(args)];
    assert_eq!(outcome(&session, &directory).await.0, NfsStatus::WrongType);
    running.stop().await;
}
