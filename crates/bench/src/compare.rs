//! The comparison: servers take turns within each repetition of each workload.

mod counters;
mod page;
mod plot;
mod recording;
mod results;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::arrivals::Pace;
use crate::disk;
use crate::kernel::Version;
use crate::peer::{self, DittoFs, Ganesha, Kurma, Names, Peer, Rclone, ZeroFs};
use crate::processors::Processors;
use crate::setting::Setting;
use crate::workload::{self, Client, Workload};
use counters::Counters;
use recording::Recording;
use results::FORMAT;
pub use results::{Flushes, LeftOut, Over, Parameters, Results, Row, Sample, Server};

/// Files written before the server is killed, to see whether it keeps its word.
const CHECKED_FILES: u64 = 200;
/// Written to each server before anything is measured, in MiB: more than the journal of the gateway, whose files are made when they are first
/// needed.
const WARM_UP: u64 = 1280;
/// Clients that do nothing.
const IDLE: usize = 400;

/// What to compare.
#[derive(clap::Args)]
pub struct Compare {
    #[command(flatten)]
    setting: Setting,
    /// Only workloads whose name contains this; may be given more than once
    #[arg(long)]
    only: Vec<String>,
    /// Numbers of clients
    #[arg(long, value_delimiter = ',', default_value = "1,4,16")]
    clients: Vec<usize>,
    /// Servers to leave out
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Open loop: so many operations a second over all clients, whether or not the server keeps up; latency counts from when each was
    /// meant to begin. Without it each client sends the next operation when the one before is answered
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// Record where the servers spend their time while clients work: a file of `perf` for each row in the folder of the report, of its last
    /// repetition
    #[arg(long)]
    record: bool,
    /// Count what the servers pass of the probes that scripts/profile sets. It costs them time
    #[arg(long)]
    count: bool,
    /// Let servers and load share all processors; without it servers have one, and the load the others
    #[arg(long)]
    shared_processors: bool,
    /// Of the arrivals of the open loop
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds that one repetition may take with all that belongs to it; a row that takes longer is given up
    #[arg(long, default_value_t = 300)]
    patience: u64,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if f64::is_finite(rate) && rate > 0.0 => Ok(rate),
        _ => Err("a number above 0".into()),
    }
}

/// What to make a page of.
#[derive(clap::Args)]
pub struct Page {
    /// The results, as `compare` writes them
    results: PathBuf,
}

impl Page {
    /// Writes the page beside the results.
    pub fn run(&self) -> Result<()> {
        let text = std::fs::read_to_string(&self.results)
            .with_context(|| format!("reading {}", self.results.display()))?;
        let results: Results = serde_json::from_str(&text)
            .with_context(|| format!("{} is no report.json of this version", self.results.display()))?;
        ensure!(results.format == FORMAT, "results of format {}, not {FORMAT}", results.format);
        write_page(&results, &self.results.with_extension("html"))
    }
}

