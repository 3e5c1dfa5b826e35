//! What was measured, as it is in `report.json`.

use std::collections::BTreeMap;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::counters::{Counts, INSTRUCTIONS};
use crate::latency::Latencies;
use crate::machine::{Machine, machine};
use crate::peer::CloudUse;
use crate::sample::{Estimate, Ratio, estimate, ratio};
use crate::workload::{Done, Workload};

/// Of [`Results::format`].
pub const FORMAT: u32 = 2;

/// A whole comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub format: u32,
    /// When it began, in UTC.
    pub made: String,
    /// Of Kurma.
    pub version: String,
    pub machine: Machine,
    pub parameters: Parameters,
    pub servers: Vec<Server>,
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    pub repetitions: usize,
    /// What all sizes and counts are divided by.
    pub shrink: usize,
    /// Operations a second of an open loop; none: the loop was closed.
    pub rate: Option<f64>,
    pub seed: Option<u64>,
    /// How the load reached the servers.
    pub over: Over,
    /// Whether servers had one processor, and the load the others.
    #[serde(default)]
    pub apart: bool,
}

impl Results {
    /// Nothing is measured yet.
    pub fn begin(parameters: Parameters) -> Results {
        Results {
            format: FORMAT,
            made: now(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine(),
            parameters,
            servers: Vec::new(),
            left_out: Vec::new(),
            rows: Vec::new(),
        }
    }
}

/// How a load reaches a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Over {
    /// By requests of the load generator.
    Nfs,
    /// By system calls, through a mount point.
    Mounts,
}

/// A server, and whether it keeps its word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    pub name: String,
    /// What an acknowledged stable write or name means.
    pub promise: String,
    /// Files that were written before SIGKILL.
    pub checked_files: u64,
    /// What was wrong with them afterwards; none: nothing.
    pub lost: Option<String>,
    /// Memory that one more client takes which has a session and does nothing; none: not known.
    #[serde(default)]
    pub idle_client_bytes: Option<f64>,
    /// How often the disk was flushed; none: not known.
    #[serde(default)]
    pub flushes: Option<Flushes>,
}

/// Flushes of the disk by a server that is used by one client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flushes {
    /// For each file of 4 KiB that is written stable.
    pub of_write: f64,
    /// For each name that is made or removed.
    pub of_name: f64,
}

/// A server that could not be compared on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    pub name: String,
    pub reason: String,
}

/// One workload with one number of clients on one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub workload: String,
    pub about: String,
    pub source: String,
    pub unit: String,
    /// Whether it belongs to the summary.
    pub headline: bool,
    pub clients: usize,
    pub server: String,
    /// One for each repetition.
    pub samples: Vec<Sample>,
    /// Why there are none, or fewer than there should be.
    pub missing: Option<String>,
    /// Whether that is a failure.
    pub failed: bool,
}

/// One repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Units a second.
    pub rate: f64,
    pub seconds: f64,
    pub units: u64,
    /// Between the first and the last client that began, in microseconds.
    pub start_skew_micros: f64,
    /// Compounds for each unit.
    pub rpcs: f64,
    /// How long a compound waited for a slot of its session, and for its answer then, on average.
    pub queue_micros: f64,
    pub answer_micros: f64,
    /// Compounds on the way, of all clients, on average.
    pub outstanding: f64,
    /// Delegations that were recalled, for each unit.
    pub recalls: f64,
    /// Processor time of the server for each unit: while the clients worked, and until everything was written out.
    pub cpu_micros: f64,
    pub cpu_until_settled_micros: f64,
    /// Instructions of the server for each unit, while the clients worked; none: this machine cannot count them.
    pub instructions: Option<f64>,
    /// Passes of each probe of the server for each unit, while the clients worked.
    #[serde(default)]
    pub probes: BTreeMap<String, f64>,
    pub latencies: Latencies,
    /// What was asked of each cloud, from the beginning until everything was written out.
    pub clouds: Vec<CloudUse>,
}

impl Sample {
    pub fn new(
        done: Done,
        cpu_micros: u64,
        cpu_until_settled_micros: u64,
        mut counts: Counts,
        clouds: Vec<CloudUse>,
    ) -> Sample {
        let (units, rpcs) = (done.units as f64, done.traffic.rpcs.max(1) as f64);
        let micros = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        Sample {
            rate: units / done.seconds,
            seconds: done.seconds,
            units: done.units,
            start_skew_micros: done.skew.as_secs_f64() * 1e6,
            rpcs: done.traffic.rpcs as f64 / units,
            queue_micros: micros(done.traffic.queued) / rpcs,
            answer_micros: micros(done.traffic.answered) / rpcs,
            outstanding: done.traffic.answered as f64 / 1e9 / done.seconds,
            recalls: done.recalls as f64 / units,
            cpu_micros: cpu_micros as f64 / units,
            cpu_until_settled_micros: cpu_until_settled_micros as f64 / units,
            instructions: counts.remove(INSTRUCTIONS).map(|count| count as f64 / units),
            probes: counts.into_iter().map(|(name, count)| (name, count as f64 / units)).collect(),
            latencies: done.latencies,
            clouds,
        }
    }
}

