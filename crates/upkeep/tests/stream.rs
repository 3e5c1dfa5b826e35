//! A long stream of data through small budgets to slow clouds: memory stays bounded, writers are slowed down to the
//! pace of the clouds, and what was written is what is read. Takes minutes: run with `--ignored`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)] // all of it is a test

use std::sync::Arc;
use std::time::Duration;

use blocks::{BlockStore, CloudId, Incident, IncidentSink, Limits, Placement, Protection};
use bytes::Bytes;
use cache::{Cache, CacheConfig};
use cloud::dir::Dir;
use cloud::{Connection, Fault, Faulty, Options, Side};
use environment::Environment;
use file_system::{
    Authority, Caller, CommitMode, FileId, FileSystem, FsError, Mode, Name, OpenCreate, SetAttributes,
};
use ids::{BlockShift, GatewayId};
use journal::{Journal, JournalConfig};
use meta::{LocalConfig, LocalStore};
use seal::KeyFile;
use upkeep::{Upkeep, UpkeepConfig};
use volume::{NewVolume, Policy, Volume, Volumes, VolumesOptions};

/// As in the `kurma` binary: with glibc's, memory that was in use once is not given back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: u64 = 1 << 20;

struct NoSink;

impl IncidentSink for NoSink {
    fn report(&self, incident: Incident) {
        panic!("{incident:?}");
    }
}

/// Megabytes of memory in use now.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096 / MIB
}

