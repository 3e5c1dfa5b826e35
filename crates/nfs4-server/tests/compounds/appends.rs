//! WRITE at the end of a file, wherever that is (`V5`, `V31`).

use bytes::Bytes;
use nfs4::bits::compound_mode::{APPEND, ATOMIC};
use nfs4::{
    Attribute, Bitmap, CompoundModeArgs, FileHandle, NfsArgOp, NfsResOp, NfsStatus, Outcome, StableHow,
    StateId,
};
use nfs4_client::operations::{self as op, put_handle};
use nfs4_client::{OpenFile, Session};

use crate::harness::{World, home, outcome};

fn mode(flags: u32) -> NfsArgOp {
    NfsArgOp::CompoundMode(CompoundModeArgs { flags })
}

fn append(file: &OpenFile, data: &'static [u8]) -> NfsArgOp {
    op::write(file.state_id, u64::MAX, StableHow::FileSync, Bytes::from_static(data))
}

async fn content(session: &Session, file: &FileHandle) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let read = [put_handle(file), op::read(StateId::ANONYMOUS, content.len() as u64, 1 << 20)];
        let results = session.execute(&read).await.unwrap();
        let NfsResOp::Read(Outcome::Ok(read)) = &results[1] else { panic!("{results:?}") };
        content.extend_from_slice(&read.data.clone().into_bytes());
        if read.eof {
            return content;
        }
    }
}

#[tokio::test]
async fn the_highest_offset_is_the_end_of_the_file_only_where_that_is_asked_for() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let file = session.create(&home(&session).await, "f", 0o644).await.unwrap();
    for first in [NfsArgOp::PutRootFh, mode(0), mode(ATOMIC)] {
        let request = [first, put_handle(&file.handle), append(&file, b"no")];
        assert_eq!(outcome(&session, &request).await, (NfsStatus::Fbig, 3));
    }
    let size = Bitmap::EMPTY.with(Attribute::Size);
    for (flags, end) in [(APPEND, 3), (APPEND | ATOMIC, 6)] {
        let request =
            [mode(flags), put_handle(&file.handle), append(&file, b"yes"), op::get_attributes(size)];
        let results = session.execute(&request).await.unwrap();
        let NfsResOp::GetAttr(Outcome::Ok(found)) = &results[3] else { panic!("{results:?}") };
        assert_eq!(found.values().unwrap().size, Some(end), "tells where it was written");
    }
    // Every other offset is what it was.
    let write = op::write(file.state_id, 1, StableHow::FileSync, Bytes::from_static(b"E"));
    session.execute(&[mode(APPEND), put_handle(&file.handle), write]).await.unwrap();
    assert_eq!(content(&session, &file.handle).await, b"yEsyes");
    running.stop().await;
}

#[tokio::test]
async fn a_compound_appends_one_behind_the_other_and_takes_back_all_of_it() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let (one, two) =
        (session.create(&root, "1", 0o644).await.unwrap(), session.create(&root, "2", 0o644).await.unwrap());
    let appends = |flags, last: NfsArgOp| {
        let first = [mode(flags), put_handle(&one.handle), append(&one, b"ab"), append(&one, b"cd")];
        let second = [put_handle(&two.handle), append(&two, b"x"), put_handle(&one.handle)];
        [&first[..], &second, &[append(&one, b"ef"), last]].concat()
    };
    let failing = op::lookup("x");
    let request = appends(APPEND | ATOMIC, failing.clone());
    assert_eq!(outcome(&session, &request).await, (NfsStatus::NotDir, 9));
    assert_eq!(content(&session, &one.handle).await, b"");
    assert_eq!(outcome(&session, &appends(APPEND | ATOMIC, NfsArgOp::GetFh)).await, (NfsStatus::Ok, 9));
    assert_eq!(content(&session, &one.handle).await, b"abcdef");
    assert_eq!(outcome(&session, &appends(APPEND, failing)).await, (NfsStatus::NotDir, 9));
    assert_eq!(content(&session, &one.handle).await, b"abcdefabcdef");
    assert_eq!(content(&session, &two.handle).await, b"xx");
    running.stop().await;
}
