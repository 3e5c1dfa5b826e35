//! The gateway on four clouds that answer as slowly as real ones: which of them it reads from, and what an outage or a slow cloud
//! costs its clients.
//!
//! The clouds are S3 servers of this process (`emulator`), each with a distribution of the time that it takes for an answer
//! (`latency`). The gateway is the real one, its clients speak NFS.

mod cold_read;
mod emulator;
mod gateway;
mod latency;
mod load;
mod outage;
mod page;
mod write_back;

use anyhow::Result;
use clap::ValueEnum;

use crate::setting::Setting;
use emulator::Emulator;
use latency::Latency;
use page::Page;

/// What to run, and on which clouds.
#[derive(clap::Args)]
pub struct Clouds {
    #[command(flatten)]
    pub setting: Setting,
    /// Which latencies
    #[arg(long, value_enum, default_value = "modern")]
    set: Set,
    /// The slow answers: the 99th percentile over the median
    #[arg(long, default_value_t = 5.0)]
    tail: f64,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cold-read,slow-cloud,outage,write-back")]
    parts: Vec<Part>,
    /// Seconds of each phase of the parts that take their time
    #[arg(long, default_value_t = 20)]
    phase: u64,
    /// Seed of all that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fail when something is not reached: a cold read in 1.3 of the time of the k-th fastest cloud, one fragment in fifty of a slowed cloud
    /// after five seconds, no error and 0.7 of the operations without one cloud, 0.9 of the rate in write-back
    #[arg(long)]
    check: bool,
}

/// Distributions of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Set {
    /// Medians of 20, 50, 100 and 100 ms
    Modern,
    /// As measured from a site at the US east coast in 2017
    Measured2017,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// How long a cold read of 16 MiB takes, against the clouds' own time
    ColdRead,
    /// A cloud that becomes slower by a second
    SlowCloud,
    /// A cloud that is killed under load and comes back
    Outage,
    /// Whether write-back uses all of the rate that is allowed
    WriteBack,
}

impl Set {
    /// Reads and writes of each cloud: medians in milliseconds.
    fn medians(self) -> [(&'static str, f64, f64); 4] {
        match self {
            Set::Modern => [("a", 20.0, 20.0), ("b", 50.0, 50.0), ("c", 100.0, 100.0), ("d", 100.0, 100.0)],
            // Of objects of 1 MiB. Of Google's writes and of the fourth provider nothing is known: they are taken to be like the others.
            Set::Measured2017 => [
                ("google", 280.0, 610.0),
                ("s3", 310.0, 610.0),
                ("azure", 320.0, 660.0),
                ("other", 310.0, 640.0),
            ],
        }
    }
}

impl Clouds {
    /// Four clouds in good order.
    fn emulators(&self) -> Result<Vec<Emulator>> {
        let medians = self.set.medians().into_iter().zip(self.seed..);
        medians
            .map(|((name, read, write), seed)| {
                Emulator::start(name, Latency::new(read, self.tail), Latency::new(write, self.tail), seed)
            })
            .collect()
    }
}

pub fn run(arguments: &Clouds) -> Result<()> {
    let folder = arguments.setting.folder()?;
    let mut page = Page::new(arguments);
    for part in &arguments.parts {
        eprintln!("{part:?}");
        let folder = folder.path().join(format!("{part:?}"));
        match part {
            Part::ColdRead => cold_read::run(arguments, &folder, &mut page)?,
            Part::SlowCloud => cold_read::slowed(arguments, &folder, &mut page)?,
            Part::Outage => outage::run(arguments, &folder, &mut page)?,
            Part::WriteBack => write_back::run(arguments, &folder, &mut page)?,
        }
    }
    page.write(arguments)
}
