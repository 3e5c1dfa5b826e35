use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use blocks::{BlockStore, CloudId, LoadError};
use bytes::Bytes;
use environment::mutant::{Mutant as Promise, is_broken};
use environment::{Environment, failpoint};
use futures::stream::{StreamExt, iter};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::{BlockVersion, MaintainedVolume, RepairRow, Repaired, UpkeepConfig, UpkeepError};

/// Rows taken at a time.
const BATCH: usize = 64;
/// Blocks repaired at the same time.
const PARALLEL: usize = 8;
/// The least time between a pass and one that is asked for.
const SHORTEST_REST: Duration = Duration::from_secs(1);
/// Rows counted at a time.
const COUNTED: usize = 1024;

/// Stores missing and bad fragments anew, from the durable repair queue (`K63`) and at once after a write has left some out or a read
/// met some (`K65`). A cloud that refuses is left alone for a while that doubles, the others are repaired meanwhile.
pub struct Repairer<V: ?Sized> {
    volume: Arc<V>,
    blocks: Arc<BlockStore>,
    env: Environment,
    config: UpkeepConfig,
    backoff: Backoff,
    clouds: Mutex<HashMap<CloudId, Sickness>>,
    repaired: Mutex<BTreeMap<CloudId, u64>>,
    /// Held by a pass: two at a time would store the same fragments twice.
    passing: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Default)]
struct Sickness {
    failures: u32,
    until: Duration,
}

/// What a pass over the repair queue did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Fragments stored anew.
    pub fragments: u64,
    /// Blocks that are whole again, or not current any more.
    pub done: u64,
    /// Blocks that still lack fragments.
    pub left: u64,
    /// Those of them that have too few good fragments to be repaired.
    pub unreadable: u64,
}

impl<V: MaintainedVolume + ?Sized> Repairer<V> {
    /// Repairs the blocks of `volume`.
    pub fn new(
        volume: Arc<V>,
        blocks: Arc<BlockStore>,
        env: Environment,
        config: UpkeepConfig,
    ) -> Repairer<V> {
        let backoff = Backoff::new(config.first_pause, config.longest_pause);
        let (clouds, repaired, passing) = (Mutex::default(), Mutex::default(), tokio::sync::Mutex::default());
        Repairer { volume, blocks, env, config, backoff, clouds, repaired, passing }
    }

