//! Transactions against the same vectors without the promise (T11). Reading is left out: the answer of an atomic compound that opens files
//! has to be kept by the server, which bounds how much one may read.

mod cell;
mod trees;

use std::time::Instant;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::future::try_join_all;
use vector_client::{Client, Options};

use crate::peer::{Kurma, Peer, write_out};
use crate::sample::{Median, median};
use crate::setting::Setting;
use cell::{ACTS, Cell};

/// What to measure.
#[derive(clap::Args)]
pub struct Transactions {
    #[command(flatten)]
    setting: Setting,
    /// Numbers of clients
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    clients: Vec<usize>,
    /// Sizes of files, in KiB
    #[arg(long, value_delimiter = ',', default_value = "1,16,128,1024,16384")]
    sizes: Vec<usize>,
    /// Repetitions of each cell at most: it has more than --repeat while its interval has 1.05 in it
    #[arg(long, default_value_t = 300)]
    at_most: usize,
    /// Seconds after which the cells of one size and number of clients are not measured again
    #[arg(long, default_value_t = 120)]
    patience: u64,
}

/// What an atomic compound may take, of what a plain one takes.
const LIMIT: f64 = 1.05;

/// Files of each size, of each client.
const FILES: [(usize, usize); 5] =
    [(1 << 10, 1024), (16 << 10, 512), (128 << 10, 128), (1 << 20, 32), (16 << 20, 4)];

/// What one kind of compounds took.
#[derive(Default)]
struct Cost {
    seconds: Vec<f64>,
    round_trips: u64,
}

pub async fn run(arguments: Transactions) -> Result<()> {
    let setting = &arguments.setting;
    let folder = setting.folder()?;
    let mut configuration = Kurma::on_directories(folder.path(), &["a", "b", "c"])?;
    // As the defaults have it.
    configuration += "[[volume]]\nname = \"home\"\npolicy = \"rs:2+1\"\nclouds = [\"a\", \"b\", \"c\"]\n";
    let mut server = Kurma::configured(&setting.kurma, &folder.path().join("gateway"), &configuration)
        .context("starting the gateway")?;
    let mut text = format!(
        "# Transactions\n\nThe same files in compounds of the same size, plain and atomic, by turns; {} repetitions, and as many again and again, up to {} and for {} s, while an interval has {LIMIT} \
         in it. The times are medians; the ratio is the median of those of the pairs, the plain ones being 1, with its 95 % confidence interval. Each compound has as many \
         files as the plain client puts into one; the last of each client may have fewer. A tree is copied from a local directory by \
         one client with the option to be atomic, or without; `untar` is a process, whose round trips are not counted.\n\n\
         | what | clients | files of a compound | pairs | plain | round trips | atomic | round trips | ratio |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        setting.repeat, arguments.at_most, arguments.patience
    );
    for clients in &arguments.clients {
        // Nothing is kept: what is measured is the wire.
        let options = || Options { cache_bytes: 0, ..Options::default() };
        let connected = try_join_all((0..*clients).map(|_| Client::connect(server.address(), options())));
        let connected = connected.await?;
        for (size, files) in FILES.into_iter().filter(|(size, _)| arguments.sizes.contains(&(size >> 10))) {
            let files = (files / setting.shrink).max(2);
            for row in cells(&mut server, &connected, size, files, &arguments).await? {
                eprint!("{row}");
                text.push_str(&row);
            }
        }
        for client in &connected {
            client.close().await?;
        }
    }
    for row in trees::rows(&mut server, &arguments, folder.path()).await? {
        eprint!("{row}");
        text.push_str(&row);
    }
    server.kill();
    let path = setting.report("transactions.md");
    std::fs::write(&path, text)?;
    eprintln!("report: {}", path.display());
    Ok(())
}

