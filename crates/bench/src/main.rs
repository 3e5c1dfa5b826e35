//! Load over NFSv4.1 against Kurma and its peers.
//!
//! `kurma-bench compare` runs the same load generator against each server in turn, several times over, and writes
//! the results as JSON and as one page of HTML. Servers take turns within each repetition, so that whatever else the machine
//! does hits all of them alike. See `docs/benchmarks.md` for how to read them.

mod arrivals;
mod clouds;
mod coding;
mod compare;
mod disk;
mod guarantees;
mod kernel;
mod latency;
mod machine;
mod mounts;
mod peer;
mod personality;
mod processors;
mod sample;
mod setting;
mod transactions;
mod tree;
mod vectors;
mod workload;

use std::os::unix::process::CommandExt;

use anyhow::Context;
use clap::Parser;

// Memory for blocks costs what it costs in the gateway.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmarks of Kurma against its peers.
#[derive(Parser)]
#[command(name = "kurma-bench", version)]
enum Command {
    /// Run every workload against every server in turn and write a report
    Compare(compare::Compare),
    /// Make the page of results that `compare` has written, once more
    Page(compare::Page),
    /// Run the workloads of programs through mount points of Kurma and of others
    Mounts(mounts::Mounts),
    /// Run vectors of files against one file at a time, over lines with a delay
    Vectors(vectors::Vectors),
    /// Run the same vectors plain and as transactions
    Transactions(transactions::Transactions),
    /// Run one workload on volumes that promise more and less
    Guarantees(guarantees::Guarantees),
    /// Run the gateway on clouds that answer as slowly as real ones, fail, and come back
    Clouds(clouds::Clouds),
    /// Seal and disperse blocks of several sizes on one core
    Coding(coding::Coding),
}

/// For how many milliseconds mimalloc keeps what was freed, as the gateway is packaged.
const PURGE_DELAY: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "30000");

/// The load does not begin each run with fresh memory, which has to be cleared: what 16 clients have on the way is 128 MiB. The allocator
/// looks at its environment when the program begins, which is therefore done once more.
fn keep_memory() -> anyhow::Result<()> {
    let (name, value) = PURGE_DELAY;
    if std::env::var_os(name).is_some() {
        return Ok(());
    }
    let program = std::env::current_exe()?;
    let mut again = std::process::Command::new(&program);
    let error = again.args(std::env::args_os().skip(1)).env(name, value).exec();
    Err(error).with_context(|| format!("starting {}", program.display()))
}

fn main() -> anyhow::Result<()> {
    let command = Command::parse();
    if matches!(command, Command::Compare(_)) {
        keep_memory()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match command {
        Command::Compare(compare) => runtime.block_on(compare::run(compare)),
        Command::Page(page) => page.run(),
        Command::Mounts(mounts) => mounts::run(&mounts),
        Command::Vectors(vectors) => runtime.block_on(vectors::run(vectors)),
        Command::Transactions(transactions) => runtime.block_on(transactions::run(transactions)),
        Command::Guarantees(guarantees) => runtime.block_on(guarantees::run(guarantees)),
        Command::Clouds(clouds) => clouds::run(&clouds),
        Command::Coding(coding) => coding::run(&coding),
    }
}
