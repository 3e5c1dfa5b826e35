//! Transactions against the same vectors without the promise (T11). Reading is left out: the answer of an atomic compound that opens files
//! has to be kept by the server, which bounds how much one may read.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use vector_client::{AttributeSet, Client, Options, Target, Transaction, Write};

use crate::peer::{Kurma, Peer};
use crate::sample::{Estimate, estimate};
use crate::setting::Setting;

/// What to measure.
#[derive(clap::Args)]
pub struct Transactions {
    #[command(flatten)]
    setting: Setting,
    /// Numbers of clients
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    clients: Vec<usize>,
}

/// Files of each size, of each client.
const FILES: [(usize, usize); 5] =
    [(1 << 10, 1024), (16 << 10, 512), (128 << 10, 128), (1 << 20, 32), (16 << 20, 4)];

/// Files of one compound, and bytes: what the client puts into a compound without transactions, too.
const COMPOUND: (usize, usize) = (250, 1 << 20);

/// Compounds of one large file under way at once, as without transactions.
const PARALLEL: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Write,
    Stat,
    Remove,
}

const ACTS: [Act; 3] = [Act::Write, Act::Stat, Act::Remove];

/// One client's part of a cell.
#[derive(Clone, Copy)]
struct Cell {
    act: Act,
    size: usize,
}

impl Cell {
    async fn plain(self, client: &Client, names: &[String], data: &Bytes) -> Result<()> {
        for names in names.chunks((COMPOUND.1 * PARALLEL / self.size).clamp(1, 4 * COMPOUND.0)) {
            let targets = || names.iter().map(|name| Target::from(name.as_str())).collect();
            match self.act {
                Act::Write => {
                    let writes = names.iter().map(|name| Write::whole(name.as_str(), 0o644, data.clone()));
                    client.vwrite(writes.collect()).await.map(drop)?;
                }
                Act::Stat => client.vgetattrs(targets(), AttributeSet::STAT).await.map(drop)?,
                Act::Remove => client.vremove(targets()).await.map(drop)?,
            }
        }
        Ok(())
    }

    /// The same in compounds of the same size, each of them atomic.
    async fn atomic(self, client: &Client, names: &[String], data: &Bytes) -> Result<()> {
        let together = match self.act {
            Act::Write if self.size > COMPOUND.1 => {
                for name in names {
                    write_large(client, name, data).await?;
                }
                return Ok(());
            }
            Act::Write => (COMPOUND.1 / self.size).clamp(1, COMPOUND.0),
            Act::Stat | Act::Remove => COMPOUND.0,
        };
        let compounds = names.chunks(together).map(async |names| {
            let build = |t: &mut Transaction| {
                for name in names {
                    match self.act {
                        Act::Write => _ = t.write(Write::whole(name.as_str(), 0o644, data.clone())),
                        Act::Stat => _ = t.get_attributes(name.as_str(), AttributeSet::STAT),
                        Act::Remove => _ = t.remove(name.as_str()),
                    }
                }
            };
            client.transaction(build).await.map(drop)
        });
        // Without transactions, what only asks goes side by side.
        let parallel = if self.act == Act::Stat { PARALLEL } else { 1 };
        stream::iter(compounds).buffered(parallel).try_for_each(async |()| Ok(())).await?;
        Ok(())
    }
}

async fn write_large(client: &Client, name: &str, data: &Bytes) -> Result<()> {
    let first = Write::whole(name, 0o644, data.slice(..COMPOUND.1));
    client.transaction(|t| _ = t.write(first)).await?;
    let pieces = (COMPOUND.1..data.len()).step_by(COMPOUND.1).map(async |offset| {
        let piece = Write::new(name, offset as u64, data.slice(offset..offset + COMPOUND.1));
        client.transaction(|t| _ = t.write(piece)).await.map(drop)
    });
    stream::iter(pieces).buffered(PARALLEL).try_for_each(async |()| Ok(())).await?;
    Ok(())
}

pub async fn run(arguments: Transactions) -> Result<()> {
    let setting = &arguments.setting;
    let folder = setting.folder()?;
    let mut server = Kurma::new(&setting.kurma)?;
    server.start(folder.path()).context("starting the gateway")?;
    let mut text = format!(
        "# Transactions\n\nThe same files in compounds of the same size, plain and atomic, by turns; {} repetitions, mean and \
         half-width of the 95 % confidence interval. The ratio is that of the times; the plain ones are 1.\n\n\
         | what | clients | plain | atomic | ratio |\n|---|---:|---:|---:|---:|\n",
        setting.repeat
    );
    for clients in &arguments.clients {
        // Nothing is kept: what is measured is the wire.
        let options = || Options { cache_bytes: 0, ..Options::default() };
        let connected = try_join_all((0..*clients).map(|_| Client::connect(server.address(), options())));
        let connected = connected.await?;
        for (size, files) in FILES {
            let files = (files / setting.shrink).max(2);
            for row in cells(&mut server, &connected, size, files, setting.repeat).await? {
                eprint!("{row}");
                text.push_str(&row);
            }
        }
        for client in &connected {
            client.close().await?;
        }
    }
    server.kill();
    let path = setting.report("transactions.md");
    std::fs::write(&path, text)?;
    eprintln!("report: {}", path.display());
    Ok(())
}

/// All that is done with files of one size, by all clients at once, each in a folder of its own.
async fn cells(
    server: &mut Kurma,
    clients: &[Client],
    size: usize,
    files: usize,
    repeat: usize,
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
    let mut seconds = ACTS.map(|_| [Vec::new(), Vec::new()]);
    for repetition in 0..repeat {
        for (act, seconds) in ACTS.into_iter().zip(&mut seconds) {
            let cell = Cell { act, size };
            // Neither is always the first.
            for kind in [repetition % 2, 1 - repetition % 2] {
                server.settle()?;
                let start = Instant::now();
                try_join_all(clients.iter().zip(&names).map(async |(client, names)| match kind {
                    0 => cell.plain(client, &names[0], &data).await,
                    _ => cell.atomic(client, &names[1], &data).await,
                }))
                .await?;
                seconds[kind].push(start.elapsed().as_secs_f64());
            }
        }
    }
    let show = |time: Estimate| format!("{:.4} ± {:.4} s", time.mean, time.half_width);
    let mut rows = Vec::new();
    for (act, [plain, atomic]) in ACTS.into_iter().zip(&seconds) {
        let ratios: Vec<f64> = plain.iter().zip(atomic).map(|(plain, atomic)| atomic / plain).collect();
        let ratio = estimate(&ratios);
        let mut row = String::new();
        writeln!(
            row,
            "| {} {files} files of {} KiB | {} | {} | {} | {:.2} ± {:.2} |",
            format!("{act:?}").to_lowercase(),
            size >> 10,
            clients.len(),
            show(estimate(plain)),
            show(estimate(atomic)),
            ratio.mean,
            ratio.half_width
        )?;
        rows.push(row);
    }
    Ok(rows)
}
