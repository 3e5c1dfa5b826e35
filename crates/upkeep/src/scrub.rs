mod period;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use blocks::{BlockStore, CloudId, FragmentFault, FragmentState};
use environment::Environment;
use futures::stream::{StreamExt, iter};
use seal::BlockIdentity;
use serde::{Deserialize, Serialize};

pub use period::{ScrubNotes, ScrubPeriod, ScrubSchedule};

use crate::pace::Pace;
use crate::{BlockVersion, MaintainedVolume, UpkeepError};

/// Blocks looked up at a time.
const BATCH: usize = 64;
/// Blocks checked at the same time.
const PARALLEL: usize = 4;

/// Fetches and proves every fragment of the current block versions; what is missing or bad goes to the repair queue.
pub struct Scrubber<V: ?Sized> {
    volume: Arc<V>,
    blocks: Arc<BlockStore>,
    env: Environment,
    checked: AtomicU64,
}

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Blocks checked.
    pub blocks: u64,
    /// Blocks passed over, because only a sample was asked for.
    pub skipped: u64,
    /// The fragments of those checked, by cloud.
    pub clouds: BTreeMap<u16, ScrubCounts>,
}

/// Fragments by what a scrub found them to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubCounts {
    /// As they were stored.
    pub good: u64,
    /// Their cloud has them not.
    pub missing: u64,
    /// Their cloud changed them.
    pub bad: u64,
    /// Their cloud did not answer; they may be good.
    pub unreachable: u64,
}

/// One step of a scrub.
struct Step {
    report: ScrubReport,
    /// The last block that was looked at; `None` when there was none any more.
    last: Option<BlockIdentity>,
}

impl ScrubReport {
    /// The fragments in all clouds.
    pub fn total(&self) -> ScrubCounts {
        self.clouds.values().fold(ScrubCounts::default(), |sum, counts| sum.with(*counts))
    }

    /// Whether every fragment that could be checked was good.
    pub fn is_clean(&self) -> bool {
        let ScrubCounts { missing, bad, .. } = self.total();
        missing == 0 && bad == 0
    }

    /// Adds what another part of the same scrub found.
    pub fn add(&mut self, other: &ScrubReport) {
        self.blocks += other.blocks;
        self.skipped += other.skipped;
        for (cloud, counts) in &other.clouds {
            let known = self.clouds.entry(*cloud).or_default();
            *known = known.with(*counts);
        }
    }
}

impl ScrubCounts {
    /// These and others.
    #[must_use]
    pub fn with(self, other: ScrubCounts) -> ScrubCounts {
        ScrubCounts {
            good: self.good + other.good,
            missing: self.missing + other.missing,
            bad: self.bad + other.bad,
            unreachable: self.unreachable + other.unreachable,
        }
    }
}

impl<V: MaintainedVolume + ?Sized> Scrubber<V> {
    /// Checks the blocks of `volume`.
    pub fn new(volume: Arc<V>, blocks: Arc<BlockStore>, env: Environment) -> Scrubber<V> {
        Scrubber { volume, blocks, env, checked: AtomicU64::new(0) }
    }

    /// Blocks looked at since the start, for those who watch.
    pub fn checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    /// Checks `percent` of all blocks, chosen at random, at no more than `rate` bytes a second (zero: no limit).
    pub async fn once(&self, percent: u8, rate: u64) -> Result<ScrubReport, UpkeepError> {
        let (mut report, mut pace) = (ScrubReport::default(), Pace::new(rate, &*self.env.clock));
        let mut after = None;
        loop {
            let step = self.step(after, percent, &mut pace).await?;
            report.add(&step.report);
            if step.last.is_none() {
                return Ok(report);
            }
            after = step.last;
        }
    }

    /// Checks some blocks behind `after`.
    async fn step(
        &self,
        after: Option<BlockIdentity>,
        percent: u8,
        pace: &mut Pace,
    ) -> Result<Step, UpkeepError> {
        let mut report = ScrubReport::default();
        let versions = self.volume.stored_blocks(after, BATCH).await;
        let versions = versions.map_err(UpkeepError::volume("looking for blocks to check"))?;
        let Some(last) = versions.last().map(|version| version.identity) else {
            return Ok(Step { report, last: None });
        };
        let all = versions.len();
        let chosen: Vec<_> = versions
            .into_iter()
            .filter(|_| percent >= 100 || self.env.entropy.next_u64() % 100 < u64::from(percent))
            .collect();
        report.skipped = (all - chosen.len()) as u64;
        let clock = &*self.env.clock;
        let pace = &tokio::sync::Mutex::new(pace);
        let check = |version| async move {
            pace.lock().await.wait(0, clock).await;
            let checked = self.check(version).await;
            // What was fetched; what is not there took nothing.
            pace.lock().await.spend(checked.1.iter().flatten().map(FragmentState::bytes).sum());
            checked
        };
        let mut checks = iter(chosen).map(check).buffer_unordered(PARALLEL);
        while let Some((version, states)) = checks.next().await {
            self.checked.fetch_add(1, Ordering::Relaxed);
            // Superseded meanwhile: its fragments are nobody's any more.
            let Some(states) = states else { continue };
            report.blocks += 1;
            let faulty = report.count(version.placement.clouds(), &states);
            if !faulty.is_empty() {
                let id = version.identity;
                let queued = self.volume.queue_repair(id.object, id.block, id.version, &faulty).await;
                queued.map_err(UpkeepError::volume("queueing a repair"))?;
            }
        }
        Ok(Step { report, last: Some(last) })
    }

    async fn check(&self, version: BlockVersion) -> (BlockVersion, Option<Vec<FragmentState>>) {
        let BlockVersion { identity, key, placement, seal, .. } = &version;
        let states = self.blocks.verify(key, identity, *seal, placement, &*self.volume).await;
        (version, states)
    }
}

impl ScrubReport {
    /// Counts the fragments of a block, and returns those to be repaired.
    fn count(&mut self, clouds: &[CloudId], states: &[FragmentState]) -> Vec<u8> {
        let mut faulty = Vec::new();
        for (fragment, (state, cloud)) in states.iter().zip(clouds).enumerate() {
            let counts = self.clouds.entry(cloud.0).or_default();
            match state {
                FragmentState::Good { .. } => counts.good += 1,
                FragmentState::Faulty(fault) => {
                    match fault {
                        FragmentFault::Missing => counts.missing += 1,
                        fault if fault.needs_repair() => counts.bad += 1,
                        _ => counts.unreachable += 1,
                    }
                    if fault.needs_repair() {
                        faulty.push(fragment as u8);
                    }
                }
            }
        }
        faulty
    }
}
