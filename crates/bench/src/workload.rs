//! What clients do. Sizes are for one repetition over all clients together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::bits::share_access;
use nfs4::{Attribute, FileHandle, NfsArgOp, NfsResOp, OpenHow, Outcome, StableHow, StateId};
use nfs4_client::operations::{
    close, commit, get_attributes, lookup, owner, put_handle, read, remove, unchecked, write,
};
use nfs4_client::{Config, OpenFile, Session};

/// Kinds of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    SequentialWrite,
    SequentialReadWarm,
    SequentialReadCold,
    RandomRead,
    RandomWrite,
    Create,
    Stat,
    Unlink,
    SmallWrite(u32),
    SmallRead(u32),
}

/// In the order in which they run: some use what an earlier one has left.
pub const ALL: [Workload; 12] = [
    Workload::SequentialWrite,
    Workload::SequentialReadWarm,
    Workload::SequentialReadCold,
    Workload::RandomRead,
    Workload::RandomWrite,
    Workload::Create,
    Workload::Stat,
    Workload::Unlink,
    Workload::SmallWrite(4 << 10),
    Workload::SmallRead(4 << 10),
    Workload::SmallWrite(64 << 10),
    Workload::SmallRead(64 << 10),
];

const MIB: u64 = 1 << 20;
/// Requests that one client has on the way in the streaming workloads, as a kernel client with readahead has.
const STREAM_DEPTH: usize = 8;
/// How often each client goes over what it reads or looks at warm, for a time that can be measured.
const PASSES: u64 = 4;

impl Workload {
    pub fn name(self) -> String {
        match self {
            Workload::SequentialWrite => "sequential write".into(),
            Workload::SequentialReadWarm => "sequential read, warm".into(),
            Workload::SequentialReadCold => "sequential read, cold".into(),
            Workload::RandomRead => "random read, 4 KiB, warm".into(),
            Workload::RandomWrite => "random write, 4 KiB, stable".into(),
            Workload::Create => "create".into(),
            Workload::Stat => "stat".into(),
            Workload::Unlink => "unlink".into(),
            Workload::SmallWrite(size) => format!("write files of {} KiB, stable", size >> 10),
            Workload::SmallRead(size) => format!("read files of {} KiB, warm", size >> 10),
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Workload::SequentialWrite | Workload::SequentialReadWarm | Workload::SequentialReadCold => "MiB",
            Workload::SmallWrite(_) | Workload::SmallRead(_) | Workload::Create | Workload::Unlink => "files",
            _ => "operations",
        }
    }

    /// Units of one repetition.
    pub fn amount(self, shrink: u64) -> u64 {
        let full = match self {
            Workload::SequentialWrite | Workload::SequentialReadCold => 256,
            Workload::SequentialReadWarm => 256 * PASSES,
            Workload::RandomRead => 48_000,
            Workload::RandomWrite => 8_000,
            Workload::Create | Workload::Unlink => 8_000,
            Workload::Stat => 32_000,
            Workload::SmallWrite(size) => {
                if size <= 4 << 10 {
                    6_000
                } else {
                    1_600
                }
            }
            Workload::SmallRead(size) => {
                if size <= 4 << 10 {
                    6_000
                } else {
                    1_600
                }
            }
        };
        (full / shrink).max(16 * PASSES)
    }

    pub fn is_cold(self) -> bool {
        self == Workload::SequentialReadCold
    }
}

/// One client: a connection with a session of its own, a folder of its own.
pub struct Client {
    session: Session,
    number: usize,
    folder: FileHandle,
    compounds: AtomicU64,
}

/// Connects `count` clients and gives each a folder under `base`.
pub async fn connect(
    address: std::net::SocketAddr,
    export: &[&str],
    base: &str,
    count: usize,
) -> Result<Vec<Arc<Client>>> {
    let mut clients = Vec::new();
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64;
    for number in 0..count {
        let mut config = Config::new(format!("bench-{number}"), stamp.to_be_bytes());
        config.minor_version = 1;
        config.timeout = std::time::Duration::from_secs(120);
        let session = Session::connect(address, config, None).await.context("connecting")?;
        let root = session.lookup(export).await?;
        let base = folder(&session, &root, base).await?;
        let folder = folder(&session, &base, &format!("client-{number}")).await?;
        clients.push(Arc::new(Client { session, number, folder, compounds: AtomicU64::new(0) }));
    }
    Ok(clients)
}

async fn folder(session: &Session, parent: &FileHandle, name: &str) -> Result<FileHandle> {
    match session.lookup_in(parent, &[name]).await {
        Ok(found) => Ok(found),
        Err(_) => Ok(session.make_directory(parent, name.to_owned(), 0o755).await?),
    }
}

/// What a run did.
pub struct Done {
    pub seconds: f64,
    pub units: u64,
    pub compounds: u64,
}