impl Transactions {
    /// Whether so many repetitions since then have told what they could.
    fn is_enough<'a>(
        &self,
        repetitions: usize,
        begun: Instant,
        mut costs: impl Iterator<Item = &'a [Cost; 2]>,
    ) -> bool {
        let is_time_to_ask = repetitions > 0 && repetitions.is_multiple_of(self.setting.repeat);
        is_time_to_ask
            && (begun.elapsed().as_secs() > self.patience
                || costs.all(|costs| ratio(costs).is_clear_of(LIMIT)))
    }
}

/// All that is done with files of one size, by all clients at once, each in a folder of its own.
async fn cells(
    server: &mut Kurma,
    clients: &[Client],
    size: usize,
    files: usize,
    arguments: &Transactions,
) -> Result<Vec<String>> {
    let export: String = server.export().iter().map(|name| format!("/{name}")).collect();
    let data = Bytes::from(vec![b'k'; size]);
    let mut names = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let folder = |kind: &str| format!("{export}/{}-{size}-{number}-{kind}", clients.len());
        let mut both = Vec::new();
        for kind in ["plain", "atomic"] {
            client.ensure_directory(folder(kind).as_str(), 0o755).await?;
            both.push((0..files).map(|n| format!("{}/{n}", folder(kind))).collect::<Vec<String>>());
        }
        names.push(both);
    }
    let probe = format!("{export}/{}-{size}-0-probe", clients.len());
    clients[0].ensure_directory(probe.as_str(), 0o755).await?;
    let mut measured = Vec::new();
    for act in ACTS {
        let cell = Cell::of(act, size, &clients[0], &probe).await?;
        measured.push((cell, [Cost::default(), Cost::default()]));
    }
    let round_trips = || clients.iter().map(|client| client.statistics().round_trips).sum::<u64>();
    let begun = Instant::now();
    for repetition in 0..arguments.at_most.max(arguments.setting.repeat) {
        if arguments.is_enough(repetition, begun, measured.iter().map(|(_, costs)| costs)) {
            break;
        }
        server.command(&["gc"])?;
        for (cell, costs) in &mut measured {
            let cell = *cell;
            // Neither is always the first.
            for kind in [repetition % 2, 1 - repetition % 2] {
                server.settle()?;
                // Or else a sync of few milliseconds has to write what others left behind.
                write_out();
                let (before, start) = (round_trips(), Instant::now());
                for _ in 0..cell.times() {
                    try_join_all(clients.iter().zip(&names).map(async |(client, names)| match kind {
                        0 => cell.plain(client, &names[0], &data).await,
                        _ => cell.atomic(client, &names[1], &data).await,
                    }))
                    .await?;
                }
                costs[kind].seconds.push(start.elapsed().as_secs_f64() / f64::from(cell.times()));
                costs[kind].round_trips = (round_trips() - before) / u64::from(cell.times());
            }
        }
    }
    Ok(measured.iter().map(|(cell, costs)| row(cell, costs, clients.len(), files)).collect())
}

fn row(cell: &Cell, costs: &[Cost; 2], clients: usize, files: usize) -> String {
    let act = format!("{:?}", cell.act).to_lowercase();
    let what = format!("{act} {files} files of {} KiB", cell.size >> 10);
    line(&what, clients, &cell.together.to_string(), costs)
}

/// Of the times of pairs, the plain ones being 1.
fn ratio([plain, atomic]: &[Cost; 2]) -> Median {
    let pairs = plain.seconds.iter().zip(&atomic.seconds);
    median(&pairs.map(|(plain, atomic)| atomic / plain).collect::<Vec<_>>())
}

fn line(what: &str, clients: usize, together: &str, costs: &[Cost; 2]) -> String {
    let show = |cost: &Cost| format!("{:.4} s | {}", median(&cost.seconds).median, cost.round_trips);
    let Median { median, low, high } = ratio(costs);
    let [plain, atomic] = costs;
    let (count, ratio) = (plain.seconds.len(), format!("{median:.2} ({low:.2} to {high:.2})"));
    format!("| {what} | {clients} | {together} | {count} | {} | {} | {ratio} |\n", show(plain), show(atomic))
}
