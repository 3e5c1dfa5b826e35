//! What each guarantee costs: one gateway, a volume for each set of promises, one workload on all of them by turns.

mod binding;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use crate::arrivals::Pace;
use crate::kernel::Version;
use crate::machine::machine;
use crate::peer::{self, Kurma, Peer};
use crate::sample::{Median, median};
use crate::setting::Setting;
use crate::workload::{self, Workload};
use binding::Binding;

/// What to measure.
#[derive(clap::Args)]
pub struct Guarantees {
    #[command(flatten)]
    setting: Setting,
    /// Number of clients
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Only the default and the promises whose description contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// One volume.
struct Promises {
    what: &'static str,
    /// The lines of its configuration, beside its name.
    volume: &'static str,
    /// All of the store is verified again and again meanwhile.
    is_scrubbed: bool,
}

/// The first is what the others are held against.
const ALL: [Promises; 12] = [
    promises("encrypted, `rs:2+1`, tier `local`: the default", "policy = \"rs:2+1\""),
    promises("not encrypted (`integrity_only`)", "policy = \"rs:2+1\"\nintegrity_only = true"),
    promises(
        "tier `memory`: a crash may lose what was acknowledged",
        "policy = \"rs:2+1\"\ntier = \"memory\"",
    ),
    promises("tier `cloud`: in the clouds before the answer", "policy = \"rs:2+1\"\ntier = \"cloud\""),
    promises("`replicas:1`: no cloud may be lost", "policy = \"replicas:1\""),
    promises("`replicas:2`: one", "policy = \"replicas:2\""),
    promises("`replicas:3`: two", "policy = \"replicas:3\""),
    promises("`rs:3+1`: one", "policy = \"rs:3+1\""),
    promises("`aont-rs:3+1`: one; two clouds with all keys know nothing", "policy = \"aont-rs:3+1\""),
    promises("`caont-rs:3+1`: the same, and equal content is kept once", "policy = \"caont-rs:3+1\""),
    promises(
        "nothing: `replicas:1`, not encrypted, tier `memory`",
        "policy = \"replicas:1\"\nintegrity_only = true\ntier = \"memory\"",
    ),
    Promises {
        what: "the default, and scrubs without a rate run one after another",
        volume: "policy = \"rs:2+1\"",
        is_scrubbed: true,
    },
];

const fn promises(what: &'static str, volume: &'static str) -> Promises {
    Promises { what, volume, is_scrubbed: false }
}

const CLOUDS: [&str; 4] = ["a", "b", "c", "d"];

/// What one run of a measure cost.
#[derive(Clone, Copy)]
struct Run {
    /// Files or MiB a second.
    rate: f64,
    /// Processor time of the gateway, in microseconds for each file or MiB.
    cpu_micros: f64,
}

/// What is done with each volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// Stable files of 64 KiB, until the answer.
    Acknowledged,
    /// A stream, until it is in the clouds.
    Stored,
    /// The same back from the clouds.
    Cold,
}

impl Measure {
    const ALL: [Measure; 3] = [Measure::Acknowledged, Measure::Stored, Measure::Cold];

    fn workload(self) -> Workload {
        match self {
            Measure::Acknowledged => Workload::SmallWrite(64 << 10),
            Measure::Stored => Workload::SequentialWrite,
            Measure::Cold => Workload::SequentialReadCold,
        }
    }
}

pub async fn run(arguments: Guarantees) -> Result<()> {
    let setting = &arguments.setting;
    let folder = setting.folder()?;
    let configuration = configuration(folder.path())?;
    let started = Kurma::configured(&setting.kurma, folder.path(), &configuration);
    let mut server = started.context("starting the gateway")?;
    let binding = Binding::measure()?;
    let mut runs: Vec<[Vec<Run>; 3]> = ALL.iter().map(|_| [Vec::new(), Vec::new(), Vec::new()]).collect();
    let chosen: Vec<usize> =
        (0..ALL.len()).filter(|&at| at == 0 || ALL[at].what.contains(&arguments.only)).collect();
    for repetition in 0..setting.repeat {
        for measure in Measure::ALL {
            for turn in 0..chosen.len() {
                // None is always the first.
                let at = chosen[(repetition + turn) % chosen.len()];
                let run = once(&mut server, at, measure, &arguments).await;
                let run = run.with_context(|| ALL[at].what)?;
                eprintln!("{}: {:.0} {}/s", ALL[at].what, run.rate, measure.workload().unit());
                runs[at][measure as usize].push(run);
            }
        }
    }
    server.kill();
    let path = setting.report("guarantees.md");
    std::fs::write(&path, report(&arguments, &runs, &binding)?)?;
    eprintln!("report: {}", path.display());
    Ok(())
}