/// Prepares what `workload` needs and does not measure.
pub async fn prepare(workload: Workload, clients: &[Arc<Client>], amount: u64) -> Result<()> {
    each(clients, amount, move |client, share| async move {
        match workload {
            Workload::SequentialReadWarm => client.fill("big", share / PASSES).await,
            Workload::SequentialReadCold => client.fill("big", share).await,
            Workload::RandomRead | Workload::RandomWrite => {
                client.fill("big", 16).await?;
                client.stream_read("big", 16).await
            }
            Workload::Stat => client.create_many(share / PASSES).await,
            Workload::Unlink => client.create_many(share).await,
            Workload::SmallRead(size) => client.write_small(share, size).await,
            _ => Ok(()),
        }
    })
    .await
    .map(drop)
}

/// Runs `workload` over all clients at once.
pub async fn run(workload: Workload, clients: &[Arc<Client>], amount: u64) -> Result<Done> {
    let before: u64 = clients.iter().map(|client| client.compounds.load(Ordering::Relaxed)).sum();
    let start = Instant::now();
    let units = each(clients, amount, move |client, share| async move {
        match workload {
            Workload::SequentialWrite => client.stream_write("big", share).await,
            Workload::SequentialReadWarm => {
                for _ in 0..PASSES {
                    client.stream_read("big", share / PASSES).await?;
                }
                Ok(())
            }
            Workload::SequentialReadCold => client.stream_read("big", share).await,
            Workload::RandomRead => client.random(share, false).await,
            Workload::RandomWrite => client.random(share, true).await,
            Workload::Create => client.create_many(share).await,
            Workload::Stat => {
                for _ in 0..PASSES {
                    client.stat_many(share / PASSES).await?;
                }
                Ok(())
            }
            Workload::Unlink => client.unlink_many(share).await,
            Workload::SmallWrite(size) => client.write_small(share, size).await,
            Workload::SmallRead(size) => client.read_small(share, size).await,
        }
    })
    .await?;
    let seconds = start.elapsed().as_secs_f64();
    let after: u64 = clients.iter().map(|client| client.compounds.load(Ordering::Relaxed)).sum();
    Ok(Done { seconds, units, compounds: after - before })
}

/// Removes what a workload has left.
pub async fn clean(workload: Workload, clients: &[Arc<Client>]) -> Result<()> {
    let prefix = match workload {
        Workload::Stat => "f",
        Workload::Create => "f",
        Workload::SmallRead(_) | Workload::SmallWrite(_) => "s",
        _ => return Ok(()),
    };
    each(clients, 0, move |client, _| async move { client.remove_all(prefix).await }).await.map(drop)
}

