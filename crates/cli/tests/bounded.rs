//! Whatever is thrown at it, the gateway stays within its bounds: more data than its cache holds, slower clouds than
//! its clients, directories of any size.
//!
//! `KURMA_BULK_MIB` and `KURMA_CACHE_MIB` are the sizes of the bulk write and of the cache, `KURMA_NAMES` the number of
//! names in the large directory; `tests/soak` sets them to 20 GiB, 1 GiB and a million.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use nfs4::bits::share_access;
use nfs4::{Bitmap, CreateType, FileHandle, NfsArgOp, NfsResOp, Outcome, StableHow, StateId, Verifier};
use nfs4_client::operations::{self as op, put_handle};
use support::{Client, Gateway, Mood, Random, S3StandIn, Settings};

const MIB: u64 = 1 << 20;

/// What a gateway with small caches may take.
const RESIDENT: u64 = 512 * MIB;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Samples the resident memory of a gateway until it is asked for the peak.
struct Watch {
    peak: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Watch {
    fn over(gateway: &Gateway) -> Watch {
        let status = format!("/proc/{}/status", gateway.pid());
        let peak = Arc::new(AtomicU64::new(0));
        let reached = peak.clone();
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_millis(50));
            loop {
                tick.tick().await;
                let status = std::fs::read_to_string(&status).unwrap_or_default();
                let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
                let now = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
                reached.fetch_max(now, Ordering::Relaxed);
            }
        });
        Watch { peak, task }
    }

    /// The most so far, in bytes.
    fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The `number`-th MiB of a writer's file: no two alike, and made again when it is read.