impl Row {
    pub fn new(workload: Workload, clients: usize, server: &str) -> Row {
        let (about, source) = workload.about();
        Row {
            workload: workload.name(),
            about,
            source: source.to_owned(),
            unit: workload.unit().to_owned(),
            headline: workload.is_headline(),
            clients,
            server: server.to_owned(),
            samples: Vec::new(),
            missing: None,
            failed: false,
        }
    }

    /// One repetition more, or why there are no further ones; says so, too.
    pub fn add(&mut self, which: &str, measured: anyhow::Result<Sample>) {
        match measured {
            Ok(sample) => {
                eprintln!("{which} {:.0} {}/s", sample.rate, self.unit);
                for (name, count) in &sample.probes {
                    eprintln!("    {name:<14} {count:>10.3} for each");
                }
                self.samples.push(sample);
            }
            Err(error) => {
                eprintln!("{which} {error:#}");
                self.missing = Some(format!("{error:#}"));
                self.failed = true;
            }
        }
    }

    /// Mean over the repetitions; none without any.
    pub fn of(&self, what: impl Fn(&Sample) -> f64) -> Option<Estimate> {
        let samples: Vec<f64> = self.samples.iter().map(what).collect();
        (!samples.is_empty()).then(|| estimate(&samples))
    }

    /// How many times as fast as `other` it is, by the repetitions that both have.
    pub fn faster_than(&self, other: &Row) -> Option<Ratio> {
        ratio(&self.pairs(other, |it| it.rate))
    }

    /// What both have in each repetition that both have.
    pub fn pairs(&self, other: &Row, what: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
        self.samples.iter().zip(&other.samples).map(|(own, other)| (what(own), what(other))).collect()
    }

    /// The times of all repetitions.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        self.samples.iter().for_each(|sample| all.add(&sample.latencies));
        all
    }
}

/// UTC, to the second.
fn now() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d %H:%M:%S"]).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use crate::latency::Recorder;
    use crate::personality::FULL;

    /// Results of two servers, of which the second is half as fast and has names that HTML must not take for its own.
    pub fn example() -> Results {
        let sample = |rate: f64| {
            let recorder = Recorder::default();
            for n in 1..=1000 {
                recorder.operation(
                    "read",
                    Duration::from_secs_f64(f64::from(n) / 100.0 / rate),
                    Duration::ZERO,
                );
            }
            recorder.beside("commit", Duration::from_millis(40));
            Sample {
                rate,
                seconds: 2.0,
                units: 1000,
                start_skew_micros: 12.5,
                rpcs: 3.0,
                queue_micros: 0.25,
                answer_micros: 140.0,
                outstanding: 3.5,
                recalls: 0.0,
                cpu_micros: 41.0,
                cpu_until_settled_micros: 60.0,
                instructions: Some(123_456.0),
                probes: BTreeMap::from([("alloc".into(), 35.5)]),
                latencies: recorder.take(),
                clouds: vec![CloudUse {
                    cloud: "a&b".into(),
                    put: 7,
                    money: Some(0.5),
                    ..CloudUse::default()
                }],
            }
        };
        let mut rows = Vec::new();
        for workload in [Workload::Stat, Workload::SequentialWrite, Workload::Load(FULL[2])] {
            for (server, factor) in [("kurma", 1.0), ("<slow> & \"old\"", 0.5)] {
                for clients in [1, 16] {
                    let mut row = Row::new(workload, clients, server);
                    row.samples = [1000.0, 1100.0, 900.0].map(|rate| sample(rate * factor)).into();
                    rows.push(row);
                }
            }
        }
        let mut row = Row::new(Workload::Recall { delegated: true }, 1, "<slow> & \"old\"");
        row.missing = Some("fails with <b>".into());
        row.failed = true;
        rows.push(row);
        Results {
            format: FORMAT,
            made: "2026-01-02 03:04:05".into(),
            version: "0.1.0".into(),
            machine: Machine { cores: 2, processor: "Z80".into(), memory_bytes: 1 << 34, kernel: "6".into() },
            parameters: Parameters {
                repetitions: 3,
                shrink: 1,
                rate: Some(500.0),
                seed: Some(1),
                over: Over::Nfs,
                apart: true,
            },
            left_out: Vec::new(),
            servers: vec![Server {
                name: "kurma".into(),
                promise: "everything".into(),
                checked_files: 200,
                lost: Some("2 files <gone>".into()),
                idle_client_bytes: Some(20_480.0),
                flushes: Some(Flushes { of_write: 1.5, of_name: 0.0 }),
            }],
            rows,
        }
    }

    #[test]
    fn results_survive_json() {
        let before = example();
        let text = serde_json::to_string(&before).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), before);
    }

    #[test]
    fn a_row_is_compared_with_the_same_repetitions_of_the_other() {
        let results = example();
        let found = results.rows[0].faster_than(&results.rows[2]).unwrap();
        assert!((found.mean - 2.0).abs() < 1e-9);
        // One repetition of the other is missing: the rest is paired as it was measured.
        let mut other = results.rows[2].clone();
        other.samples.pop();
        let found = results.rows[0].faster_than(&other).unwrap();
        assert!((found.mean - 2.0).abs() < 1e-9 && found.interval.is_some());
    }

    #[test]
    fn the_times_of_a_row_are_those_of_all_repetitions() {
        assert_eq!(example().rows[0].latencies().all.count(), 3000);
    }
}