async fn each<F, T>(clients: &[Arc<Client>], amount: u64, work: F) -> Result<u64>
where
    F: Fn(Arc<Client>, u64) -> T,
    T: Future<Output = Result<()>> + Send + 'static,
{
    let share = amount / clients.len() as u64;
    let tasks: Vec<_> = clients.iter().map(|client| tokio::spawn(work(client.clone(), share))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(share * clients.len() as u64)
}

/// The size of the file that random access goes to, in MiB.
const RANDOM_FILE: u64 = 16;

/// Bytes that do not compress and differ by `seed`.
pub fn content(seed: u64, length: usize) -> Bytes {
    let mut state = 0x9E37_79B9_7F4A_7C15u64 ^ seed.wrapping_mul(0x2545_F491_4F6C_DD1D);
    let words = (0..length.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(length).collect::<Vec<u8>>().into()
}

impl Client {
    async fn call(&self, operations: &[NfsArgOp]) -> Result<Vec<NfsResOp>> {
        self.compounds.fetch_add(1, Ordering::Relaxed);
        Ok(self.session.execute(operations).await?)
    }

    async fn open(&self, name: &str, how: OpenHow) -> Result<OpenFile> {
        self.compounds.fetch_add(1, Ordering::Relaxed);
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        Ok(self.session.open(&self.folder, name.to_owned(), access, how, owner("bench")).await?)
    }

    async fn close(&self, file: &OpenFile) -> Result<()> {
        self.call(&[put_handle(&file.handle), close(file.state_id)]).await.map(drop)
    }

    fn content(&self, length: usize) -> Bytes {
        content(self.number as u64, length)
    }

    /// `mib` MiB in requests of 1 MiB, several on the way, then COMMIT.
    async fn stream_write(&self, name: &str, mib: u64) -> Result<()> {
        let file = self.open(name, unchecked(0o644)).await?;
        let block = self.content(MIB as usize);
        stream::iter(0..mib)
            .map(|at| {
                let request = [
                    put_handle(&file.handle),
                    write(file.state_id, at * MIB, StableHow::Unstable, block.clone()),
                ];
                async move {
                    let results = self.call(&request).await?;
                    match results.last() {
                        Some(NfsResOp::Write(Outcome::Ok(done))) => {
                            ensure!(u64::from(done.count) == MIB, "short write of {}", done.count);
                            Ok(())
                        }
                        other => anyhow::bail!("unexpected result {other:?}"),
                    }
                }
            })
            .buffer_unordered(STREAM_DEPTH)
            .try_collect::<()>()
            .await?;
        self.call(&[put_handle(&file.handle), commit(0, 0)]).await?;
        self.close(&file).await
    }

    /// Makes sure that a file of `mib` MiB is there.
    async fn fill(&self, name: &str, mib: u64) -> Result<()> {
        self.stream_write(name, mib).await
    }

    async fn stream_read(&self, name: &str, mib: u64) -> Result<()> {
        let file = self.open(name, OpenHow::NoCreate).await?;
        stream::iter(0..mib)
            .map(|at| {
                let request = [put_handle(&file.handle), read(file.state_id, at * MIB, MIB as u32)];
                async move {
                    let results = self.call(&request).await?;
                    read_bytes(&results).and_then(|got| {
                        ensure!(got as u64 == MIB, "short read of {got}");
                        Ok(())
                    })
                }
            })
            .buffer_unordered(STREAM_DEPTH)
            .try_collect::<()>()
            .await?;
        self.close(&file).await
    }

    async fn random(&self, count: u64, writing: bool) -> Result<()> {
        let file = self.open("big", OpenHow::NoCreate).await?;
        let block = self.content(4096);
        let mut state = 0x2545_F491_4F6C_DD1Du64 ^ (self.number as u64 + 1);
        for _ in 0..count {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let offset = (state % (RANDOM_FILE * MIB / 4096)) * 4096;
            let operation = if writing {
                write(file.state_id, offset, StableHow::FileSync, block.clone())
            } else {
                read(file.state_id, offset, 4096)
            };
            let results = self.call(&[put_handle(&file.handle), operation]).await?;
            if !writing {
                ensure!(read_bytes(&results)? == 4096, "short read");
            }
        }
        self.close(&file).await
    }

    async fn create_many(&self, count: u64) -> Result<()> {
        for at in 0..count {
            let file = self.open(&format!("f{at}"), unchecked(0o644)).await?;
            self.close(&file).await?;
        }
        Ok(())
    }

    async fn stat_many(&self, count: u64) -> Result<()> {
        let wanted = nfs4::Bitmap::from_iter([
            Attribute::Type,
            Attribute::Size,
            Attribute::Mode,
            Attribute::TimeModify,
        ]);
        for at in 0..count {
            let request = [put_handle(&self.folder), lookup(format!("f{at}")), get_attributes(wanted)];
            self.call(&request).await?;
        }
        Ok(())
    }

    async fn unlink_many(&self, count: u64) -> Result<()> {
        for at in 0..count {
            self.call(&[put_handle(&self.folder), remove(format!("f{at}"))]).await?;
        }
        Ok(())
    }

    async fn write_small(&self, count: u64, size: u32) -> Result<()> {
        let content = self.content(size as usize);
        for at in 0..count {
            let file = self.open(&format!("s{at}"), unchecked(0o644)).await?;
            let write = write(file.state_id, 0, StableHow::FileSync, content.clone());
            self.call(&[put_handle(&file.handle), write]).await?;
            self.close(&file).await?;
        }
        Ok(())
    }

    async fn read_small(&self, count: u64, size: u32) -> Result<()> {
        for at in 0..count {
            let file = self.open(&format!("s{at}"), OpenHow::NoCreate).await?;
            let results = self.call(&[put_handle(&file.handle), read(file.state_id, 0, size)]).await?;
            ensure!(read_bytes(&results)? == size as usize, "short read");
            self.close(&file).await?;
        }
        Ok(())
    }

    async fn remove_all(&self, prefix: &str) -> Result<()> {
        let entries = self.session.read_directory(&self.folder, nfs4::Bitmap::default()).await?;
        for entry in entries {
            if entry.name.as_bytes().starts_with(prefix.as_bytes()) {
                self.session.remove(&self.folder, entry.name.clone()).await?;
            }
        }
        Ok(())
    }

    /// Writes `count` small files, stable; returns the content that each has.
    pub async fn write_for_check(&self, count: u64) -> Result<()> {
        self.write_small(count, 4096).await
    }

    /// Whether those files are all there and right.
    pub async fn check(&self, count: u64) -> Result<()> {
        let expected = self.content(4096);
        for at in 0..count {
            let handle = self.session.lookup_in(&self.folder, &[&format!("s{at}")]).await?;
            let results = self.call(&[put_handle(&handle), read(StateId::ANONYMOUS, 0, 8192)]).await?;
            let Some(NfsResOp::Read(Outcome::Ok(done))) = results.into_iter().last() else {
                anyhow::bail!("no data")
            };
            ensure!(done.data.into_bytes() == expected, "file {at} of client {} is wrong", self.number);
        }
        Ok(())
    }
}

fn read_bytes(results: &[NfsResOp]) -> Result<usize> {
    match results.last() {
        Some(NfsResOp::Read(Outcome::Ok(done))) => Ok(done.data.len()),
        other => anyhow::bail!("unexpected result {other:?}"),
    }
}