fn piece(seed: &Random, writer: u64, number: u64) -> Bytes {
    let mut random = seed.clone();
    let mut mixed = random.fork();
    for _ in 0..=writer {
        mixed = random.fork();
    }
    let mut data = mixed.bytes(MIB as usize).to_vec();
    data[..8].copy_from_slice(&number.to_be_bytes());
    data.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_beyond_the_cache_go_as_fast_as_the_clouds_and_never_fail() {
    const WRITERS: u64 = 4;
    let (bulk, cache) = (number("KURMA_BULK_MIB", 384), number("KURMA_CACHE_MIB", 64));
    // A third of the time that the bulk takes is the clouds' doing even on a slow machine.
    let rate = number("KURMA_CLOUD_MIB_PER_SECOND", 8) * MIB;
    let seed = Random::from_environment("bulk");
    let folder = tempfile::tempdir().unwrap();
    let clouds = ["a", "b", "c"].map(|name| S3StandIn::start(&folder.path().join(name)));
    let size: &'static str = format!("{cache}MiB").leak();
    let mut settings = Settings {
        block_size: "1MiB",
        memory: "64MiB",
        journal: size,
        disk: size,
        in_flight: "32MiB",
        ..Settings::in_folder(folder.path())
    };
    for (name, cloud) in ["a", "b", "c"].into_iter().zip(&clouds) {
        settings = settings.with_cloud(name, cloud.url());
    }
    let data = folder.path().join("data");
    settings.write(&data);
    let gateway = Gateway::start_on_s3(&data);
    let watch = Watch::over(&gateway);
    clouds.iter().for_each(|cloud| cloud.set(Mood::Slow(rate)));

    let pieces = bulk / WRITERS;
    let began = Instant::now();
    let writers = (0..WRITERS).map(|writer| {
        let (seed, server) = (seed.clone(), gateway.nfs);
        tokio::spawn(async move {
            let client = Client::connect(server, &format!("writer{writer}")).await;
            let file = client.session.create(&client.home, format!("bulk{writer}"), 0o644).await.unwrap();
            let stable = if writer % 2 == 0 { StableHow::FileSync } else { StableHow::Unstable };
            let mut verifiers = HashSet::new();
            for number in 0..pieces {
                let data = piece(&seed, writer, number);
                verifiers.insert(
                    client.write_at(&file.handle, file.state_id, number * MIB, stable, data).await.unwrap(),
                );
            }
            verifiers.insert(client.session.commit(&file.handle, 0, 0).await.unwrap());
            assert_eq!(verifiers.len(), 1, "the verifier changed without a restart");
            client.session.close(&file).await.unwrap();
        })
    });
    join_all(writers).await.into_iter().for_each(|writer| writer.unwrap());
    let elapsed = began.elapsed();
    // Each cloud gets half of what leaves the cache.
    let least =
        Duration::from_secs_f64(bulk.saturating_sub(cache + 64) as f64 * MIB as f64 / 2.0 / rate as f64);
    println!(
        "{bulk} MiB in {elapsed:.1?} (the clouds need {least:.1?} for what does not fit), peak {} MiB",
        watch.peak() / MIB
    );
    assert!(
        elapsed.as_secs_f64() > least.as_secs_f64() * 0.8,
        "written faster than the clouds take it: unbounded"
    );
    assert!(watch.peak() < RESIDENT, "{} MiB resident", watch.peak() / MIB);

    clouds.iter().for_each(|cloud| cloud.set(Mood::Well));
    gateway.kurma_ends(&["flush", "--timeout", "10m"], &[0]);
    gateway.drop_cache();
    let readers = (0..WRITERS).map(|writer| {
        let (seed, server) = (seed.clone(), gateway.nfs);
        tokio::spawn(async move {
            let client = Client::connect(server, &format!("writer{writer}")).await;
            let handle = client.find(&format!("bulk{writer}")).await.unwrap();
            for number in 0..pieces {
                let request = [put_handle(&handle), op::read(StateId::ANONYMOUS, number * MIB, MIB as u32)];
                let Some(NfsResOp::Read(Outcome::Ok(read))) = client.run(&request).await.unwrap().pop()
                else {
                    panic!("READ returned something else")
                };
                assert!(
                    read.data.into_bytes() == piece(&seed, writer, number),
                    "MiB {number} of bulk{writer}"
                );
            }
        })
    });
    join_all(readers).await.into_iter().for_each(|reader| reader.unwrap());
    println!("peak {} MiB after reading all of it", watch.peak() / MIB);
    assert!(watch.peak() < RESIDENT, "{} MiB resident", watch.peak() / MIB);
}

/// Names in one compound: each takes three operations, SEQUENCE and the way to the directory take a few more.
fn batch(client: &Client) -> usize {
    (client.session.fore_channel().max_operations as usize - 8) / 3
}

/// Makes names in `directory`, files and symbolic links in turn.
async fn make(client: &Client, directory: &FileHandle, names: &[String]) {
    for names in names.chunks(batch(client)) {
        let mut request = vec![put_handle(directory), NfsArgOp::SaveFh];
        for (at, name) in names.iter().enumerate() {
            if at % 4 == 0 {
                let kind = CreateType::SymbolicLink("somewhere".into());
                request.push(op::create(kind, name.as_str(), 0o777));
            } else {
                let access = share_access::WRITE | share_access::WANT_NO_DELEG;
                request.push(op::open(name.as_str(), access, op::unchecked(0o644), op::owner("maker")));
                request.push(op::close(StateId::CURRENT));
            }
            request.push(NfsArgOp::RestoreFh);
        }
        client.run(&request).await.unwrap();
    }
}

async fn unmake(client: &Client, directory: &FileHandle, names: &[String]) {
    for names in names.chunks(batch(client)) {
        let mut request = vec![put_handle(directory)];
        request.extend(names.iter().map(|name| op::remove(name.as_str())));
        client.run(&request).await.unwrap();
    }
}

/// How often each name is listed, with replies of at most `count` bytes.
async fn names_listed(client: &Client, directory: &FileHandle, count: u32) -> HashMap<String, u32> {
    let (mut cookie, mut verifier) = (0, Verifier::default());
    let mut names = HashMap::new();
    loop {
        let request = [put_handle(directory), op::read_directory(cookie, verifier, count, Bitmap::EMPTY)];
        let Some(NfsResOp::ReadDir(Outcome::Ok(page))) = client.run(&request).await.unwrap().pop() else {
            panic!("READDIR returned something else")
        };
        verifier = page.cookie_verifier;
        assert!(page.eof || !page.entries.is_empty(), "an empty page before the end");
        for entry in page.entries {
            cookie = entry.cookie;
            *names.entry(entry.name.as_str().unwrap().to_owned()).or_default() += 1;
        }
        if page.eof {
            return names;
        }
    }
}

/// Every one of `expected` exactly once; others only if they belong to `churn`.
fn expect_once(listed: &HashMap<String, u32>, expected: &[Vec<String>], churn: &str, how: &str) {
    let mut seen = 0;
    for name in expected.iter().flatten() {
        assert_eq!(listed.get(name), Some(&1), "{name} ({how})");
        seen += 1;
    }
    let others = listed.keys().filter(|name| name.starts_with(churn)).count();
    assert_eq!(listed.len(), seen + others, "names that nobody made ({how})");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_of_many_names_is_made_listed_and_removed() {
    const MAKERS: u64 = 4;
    let count = number("KURMA_NAMES", 20_000);
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { lease: "1h", ..Settings::in_folder(folder.path()) }; // some have nothing to say for long
    let gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let watch = Watch::over(&gateway);
    let lister = Client::connect(gateway.nfs, "lister").await;
    lister.make_directory("many").await;
    let directory = lister.find("many").await.unwrap();
    let mut random = Random::from_environment("many names");
    let names: Vec<Vec<String>> = (0..MAKERS)
        .map(|maker| {
            let name = |at| format!("{maker}-{at}-{}", "x".repeat(random.below(20) as usize));
            (0..count / MAKERS).map(name).collect()
        })
        .collect();
    let mut makers = Vec::new();
    for maker in 0..MAKERS {
        makers.push(Client::connect(gateway.nfs, &format!("maker{maker}")).await);
    }

    let began = Instant::now();
    join_all(makers.iter().zip(&names).map(|(client, names)| make(client, &directory, names))).await;
    println!("{count} names made in {:.1?}", began.elapsed());

    for (count, how) in [(4096, "small replies"), (1 << 20, "large replies")] {
        let began = Instant::now();
        expect_once(&names_listed(&lister, &directory, count).await, &names, "none", how);
        println!("listed in {how} in {:.1?}", began.elapsed());
    }
    let listing_is_over = AtomicBool::new(false);
    let churn = |client: usize| {
        let (client, directory, is_over) = (&makers[client], &directory, &listing_is_over);
        async move {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                let names: Vec<String> = (0..50).map(|at| format!("churn-{round}-{at}")).collect();
                make(client, directory, &names).await;
                unmake(client, directory, &names).await;
                round += 2;
            }
        }
    };
    let listing = async {
        for (count, how) in
            [(4096, "small replies during changes"), (1 << 20, "large replies during changes")]
        {
            expect_once(&names_listed(&lister, &directory, count).await, &names, "churn-", how);
        }
        listing_is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(listing, churn(0));
    assert!(watch.peak() < RESIDENT, "{} MiB resident", watch.peak() / MIB);

    let began = Instant::now();
    join_all(makers.iter().zip(&names).map(|(client, names)| unmake(client, &directory, names))).await;
    println!("removed in {:.1?}, peak {} MiB", began.elapsed(), watch.peak() / MIB);
    assert!(names_listed(&lister, &directory, 4096).await.is_empty());
    lister.remove("many").await;
    gateway.check();
    assert!(watch.peak() < RESIDENT, "{} MiB resident", watch.peak() / MIB);
}
