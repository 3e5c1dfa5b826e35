//! Atomic compounds among many clients, of any server that has a volume `home`. `KURMA_SEED` repeats their choices.

#[allow(dead_code, clippy::duplicate_mod, clippy::print_stdout)] // of what others need there, too
#[path = "../../../../cli/tests/support/random.rs"]
mod random;

use std::collections::{BTreeSet, HashMap, HashSet};
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

use super::scene::{again, atomic, counted};
use random::Random;

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

/// Rounds after which nobody has seen what there is to see.
const MOST_ROUNDS: usize = 2_000;

/// Readers see all of a set or nothing of it: so many rounds, and until they have seen both.
pub async fn see_all_or_nothing(server: SocketAddr, rounds: usize) {
    let (writer, reader) = (connect(server, "writer").await, connect(server, "reader").await);
    let root = folder(&writer, "made").await;
    let enough = Arc::new(AtomicBool::new(false));
    let making = tokio::spawn({
        let (root, enough) = (root.clone(), enough.clone());
        async move {
            for round in 0..MOST_ROUNDS {
                if round >= rounds && enough.load(Ordering::SeqCst) {
                    break;
                }
                for change in [Change::Make, Change::Remove] {
                    assert_eq!(again(&writer, &change.of(&root, &[])).await.status, NfsStatus::Ok);
                }
            }
        }
    });
    let mut seen = BTreeSet::new();
    while !making.is_finished() {
        let entries = reader.read_directory(&root, Bitmap::EMPTY).await.unwrap().len();
        assert!(entries == 0 || entries == FILES, "{entries} files");
        seen.insert(entries);
        enough.store(seen.len() == 2, Ordering::SeqCst);
    }
    making.await.unwrap();
    assert_eq!(seen, BTreeSet::from([0, FILES]), "all and nothing were there to see");
}

/// What several clients write to the same files never mixes: so many rounds, and until two of them were seen.
pub async fn never_mix(server: SocketAddr, rounds: usize) {
    let maker = connect(server, "maker").await;
    let root = folder(&maker, "written").await;
    assert_eq!(again(&maker, &Change::Make.of(&root, &[])).await.status, NfsStatus::Ok);
    let mut files = Vec::new();
    for number in 0..FILES {
        files.push(maker.lookup_in(&root, &[&name(number)]).await.unwrap());
    }
    assert_eq!(again(&maker, &Change::Write(0).of(&root, &files)).await.status, NfsStatus::Ok);
    let enough = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for byte in 1..=4 {
        let session = connect(server, format!("w{byte}")).await;
        let (root, files, enough) = (root.clone(), files.clone(), enough.clone());
        writers.push(tokio::spawn(async move {
            for round in 0..MOST_ROUNDS {
                if round >= rounds && enough.load(Ordering::SeqCst) {
                    break;
                }
                let reply = again(&session, &Change::Write(byte).of(&root, &files)).await;
                assert_eq!(reply.status, NfsStatus::Ok);
            }
        }));
    }
    let mut seen = BTreeSet::<u8>::new();
    while !writers.iter().all(|writer| writer.is_finished()) {
        let bytes = look(&maker, &files).await;
        assert!(bytes.len() == FILES && bytes.iter().all(|byte| *byte == bytes[0]), "{bytes:?}");
        seen.extend(bytes.first().filter(|byte| **byte != 0).copied());
        enough.store(seen.len() > 1, Ordering::SeqCst);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(seen.len() > 1, "what several of them wrote was there to see: {seen:?}");
}

/// A transaction that has ended: its mark, and those that it found in the files it read. A mark is written to all of them, except by
/// one that only looks.
struct Ended {
    mark: u64,
    found: Vec<(usize, u64)>,
    only_looks: bool,
    /// How often it was put off.
    delays: usize,
}

/// Sixty-four clients with overlapping sets of files, in random orders, all come to an end; and what all of them have read, and
/// what somebody reads meanwhile, is what they had read one after the other, in some order. How often they were put off, all together;
/// none of them was too often (see [`counted`]).
pub async fn are_as_one_after_the_other(server: SocketAddr, rounds: usize) -> usize {
    const CLIENTS: usize = 64;
    const SHARED: usize = 12;
    /// Files of a set: two sets overlap, but for one in 924.
    const SET: usize = 6;
    let mut random = Random::from_environment("overlapping sets");
    let maker = connect(server, "maker").await;
    let root = folder(&maker, "shared").await;
    let mut files = Vec::new();
    for number in 0..SHARED {
        let file = maker.create(&root, format!("shared{number}"), 0o666).await.unwrap();
        maker.write(&file, 0, StableHow::FileSync, Bytes::from(vec![0; 8])).await.unwrap();
        maker.close(&file).await.unwrap();
        files.push(file.handle);
    }
    let files: Arc<[FileHandle]> = files.into();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let (session, files) = (connect(server, format!("c{number}")).await, files.clone());
        let mut random = random.fork();
        clients.push(tokio::spawn(async move {
            let mut ended = Vec::new();
            for round in 0..rounds {
                let places = some_of(SHARED, SET, &mut random);
                let mark = (number * rounds + round) as u64 + 1;
                ended.push(exchange(&session, &files, &places, Some(mark)).await);
            }
            ended
        }));
    }
    let mut all = Vec::new();
    let everything: Vec<usize> = (0..SHARED).collect();
    while !clients.iter().all(|client| client.is_finished()) {
        let looked = exchange(&maker, &files, &everything, None).await;
        all.push(Ended { mark: (CLIENTS * rounds + all.len()) as u64 + 1, ..looked });
    }
    for client in clients {
        all.extend(client.await.unwrap());
    }
    let last = exchange(&maker, &files, &everything, None).await;
    has_an_order(&all, &last.found);
    all.iter().map(|it| it.delays).sum()
}

