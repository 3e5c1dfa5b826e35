//! One server over one line.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use vector_client::Client;

use super::contender::{CONTENDERS, Contender, Limit};
use super::delay::Line;
use super::place::Place;
use super::report::{Row, Run};
use super::workload::{self, Workload};
use super::{Vectors, mean, page};
use crate::peer::Peer;
use crate::tree::Tree;

/// A row is repeated until its times come to so many seconds, but not more than [`MORE`] times as often as is asked for.
const ENOUGH: f64 = 2.0;
const MORE: usize = 3;

/// A contender that takes longer, in seconds, waits nearly all of the time: it has one run.
pub const LONG: f64 = 20.0;

/// Round trips that each contender makes for each workload, as counted over an earlier line.
pub type Known = HashMap<(usize, String), f64>;

/// One server over one line.
pub struct Scene<'a> {
    pub arguments: &'a Vectors,
    /// Without a delay: for what is not measured.
    pub near: &'a Client,
    pub line: Line,
    pub delay: f64,
    pub tree: &'a Tree,
}

impl Scene<'_> {
    /// Every workload, by all contenders in turn.
    pub async fn run(
        &self,
        peer: &mut dyn Peer,
        export: &str,
        base: &str,
        scratch: &Path,
        known: &mut Known,
    ) -> Result<Vec<Row>> {
        let setting = &self.arguments.setting;
        let mut contenders = Contender::all(&self.line, setting, &self.arguments.nfs4fs, export)?;
        let mut rows = Vec::new();
        let is_wanted = |workload: &Workload| workload.name().contains(&self.arguments.only);
        for workload in workload::all(setting.shrink).into_iter().filter(is_wanted) {
            let mut row = Row::new(peer.name(), workload, self.delay);
            for repetition in 0..setting.repeat * MORE {
                if repetition >= setting.repeat && row.measured() > ENOUGH {
                    break;
                }
                // None is always the first.
                for turn in 0..contenders.len() {
                    let at = (repetition + turn) % contenders.len();
                    if row.runs[at].iter().any(|run| run.seconds > LONG || !run.is_whole) {
                        continue;
                    }
                    let place = Place {
                        base,
                        own: format!("{base}/{}", CONTENDERS[at].1),
                        repetition,
                        tree: self.tree,
                        archive: scratch.join("tree.tar"),
                        packed: scratch.join("packed.tar"),
                    };
                    let prepared = place.prepare(self.near, workload).await;
                    peer.settle()?;
                    let of = known.get(&(at, workload.name())).copied();
                    let limit = self.arguments.patience.zip(of).map(|(patience, round_trips)| Limit {
                        patience: Duration::from_secs(patience),
                        round_trips,
                    });
                    let run = match prepared {
                        Ok(()) => self.measure(&mut contenders[at], workload, &place, limit).await,
                        Err(error) => Err(error.context("preparing it")),
                    };
                    match run {
                        Ok(Some(run)) => row.runs[at].push(run),
                        Ok(None) => {}
                        // The others go on; the report says it.
                        Err(error) => {
                            let (name, what) = (CONTENDERS[at].0, workload.name());
                            eprintln!("{}, {what}, {name}: {error:#}", peer.name());
                            row.failed[at] = true;
                        }
                    }
                }
            }
            row.announce();
            for (at, runs) in
                row.runs.iter().enumerate().filter(|(at, runs)| !runs.is_empty() && !row.failed[*at])
            {
                known.entry((at, workload.name())).or_insert_with(|| mean(runs, |run| run.round_trips));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    async fn measure(
        &self,
        contender: &mut Contender,
        workload: Workload,
        place: &Place<'_>,
        limit: Option<Limit>,
    ) -> Result<Option<Run>> {
        let run = contender.run(workload, place, limit).await?;
        if run.is_some_and(|run| run.is_whole) {
            place.check(self.near, workload).await?;
        }
        if let (Some(run), Workload::Page, Contender::Ours { .. }) = (&run, workload, contender) {
            let most = page::ROUND_TRIPS as f64;
            if run.round_trips > most {
                eprintln!("the page takes {} round trips, not {most}", run.round_trips);
            }
        }
        Ok(run)
    }
}