pub async fn run(arguments: Compare) -> Result<()> {
    let setting = &arguments.setting;
    let folder = setting.folder()?;
    let mut peers: Vec<Box<dyn Peer>> = vec![
        Box::new(Kurma::new(&setting.kurma)?),
        Box::new(Ganesha::new(Names::Lazy)?),
        Box::new(Ganesha::new(Names::Synchronous)?),
        Box::new(DittoFs::new()?),
        Box::new(Rclone::new()?),
        Box::new(ZeroFs::new(false)?),
        Box::new(ZeroFs::new(true)?),
    ];
    peers.retain(|peer| !arguments.without.iter().any(|name| name == peer.name()));
    // Of the whole machine, before it is parted.
    let mut results = Results::begin(Parameters {
        repetitions: setting.repeat,
        shrink: setting.shrink,
        rate: arguments.rate,
        seed: arguments.rate.map(|_| arguments.seed),
        over: Over::Nfs,
        apart: !arguments.shared_processors,
    });
    results.left_out = leave_out(&mut peers);
    let processors = match arguments.shared_processors {
        true => None,
        false => Some(Processors::part()?),
    };
    let start = |peer: &mut dyn Peer, data: &Path| match processors {
        Some(processors) => processors.serving(|| peer.start(data)),
        None => peer.start(data),
    };
    let data = |at: usize| folder.path().join(at.to_string());
    for (at, peer) in peers.iter_mut().enumerate() {
        start(peer.as_mut(), &data(at)).with_context(|| format!("starting {}", peer.name()))?;
    }
    let mut warm = Vec::new();
    for (at, mut peer) in peers.into_iter().enumerate() {
        let restart = |peer: &mut dyn Peer| start(peer, &data(at));
        let flushes = flushes(peer.as_ref(), &data(at)).await.ok().flatten();
        let failure = survives_kill(peer.as_mut(), restart).await.err();
        if let Err(error) = warm_up(peer.as_mut(), setting.shrink as u64).await {
            let reason = format!("writing to it, before anything is measured: {error:#}");
            eprintln!("{} is left out: {reason}", peer.name());
            results.left_out.push(LeftOut { name: peer.name().to_owned(), reason });
            continue;
        }
        results.servers.push(Server {
            name: peer.name().to_owned(),
            promise: peer.durability().to_owned(),
            checked_files: CHECKED_FILES,
            lost: failure.map(|error| format!("{error:#}")),
            idle_client_bytes: idle_client_bytes(peer.as_ref()).await.ok(),
            flushes,
        });
        warm.push(peer);
    }
    let mut peers = warm;
    ensure!(!peers.is_empty(), "there is no server to measure");
    let counters = Counters::available(arguments.count)?;
    // Whoever stops it has what was measured.
    let json = setting.report("report.json");
    let save =
        |results: &Results| Ok::<(), anyhow::Error>(std::fs::write(&json, serde_json::to_string(results)?)?);
    save(&results)?;
    for workload in workload::all(setting.shrink as u64) {
        let name = workload.name();
        if !workload::is_among(&arguments.only, &name) {
            continue;
        }
        for count in workload.clients(&arguments.clients) {
            let scene = Scene { arguments: &arguments, workload, count, counters: &counters };
            scene.run(&mut peers, &mut results.rows).await;
            save(&results)?;
        }
    }
    write_page(&results, &setting.report("report.html"))?;
    let failed = results.rows.iter().filter(|row| row.failed).count();
    ensure!(failed == 0, "{failed} rows are incomplete; the page says why");
    Ok(())
}

/// Takes out the servers that are not installed, and says so.
fn leave_out(peers: &mut Vec<Box<dyn Peer>>) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    peers.retain(|peer| {
        let Some(reason) = peer.not_installed() else { return true };
        eprintln!("{} is left out: {reason}", peer.name());
        left_out.push(LeftOut { name: peer.name().to_owned(), reason });
        false
    });
    left_out
}

/// Writes the page of these results.
pub fn write_page(results: &Results, path: &Path) -> Result<()> {
    std::fs::write(path, page::render(results)?)?;
    eprintln!("report: {}", path.display());
    Ok(())
}

/// One workload with one number of clients.
struct Scene<'a> {
    arguments: &'a Compare,
    workload: Workload,
    count: usize,
    counters: &'a Counters,
}

