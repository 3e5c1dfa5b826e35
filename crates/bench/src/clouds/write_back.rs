//! Whether write-back uses all of the rate that it is allowed.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::runtime::Runtime;

use super::Clouds;
use super::emulator::Emulator;
use super::gateway::{self, Shape};
use super::latency::Latency;
use super::load::Client;
use super::page::Page;
use crate::peer::Peer;
use crate::workload;

/// Milliseconds that a cloud takes for an answer.
const LATENCY: f64 = 20.0;
/// What each cloud may be given, in MiB a second.
const RATES: [u64; 3] = [4, 8, 16];
/// Seconds of upload at that rate.
const SECONDS: u64 = 12;
/// Of a file with one share of 1 MiB for each of three clouds, what goes to all four.
const SHARES: f64 = 4.0 / 3.0;

pub fn run(arguments: &Clouds, folder: &Path, page: &mut Page) -> Result<()> {
    let mut text =
        String::from("| rate allowed, MiB/s, each and together | used, MiB/s | share |\n|---|---:|---:|\n");
    for rate in RATES {
        let together = (4 * rate) as f64;
        let used = measure(arguments, &folder.join(rate.to_string()), rate)?;
        page.at_least(
            0.9,
            &format!("write-back at {rate} MiB/s for each cloud, of the rate"),
            used / together,
        );
        writeln!(text, "| {rate}, {together:.0} | {used:.1} | {:.2} |", used / together)?;
    }
    page.section("Write-back against the rate allowed", &format!(
        "A client writes a file, stable, over `rs:3+1` in blocks of 1 MiB to four clouds that answer in {LATENCY} ms (median; tail as above), with `upload_rate` on each. What the clouds were given between a tenth and nine tenths of it, a second.\n\n{text}"
    ));
    Ok(())
}

/// MiB that all clouds together were given in a second.
fn measure(arguments: &Clouds, folder: &Path, rate: u64) -> Result<f64> {
    std::fs::create_dir_all(folder)?;
    let latency = Latency::new(LATENCY, arguments.tail);
    let clouds: Vec<Emulator> = ["a", "b", "c", "d"]
        .into_iter()
        .zip(arguments.seed..)
        .map(|(name, seed)| Emulator::start(name, latency, latency, seed))
        .collect::<Result<_>>()?;
    let shape = Shape {
        policy: "rs:3+1",
        block_size: "1MiB",
        memory: "64MiB",
        journal: "1GiB",
        upload_rate: Some(rate << 20),
    };
    let gateway = gateway::start(&arguments.setting.kurma, &folder.join("data"), &clouds, &shape)?;
    let runtime = Runtime::new()?;
    let mib = 4 * rate * SECONDS * 3 / 4;
    let piece = workload::content(arguments.seed, 1 << 20);
    let (nfs, expected) = (gateway.address(), (mib as f64 * SHARES * (1 << 20) as f64) as u64);
    let given = || clouds.iter().map(Emulator::written).sum::<u64>();
    let already = given();
    let writing = runtime.spawn(async move { Client::connect(nfs, "big").await?.fill(mib, &piece).await });
    let begun = Instant::now();
    let mut passed: Vec<(u64, Instant)> = Vec::new();
    while passed.last().is_none_or(|(bytes, _)| *bytes < expected / 10 * 9) {
        ensure!(begun.elapsed().as_secs() < 10 * SECONDS, "write-back takes too long");
        std::thread::sleep(Duration::from_millis(20));
        passed.push((given() - already, Instant::now()));
    }
    runtime.block_on(writing)??;
    gateway.flush()?;
    let from = passed.iter().find(|(bytes, _)| *bytes >= expected / 10);
    let (Some((low, from)), Some((high, to))) = (from, passed.last()) else { return Ok(0.0) };
    Ok((high - low) as f64 / (1 << 20) as f64 / (*to - *from).as_secs_f64())
}
