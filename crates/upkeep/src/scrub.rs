use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use blocks::{BlockStore, FragmentFault, FragmentState};
use environment::Environment;
use futures::stream::{StreamExt, iter};
use tokio_util::sync::CancellationToken;

use crate::pace::Pace;
use crate::{BlockVersion, MaintainedVolume, UpkeepConfig, UpkeepError};

/// Blocks looked up at a time.
const BATCH: usize = 64;
/// Blocks checked at the same time.
const PARALLEL: usize = 4;

/// Fetches and proves every fragment of the current block versions; what is missing or bad goes to the repair queue.
pub struct Scrubber<V: ?Sized> {
    volume: Arc<V>,
    blocks: Arc<BlockStore>,
    env: Environment,
    config: UpkeepConfig,
    checked: AtomicU64,
}

/// What a scrub found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Blocks checked.
    pub blocks: u64,
    /// Blocks passed over, because only a sample was asked for.
    pub skipped: u64,
    /// Fragments that are as they were stored.
    pub good: u64,
    /// Fragments that their cloud has not.
    pub missing: u64,
    /// Fragments that their cloud changed.
    pub bad: u64,
    /// Fragments whose cloud did not answer; they may be good.
    pub unreachable: u64,
}

impl ScrubReport {
    /// Whether every fragment that could be checked was good.
    pub fn is_clean(&self) -> bool {
        self.missing == 0 && self.bad == 0
    }
}

impl<V: MaintainedVolume + ?Sized> Scrubber<V> {
    /// Checks the blocks of `volume`.
    pub fn new(
        volume: Arc<V>,
        blocks: Arc<BlockStore>,
        env: Environment,
        config: UpkeepConfig,
    ) -> Scrubber<V> {
        Scrubber { volume, blocks, env, config, checked: AtomicU64::new(0) }
    }

    /// Blocks looked at since the start, for those who watch.
    pub fn checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    /// Scrubs at intervals until `stop`; returns at once when the interval is zero.
    pub async fn run(&self, stop: &CancellationToken) {
        if self.config.scrub_interval.is_zero() {
            return;
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.env.clock.sleep(self.config.scrub_interval) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                result = self.once(100, self.config.scrub_rate) => match result {
                    Ok(report) => tracing::info!(volume = %self.volume.id(), ?report, "scrubbed"),
                    Err(error) => tracing::warn!(volume = %self.volume.id(), %error, "a scrub stopped"),
                },
            }
        }
    }

    /// Checks `percent` of all blocks, chosen at random, at no more than `rate` bytes a second (zero: no limit).
    pub async fn once(&self, percent: u8, rate: u64) -> Result<ScrubReport, UpkeepError> {
        let clock = &*self.env.clock;
        let (mut report, mut pace, mut after) = (ScrubReport::default(), Pace::new(rate, clock), None);
        loop {
            let versions = self.volume.stored_blocks(after, BATCH).await;
            let versions = versions.map_err(UpkeepError::volume("looking for blocks to check"))?;
            let Some(last) = versions.last() else { return Ok(report) };
            after = Some(last.identity);
            let all = versions.len();
            let chosen: Vec<_> = versions
                .into_iter()
                .filter(|_| percent >= 100 || self.env.entropy.next_u64() % 100 < u64::from(percent))
                .collect();
            report.skipped += (all - chosen.len()) as u64;
            let scheme_bytes = |version: &BlockVersion| {
                let scheme = version.placement.scheme();
                version.placement.block_shift().bytes() * scheme.total() as u64
                    / scheme.needed().max(1) as u64
            };
            pace.wait(chosen.iter().map(scheme_bytes).sum(), clock).await;
            let mut checks = iter(chosen).map(|version| self.check(version)).buffer_unordered(PARALLEL);
            while let Some((version, states)) = checks.next().await {
                self.checked.fetch_add(1, Ordering::Relaxed);
                // Superseded meanwhile: its fragments are nobody's any more.
                let Some(states) = states else { continue };
                report.blocks += 1;
                let faulty = report.count(&states);
                if !faulty.is_empty() {
                    let id = version.identity;
                    let queued = self.volume.queue_repair(id.object, id.block, id.version, &faulty).await;
                    queued.map_err(UpkeepError::volume("queueing a repair"))?;
                }
            }
        }
    }

    async fn check(&self, version: BlockVersion) -> (BlockVersion, Option<Vec<FragmentState>>) {
        let BlockVersion { identity, key, placement, seal, .. } = &version;
        let states = self.blocks.verify(key, identity, *seal, placement, &*self.volume).await;
        (version, states)
    }
}

impl ScrubReport {
    /// Counts the fragments of a block, and returns those to be repaired.
    fn count(&mut self, states: &[FragmentState]) -> Vec<u8> {
        let mut faulty = Vec::new();
        for (fragment, state) in states.iter().enumerate() {
            match state {
                FragmentState::Good => self.good += 1,
                FragmentState::Faulty(fault) => {
                    match fault {
                        FragmentFault::Missing => self.missing += 1,
                        fault if fault.needs_repair() => self.bad += 1,
                        _ => self.unreachable += 1,
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