fn configuration(folder: &std::path::Path) -> Result<String> {
    let mut text = Kurma::on_directories(folder, &CLOUDS)?;
    for (at, Promises { volume, .. }) in ALL.iter().enumerate() {
        let policy = volume.split('"').nth(1).unwrap_or_default();
        let needed: usize = policy
            .split_once(':')
            .map_or(0, |(_, counts)| counts.split('+').filter_map(|count| count.parse::<usize>().ok()).sum());
        write!(text, "[[volume]]\nname = \"v{at}\"\n{volume}\nclouds = {:?}\n", &CLOUDS[..needed])?;
    }
    Ok(text)
}

async fn once(server: &mut Kurma, at: usize, measure: Measure, arguments: &Guarantees) -> Result<Run> {
    let (workload, volume) = (measure.workload(), format!("v{at}"));
    let shrink = arguments.setting.shrink as u64;
    let amount = workload.amount(shrink);
    let clients =
        workload::connect(server.address(), Version::V41, &[&volume], "bench", arguments.clients).await?;
    if measure == Measure::Cold {
        server.make_cold()?; // what the stream has left
    } else {
        server.settle()?;
    }
    let server: &Kurma = server;
    let is_over = AtomicBool::new(!ALL[at].is_scrubbed);
    let work = async {
        let (before, start) = (peer::cpu_micros(server.pid())?, Instant::now());
        let done = workload::run(workload, &clients, amount, shrink, Pace::Closed).await?;
        let mut seconds = done.seconds;
        if measure == Measure::Stored {
            server.command(&["flush", "--timeout", "5m"])?;
            seconds = start.elapsed().as_secs_f64();
        }
        let cpu = peer::cpu_micros(server.pid())? - before;
        let units = done.units as f64;
        Ok(Run { rate: units / seconds, cpu_micros: cpu as f64 / units })
    };
    let run = std::thread::scope(|scope| {
        let scrub = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                server.command(&["scrub"])?;
            }
            anyhow::Ok(())
        });
        let run = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work));
        is_over.store(true, Ordering::Release);
        scrub.join().map_err(|_| anyhow!("the scrub panicked"))??;
        run
    });
    workload::clean(workload, &clients, false).await?;
    server.command(&["gc"])?;
    run
}

fn report(arguments: &Guarantees, runs: &[[Vec<Run>; 3]], binding: &Binding) -> Result<String> {
    let mut text = format!(
        "# The price of each guarantee\n\nOne gateway, four clouds that are directories, {} clients, {} repetitions by turns. For each: the \
         rate against that of the default (median of the pairs, 95 % confidence interval), and the gateway's processor time. {}\n\n\
         | promises | files of 64 KiB, stable: files/s | ratio | CPU µs | until in the clouds: MiB/s | ratio | CPU µs | cold reads: MiB/s | ratio | CPU µs |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        arguments.clients,
        arguments.setting.repeat,
        machine()
    );
    let of = |runs: &[Run], what: fn(&Run) -> f64| runs.iter().map(what).collect::<Vec<f64>>();
    for (promises, measures) in ALL.iter().zip(runs).filter(|(_, measures)| !measures[0].is_empty()) {
        write!(text, "| {} |", promises.what)?;
        for (measured, default) in measures.iter().zip(&runs[0]) {
            let pairs = measured.iter().zip(default).map(|(own, default)| own.rate / default.rate);
            let Median { median: ratio, low, high } = median(&pairs.collect::<Vec<_>>());
            let rate = median(&of(measured, |run| run.rate)).median;
            let cpu = median(&of(measured, |run| run.cpu_micros)).median;
            write!(text, " {rate:.0} | {ratio:.2} ({low:.2}–{high:.2}) | {cpu:.0} |")?;
        }
        text.push('\n');
    }
    // A block is a MiB. A file of 64 KiB is answered before it is sealed.
    let cpu = |measure: Measure| median(&of(&runs[0][measure as usize], |run| run.cpu_micros)).median;
    let without = |measure, nanos: f64| (cpu(measure), cpu(measure) - nanos / 1e3);
    let (stored, cold) = (without(Measure::Stored, binding.stored), without(Measure::Cold, binding.read));
    writeln!(
        text,
        "| the default without what binds blocks to file, place and version: computed, for no gateway can; it takes {:.0} ns for each block \
         stored, {:.0} ns for each read | | | | | at most {:.4} | {:.1} | | at most {:.4} | {:.1} |",
        binding.stored,
        binding.read,
        stored.0 / stored.1,
        stored.1,
        cold.0 / cold.1,
        cold.1,
    )?;
    Ok(text)
}