impl Scene<'_> {
    /// All repetitions, the servers by turns. One that fails has no further ones.
    async fn run(&self, peers: &mut [Box<dyn Peer>], rows: &mut Vec<Row>) {
        let (repeat, begin) = (self.arguments.setting.repeat, rows.len());
        for peer in peers.iter() {
            let mut row = Row::new(self.workload, self.count, peer.name());
            row.missing = if self.workload.needs_version4() && peer.version() != Version::V41 {
                Some("speaks NFSv3".into())
            } else if self.workload.needs_delegations() && !peer.delegates() {
                Some("does not delegate files".into())
            } else {
                None
            };
            rows.push(row);
        }
        for repetition in 0..repeat {
            for (peer, row) in peers.iter_mut().zip(&mut rows[begin..]) {
                if row.missing.is_some() {
                    continue;
                }
                let which = format!(
                    "{}, {} clients, {} of {repeat}: {:>10}",
                    row.workload,
                    self.count,
                    repetition + 1,
                    peer.name()
                );
                let patience = self.arguments.patience;
                let measured = tokio::time::timeout(
                    Duration::from_secs(patience),
                    self.measure(peer.as_mut(), repetition),
                );
                let measured =
                    measured.await.unwrap_or_else(|_| Err(anyhow!("not done within {patience} s")));
                row.add(&which, measured);
            }
        }
    }

    /// The file with what `perf` has recorded.
    fn recorded(&self, server: &str) -> String {
        let words = self.workload.name().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        format!("{words}-{}-{server}.perf", self.count)
    }

    async fn measure(&self, peer: &mut dyn Peer, repetition: usize) -> Result<Sample> {
        let setting = &self.arguments.setting;
        let (workload, shrink) = (self.workload, setting.shrink as u64);
        let (first, last) = (repetition == 0, repetition + 1 == setting.repeat);
        let amount = workload.amount(shrink);
        let pace = match self.arguments.rate {
            None => Pace::Closed,
            // Other arrivals in each repetition, and the same for each server.
            Some(rate) => Pace::Open { rate, seed: self.arguments.seed.wrapping_add(repetition as u64) },
        };
        let base = format!("bench-{}", self.count);
        let connections = workload.connections(self.count);
        let clients = connect(peer, &base, connections).await?;
        workload::prepare(workload, &clients, amount, shrink, first).await?;
        if workload.is_cold() {
            peer.make_cold()?;
        } else {
            peer.settle()?;
        }
        let counting = self.counters.count(peer.pid())?;
        let (clouds, cpu) = (peer.clouds()?, peer::cpu_micros(peer.pid())?);
        let recording = match self.arguments.record {
            true => Some(Recording::begin(peer.pid(), &setting.report(&self.recorded(peer.name())))?),
            false => None,
        };
        let done = workload::run(workload, &clients, amount, shrink, pace).await?;
        recording.map(Recording::end).transpose()?;
        let cpu_in_run = peer::cpu_micros(peer.pid())? - cpu;
        let counts = counting.map(counters::Counting::end).transpose()?.unwrap_or_default();
        peer.settle()?;
        let cpu_until_settled = peer::cpu_micros(peer.pid())? - cpu;
        let clouds = peer.clouds()?.iter().map(|it| it.since(&clouds)).collect();
        workload::clean(workload, &clients, last).await?;
        peer.settle()?;
        Ok(Sample::new(done, cpu_in_run, cpu_until_settled, counts, clouds))
    }
}

/// Clients of this server, each with a folder under `base`.
async fn connect(peer: &dyn Peer, base: &str, count: usize) -> Result<Vec<Arc<Client>>> {
    workload::connect(peer.address(), peer.version(), peer.export(), base, count).await
}

/// Writes a large file and removes it, so that no server makes its own files while it is measured.
async fn warm_up(peer: &mut dyn Peer, shrink: u64) -> Result<()> {
    let clients = connect(peer, "warm", 1).await?;
    let stream = Workload::SequentialWrite;
    workload::run(stream, &clients, (WARM_UP / shrink).max(1), shrink, Pace::Closed).await?;
    peer.settle()?;
    workload::clean(stream, &clients, true).await?;
    peer.settle()
}

/// What one more client takes of the server's memory that has a session and a connection, and does nothing.
async fn idle_client_bytes(peer: &dyn Peer) -> Result<f64> {
    // The first ones also fill what all share.
    let _first = connect(peer, "idle", 50).await?;
    let before = peer::memory_bytes(peer.pid())?;
    let _idle = connect(peer, "idle-too", IDLE).await?;
    Ok((peer::memory_bytes(peer.pid())? as f64 - before as f64) / IDLE as f64)
}

/// How often the disk is flushed for a file of 4 KiB that is written stable, and for a name that is made or removed, if that is counted.
async fn flushes(peer: &dyn Peer, data: &Path) -> Result<Option<Flushes>> {
    let clients = connect(peer, "flushes", 1).await?;
    let Some(before) = disk::flushes(data) else { return Ok(None) };
    clients[0].write_for_check(CHECKED_FILES).await?;
    let written = disk::flushes(data).unwrap_or(before);
    clients[0].name_for_check(CHECKED_FILES).await?;
    let named = disk::flushes(data).unwrap_or(written);
    let each = |from: u64, to: u64, count: u64| to.saturating_sub(from) as f64 / count as f64;
    Ok(Some(Flushes {
        of_write: each(before, written, CHECKED_FILES),
        of_name: each(written, named, 2 * CHECKED_FILES),
    }))
}

/// Writes files with stable writes, kills the server, starts it again and reads them.
async fn survives_kill(peer: &mut dyn Peer, start: impl Fn(&mut dyn Peer) -> Result<()>) -> Result<()> {
    let clients = connect(peer, "kill", 1).await?;
    clients[0].write_for_check(CHECKED_FILES).await?;
    drop(clients);
    peer.kill();
    start(peer)?;
    let clients = connect(peer, "kill", 1).await?;
    clients[0].check(CHECKED_FILES).await
}
