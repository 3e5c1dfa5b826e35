//! Atomic compounds among many clients, of any server that has a volume `home`.

use std::collections::{BTreeSet, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use nfs4::bits::{compound_mode, share_access};
use nfs4::{
    Bitmap, CompoundModeArgs, FileHandle, NfsArgOp, NfsResOp, NfsStatus, Outcome, StableHow, StateId,
};
use nfs4_client::operations::{self as op, put_handle};
use nfs4_client::{Config, Session};

use super::scene::{again, atomic};

/// Files of a set.
const FILES: usize = 5;
/// Bytes of each.
const LENGTH: usize = 3000;

async fn connect(server: SocketAddr, name: impl Into<String>) -> Session {
    Session::connect(server, Config::new(name.into(), [1; 8]), None).await.unwrap()
}

/// A folder of this name.
async fn folder(session: &Session, name: &str) -> FileHandle {
    let home = session.lookup(&["home"]).await.unwrap();
    session.make_directory(&home, name, 0o777).await.unwrap()
}

/// Makes the files of a set anew, or removes them, or writes them.
#[derive(Clone, Copy)]
enum Change {
    Make,
    Remove,
    Write(u8),
}

impl Change {
    fn of(self, root: &FileHandle, files: &[FileHandle]) -> Vec<NfsArgOp> {
        let each = |number: usize| match self {
            Change::Make => vec![
                put_handle(root),
                op::open(
                    name(number),
                    share_access::BOTH | share_access::WANT_NO_DELEG,
                    op::guarded(0o666),
                    op::owner("o"),
                ),
                op::close(StateId::CURRENT),
            ],
            Change::Remove => vec![put_handle(root), op::remove(name(number))],
            Change::Write(byte) => vec![
                put_handle(&files[number]),
                op::write(StateId::ANONYMOUS, 0, StableHow::FileSync, Bytes::from(vec![byte; LENGTH])),
            ],
        };
        [atomic()].into_iter().chain((0..FILES).flat_map(each)).collect()
    }
}

fn name(number: usize) -> String {
    format!("f{number}")
}

/// What one compound sees of the set: a byte for each file, if all are one byte over and over.
async fn look(session: &Session, files: &[FileHandle]) -> Vec<u8> {
    let mut request = Vec::new();
    for file in files {
        request.extend([put_handle(file), op::read(StateId::ANONYMOUS, 0, LENGTH as u32)]);
    }
    let reply = again(session, &request).await;
    assert_eq!(reply.status, NfsStatus::Ok);
    let reads = reply.results.iter().filter_map(|result| match result {
        NfsResOp::Read(Outcome::Ok(read)) => Some(read.data.clone().into_bytes()),
        _ => None,
    });
    reads
        .map(|data| {
            assert!(data.len() == LENGTH && data.iter().all(|byte| *byte == data[0]), "half of a WRITE");
            data[0]
        })
        .collect()
}

/// Readers see all of a set or nothing of it.
pub async fn see_all_or_nothing(server: SocketAddr, rounds: usize) {
    let (writer, reader) = (connect(server, "writer").await, connect(server, "reader").await);
    let root = folder(&writer, "made").await;
    let done = Arc::new(AtomicBool::new(false));
    let making = tokio::spawn({
        let (root, done) = (root.clone(), done.clone());
        async move {
            for _ in 0..rounds {
                for change in [Change::Make, Change::Remove] {
                    assert_eq!(again(&writer, &change.of(&root, &[])).await.status, NfsStatus::Ok);
                }
            }
            done.store(true, Ordering::SeqCst);
        }
    });
    let mut looks = 0;
    while !done.load(Ordering::SeqCst) {
        let entries = reader.read_directory(&root, Bitmap::EMPTY).await.unwrap().len();
        assert!(entries == 0 || entries == FILES, "{entries} files");
        looks += 1;
    }
    making.await.unwrap();
    assert!(looks > 0);
}

/// What several clients write to the same files never mixes.
pub async fn never_mix(server: SocketAddr, rounds: usize) {
    let maker = connect(server, "maker").await;
    let root = folder(&maker, "written").await;
    assert_eq!(again(&maker, &Change::Make.of(&root, &[])).await.status, NfsStatus::Ok);
    let mut files = Vec::new();
    for number in 0..FILES {
        files.push(maker.lookup_in(&root, &[&name(number)]).await.unwrap());
    }
    assert_eq!(again(&maker, &Change::Write(0).of(&root, &files)).await.status, NfsStatus::Ok);
    let mut writers = Vec::new();
    for byte in 1..=4 {
        let (session, root, files) = (connect(server, format!("w{byte}")).await, root.clone(), files.clone());
        writers.push(tokio::spawn(async move {
            for _ in 0..rounds {
                let reply = again(&session, &Change::Write(byte).of(&root, &files)).await;
                assert_eq!(reply.status, NfsStatus::Ok);
            }
        }));
    }
    let mut seen = BTreeSet::new();
    while !writers.iter().all(|writer| writer.is_finished()) {
        let bytes = look(&maker, &files).await;
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{bytes:?}");
        seen.insert(bytes[0]);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(!seen.is_empty());
}

/// Sixty-four clients with overlapping sets of files, each in another order, all come to an end.
pub async fn come_to_an_end(server: SocketAddr, rounds: usize) {
    const CLIENTS: usize = 64;
    const SHARED: usize = 12;
    let maker = connect(server, "maker").await;
    let root = folder(&maker, "shared").await;
    let mut files = Vec::new();
    for number in 0..SHARED {
        let file = maker.create(&root, format!("shared{number}"), 0o666).await.unwrap();
        maker.write(&file, 0, StableHow::FileSync, Bytes::from(vec![0; 8])).await.unwrap();
        maker.close(&file).await.unwrap();
        files.push(file.handle);
    }
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let (session, files) = (connect(server, format!("c{number}")).await, files.clone());
        clients.push(tokio::spawn(async move {
            for round in 0..rounds {
                let step = [1, 5, 7, 11][(number + round) % 4];
                let mark = ((number * rounds + round) as u64 + 1).to_be_bytes();
                let mut request = vec![atomic()];
                for at in 0..6 {
                    let file = &files[(number * 7 + round + at * step) % SHARED];
                    let data = Bytes::copy_from_slice(&mark);
                    request.extend([
                        put_handle(file),
                        op::read(StateId::ANONYMOUS, 0, 8),
                        op::write(StateId::ANONYMOUS, 0, StableHow::FileSync, data),
                    ]);
                }
                assert_eq!(again(&session, &request).await.status, NfsStatus::Ok);
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
}

/// What eight clients append to a file is all there, whole, and of each in its order.
pub async fn append_whole_records(server: SocketAddr, records: usize) {
    const CLIENTS: usize = 8;
    let maker = connect(server, "maker").await;
    let root = folder(&maker, "logs").await;
    let file = maker.create(&root, "log", 0o666).await.unwrap();
    let line = |client: usize, record: usize| format!("{client}:{record:04}:{}\n", "x".repeat(record % 37));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (session, handle) = (connect(server, format!("a{client}")).await, file.handle.clone());
        clients.push(tokio::spawn(async move {
            let mode = NfsArgOp::CompoundMode(CompoundModeArgs { flags: compound_mode::APPEND });
            for record in 0..records {
                let data = line(client, record).into();
                let append = op::write(StateId::ANONYMOUS, u64::MAX, StableHow::Unstable, data);
                let reply = again(&session, &[mode.clone(), put_handle(&handle), append]).await;
                assert_eq!(reply.status, NfsStatus::Ok);
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let mut content = Vec::new();
    loop {
        let read = maker.read(&file, content.len() as u64, 1 << 20).await.unwrap();
        content.extend_from_slice(&read.data.into_bytes());
        if read.eof {
            break;
        }
    }
    let content = String::from_utf8(content).unwrap();
    let found: Vec<&str> = content.split_inclusive('\n').collect();
    let all: HashSet<String> =
        (0..CLIENTS).flat_map(|client| (0..records).map(move |record| line(client, record))).collect();
    assert_eq!(found.len(), all.len());
    assert!(found.iter().all(|line| all.contains(*line)), "nothing else");
    for client in 0..CLIENTS {
        let own: Vec<_> = found.iter().filter(|line| line.starts_with(&format!("{client}:"))).collect();
        assert!(own.len() == records && own.is_sorted(), "each once, one after the other");
    }
}
