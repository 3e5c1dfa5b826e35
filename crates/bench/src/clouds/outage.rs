//! A cloud is killed under a mixed load and comes back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use tokio::runtime::Runtime;

use super::Clouds;
use super::gateway::{self, Shape};
use super::latency::Draws;
use super::load::Client;
use super::page::Page;
use crate::peer::{Kurma, Peer};
use crate::workload;

const CLIENTS: u64 = 16;
/// Of 256 KiB: a block each.
const PIECE: usize = 256 << 10;
/// Pieces of each client's file; all of them together are far more than the cache holds.
const PIECES: u64 = 32;
/// One operation of so many is a write.
const WRITES: f64 = 0.25;
/// Seconds over which a throughput is a mean: one second has too few operations, of too different lengths.
const WINDOW: usize = 5;
/// Longest time that is counted, in seconds.
const MOST: usize = 3600;

/// What the clients did.
struct Counts {
    begun: Instant,
    done: Vec<AtomicU64>,
    errors: AtomicU64,
    stop: AtomicBool,
}

async fn work(client: Client, piece: Bytes, counts: Arc<Counts>, mut draws: Draws) {
    while !counts.stop.load(Ordering::Relaxed) {
        let offset = (draws.uniform() * PIECES as f64) as u64 * PIECE as u64;
        let result = match draws.uniform() < WRITES {
            true => client.write(offset, piece.clone()).await,
            false => client.read(offset, &piece).await,
        };
        match result {
            Ok(()) => {
                let second = (counts.begun.elapsed().as_secs() as usize).min(MOST - 1);
                counts.done[second].fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                eprintln!("{error:#}");
                counts.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Waits until `second` of the run.
fn until(counts: &Counts, second: u64) {
    let at = counts.begun + Duration::from_secs(second);
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}

pub fn run(arguments: &Clouds, folder: &Path, page: &mut Page) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut clouds = arguments.emulators()?;
    let shape = Shape {
        policy: "rs:3+1",
        block_size: "256KiB",
        memory: "32MiB",
        journal: "256MiB",
        upload_rate: None,
    };
    let gateway = gateway::start(&arguments.setting.kurma, &folder.join("data"), &clouds, &shape)?;
    let runtime = Runtime::new()?;
    let clients: Vec<(Client, Bytes)> = runtime.block_on(async {
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let piece = workload::content(number, PIECE);
            let client = Client::connect(gateway.address(), &format!("file-{number}")).await?;
            client.fill(PIECES, &piece).await?;
            clients.push((client, piece));
        }
        anyhow::Ok(clients)
    })?;
    gateway.flush()?;
    gateway.drop_cache()?;

    let counts = Arc::new(Counts {
        begun: Instant::now(),
        done: (0..MOST).map(|_| AtomicU64::new(0)).collect(),
        errors: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let tasks: Vec<_> = clients
        .into_iter()
        .zip(arguments.seed..)
        .map(|((client, piece), seed)| {
            runtime.spawn(work(client, piece, counts.clone(), Draws::new(1000 + seed)))
        })
        .collect();
    // A quarter of a phase to get under way, then before, without the cloud, and with it again.
    let (first, phase) = (arguments.phase.div_ceil(4), arguments.phase);
    let (killed, back, end) = (first + phase, first + 2 * phase, first + 3 * phase);
    until(&counts, killed);
    clouds[0].kill();
    until(&counts, back);
    clouds[0].come_back()?;
    until(&counts, end);
    counts.stop.store(true, Ordering::Relaxed);
    for task in tasks {
        runtime.block_on(task)?;
    }
    // Its folder goes with the run.
    std::fs::copy(folder.join("data.log"), arguments.setting.report("outage.log"))?;
    let (whole, repaired) = is_whole(&gateway)?;

    let rates: Vec<f64> =
        counts.done[..end as usize].iter().map(|done| done.load(Ordering::Relaxed) as f64).collect();
    let span = |from: u64, to: u64| &rates[from as usize..to as usize];
    let before = span(first, killed).iter().sum::<f64>() / phase as f64;
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let least =
        |rates: &[f64]| rates.windows(WINDOW.min(rates.len())).map(mean).fold(f64::INFINITY, f64::min);
    let errors = counts.errors.load(Ordering::Relaxed);
    page.at_most(0.0, "errors at clients while a cloud is killed and comes back", errors as f64);
    page.at_least(
        0.7,
        "operations without a cloud, in the worst five seconds",
        least(span(killed, back)) / before,
    );
    page.at_least(
        0.7,
        "operations while it is back, in the worst five seconds",
        least(span(back, end)) / before,
    );
    page.at_least(1.0, "fragments there and good after an outage", f64::from(u8::from(whole)));
    let points: Vec<(f64, f64)> =
        rates.iter().enumerate().map(|(second, rate)| (second as f64, *rate)).collect();
    let marks = [("killed", killed as f64), ("back", back as f64)]
        .map(|(name, at)| (name, vec![(at, 0.0), (at, before)]));
    let lines: Vec<(&str, &[(f64, f64)])> =
        [("all clients", &points[..])].into_iter().chain(marks.iter().map(|(n, p)| (*n, &p[..]))).collect();
    let plot = page.plot("outage.svg", "operations in each second", "operations", &lines)?;
    page.section("A cloud is killed and comes back", &format!(
        "{CLIENTS} clients read and write (one of four operations) pieces of 256 KiB at random in files of {} MiB together, with 32 MiB of cache, over `rs:3+1`. The fastest cloud is killed in second {killed} (its connections are cut, new ones refused) and comes back in second {back}.\n\n| operations a second | mean | least of any five seconds |\n|---|---:|---:|\n| before | {before:.0} | {:.0} |\n| without the cloud | {:.0} ({:.2}) | {:.0} ({:.2}) |\n| after it came back | {:.0} ({:.2}) | {:.0} ({:.2}) |\n\nIn brackets: of the mean before. Errors at the clients: {}. After it all, and after {repaired}, every fragment of every block is {}.\n\n{plot}",
        (CLIENTS * PIECES * PIECE as u64) >> 20,
        least(span(first, killed)),
        mean(span(killed, back)), mean(span(killed, back)) / before,
        least(span(killed, back)), least(span(killed, back)) / before,
        mean(span(back, end)), mean(span(back, end)) / before,
        least(span(back, end)), least(span(back, end)) / before,
        errors,
        if whole { "there and good" } else { "**not there and good**" },
    ));
    Ok(())
}

/// Whether every fragment is where it belongs, once write-back and repair are done.
fn is_whole(gateway: &Kurma) -> Result<(bool, String)> {
    let begun = Instant::now();
    gateway.flush()?;
    let took = format!("{:.0} s of write-back and repair", begun.elapsed().as_secs_f64());
    Ok((gateway.ask(&["scrub"], &[0]).is_ok(), took))
}
