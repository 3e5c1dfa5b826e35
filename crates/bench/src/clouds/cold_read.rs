//! Reads of 16 MiB of which the cache has nothing.

use std::fmt::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cloud::{CloudUrl, Connection, Credentials, Options};
use environment::Environment;
use futures::future::try_join_all;
use tokio::runtime::Runtime;

use super::Clouds;
use super::emulator::Emulator;
use super::gateway::{self, Shape};
use super::load::Client;
use super::page::Page;
use crate::peer::{Kurma, Peer};
use crate::sample::median;
use crate::workload;

/// Blocks of a read, of 1 MiB each.
const BLOCKS: u64 = 16;
/// Policies over four clouds, and how many of them a read needs.
const POLICIES: [(&str, usize); 3] = [("rs:3+1", 3), ("rs:2+2", 2), ("replicas:4", 1)];
/// Within this time of a read's begin all fragments are asked for that are chosen to be read; hedges come when the slowest of the clouds
/// is late, whose median is not less in any of the sets.
const CHOSEN: Duration = Duration::from_millis(100);
/// Seconds after which clouds are to be ranked by their new speed.
const RANKED: f64 = 5.0;
/// Reads before the measured ones: the gateway has to get to know its clouds.
const FIRST: usize = 5;

/// A read while one cloud is slowed.
struct SlowedRead {
    /// Seconds since the cloud is slow.
    at: f64,
    /// In milliseconds.
    took: f64,
    /// Fragments that it was chosen for.
    chosen: usize,
    /// Requests to it for other reasons.
    other: usize,
}

/// A gateway with a file of 16 MiB in its clouds, and a client that has it open.
struct Scene {
    clouds: Vec<Emulator>,
    gateway: Kurma,
    client: Client,
    piece: bytes::Bytes,
    runtime: Runtime,
}

impl Scene {
    fn new(arguments: &Clouds, folder: &Path, policy: &'static str) -> Result<Scene> {
        let clouds = arguments.emulators()?;
        let shape =
            Shape { policy, block_size: "1MiB", memory: "192MiB", journal: "128MiB", upload_rate: None };
        let gateway = gateway::start(&arguments.setting.kurma, folder, &clouds, &shape)?;
        let runtime = Runtime::new()?;
        let piece = workload::content(arguments.seed, 1 << 20);
        let client = runtime.block_on(async {
            let client = Client::connect(gateway.address(), "cold").await?;
            client.fill(BLOCKS, &piece).await?;
            anyhow::Ok(client)
        })?;
        gateway.flush()?;
        Ok(Scene { clouds, gateway, client, piece, runtime })
    }

    /// One cold read.
    fn read(&self) -> Result<Duration> {
        self.gateway.drop_cache()?;
        self.read_what_there_is()
    }

    fn read_what_there_is(&self) -> Result<Duration> {
        self.runtime.block_on(self.client.read_all(BLOCKS, &self.piece))
    }
}

