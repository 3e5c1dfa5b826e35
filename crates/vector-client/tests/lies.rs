//! Whatever a server answers, the client returns: with what the server says, or with an error.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // test code at the edge

#[path = "api/world.rs"]
#[allow(dead_code)]
mod world;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use nfs4::NfsStatus;
use nfs4_server::Limits;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use vector_client::{
    AttributeSet, Client, Copy, CopyOptions, Creation, NewAttributes, Open, Options, Read, Target, Write,
};

/// Answers of which some are lies.
const ANSWERS: usize = 48;

/// How an answer differs from what the server said.
#[derive(Clone, Debug)]
enum Lie {
    /// A word, by its place among all words, is another one.
    Word(prop::sample::Index, u32),
    /// The bits of a byte.
    Bits(prop::sample::Index, u8),
    Shorter(prop::sample::Index),
    Longer(Vec<u8>),
    Never,
    Twice,
    /// Each word that is the first is the second.
    Instead(u32, u32),
    /// The last operation, if that is a CLOSE, was not done (NFS4ERR_DELAY).
    Unclosed,
    /// Nothing is said but what came of SEQUENCE, and this.
    OnlySequence(NfsStatus),
}

fn lie() -> impl Strategy<Value = Lie> {
    let word = prop_oneof![
        4 => 0u32..70,
        2 => 10_001u32..10_100,
        1 => (0u32..32).prop_map(|bit| 1 << bit),
        1 => Just(u32::MAX),
        1 => any::<u32>(),
    ];
    prop_oneof![
        6 => (any::<prop::sample::Index>(), word).prop_map(|(at, word)| Lie::Word(at, word)),
        3 => (any::<prop::sample::Index>(), 1u8..).prop_map(|(at, bits)| Lie::Bits(at, bits)),
        1 => any::<prop::sample::Index>().prop_map(Lie::Shorter),
        1 => vec(any::<u8>(), 1..50).prop_map(Lie::Longer),
        1 => Just(Lie::Never),
        1 => Just(Lie::Twice),
        1 => prop::sample::select(vec![NfsStatus::Ok, NfsStatus::Io, NfsStatus::Delay, NfsStatus::NotDir])
            .prop_map(Lie::OnlySequence),
    ]
}

impl Lie {
    /// The answers that are sent instead of this one.
    fn tell(&self, mut answer: Vec<u8>) -> Vec<Vec<u8>> {
        match self {
            // Which request it answers stays as it is: otherwise it is the same as none.
            Lie::Word(at, word) if answer.len() >= 8 => {
                let at = 4 + 4 * at.index(answer.len() / 4 - 1);
                answer[at..at + 4].copy_from_slice(&word.to_be_bytes());
            }
            Lie::Bits(at, bits) if answer.len() > 4 => {
                let at = 4 + at.index(answer.len() - 4);
                answer[at] ^= bits;
            }
            Lie::Shorter(to) => answer.truncate(to.index(answer.len())),
            Lie::Longer(more) => answer.extend(more),
            Lie::Never => return Vec::new(),
            Lie::Twice => return vec![answer.clone(), answer],
            Lie::Instead(said, told) => {
                let said = said.to_be_bytes();
                let words = answer.chunks_exact_mut(4).filter(|word| **word == said);
                words.for_each(|word| word.copy_from_slice(&told.to_be_bytes()));
            }
            Lie::Unclosed => {
                // Its number, its status and a state id; the status of the compound.
                let (close, status) = (answer.len().wrapping_sub(24), 24);
                if answer.get(close..).is_some_and(|end| end.starts_with(&[0, 0, 0, 4, 0, 0, 0, 0])) {
                    let delay = NfsStatus::Delay.code().to_be_bytes();
                    answer.truncate(close + 8);
                    answer[close + 4..].copy_from_slice(&delay);
                    answer[status..status + 4].copy_from_slice(&delay);
                }
            }
            Lie::OnlySequence(status) => {
                // Of the compound: its status, an empty tag, how many results; then the first with its number and status.
                let (place, count, first, end) = (24, 32, 36, 80);
                if answer.get(first..end).is_some_and(|result| result.starts_with(&[0, 0, 0, 53, 0, 0, 0, 0]))
                {
                    answer.truncate(end);
                    answer[place..place + 4].copy_from_slice(&status.code().to_be_bytes());
                    answer[count..count + 4].copy_from_slice(&1u32.to_be_bytes());
                }
            }
            Lie::Word(..) | Lie::Bits(..) => {}
        }
        vec![answer]
    }
}