    /// Repairs until `stop` what clouds take: at intervals, and as soon as something is queued, but then not before a rest of nine times
    /// what the last pass took. For while a cloud is away the queue is long, and every write makes it longer.
    pub async fn run(&self, stop: &CancellationToken) {
        let clock = &self.env.clock;
        let (mut rest, mut last) = (Duration::ZERO, RepairReport::default());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep(self.config.repair_interval) => {}
                () = async {
                    clock.sleep(rest).await;
                    self.volume.repairs_waiting().await;
                } => {}
            }
            let begun = clock.monotonic();
            // Safe to drop anywhere: repairing twice is harmless.
            tokio::select! {
                () = stop.cancelled() => return,
                result = self.pass(false) => match result {
                    Ok(report) => {
                        if report.left > 0 && report != last {
                            tracing::info!(volume = %self.volume.id(), ?report, "some fragments could not be repaired yet");
                        }
                        last = report;
                    }
                    Err(error) => tracing::warn!(volume = %self.volume.id(), %error, "repair stopped; it is tried again"),
                },
            }
            rest = (9 * clock.monotonic().saturating_sub(begun)).max(SHORTEST_REST);
        }
    }

    /// Forgets which clouds refused lately, so that the next pass tries all.
    pub fn retry_now(&self) {
        self.clouds.lock().clear();
    }

    /// Fragments stored anew since the start, by cloud.
    pub fn repaired(&self) -> BTreeMap<CloudId, u64> {
        self.repaired.lock().clone()
    }

    /// Blocks in the queue.
    pub async fn queued(&self) -> Result<u64, UpkeepError> {
        let (mut count, mut after) = (0, None);
        loop {
            let rows = self.volume.repairs(after.as_ref(), COUNTED).await;
            let rows = rows.map_err(UpkeepError::volume("reading the repair queue"))?;
            let Some(last) = rows.last() else { return Ok(count) };
            count += rows.len() as u64;
            after = Some(last.row.clone());
        }
    }

    /// One pass over the whole queue, after the one that is under way.
    pub async fn once(&self) -> Result<RepairReport, UpkeepError> {
        self.pass(true).await
    }

    /// A pass that asks `all` clouds, or only those that are not sick and those to be probed.
    async fn pass(&self, all: bool) -> Result<RepairReport, UpkeepError> {
        let _alone = self.passing.lock().await;
        let mut report = RepairReport::default();
        let mut after = None;
        loop {
            let rows = self.volume.repairs(after.as_ref(), BATCH).await;
            let rows = rows.map_err(UpkeepError::volume("reading the repair queue"))?;
            let Some(last) = rows.last() else { return Ok(report) };
            after = Some(last.row.clone());
            if is_broken(Promise::RepairSwapped) {
                let done = rows.iter().map(|RepairRow { row, fragments, .. }| {
                    let (row, before) = (row.clone(), fragments.clone());
                    Repaired { row, before, left: Vec::new() }
                });
                let repaired = self.volume.repaired(&done.collect::<Vec<_>>()).await;
                repaired.map_err(UpkeepError::volume("removing repairs from the queue"))?;
            }
            let results: Vec<_> =
                iter(rows).map(|row| self.repair(row, all)).buffer_unordered(PARALLEL).collect().await;
            let mut changed = Vec::new();
            for Attempt { row, before, left, repaired, unreadable } in results {
                report.fragments += repaired;
                report.unreadable += u64::from(unreadable);
                if left.is_empty() {
                    report.done += 1;
                } else {
                    report.left += 1;
                }
                if left != before || left.is_empty() {
                    changed.push(Repaired { row, before, left });
                }
            }
            if !changed.is_empty() && !is_broken(Promise::RepairSwapped) {
                failpoint!("repair.before-commit");
                let repaired = self.volume.repaired(&changed).await;
                repaired.map_err(UpkeepError::volume("removing repairs from the queue"))?;
            }
        }
    }

    async fn repair(&self, row: RepairRow, all: bool) -> Attempt {
        let RepairRow { row, version, fragments } = row;
        let done = |left, repaired, unreadable| Attempt {
            row,
            before: fragments.clone(),
            left,
            repaired,
            unreadable,
        };
        let Some(BlockVersion { identity, key, placement, seal, .. }) = version else {
            return done(Vec::new(), 0, false);
        };
        let (well, mut left): (Vec<u8>, Vec<u8>) = {
            let (clouds, now) = (self.clouds.lock(), self.env.clock.monotonic());
            fragments.iter().partition(|fragment| {
                let cloud = placement.clouds().get(usize::from(**fragment));
                cloud.is_some_and(|cloud| {
                    clouds.get(cloud).is_none_or(|sick| sick.until <= now)
                        && (all || self.blocks.admits_writes(*cloud))
                })
            })
        };
        if well.is_empty() {
            return done(left, 0, false);
        }
        match self.blocks.repair(&key, &identity, seal, &placement, &well, &*self.volume).await {
            Ok(repaired) => {
                let mut clouds = self.clouds.lock();
                for fragment in &repaired.repaired {
                    let cloud = placement.clouds()[usize::from(*fragment)];
                    clouds.remove(&cloud);
                    *self.repaired.lock().entry(cloud).or_default() += 1;
                }
                for fault in repaired.failed {
                    let sick = clouds.entry(fault.cloud).or_default();
                    sick.failures = sick.failures.saturating_add(1);
                    let pause = self.backoff.pause(sick.failures, &*self.env.entropy);
                    sick.until = self.env.clock.monotonic() + pause;
                    left.push(fault.fragment);
                }
                left.extend(repaired.bad.iter().map(|fault| fault.fragment));
                left.sort_unstable();
                left.dedup();
                done(left, repaired.repaired.len() as u64, false)
            }
            Err(LoadError::Superseded { .. }) => done(Vec::new(), 0, false),
            Err(error) => {
                tracing::warn!(%error, "a block cannot be repaired");
                let unreadable = !error.is_temporary();
                done(fragments.clone(), 0, unreadable)
            }
        }
    }
}

/// What became of one row.
struct Attempt {
    row: Bytes,
    before: Vec<u8>,
    left: Vec<u8>,
    repaired: u64,
    unreadable: bool,
}