/// The most memory that was ever in use, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    peak.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn megabyte(file: u64, at: u64) -> Bytes {
    let mut state = (file << 32 | at).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(MIB as usize);
    while out.len() < MIB as usize {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes, and gigabytes of disk"]
async fn memory_stays_bounded_while_gigabytes_pass() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (total, files) = (number("STREAM_MIB", 2048), 8);
    let folder = tempfile::tempdir().unwrap();
    let env = Environment::real();
    let mut config = CacheConfig::new(folder.path().join("cache"));
    config.disk = number("STREAM_DISK_MIB", 512) * MIB;
    config.memory = number("STREAM_MEMORY_MIB", 256) * MIB;
    let key = KeyFile::generate(GatewayId(1), &*env.entropy);
    let cache = Cache::open(&config, &env, key.node_key("cache")).unwrap();
    let journal_config =
        JournalConfig { capacity: number("STREAM_JOURNAL_MIB", 1024) * MIB, ..JournalConfig::default() };
    let (journal, recovery) =
        Journal::open(env.clone(), &folder.path().join("journal"), &key.node_key("journal"), journal_config)
            .unwrap();
    let local = LocalConfig { cache: 32 << 20, ..LocalConfig::default() };
    let observer = Arc::new(cache.clone());
    let store = LocalStore::open(
        env.clone(),
        &folder.path().join("meta"),
        local,
        journal.clone(),
        recovery,
        observer,
    )
    .unwrap();
    cache.connect(Arc::new(journal.clone()));

    let mut clouds = Vec::new();
    for id in 0..3 {
        let path = folder.path().join(format!("cloud{id}"));
        std::fs::create_dir(&path).unwrap();
        let inner = Dir::open(&env, "dir", &path, 32).await.unwrap();
        let slow = Faulty::new(inner, "slow", env.clock.clone());
        let delay = Duration::from_millis(number("STREAM_DELAY_MS", 50));
        slow.set(Side::Writes, Fault::Delay(delay));
        slow.set(Side::Reads, Fault::Delay(delay / 2));
        clouds.push((
            CloudId(id),
            Connection::assemble(&env, &format!("cloud{id}"), slow, &Options::default()),
        ));
    }
    let limits = Limits { bytes_in_flight: 64 << 20, ..Limits::default() };
    let blocks = Arc::new(BlockStore::new(&env, clouds, Arc::new(NoSink), limits));
    let volumes = Volumes::open(VolumesOptions {
        environment: env.clone(),
        keys: Arc::new(key.gateway_keys()),
        store: Arc::new(store.clone()),
        cache: cache.clone(),
        blocks: blocks.clone(),
        gc_delay: Duration::ZERO,
        capacity: 1 << 50,
    })
    .await
    .unwrap();
    let placement =
        Placement::new("rs:2+1".parse().unwrap(), (0..3).map(CloudId).collect(), BlockShift::DEFAULT)
            .unwrap();
    let policy = Policy { placement, protection: Protection::default() };
    let volume = Arc::new(volumes.create(NewVolume::new("stream", policy)).await.unwrap());
    let usage = journal.clone();
    let hurry = move || usage.usage().used > usage.usage().capacity / 2;
    let upkeep =
        Upkeep::new(volume.clone(), cache.clone(), blocks, env.clone(), UpkeepConfig::default(), hurry);
    upkeep.start();

    let begun = env.clock.monotonic();
    let watch = tokio::spawn({
        let (cache, journal) = (cache.clone(), journal.clone());
        async move {
            loop {
                let (u, j) = (cache.usage(), journal.usage());
                println!(
                    "resident {} (peak {}) dirty {} (memory {}) clean {} disk {} journal {} hits {}/{} fetched {}",
                    resident(),
                    peak() >> 10,
                    u.dirty / MIB,
                    u.dirty_memory / MIB,
                    u.clean_memory / MIB,
                    u.clean_disk / MIB,
                    j.used / MIB,
                    u.memory_hits,
                    u.disk_hits,
                    u.fetches,
                );
                let _ = tokio::time::timeout(Duration::from_millis(500), std::future::pending::<()>()).await;
            }
        }
    });
    let each = total / files;
    let writers: Vec<_> = (0..files)
        .map(|file| {
            let volume = volume.clone();
            tokio::spawn(async move {
                let id = create(&volume, &format!("file{file}")).await;
                for at in 0..each {
                    write(&volume, id, at * MIB, megabyte(file, at)).await;
                }
                id
            })
        })
        .collect();
    let ids: Vec<_> = futures::future::join_all(writers).await.into_iter().map(Result::unwrap).collect();
    let took = env.clock.monotonic() - begun;
    println!("written {total} MiB at {:.0} MiB/s", total as f64 / took.as_secs_f64());
    let flushed = upkeep.flush(Duration::from_secs(600)).await.unwrap();
    println!("{flushed:?} after {:?}; {:?}", env.clock.monotonic() - begun, upkeep.write_back.report());
    assert_eq!((flushed.left_dirty_bytes, flushed.left_repairs), (0, 0));

    let begun = env.clock.monotonic();
    let readers: Vec<_> = ids
        .into_iter()
        .zip(0..)
        .map(|(id, file)| {
            let volume = volume.clone();
            tokio::spawn(async move {
                for at in 0..each {
                    let mut transaction = volume.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
                    let data = transaction.read(id, at * MIB, MIB as u32, Authority::Opened).await.unwrap();
                    assert!(data.segments.concat() == megabyte(file, at), "file {file} at {at}");
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await.unwrap();
    }
    let took = env.clock.monotonic() - begun;
    println!("read {total} MiB at {:.0} MiB/s; {:?}", total as f64 / took.as_secs_f64(), cache.usage());
    watch.abort();
    assert!(peak() < 512 << 10, "{} KiB", peak());
    let _ = upkeep.stop(Duration::from_secs(10)).await.unwrap();
}

async fn write(volume: &Volume, file: FileId, offset: u64, data: Bytes) {
    loop {
        let mut transaction = volume.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
        let written = transaction.write(file, offset, data.clone(), Authority::Opened).await;
        let result = match written {
            Ok(()) => transaction.commit(CommitMode::Durable).await,
            conflict => conflict,
        };
        match result {
            Err(FsError::Conflict) => {}
            result => return result.unwrap(),
        }
    }
}

async fn create(volume: &Volume, name: &str) -> FileId {
    let mut transaction = volume.begin(&Caller::root(), Mode::Exclusive).await.unwrap();
    let root = transaction.root();
    let name = Name::new(name.to_owned()).unwrap();
    let new = SetAttributes::default();
    let opened = transaction.open_create(root, &name, OpenCreate::Guarded, &new).await.unwrap();
    transaction.commit(CommitMode::Durable).await.unwrap();
    opened.attributes.file
}
