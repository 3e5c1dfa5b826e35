//! Who does the workloads.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::baseline;
use super::delay::Line;
use super::foreign::Foreign;
use super::ours::Ours;
use super::place::Place;
use super::report::Run;
use super::workload::Workload;
use crate::setting::Setting;

/// Their names, and those of their folders, in the order of [`Contender::all`].
pub const CONTENDERS: [(&str, &str); 3] =
    [("one at a time", "alone"), ("vectors", "vectors"), ("nfs4fs", "nfs4fs")];

pub enum Contender {
    /// One operation at a time.
    Kernel {
        line: Line,
    },
    Ours {
        line: Line,
        kurma: PathBuf,
    },
    Foreign(Foreign),
}

/// When a run is stopped: after so long; and how many round trips it would have made.
#[derive(Clone, Copy)]
pub struct Limit {
    pub patience: Duration,
    pub round_trips: f64,
}

impl Contender {
    /// All of them; nfs4fs only if it is there.
    pub fn all(line: &Line, setting: &Setting, python: &Path, export: &str) -> Result<Vec<Contender>> {
        let mut all = vec![
            Contender::Kernel { line: line.clone() },
            Contender::Ours { line: line.clone(), kurma: setting.kurma.clone() },
        ];
        if python.exists() {
            all.push(Contender::Foreign(Foreign::start(python, line, export)?));
        }
        Ok(all)
    }

    /// What a workload takes, by a new connection, with nothing in memory; nothing if it cannot be done. Vectors have no limit.
    pub async fn run(
        &mut self,
        workload: Workload,
        place: &Place<'_>,
        limit: Option<Limit>,
    ) -> Result<Option<Run>> {
        let first = match workload {
            Workload::ReadAgain { size, .. } => Some(Workload::ReadAgain { size, times: 1 }),
            _ => None,
        };
        match self {
            Contender::Kernel { line } => {
                let kernel = line.kernel().await?;
                if let Some(first) = first {
                    baseline::run(&kernel, first, place).await?;
                }
                let (before, start) = (kernel.round_trips(), Instant::now());
                let patience = limit.map_or(Duration::MAX, |limit| limit.patience);
                let ended = tokio::time::timeout(patience, baseline::run(&kernel, workload, place)).await;
                let seconds = start.elapsed().as_secs_f64();
                let made = (kernel.round_trips() - before) as f64;
                match (ended, limit) {
                    (Err(_), Some(limit)) => Ok(Some(Run::stopped(seconds, made, limit.round_trips))),
                    (ended, _) => ended?.map(|()| Some(Run::whole(seconds, made))),
                }
            }
            Contender::Ours { line, kurma } => {
                let mut ours = Ours::connect(line, kurma.clone(), workload).await?;
                if let Some(first) = first {
                    ours.run(first, place).await?;
                }
                let (before, start) = (ours.round_trips(), Instant::now());
                ours.run(workload, place).await?;
                let seconds = start.elapsed().as_secs_f64();
                let round_trips = (ours.round_trips() - before) as f64;
                ours.close().await?;
                Ok(Some(Run::whole(seconds, round_trips)))
            }
            Contender::Foreign(foreign) => {
                foreign.connect()?;
                if let Some(first) = first {
                    foreign.run(first, place, None)?;
                }
                foreign.run(workload, place, limit)
            }
        }
    }
}
