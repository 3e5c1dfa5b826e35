//! The comparison: servers take turns within each repetition of each workload.

use std::path::Path;

use anyhow::{Context, Result};

use crate::Compare;
use crate::peer::{self, Ganesha, Kurma, Names, Peer};
use crate::report::{self, Row};
use crate::sample::Run;
use crate::workload::{self, Workload};

/// Files written before the server is killed, to see whether it keeps its word.
const CHECKED_FILES: u64 = 200;

pub async fn run(arguments: Compare) -> Result<()> {
    let setting = &arguments.setting;
    let folder = setting.folder()?;
    let mut peers: Vec<Box<dyn Peer>> = vec![
        Box::new(Kurma::new(&setting.kurma)?),
        Box::new(Ganesha::new(Names::Lazy)?),
        Box::new(Ganesha::new(Names::Synchronous)?),
    ];
    peers.retain(|peer| !arguments.without.iter().any(|name| name == peer.name()));
    for (at, peer) in peers.iter_mut().enumerate() {
        let data = folder.path().join(at.to_string());
        peer.start(&data).with_context(|| format!("starting {}", peer.name()))?;
    }
    let mut verdicts = Vec::new();
    for (at, peer) in peers.iter_mut().enumerate() {
        let data = folder.path().join(at.to_string());
        verdicts.push((peer.name(), peer.durability(), survives_kill(peer.as_mut(), &data).await));
    }
    let mut rows = Vec::new();
    for workload in workload::ALL {
        let name = workload.name();
        if arguments.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        for &count in &arguments.clients {
            let mut runs = vec![Vec::new(); peers.len()];
            for repetition in 0..setting.repeat {
                for (peer, runs) in peers.iter_mut().zip(&mut runs) {
                    let run = measure(peer.as_mut(), workload, count, setting.shrink as u64)
                        .await
                        .with_context(|| format!("{name} with {count} clients on {}", peer.name()))?;
                    eprintln!(
                        "{name}, {count} clients, {} of {}: {:>10} {:.0} {}/s",
                        repetition + 1,
                        setting.repeat,
                        peer.name(),
                        run.rate,
                        workload.unit()
                    );
                    runs.push(run);
                }
            }
            for (peer, runs) in peers.iter().zip(runs) {
                rows.push(Row { workload, clients: count, peer: peer.name(), runs });
            }
        }
    }
    report::write(&arguments, &verdicts, &rows)
}

async fn measure(peer: &mut dyn Peer, workload: Workload, count: usize, shrink: u64) -> Result<Run> {
    let amount = workload.amount(shrink);
    let base = format!("bench-{count}");
    let clients = workload::connect(peer.address(), peer.export(), &base, count).await?;
    workload::prepare(workload, &clients, amount).await?;
    if workload.is_cold() {
        peer.make_cold()?;
    } else {
        peer.settle()?;
    }
    let before = peer::cpu_micros(peer.pid())?;
    let done = workload::run(workload, &clients, amount).await?;
    let cpu = peer::cpu_micros(peer.pid())? - before;
    workload::clean(workload, &clients).await?;
    peer.settle()?;
    let units = done.units as f64;
    Ok(Run {
        rate: units / done.seconds,
        cpu_micros: cpu as f64 / units,
        rpcs: done.compounds as f64 / units,
    })
}

/// Writes files with stable writes, kills the server, starts it again and reads them.
async fn survives_kill(peer: &mut dyn Peer, data: &Path) -> Result<()> {
    let clients = workload::connect(peer.address(), peer.export(), "kill", 1).await?;
    clients[0].write_for_check(CHECKED_FILES).await?;
    drop(clients);
    peer.kill();
    peer.start(data)?;
    let clients = workload::connect(peer.address(), peer.export(), "kill", 1).await?;
    clients[0].check(CHECKED_FILES).await
}