/// So many of the numbers below `end`, in any order.
fn some_of(end: usize, count: usize, random: &mut Random) -> Vec<usize> {
    let mut left: Vec<usize> = (0..end).collect();
    (0..count).map(|_| left.swap_remove(random.below(left.len() as u64) as usize)).collect()
}

/// Reads what is in these files, and leaves a mark in them.
async fn exchange(session: &Session, files: &[FileHandle], places: &[usize], mark: Option<u64>) -> Ended {
    let mut request = vec![atomic()];
    for place in places {
        request.extend([put_handle(&files[*place]), op::read(StateId::ANONYMOUS, 0, 8)]);
        if let Some(mark) = mark {
            let data = Bytes::copy_from_slice(&mark.to_be_bytes());
            request.push(op::write(StateId::ANONYMOUS, 0, StableHow::FileSync, data));
        }
    }
    let (reply, delays) = counted(session, &request).await;
    assert_eq!(reply.status, NfsStatus::Ok);
    let found = reply.results.iter().filter_map(|result| match result {
        NfsResOp::Read(Outcome::Ok(read)) => Some(read.data.clone().into_bytes()),
        _ => None,
    });
    let found: Vec<u64> = found.map(|data| u64::from_be_bytes(data[..].try_into().unwrap())).collect();
    assert_eq!(found.len(), places.len());
    let found = places.iter().copied().zip(found).collect();
    Ended { mark: mark.unwrap_or(0), found, only_looks: mark.is_none(), delays }
}

/// Whether there is an order in which each finds what the last before it has left, and `last` is left in the end.
fn has_an_order(all: &[Ended], last: &[(usize, u64)]) {
    // Who has found what another has left: of those that write, no two the same, or one of them has undone the other.
    let mut next: HashMap<(usize, u64), u64> = HashMap::new();
    for it in all.iter().filter(|it| !it.only_looks) {
        for found in &it.found {
            let other = next.insert(*found, it.mark);
            assert_eq!(other, None, "{} has undone what {other:?} did in {found:?}", it.mark);
        }
    }
    assert!(last.iter().all(|left| !next.contains_key(left)), "what is left was replaced: {last:?}");
    let mut after: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    let mut before: HashMap<u64, usize> = all.iter().map(|it| (it.mark, 0)).collect();
    let mut put = |earlier: u64, later: u64| {
        if earlier != 0 && after.entry(earlier).or_default().insert(later) {
            *before.get_mut(&later).unwrap() += 1;
        }
    };
    for it in all {
        for (file, found) in &it.found {
            put(*found, it.mark);
            if let Some(replaced) = next.get(&(*file, *found)).filter(|_| it.only_looks) {
                put(it.mark, *replaced);
            }
        }
    }
    let mut free: Vec<u64> = before.iter().filter(|(_, count)| **count == 0).map(|(mark, _)| *mark).collect();
    let mut placed = 0;
    while let Some(mark) = free.pop() {
        placed += 1;
        for later in after.remove(&mark).unwrap_or_default() {
            let count = before.get_mut(&later).unwrap();
            *count -= 1;
            if *count == 0 {
                free.push(later);
            }
        }
    }
    assert_eq!(placed, all.len(), "no order of them explains what they have found");
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

fn ended(mark: u64, found: &[(usize, u64)]) -> Ended {
    Ended { mark, found: found.to_vec(), only_looks: false, delays: 0 }
}

#[test]
#[should_panic(expected = "has undone")]
fn what_one_undoes_of_another_is_noticed() {
    has_an_order(&[ended(1, &[(0, 0)]), ended(2, &[(0, 0)])], &[(0, 2)]);
}

#[test]
#[should_panic(expected = "no order")]
fn two_that_are_each_before_the_other_are_noticed() {
    has_an_order(&[ended(1, &[(0, 0), (1, 2)]), ended(2, &[(0, 1), (1, 0)])], &[(0, 2), (1, 1)]);
}

#[test]
#[should_panic(expected = "no order")]
fn who_looks_at_half_of_a_change_is_noticed() {
    let looks = Ended { mark: 2, found: vec![(0, 1), (1, 0)], only_looks: true, delays: 0 };
    has_an_order(&[ended(1, &[(0, 0), (1, 0)]), looks], &[(0, 1), (1, 1)]);
}
