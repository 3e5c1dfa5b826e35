//! Vectors against one operation at a time, over lines of different delays.

mod delay;
mod kernel;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use vector_client::{AttributeSet, Client, CopyOptions, CopyWatch, Options, Read, Target, Write};

use crate::peer::{Ganesha, Kurma, Names, Peer};
use crate::sample::{Estimate, estimate};
use crate::setting::Setting;
use kernel::Kernel;

/// What to measure.
#[derive(clap::Args)]
pub struct Vectors {
    #[command(flatten)]
    setting: Setting,
    /// Delays in milliseconds, each way
    #[arg(long, value_delimiter = ',', default_value = "0,0.2,1,5,30")]
    delays: Vec<f64>,
    /// Only workloads whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Servers to leave out
    #[arg(long, value_delimiter = ',', default_value = "ganesha")]
    without: Vec<String>,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    /// Files of this size, made or replaced.
    Write { files: usize, size: usize },
    /// The same files, whole.
    Read { files: usize, size: usize },
    /// Attributes of files, by name.
    Stat { files: usize },
    /// `ls -lR`
    List,
    /// `cp -r`
    Copy,
    /// `rm -rf` of the copy.
    Remove,
}

/// Bytes that the program has in memory: larger files are read and written in several calls.
const AT_ONCE: usize = 16 << 20;

/// Directories of the tree, files in each of them, and bytes of each: the shape of a source tree (kurma.md §3.12).
const TREE: (usize, usize, usize) = (200, 15, 8 << 10);

fn workloads(shrink: usize) -> Vec<Workload> {
    let mut all = Vec::new();
    for (files, size) in [(1000, 1 << 10), (1000, 16 << 10), (500, 128 << 10), (100, 1 << 20), (12, 16 << 20)]
    {
        let files = (files / shrink).max(2);
        all.extend([Workload::Write { files, size }, Workload::Read { files, size }]);
        if size == 1 << 10 {
            all.push(Workload::Stat { files });
        }
    }
    all.extend([Workload::List, Workload::Copy, Workload::Remove]);
    all
}

impl Workload {
    fn name(self) -> String {
        let size = |size: usize| match size {
            size if size < 1 << 20 => format!("{} KiB", size >> 10),
            size => format!("{} MiB", size >> 20),
        };
        match self {
            Workload::Write { files, size: bytes } => format!("write {files} files of {}", size(bytes)),
            Workload::Read { files, size: bytes } => format!("read {files} files of {}", size(bytes)),
            Workload::Stat { files } => format!("stat {files} files"),
            Workload::List => "ls -lR".into(),
            Workload::Copy => "cp -r".into(),
            Workload::Remove => "rm -rf".into(),
        }
    }
}

/// One time of one workload.
#[derive(Clone, Copy)]
struct Run {
    seconds: f64,
    round_trips: f64,
}

/// All times of one workload over one line, one file at a time, as vectors, and as transactions where that is asked.
struct Row {
    server: &'static str,
    workload: String,
    delay: f64,
    kernel: Vec<Run>,
    vectors: Vec<Run>,
}

pub async fn run(arguments: Vectors) -> Result<()> {
    let folder = arguments.setting.folder()?;
    let mut peers: Vec<Box<dyn Peer>> =
        vec![Box::new(Kurma::new(&arguments.setting.kurma)?), Box::new(Ganesha::new(Names::Synchronous)?)];
    peers.retain(|peer| !arguments.without.iter().any(|name| peer.name().starts_with(name.as_str())));
    let mut rows = Vec::new();
    for (at, peer) in peers.iter_mut().enumerate() {
        let data = folder.path().join(at.to_string());
        peer.start(&data).with_context(|| format!("starting {}", peer.name()))?;
        for delay in &arguments.delays {
            let address = match *delay {
                0.0 => peer.address(),
                delay => delay::line(peer.address(), Duration::from_secs_f64(delay / 1000.0))?,
            };
            rows.extend(line(peer.as_mut(), address, *delay, &arguments).await?);
        }
        peer.kill();
    }
    let text = report(&arguments, &rows)?;
    let path = arguments.setting.report("vectors.md");
    std::fs::write(&path, text)?;
    eprintln!("report: {}", path.display());
    Ok(())
}