/// A way to the server on which some answers are other ones, counted over all connections.
async fn liar(server: SocketAddr, lies: BTreeMap<usize, Lie>, stop: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (lies, answers) = (Arc::new(lies), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(stop.run_until_cancelled_owned(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(server).await else { return };
            let (lies, answers) = (lies.clone(), answers.clone());
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let back = async {
                    while let Ok(mark) = from_server.read_u32().await {
                        let mut answer = vec![0; (mark & (u32::MAX >> 1)) as usize];
                        from_server.read_exact(&mut answer).await?;
                        let told = match lies.get(&answers.fetch_add(1, Ordering::Relaxed)) {
                            Some(lie) => lie.tell(answer),
                            None => vec![answer],
                        };
                        for answer in told {
                            to_client.write_u32(answer.len() as u32 | 1 << 31).await?;
                            to_client.write_all(&answer).await?;
                        }
                    }
                    std::io::Result::Ok(())
                };
                let _ = tokio::join!(back, tokio::io::copy(&mut from_client, &mut to_server));
            });
        }
    }));
    address
}

/// A bit of everything; how it ends does not matter.
async fn use_files(client: &Client) {
    let names = || (0..5).map(|n| format!("/home/d/{n}"));
    let _ = client.ensure_directory("/home/d", 0o755).await;
    let _ = client.vwrite(names().map(|name| Write::whole(name, 0o644, "some data")).collect()).await;
    let _ = client.vread(names().map(|name| Read::new(name, 2, 100)).collect()).await;
    // What is kept by now, and what is not.
    for reads in [5, 1] {
        let _ = client.vread(names().take(reads).map(|name| Read::new(name, 2, 100)).collect()).await;
    }
    let _ = client.vgetattrs(names().map(Into::into).collect(), AttributeSet::STAT).await;
    let _ = client.vlistdir(vec!["/home".into()], AttributeSet::STAT, true, |_, _| {}).await;
    if let Ok(opened) = client.vopen(vec![Open::read("/home/d/1")]).await {
        for offset in [0, 4, 6, 0] {
            let _ = client.vread(opened.iter().map(|file| Read::new(*file, offset, 4)).collect()).await;
        }
        let _ = client.vclose(opened).await;
    }
    let _ = client.transaction(|t| _ = t.write(Write::whole("/home/d/1", 0o644, "other data"))).await;
    change_files(client).await;
    let _ = client.rm_recursive(vec!["/home/d".into()], |_| {}).await;
}

/// The calls that change something else than content.
async fn change_files(client: &Client) {
    let (file, link): (Target, Target) = ("/home/d/0".into(), "/home/d/link".into());
    let _ = client.vsymlink(vec![(link.clone(), "0".into())]).await;
    let _ = client.vreadlink(vec![link.clone()]).await;
    let _ = client.vread(vec![Read::new(link, 0, 9)]).await;
    let _ = client.vhardlink(vec![(file.clone(), "/home/d/name".into())]).await;
    let _ = client.vrename(vec![("/home/d/name".into(), "/home/d/renamed".into())]).await;
    let _ = client.vsetattrs(vec![(file.clone(), NewAttributes::size(4))]).await;
    let copy = || vec![Copy::whole(file.clone(), "/home/d/copy", 0o600)];
    let _ = client.vsscopy(copy()).await;
    let _ = client.vcopy(copy(), client).await;
    let _ = client.vwrite(vec![Write::append(file, "the end")]).await;
    if let Ok(open) = client.open(Open::create("/home/d/new", 0o600)).await {
        let _ = client.pwrite(open, 3, "unstable").await;
        let _ = client.vcommit(vec![open]).await;
        let mut writer = client.writer(open, 0);
        let _ = writer.write("gathered").await;
        let _ = writer.close().await;
    }
    let copies = vec![("/home/d".into(), "/home/d/1/../tree".into()), ("/home/d".into(), "/home/e".into())];
    let _ = client.cp_recursive(copies, client, &CopyOptions::default(), &mut ()).await;
    let _ = client.rm_recursive(vec!["/home/e".into()], |_| {}).await;
}

