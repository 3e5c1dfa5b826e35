//! The workloads that programs bring, by system calls, through mount points of Kurma and of others.
//!
//! A peer is a script in `peers/`: `SCRIPT DATA MOUNT` serves what it keeps in the folder `DATA` at the directory `MOUNT`, in the foreground,
//! until it is killed. What it says in its line `# promise:` is what `fsync` means there.

mod folder;
mod peer;
mod program;
mod run;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::compare::{Over, Parameters, Results, Row, Server, write_page};
use crate::setting::Setting;
use crate::workload::{self, Workload};
use folder::Folder;
use peer::Mounted;
pub use program::Program;

/// Files written before the peer is killed, to see whether it keeps its word.
const CHECKED_FILES: u64 = 200;

/// What to compare.
#[derive(clap::Args)]
pub struct Mounts {
    #[command(flatten)]
    setting: Setting,
    /// Scripts of the peers: those of `crates/bench/peers`, or others like them
    peers: Vec<PathBuf>,
    /// Only workloads whose name contains this; may be given more than once
    #[arg(long)]
    only: Vec<String>,
    /// Numbers of clients: threads with a directory each
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    clients: Vec<usize>,
}

pub fn run(arguments: &Mounts) -> Result<()> {
    let setting = &arguments.setting;
    let folder = setting.folder()?;
    let mut peers = vec![Mounted::kurma(&setting.kurma, &folder.path().join("kurma"))?];
    for script in &arguments.peers {
        peers.push(Mounted::script(script, folder.path())?);
    }
    let mut results = Results::begin(Parameters {
        repetitions: setting.repeat,
        shrink: setting.shrink,
        rate: None,
        seed: None,
        over: Over::Mounts,
        apart: false,
    });
    for peer in &mut peers {
        peer.start().with_context(|| format!("starting {}", peer.name()))?;
        let lost = survives_kill(peer).err().map(|error| format!("{error:#}"));
        let (name, promise) = (peer.name().to_owned(), peer.promise().to_owned());
        results.servers.push(Server {
            name,
            promise,
            checked_files: CHECKED_FILES,
            lost,
            idle_client_bytes: None,
            flushes: None,
        });
    }
    let shrink = setting.shrink as u64;
    let calls = workload::all(shrink).into_iter().filter(|it| Folder::can(*it));
    for workload in calls.chain(Program::all(shrink).map(Workload::Program)) {
        if !workload::is_among(&arguments.only, &workload.name()) {
            continue;
        }
        for count in workload.clients(&arguments.clients) {
            measure_all(setting, workload, count, &mut peers, &mut results.rows);
        }
    }
    std::fs::write(setting.report("mounts.json"), serde_json::to_string(&results)?)?;
    write_page(&results, &setting.report("mounts.html"))?;
    let failed = results.rows.iter().filter(|row| row.failed).count();
    ensure!(failed == 0, "{failed} rows are incomplete; the page says why");
    Ok(())
}

/// All repetitions, the peers by turns. One that fails has no further ones.
fn measure_all(
    setting: &Setting,
    workload: Workload,
    count: usize,
    peers: &mut [Mounted],
    rows: &mut Vec<Row>,
) {
    let begin = rows.len();
    rows.extend(peers.iter().map(|peer| Row::new(workload, count, peer.name())));
    for repetition in 0..setting.repeat {
        for (peer, row) in peers.iter_mut().zip(&mut rows[begin..]) {
            if row.failed {
                continue;
            }
            let ends = (repetition == 0, repetition + 1 == setting.repeat);
            let which = format!("{}, {count} clients, {}: {:>10}", row.workload, repetition + 1, peer.name());
            row.add(&which, run::measure(peer, workload, count, setting.shrink as u64, ends));
        }
    }
}

/// Writes files with `fsync`, kills what serves them, starts it again and reads them.
fn survives_kill(peer: &mut Mounted) -> Result<()> {
    let folder = Folder::make(&peer.directory().join("kill"), 0)?;
    for at in 0..CHECKED_FILES {
        folder.write_small(at, &workload::content(at, 4096))?;
    }
    peer.kill();
    peer.start()?;
    for at in 0..CHECKED_FILES {
        let found = folder.read_small(at).with_context(|| format!("file {at} is lost"))?;
        ensure!(found == workload::content(at, 4096), "file {at} is wrong");
    }
    folder.remove_all()
}