/// Every workload over one line, in both ways by turns.
async fn line(peer: &mut dyn Peer, address: SocketAddr, delay: f64, arguments: &Vectors) -> Result<Vec<Row>> {
    let export: String = peer.export().iter().map(|name| format!("/{name}")).collect();
    // Nothing is kept: what is measured is the wire.
    let options = || Options { cache_bytes: 0, ..Options::default() };
    let client = Client::connect(address, options()).await?;
    let base = format!("{export}/line-{delay}");
    client.ensure_directory(base.as_str(), 0o755).await?;
    let mut kernel = Kernel::connect(address).await?;
    // Trees are made without a delay.
    let near = Client::connect(peer.address(), options()).await?;
    tree(&near, &format!("{base}/tree"), arguments.setting.shrink).await?;
    let mut rows = Vec::new();
    for workload in workloads(arguments.setting.shrink) {
        if arguments.only.as_ref().is_some_and(|only| !workload.name().contains(only.as_str())) {
            continue;
        }
        let mut row = Row {
            server: peer.name(),
            workload: workload.name(),
            delay,
            kernel: Vec::new(),
            vectors: Vec::new(),
        };
        for repetition in 0..arguments.setting.repeat {
            let (ours, theirs) = (format!("{base}/v"), format!("{base}/k"));
            for folder in [&ours, &theirs] {
                near.ensure_directory(folder.as_str(), 0o755).await?;
            }
            if workload == Workload::Remove {
                for folder in [&ours, &theirs] {
                    copy(&near, &format!("{base}/tree"), &format!("{folder}/copy-{repetition}-r")).await?;
                }
            }
            peer.settle()?;
            let before = client.statistics();
            let start = Instant::now();
            by_vectors(&client, workload, &base, &ours, repetition).await?;
            let seconds = start.elapsed().as_secs_f64();
            let round_trips = (client.statistics().round_trips - before.round_trips) as f64;
            row.vectors.push(Run { seconds, round_trips });
            peer.settle()?;
            let before = kernel.round_trips();
            let start = Instant::now();
            by_kernel(&mut kernel, workload, &base, &theirs, repetition).await?;
            let seconds = start.elapsed().as_secs_f64();
            row.kernel.push(Run { seconds, round_trips: (kernel.round_trips() - before) as f64 });
        }
        let seconds = |runs: &[Run]| estimate(&runs.iter().map(|run| run.seconds).collect::<Vec<_>>()).mean;
        eprintln!(
            "{}, {delay} ms, {}: {:.3} s one at a time, {:.3} s as vectors",
            peer.name(),
            row.workload,
            seconds(&row.kernel),
            seconds(&row.vectors)
        );
        rows.push(row);
    }
    near.rm_recursive(vec![base.as_str().into()], |_| {}).await?;
    client.close().await?;
    near.close().await?;
    Ok(rows)
}

async fn tree(client: &Client, path: &str, shrink: usize) -> Result<()> {
    let (directories, files, size) = TREE;
    let directories = (directories / shrink).max(2);
    let folder = |n: usize| match n {
        0 => path.to_owned(),
        n if n % 3 == 0 => format!("{path}/d{}/e{n}", n - n % 3 - 2),
        n => format!("{path}/d{n}"),
    };
    let data = Bytes::from(vec![0x5a; size]);
    for n in 0..directories {
        client.ensure_directory(folder(n), 0o755).await?;
        let write = |file| Write::whole(format!("{}/f{file}", folder(n)), 0o644, data.clone());
        client.vwrite((0..files).map(write).collect()).await?;
    }
    Ok(())
}

struct Quiet;

impl CopyWatch for Quiet {}

async fn copy(client: &Client, from: &str, to: &str) -> Result<()> {
    let copies = vec![(Target::from(from), Target::from(to))];
    let failed = client.cp_recursive(copies, client, &CopyOptions::default(), &mut Quiet).await?;
    ensure!(failed == 0, "{failed} files were not copied");
    Ok(())
}

