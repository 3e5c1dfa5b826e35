//! 64 threads, one client. `tests/soak threads` runs it under the thread sanitizer.

#![allow(clippy::unwrap_used)] // tests, helpers included

#[path = "api/world.rs"]
#[allow(dead_code)]
mod world;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::thread;

use nfs4_server::Limits;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use vector_client::blocking::Client;
use vector_client::{
    AttributeSet, Copy, CopyOptions, Creation, NewAttributes, Open, Options, Read, Step, Target, Write,
};

const THREADS: usize = 64;

/// How often each does everything; RACES says otherwise.
fn rounds() -> usize {
    std::env::var("RACES").map_or(3, |rounds| rounds.parse().unwrap())
}

/// Line `round` of a thread, as long as any other.
fn line(thread: usize, round: usize) -> String {
    format!("{thread:02} {round:06}\n")
}

/// A thread's own files, and what all have in common: read, appended to, replaced, removed, listed.
fn work(client: &Client, thread: usize, rounds: usize) {
    let own = format!("/home/own-{thread}");
    client.mkdir(own.as_str(), 0o755).unwrap();
    let file = |n: usize| format!("{own}/{n}");
    for round in 0..rounds {
        let text = line(thread, round);
        let create = Some(Creation { mode: 0o600, exclusive: false });
        let mut writes = vec![Write { create, ..Write::append("/home/log", text.clone()) }];
        writes.extend((0..5).map(|n| Write::whole(file(n), 0o644, text.clone())));
        client.vwrite(writes).unwrap();
        let reads = || (0..5).map(|n| Read::new(file(n), 0, 100)).collect();
        for _ in 0..2 {
            let data = client.vread(reads()).unwrap();
            assert!(data.into_iter().all(|data| data.into_bytes() == text));
        }

        // Delegated to the client for all its threads, until one of them changes it.
        let open = client.open(Open::read("/home/shared")).unwrap();
        let first = client.pread(open, 0, 100).unwrap().into_bytes();
        assert!(first.len() == line(0, 0).len(), "{first:?}");
        client.fstat(open).unwrap();
        if (round + thread).is_multiple_of(4) {
            client.vwrite(vec![Write::new("/home/shared", 0, text.clone())]).unwrap();
        }
        client.read(open, 5).unwrap();
        client.close_file(open).unwrap();

        let steps = vec![
            Step::Rename { from: file(0).into(), to: file(9).into() },
            Step::HardLink { existing: file(9).into(), new: file(8).into() },
            Step::SetAttributes {
                target: file(8).into(),
                attributes: NewAttributes::mode(0o600),
                follow: true,
            },
            Step::Remove(file(9).into()),
            Step::Remove(file(8).into()),
        ];
        client.execute(steps).unwrap();
        let failure = client.vremove(vec![file(1).into(), "/home/nothing".into()]).unwrap_err();
        assert_eq!((failure.index(), failure.unknown), (1, 0));
        let mut names = Vec::new();
        let folder = vec![Target::from(own.as_str())];
        client
            .vlistdir(folder, AttributeSet::STAT, false, |_, entry| names.push(entry.name.clone()))
            .unwrap();
        names.sort_unstable();
        let both = if round == 0 { &[][..] } else { &["both"] };
        assert_eq!(names, [&["2", "3", "4"], both].concat());
        // One that all make and remove: whoever is too late is told so.
        let _ = client.mkdir("/home/turn", 0o755);
        let _ = client.rmdir("/home/turn");
        let both = client.wait(async |client| {
            let both = client.transaction(|t| {
                for name in ["/home/both".to_owned(), format!("{own}/both")] {
                    t.write(Write { create, ..Write::append(name, text.clone()) });
                }
            });
            both.await.unwrap();
        });
        both.unwrap();
        copies(client, &own, &text);
    }
}

/// A tree of a thread's own files is copied in every way, read through a link, and removed.
fn copies(client: &Client, own: &str, text: &str) {
    let (tree, again) = (format!("{own}-tree"), format!("{own}-again"));
    let below = |name: &str| format!("{tree}/{name}");
    client.ensure_directory(tree.as_str(), 0o755).unwrap();
    let copy = |to: &str| vec![Copy::whole(format!("{own}/2"), below(to), 0o600)];
    client.wait(async |client| client.vcopy(copy("through"), client).await.unwrap()).unwrap();
    client.vsscopy(copy("within")).unwrap();
    client.symlink("within", below("link")).unwrap();
    assert_eq!(client.readlink(below("link")).unwrap(), "within");
    let written = client.open(Open::create(below("written"), 0o600)).unwrap();
    client.pwrite(written, 0, text.to_owned()).unwrap();
    client.fsync(written).unwrap();
    let mut writer = client.writer(written, text.len() as u64).unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    writer.close().unwrap();
    let copies = vec![(tree.as_str().into(), again.as_str().into())];
    let copied = client.wait(async |client| {
        client.cp_recursive(copies, client, &CopyOptions::default(), &mut ()).await.unwrap()
    });
    assert_eq!(copied.unwrap(), 0);
    let reads = ["through", "link", "written"].map(|name| Read::new(format!("{again}/{name}"), 0, 100));
    let data = client.vread(reads.into()).unwrap();
    let data: Vec<_> = data.into_iter().map(|data| data.into_bytes()).collect();
    assert_eq!(data, [text.to_owned(), text.to_owned(), text.repeat(2)]);
    let trees = vec![tree.as_str().into(), again.as_str().into()];
    let removed = client.wait(async |client| client.rm_recursive(trees, |_| {}).await.unwrap());
    assert_eq!(removed.unwrap(), 0);
}

/// How many lines of each thread are there, each thread's in its order.
fn lines(client: &Client, name: &str) -> BTreeMap<usize, usize> {
    let log = client.vread(vec![Read::new(name, 0, 64 << 20)]).unwrap().remove(0).into_bytes();
    let mut seen = BTreeMap::new();
    for got in std::str::from_utf8(&log).unwrap().split_inclusive('\n') {
        let thread = got[..2].parse().unwrap();
        let round: &mut usize = seen.entry(thread).or_default();
        assert_eq!(got, line(thread, *round), "{name}");
        *round += 1;
    }
    seen
}

#[test]
fn sixty_four_threads_share_one_client() {
    let (runtime, stop, rounds) = (Runtime::new().unwrap(), CancellationToken::new(), rounds());
    let server = runtime.block_on(world::server_of(&["home"], Limits::default(), stop.clone()));
    let client = Client::connect(server.to_string(), Options::default()).unwrap();
    client.vwrite(vec![Write::whole("/home/shared", 0o644, line(0, 0))]).unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || work(client, thread, rounds));
        }
    });
    let all: BTreeMap<usize, usize> = (0..THREADS).map(|thread| (thread, rounds)).collect();
    for name in ["/home/log", "/home/both"] {
        assert_eq!(lines(&client, name), all, "{name}");
    }
    client.close().unwrap();
    stop.cancel();
}