/// What tasks of the client panic with: nobody else sees that.
fn panics() -> &'static Mutex<Vec<String>> {
    static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.lock().unwrap().push(panic.to_string());
            usual(panic);
        }));
    });
    &PANICS
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 64, ..ProptestConfig::default() })]
    #[test]
    fn no_answer_harms_the_client(lies in btree_map(0..ANSWERS, lie(), 1..6), atomic: bool) {
        let panics = panics();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stop = CancellationToken::new();
            let server = world::server_of(&["home"], Limits::default(), stop.clone()).await;
            let address = liar(server, lies, stop.clone()).await;
            let mut options = Options { atomic, ..Options::default() };
            options.nfs.timeout = Duration::from_millis(40);
            options.nfs.patience = Duration::from_millis(120);
            options.nfs.back_off = Duration::from_millis(1)..=Duration::from_millis(5);
            if let Ok(client) = Client::connect(address, options).await {
                use_files(&client).await;
                let _ = client.close().await;
            }
            stop.cancel();
        });
        let panics = std::mem::take(&mut *panics.lock().unwrap());
        prop_assert!(panics.is_empty(), "{panics:?}");
    }
}

/// What is lied about is asked for: otherwise nothing is tried above.
#[tokio::test]
async fn there_are_as_many_answers_as_may_be_lies() {
    let stop = CancellationToken::new();
    let server = world::server_of(&["home"], Limits::default(), stop.clone()).await;
    for atomic in [false, true] {
        let client = Client::connect(server, Options { atomic, ..Options::default() }).await.unwrap();
        use_files(&client).await;
        let answers = client.statistics().round_trips as usize;
        assert!((ANSWERS..ANSWERS + 20).contains(&answers), "{answers}");
        client.close().await.unwrap();
    }
    stop.cancel();
}

/// NFS-Ganesha 4.3 grants what it is asked for, and takes some hundred operations.
#[tokio::test]
async fn a_server_that_takes_less_than_it_grants_is_sent_less() {
    const TAKEN: u32 = 77;
    let stop = CancellationToken::new();
    let limits = Limits { operations: TAKEN, ..Limits::default() };
    let server = world::server_of(&["home"], limits, stop.clone()).await;
    let client = Client::connect(server, Options::default()).await.unwrap();
    let directories: Vec<String> = (0..100).map(|n| format!("/home/d/{n}")).collect();
    client.ensure_directory("/home/d", 0o755).await.unwrap();
    client.vmkdir(directories.iter().map(|name| (name.as_str().into(), 0o755)).collect()).await.unwrap();
    let files = || directories.iter().map(|name| format!("{name}/file"));
    client.vwrite(files().map(|name| Write::whole(name, 0o644, "data")).collect()).await.unwrap();

    for first in ["list", "stat", "remove"] {
        // Each begins not knowing better.
        let grants = (0..4).map(|answer| (answer, Lie::Instead(TAKEN, 1025)));
        let boaster = liar(server, grants.collect(), stop.clone()).await;
        let client = Client::connect(boaster, Options::default()).await.unwrap();
        match first {
            "list" => {
                let mut listed = 0;
                let tree = vec!["/home/d".into()];
                client.vlistdir(tree, AttributeSet::STAT, true, |_, _| listed += 1).await.unwrap();
                assert_eq!(listed, 200);
            }
            "stat" => {
                let targets = files().map(Into::into).collect();
                let found = client.vgetattrs(targets, AttributeSet::STAT).await.unwrap();
                assert_eq!(found.len(), 100);
            }
            _ => {
                let failed = client.rm_recursive(vec!["/home/d".into()], |_| {}).await.unwrap();
                assert_eq!(failed, 0);
            }
        }
        client.close().await.unwrap();
    }
    stop.cancel();
}