async fn by_vectors(
    client: &Client,
    workload: Workload,
    base: &str,
    own: &str,
    repetition: usize,
) -> Result<()> {
    let path = |size: usize, n: usize| format!("{own}/file-{size}-{n}");
    match workload {
        Workload::Write { files, size } => {
            let data = Bytes::from(vec![repetition as u8; size]);
            let write = |n| Write::whole(path(size, n), 0o644, data.clone());
            let at_once = (AT_ONCE / size).clamp(1, files);
            for start in (0..files).step_by(at_once) {
                client.vwrite((start..files.min(start + at_once)).map(write).collect()).await?;
            }
        }
        Workload::Read { files, size } => {
            let at_once = (AT_ONCE / size).clamp(1, files);
            for start in (0..files).step_by(at_once) {
                let read = |n| Read::new(path(size, n), 0, size as u64);
                let data = client.vread((start..files.min(start + at_once)).map(read).collect()).await?;
                ensure!(data.iter().all(|data| data.len() == size as u64), "a file is too short");
            }
        }
        Workload::Stat { files } => {
            let targets = (0..files).map(|n| path(1 << 10, n).into()).collect();
            client.vgetattrs(targets, AttributeSet::STAT).await?;
        }
        Workload::List => {
            let mut names = 0_u64;
            let tree = format!("{base}/tree");
            client.vlistdir(vec![tree.into()], AttributeSet::STAT, true, |_, _| names += 1).await?;
            ensure!(names > 0, "the tree is empty");
        }
        Workload::Copy => {
            copy(client, &format!("{base}/tree"), &format!("{own}/copy-{repetition}")).await?;
        }
        Workload::Remove => {
            let target = format!("{own}/copy-{repetition}-r");
            let failed = client.rm_recursive(vec![target.into()], |_| {}).await?;
            ensure!(failed == 0, "{failed} files were not removed");
        }
    }
    Ok(())
}

async fn by_kernel(
    kernel: &mut Kernel,
    workload: Workload,
    base: &str,
    own: &str,
    repetition: usize,
) -> Result<()> {
    let path = |size: usize, n: usize| format!("{own}/file-{size}-{n}");
    match workload {
        Workload::Write { files, size } => {
            let data = Bytes::from(vec![repetition as u8; size]);
            for n in 0..files {
                kernel.write(&path(size, n), &data).await?;
            }
        }
        Workload::Read { files, size } => {
            for n in 0..files {
                let bytes = kernel.read(&path(size, n)).await?;
                ensure!(bytes == size as u64, "a file is too short");
            }
        }
        Workload::Stat { files } => {
            for n in 0..files {
                kernel.stat(&path(1 << 10, n)).await?;
            }
        }
        Workload::List => {
            kernel.list_tree(&format!("{base}/tree")).await?;
        }
        Workload::Copy => {
            kernel.copy_tree(&format!("{base}/tree"), &format!("{own}/copy-{repetition}")).await?;
        }
        Workload::Remove => kernel.remove_tree(&format!("{own}/copy-{repetition}-r")).await?,
    }
    Ok(())
}

fn report(arguments: &Vectors, rows: &[Row]) -> Result<String> {
    let mut text = String::from("# Vectors\n\n");
    writeln!(
        text,
        "One program, one file after the other with the requests of the Linux client, against the vectorized client; \
         by turns, {} repetitions, mean and half-width of the 95 % confidence interval; delay each way.\n",
        arguments.setting.repeat
    )?;
    writeln!(
        text,
        "| server | workload | delay | one at a time | round trips | vectors | round trips | ratio |\n\
         |---|---|---:|---:|---:|---:|---:|---:|"
    )?;
    let of = |runs: &[Run], what: fn(&Run) -> f64| estimate(&runs.iter().map(what).collect::<Vec<_>>());
    let show = |time: Estimate| format!("{:.3} ± {:.3} s", time.mean, time.half_width);
    for row in rows {
        let (kernel, vectors) = (of(&row.kernel, |run| run.seconds), of(&row.vectors, |run| run.seconds));
        writeln!(
            text,
            "| {} | {} | {} ms | {} | {:.0} | {} | {:.0} | {:.1} |",
            row.server,
            row.workload,
            row.delay,
            show(kernel),
            of(&row.kernel, |run| run.round_trips).mean,
            show(vectors),
            of(&row.vectors, |run| run.round_trips).mean,
            kernel.mean / vectors.mean
        )?;
    }
    if rows.is_empty() {
        return Err(anyhow!("nothing was measured"));
    }
    Ok(text)
}