/// What a cloud itself takes for its fragments of the file, all of them at once.
fn own_times(scene: &Scene, folder: &Path, cloud: &Emulator, repeat: usize) -> Result<Vec<f64>> {
    let secrets = folder.join("credentials");
    let text = "aws_access_key_id = somebody\naws_secret_access_key = secret\n";
    let mut file = std::fs::OpenOptions::new();
    let file = file.write(true).create(true).truncate(true).mode(0o600).open(&secrets)?;
    std::io::Write::write_all(&mut &file, text.as_bytes())?;
    let credentials = Some(Credentials::read(&secrets)?);
    scene.runtime.block_on(async {
        let options = Options { credentials, ..Options::default() };
        let url = CloudUrl::parse(&cloud.url())?;
        let connection = Connection::open(&Environment::real(), cloud.name, &url, &options).await?;
        let names = connection.list("", None, 1000).await?;
        let fragments: Vec<_> = names.into_iter().filter(|(_, bytes)| *bytes > 100_000).collect();
        ensure!(fragments.len() as u64 == BLOCKS, "{} has {} fragments", cloud.name, fragments.len());
        let mut times = Vec::new();
        for round in 0..=repeat {
            let begun = Instant::now();
            try_join_all(fragments.iter().map(|(name, _)| connection.get(name, None))).await?;
            // The first round makes the connections.
            if round > 0 {
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
        }
        Ok(times)
    })
}

/// Cold reads against the time of the clouds themselves.
pub fn run(arguments: &Clouds, folder: &Path, page: &mut Page) -> Result<()> {
    let repeat = arguments.setting.repeat * 10;
    let mut text = String::from(
        "| policy | own time of each cloud, ms | of the k-th fastest | cold read of 16 MiB, ms | 95 % of reads below | read : k-th fastest |\n|---|---|---:|---:|---:|---:|\n",
    );
    for (policy, needed) in POLICIES {
        let folder = folder.join(policy.replace([':', '+'], "-"));
        std::fs::create_dir_all(&folder)?;
        let scene = Scene::new(arguments, &folder.join("data"), policy)?;
        let mut own = Vec::new();
        for cloud in &scene.clouds {
            own.push((cloud.name, median(&own_times(&scene, &folder, cloud, repeat)?).median));
        }
        for _ in 0..FIRST {
            scene.read()?;
        }
        let mut reads: Vec<f64> = Vec::new();
        for _ in 0..repeat {
            reads.push(scene.read()?.as_secs_f64() * 1e3);
        }
        let each: Vec<String> = own.iter().map(|(name, time)| format!("{name} {time:.0}")).collect();
        let mut sorted: Vec<f64> = own.iter().map(|(_, time)| *time).collect();
        sorted.sort_by(f64::total_cmp);
        let (bound, read) = (sorted[needed - 1], median(&reads).median);
        reads.sort_by(f64::total_cmp);
        page.at_most(
            1.3,
            &format!("a cold read with {policy}, of the k-th fastest cloud's own time"),
            read / bound,
        );
        let late = reads[(reads.len() * 95).div_ceil(100) - 1];
        writeln!(
            text,
            "| {policy} | {} | {bound:.0} | {read:.0} | {late:.0} | {:.2} |",
            each.join(", "),
            read / bound
        )?;
    }
    page.section("Cold reads", &format!(
        "A file of 16 MiB in blocks of 1 MiB is read by 16 requests at a time, and nothing of it is cached. A cloud's own time is what it takes to give all its fragments of the file, asked for at once by the same driver, without a gateway. Medians of {repeat}.\n\n{text}"
    ));
    Ok(())
}

/// One cloud becomes slower by a second while the file is read again and again.
pub fn slowed(arguments: &Clouds, folder: &Path, page: &mut Page) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let scene = Scene::new(arguments, &folder.join("data"), "rs:3+1")?;
    for _ in 0..FIRST {
        scene.read()?;
    }
    let mut before = Vec::new();
    for _ in 0..10 {
        before.push(scene.read()?.as_secs_f64());
    }
    let usual = median(&before).median;
    let cloud = scene.clouds.first().context("no cloud")?;
    cloud.slow_down(Duration::from_secs(1));
    let begun = Instant::now();
    let mut reads: Vec<SlowedRead> = Vec::new();
    while begun.elapsed().as_secs() < arguments.phase {
        scene.gateway.drop_cache()?;
        cloud.take_reads();
        let (at, start) = (begun.elapsed().as_secs_f64(), Instant::now());
        let took = scene.read_what_there_is()?.as_secs_f64() * 1e3;
        let (chosen, other): (Vec<_>, Vec<_>) =
            cloud.take_reads().into_iter().partition(|arrival| arrival.duration_since(start) < CHOSEN);
        reads.push(SlowedRead { at, took, chosen: chosen.len(), other: other.len() });
    }
    let times: Vec<f64> = reads.iter().map(|read| read.took).collect();
    let late = times.iter().filter(|took| **took >= 1000.0).count();
    let points: Vec<(f64, f64)> = reads.iter().map(|read| (read.at, read.took)).collect();
    let (early, later): (Vec<&SlowedRead>, Vec<_>) = reads.iter().partition(|read| read.at < RANKED);
    let chosen = |reads: &[&SlowedRead]| {
        let chosen: usize = reads.iter().map(|read| read.chosen).sum();
        (chosen, reads.len() as u64 * BLOCKS * 3)
    };
    let share = |reads: &[&SlowedRead]| {
        let (chosen, fragments) = chosen(reads);
        format!("{chosen} of {fragments}")
    };
    let (avoided, fragments) = chosen(&later);
    page.at_most(0.02, "fragments chosen to be read from a slowed cloud", avoided as f64 / fragments as f64);
    let plot = page.plot(
        "slow-cloud.svg",
        "cold reads of 16 MiB after a cloud has become slower",
        "ms",
        &[("read", &points)],
    )?;
    page.section("A cloud slowed by a second", &format!(
        "Cold reads of 16 MiB over `rs:3+1`, one after the other; after 0 s every answer of the fastest cloud takes a second longer. A fragment that is asked of it within {} ms of a read's begin was chosen to be read from there; later requests are hedges, and repetitions of what was asked.\n\n| median before, ms | median after, ms | longest after, ms | reads of a second or more | fragments chosen to be read there in the first {RANKED:.0} s | after that | later requests |\n|---:|---:|---:|---:|---:|---:|---:|\n| {:.0} | {:.0} | {:.0} | {late} of {} | {} | {} | {} |\n\n{plot}",
        CHOSEN.as_millis(),
        usual * 1e3,
        median(&times).median,
        times.iter().copied().fold(0.0, f64::max),
        times.len(),
        share(&early),
        share(&later),
        reads.iter().map(|read| read.other).sum::<usize>(),
    ));
    Ok(())
}