/// A server may write less than it was sent (RFC 8881 §18.32.3): of several WRITEs in one compound, those behind that one are not where
/// the rest goes.
#[tokio::test]
async fn what_was_written_in_part_is_written_again_from_there() {
    const TRANSFER: usize = 4096;
    let stop = CancellationToken::new();
    let server = world::server_of(&["home"], Limits::default(), stop.clone()).await;
    let options = Options { transfer: TRANSFER, ..Options::default() };
    // EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE, what the server has besides; then the second of the writes.
    let writes_less = (0..8).map(|answer| (answer, Lie::Instead(TRANSFER as u32, 1000)));
    let server = liar(server, writes_less.collect(), stop.clone()).await;
    let client = Client::connect(server, options).await.unwrap();
    let before = client.statistics();
    let data = bytes::Bytes::from((0..3 * TRANSFER).map(|n| n as u8).collect::<Vec<_>>());
    let write = Write::whole("/home/file", 0o600, data.clone());
    assert_eq!(client.vwrite(vec![write]).await.unwrap(), [data.len() as u64]);
    let after = client.statistics();
    // The second time without the first thousand bytes, and so on, as long as the server says so.
    let sent = (after.bytes_out - before.bytes_out) as usize;
    assert!(
        sent > 2 * data.len() - 1000,
        "{sent} bytes in {} requests",
        after.round_trips - before.round_trips
    );
    stop.cancel();
}

#[tokio::test]
async fn what_is_said_to_be_done_without_any_progress_is_an_error() {
    const LENGTH: u32 = 4321;
    let stop = CancellationToken::new();
    let server = world::server_of(&["home"], Limits::default(), stop.clone()).await;
    let writes_nothing = (0..100).map(|answer| (answer, Lie::Instead(LENGTH, 0)));
    let address = liar(server, writes_nothing.collect(), stop.clone()).await;
    let client = Client::connect(address, Options::default()).await.unwrap();
    let files = ["short", "whole-not", "short-too"].into_iter().zip([100, LENGTH as usize, 100]);
    let files = files.map(|(name, length)| Write::whole(format!("/home/{name}"), 0o600, vec![7; length]));
    let failure = client.vwrite(files.collect()).await.unwrap_err();
    assert_eq!((failure.index(), failure.unknown), (1, 2), "{failure}");
    stop.cancel();
}

/// What a server lists is in the directory that it lists, and nowhere else.
#[tokio::test]
async fn names_that_lead_elsewhere_are_not_believed() {
    for (name, told) in [("abcd", b"../x"), ("abcd", b"a\0cd"), ("ab", b"..\0\0")] {
        let stop = CancellationToken::new();
        let server = world::server_of(&["home"], Limits::default(), stop.clone()).await;
        let client = Client::connect(server, Options::default()).await.unwrap();
        client.ensure_directory("/home/d", 0o755).await.unwrap();
        let files =
            [format!("/home/d/{name}"), "/home/x".into()].map(|name| Write::whole(name, 0o600, "data"));
        client.vwrite(files.into()).await.unwrap();

        let mut word = [0; 4];
        word[..name.len()].copy_from_slice(name.as_bytes());
        let lie = Lie::Instead(u32::from_be_bytes(word), u32::from_be_bytes(*told));
        let lies = (0..100).map(|answer| (answer, lie.clone()));
        let address = liar(server, lies.collect(), stop.clone()).await;
        let deceived = Client::connect(address, Options::default()).await.unwrap();
        let failed = deceived.rm_recursive(vec!["/home/d".into()], |_| {}).await.unwrap();
        assert_eq!(failed, 1, "{name}");
        for path in [&format!("/home/d/{name}"), "/home/x"] {
            assert!(client.exists(path).await.unwrap(), "{path}");
        }
        stop.cancel();
    }
}

#[tokio::test]
async fn what_was_done_is_not_done_again_because_its_file_was_not_closed() {
    let stop = CancellationToken::new();
    let server = world::server_of(&["home"], Limits::default(), stop.clone()).await;
    let address = liar(server, (0..100).map(|answer| (answer, Lie::Unclosed)).collect(), stop.clone()).await;
    let client = Client::connect(address, Options::default()).await.unwrap();
    let create = Some(Creation { mode: 0o600, exclusive: true });
    client.vwrite(vec![Write { create, ..Write::new("/home/log", 0, "a") }]).await.unwrap();
    // The second is not to blame either.
    client.vwrite(vec![Write::append("/home/log", "b"), Write::append("/home/log", "c")]).await.unwrap();
    let data = client.vread(vec![Read::new("/home/log", 0, 9)]).await.unwrap().remove(0);
    assert_eq!(data.into_bytes(), "abc");
    stop.cancel();
}
