//! From the cache to the clouds.

mod contents;
mod drive;
mod held;
mod report;
mod rewrites;
mod store;
mod together;

use std::sync::Arc;
use std::time::Duration;

use blocks::BlockStore;
use cache::{BlockSnapshot, Cache, DirtyBlock, Selection, StagedBlock};
use environment::{Environment, failpoint};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::{
    Base, Gate, MaintainedVolume, NewBlock, Plan, Rewrite, UpkeepConfig, UpkeepError, VolumeFailure, Written,
    WrittenAs,
};
use contents::{Contents, Storing};
use drive::{Drive, Event, Task};
use held::Held;
pub use report::WriteBackReport;
pub(crate) use rewrites::RewriteQueue;
use store::Outcome;
use together::{Settling, Small, is_small};

/// Blocks claimed and not yet committed or given back, without those that wait for company or are on their way with it.
const OUTSTANDING: usize = 512;
/// Blocks that wait for company or are on their way with it.
const TOGETHER: usize = 16_384;
/// After so many failures without a success in between, the clouds are taken to be away.
const FAILURES_BEFORE_PAUSE: u32 = 4;
/// Blocks tried at once to see whether they are back.
const PROBES: usize = 2;
/// Bytes of one permit of what is in flight.
const UNIT: u64 = 64 << 10;

/// Writes the dirty blocks of one volume back (`K49`-`K53`).
///
/// Order (decision D3): the fragments are stored, then one metadata transaction makes many new versions current and
/// their dirty data clean. Whatever happens before the commit is durable leaves the data dirty in the journal.
///
/// A block that cannot be stored is tried again after a pause that doubles; when nothing can be stored, the whole
/// volume pauses and then tries a few blocks at a time. Dirty data is never given up.
pub struct WriteBack<V: ?Sized> {
    parts: Arc<Parts<V>>,
    /// One drive at a time.
    alone: tokio::sync::Mutex<()>,
    retry: Notify,
}

/// What the tasks of a write-back share.
struct Parts<V: ?Sized> {
    volume: Arc<V>,
    cache: Cache,
    blocks: Arc<BlockStore>,
    env: Environment,
    config: UpkeepConfig,
    in_flight: Arc<Semaphore>,
    units: u32,
    /// The same of blocks that nobody waits for: where their clouds hang, the others go on.
    rewriting: Arc<Semaphore>,
    backoff: Backoff,
    health: Mutex<Health>,
    report: Mutex<WriteBackReport>,
    contents: Contents,
    rewrites: Arc<RewriteQueue>,
    gate: Option<Arc<dyn Gate>>,
}

#[derive(Default)]
struct Health {
    /// Without a success in between.
    failures: u32,
    /// The same, of blocks that nobody waits for.
    rewrites_failed: u32,
    paused_until: Duration,
    held: Held,
}

/// A block that is stored, or needs nothing stored, and waits for the commit.
struct Ready {
    dirty: DirtyBlock,
    written: Written,
    staged: Option<InFlight>,
    /// The pack that it was stored in.
    settling: Option<Arc<Settling>>,
}

/// The content of a block on its way, from its assembly to its commit, and its share of what may be in memory.
struct InFlight {
    staged: StagedBlock,
    _permit: Option<Arc<OwnedSemaphorePermit>>,
    /// Held until the commit, after which others with the same content find this one.
    storing: Option<Storing>,
}

impl<V: MaintainedVolume + ?Sized> WriteBack<V> {
    /// Writes back what the gate admits of `volume`; without one all.
    pub fn new(
        volume: Arc<V>,
        cache: Cache,
        blocks: Arc<BlockStore>,
        env: Environment,
        config: UpkeepConfig,
        gate: Option<Arc<dyn Gate>>,
    ) -> WriteBack<V> {
        let units = (config.in_flight / UNIT).clamp(1, u64::from(u32::MAX >> 4)) as u32;
        WriteBack {
            parts: Arc::new(Parts {
                volume,
                cache,
                blocks,
                env,
                in_flight: Arc::new(Semaphore::new(units as usize)),
                units,
                rewriting: Arc::new(Semaphore::new(units.div_ceil(2) as usize)),
                backoff: Backoff::new(config.first_pause, config.longest_pause),
                config,
                health: Mutex::default(),
                report: Mutex::default(),
                contents: Contents::default(),
                rewrites: Arc::default(),
                gate,
            }),
            alone: tokio::sync::Mutex::new(()),
            retry: Notify::new(),
        }
    }

    /// Writes back until `stop`, then finishes what has been begun.
    pub async fn run(&self, stop: &CancellationToken) {
        self.drive(Some(stop)).await;
    }

    /// Writes back what is due now, each block tried once, pauses notwithstanding. Not while [`WriteBack::run`] runs:
    /// it would wait for its end.
    pub async fn once(&self) -> WriteBackReport {
        let before = *self.parts.report.lock();
        self.forget_pauses();
        self.drive(None).await;
        self.report().since(before)
    }

    /// Tries everything again at once, because somebody waits or a cloud is known to be back.
    pub fn retry_now(&self) {
        self.forget_pauses();
        self.retry.notify_one();
    }

    /// What is to be stored once more although it is clean.
    pub(crate) fn rewrites(&self) -> Arc<RewriteQueue> {
        self.parts.rewrites.clone()
    }

    /// What has been done since the start.
    pub fn report(&self) -> WriteBackReport {
        *self.parts.report.lock()
    }

    /// Why the volume pauses, if it does: failures in a row.
    pub fn failures_in_a_row(&self) -> u32 {
        self.parts.health.lock().failures
    }

    fn forget_pauses(&self) {
        let mut health = self.parts.health.lock();
        health.paused_until = Duration::ZERO;
        health.held.release_all();
    }

    /// Until `stop`; without one until nothing is left to be done now.
    async fn drive(&self, stop: Option<&CancellationToken>) {
        let _alone = self.alone.lock().await;
        let parts = &self.parts;
        let mut work = parts.cache.work();
        let mut drive = Drive::new(&parts.config);
        loop {
            let stopping = stop.is_some_and(CancellationToken::is_cancelled);
            let claimed = if stopping { 0 } else { parts.claim(&mut drive).await };
            if claimed == 0 {
                drive.store_what_waits_in_vain(parts);
            }
            drive.commit(parts);
            if drive.is_idle() && claimed == 0 && (stopping || stop.is_none()) {
                return;
            }
            if drive.is_idle() && stop.is_none() {
                // All that was claimed is held back now; behind it there may be more.
                continue;
            }
            let never = CancellationToken::new();
            tokio::select! {
                Some(event) = drive.next() => drive.take(parts, event),
                () = stop.unwrap_or(&never).cancelled(), if !stopping => {}
                changed = work.changed(), if !stopping => drop(changed),
                () = self.retry.notified(), if !stopping => {}
                () = parts.rewrites.offered(), if !stopping => {}
                () = parts.env.clock.sleep(parts.config.write_back_tick), if !stopping && stop.is_some() => {}
            }
        }
    }
}

impl<V: MaintainedVolume + ?Sized> Parts<V> {
    /// Claims blocks and starts to store them; how many.
    async fn claim(self: &Arc<Self>, drive: &mut Drive) -> usize {
        let (now, cache) = (self.env.clock.monotonic(), &self.cache);
        let most = {
            let mut health = self.health.lock();
            health.held.release_due(now, self.config.longest_pause);
            match health.failures >= FAILURES_BEFORE_PAUSE {
                true if health.paused_until > now => 0,
                true => PROBES,
                false => OUTSTANDING,
            }
        };
        let room = most
            .saturating_sub(drive.outstanding)
            .min(TOGETHER.saturating_sub(drive.together))
            .min(self.config.batch);
        // Few at a time would mean many looks at the metadata.
        if room == 0 || (drive.outstanding > 0 && room < self.config.batch / 2 && most == OUTSTANDING) {
            return 0;
        }
        // Of a journal that is full of what is no longer dirty, checkpoints make room, not write-back.
        let hurry = cache.is_crowded(self.volume.id());
        let selection = Selection { bytes: self.config.in_flight.max(1), blocks: room, hurry };
        // Fixed before the metadata is looked at: what becomes clean in between shows in the metadata.
        let writing = self.blocks.writing();
        let (mut snapshots, claimed) = self.claim_admitted(&selection);
        // What is clean can wait.
        let rewrites = self.rewrites.take(room - claimed);
        if claimed == 0 && rewrites.is_empty() {
            return 0;
        }
        for (Rewrite { file, shift, block, .. }, ticket) in rewrites {
            let claimed = cache.claim_clean(file, shift, block, ticket);
            snapshots.extend(claimed.map(|(dirty, snapshot)| (snapshot, dirty)));
        }
        let names: Vec<_> = snapshots.iter().map(|(_, dirty)| (dirty.file.object, dirty.block)).collect();
        let plans = match self.volume.plan_write_back(&names).await {
            Ok(plans) if plans.len() == names.len() => plans,
            Ok(_) => {
                tracing::error!("the volume planned other blocks than it was asked for");
                self.failed();
                return 0;
            }
            Err(cause) => {
                self.complain(&UpkeepError::volume("planning a write-back")(cause));
                return 0;
            }
        };
        failpoint!("writeback.before-put");
        let count = plans.len();
        drive.outstanding += count;
        let mut damaged = Vec::new();
        for ((snapshot, dirty), plan) in snapshots.into_iter().zip(plans) {
            match plan {
                Err(cause) => damaged.push((dirty, cause)),
                // Somebody has made a hole meanwhile.
                Ok(Plan::Store(NewBlock { base: Base::Hole, .. })) if snapshot.is_clean() => {
                    let written = Written { snapshot, content: WrittenAs::Nothing };
                    drive.ready.push(Ready { dirty, written, staged: None, settling: None });
                }
                Ok(Plan::Nothing) => {
                    let written = Written { snapshot, content: WrittenAs::Nothing };
                    drive.ready.push(Ready { dirty, written, staged: None, settling: None });
                }
                Ok(Plan::Store(new)) => {
                    let (parts, writing) = (Arc::clone(self), writing.clone());
                    let is_small = is_small(&new, parts.config.longest_packed);
                    let what = if is_small { Task::Small } else { Task::Block };
                    drive.spawn(what, async move {
                        match parts.store(&snapshot, new).await {
                            Ok(Outcome::Stored(content, staged)) => {
                                drop(writing);
                                let (written, staged) = (Written { snapshot, content }, Some(staged));
                                Event::Stored(Box::new(Ready { dirty, written, staged, settling: None }))
                            }
                            Ok(Outcome::Small(block)) => {
                                Event::Small(Box::new(Small { dirty, snapshot, block, _writing: writing }))
                            }
                            Err(error) => {
                                parts.report.lock().failed += 1;
                                parts.complain_of(&snapshot, &error);
                                Event::NotStored(dirty)
                            }
                        }
                    });
                }
            }
        }
        drive.outstanding -= damaged.len();
        self.damaged(damaged);
        count
    }

    /// Claims dirty blocks that the gate admits; these, and how many were claimed with them.
    fn claim_admitted(&self, selection: &Selection) -> (Vec<(BlockSnapshot, DirtyBlock)>, usize) {
        loop {
            let claimed = self.cache.claim_dirty(self.volume.id(), selection);
            let count = claimed.len();
            let mut snapshots: Vec<_> =
                claimed.into_iter().filter_map(|dirty| Some((self.cache.snapshot(&dirty)?, dirty))).collect();
            let Some(gate) = &self.gate else { return (snapshots, count) };
            let fixed = snapshots.len();
            snapshots.retain(|(snapshot, _)| gate.admits(snapshot));
            // The files of the others are held back, so there are fewer in every round.
            if !snapshots.is_empty() || fixed == 0 {
                return (snapshots, count);
            }
        }
    }

    /// Passes over blocks whose metadata is damaged; the others go on.
    fn damaged(&self, blocks: Vec<(DirtyBlock, VolumeFailure)>) {
        let Some((_, first)) = blocks.first() else { return };
        let (volume, count) = (self.volume.id(), blocks.len());
        tracing::error!(%volume, count, %first, "blocks stay in the journal, because their metadata is damaged");
        let mut report = self.report.lock();
        report.failed += count as u64;
        report.damaged += count as u64;
        drop(report);
        blocks.into_iter().for_each(|(dirty, _)| self.hold(dirty));
    }

    /// Commits blocks that are stored.
    async fn commit(&self, batch: Vec<Ready>) {
        let (mut written, mut claims) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        let mut packs = Vec::new();
        for Ready { dirty, written: one, staged, settling } in batch {
            packs.extend(settling);
            written.push(one);
            claims.push((dirty, staged));
        }
        failpoint!("writeback.before-commit");
        let result = self.volume.commit_written(&written).await;
        failpoint!("writeback.after-commit");
        let pack = packs.last().map(Arc::downgrade);
        self.settle(packs).await;
        if pack.is_some_and(|pack| pack.strong_count() > 0) {
            failpoint!("pack.between-commits");
        }
        match result {
            Ok(committed) => {
                let kept = self.account(claims, &written, committed);
                self.succeeded();
                for InFlight { staged, _permit, .. } in kept {
                    staged.keep().await;
                }
            }
            Err(cause) => {
                self.report.lock().failed += claims.len() as u64;
                self.complain(&UpkeepError::volume("committing written blocks")(cause));
                claims.into_iter().for_each(|(dirty, _)| self.hold(dirty));
            }
        }
    }

    /// Reports what a commit has done; the blocks that are current now.
    fn account(
        &self,
        claims: Vec<(DirtyBlock, Option<InFlight>)>,
        written: &[Written],
        committed: Vec<bool>,
    ) -> Vec<InFlight> {
        let mut kept = Vec::with_capacity(claims.len());
        let mut report = self.report.lock();
        for (((dirty, staged), written), committed) in claims.into_iter().zip(written).zip(committed) {
            let is_stored = committed && !matches!(written.content, WrittenAs::Nothing);
            let is_rewritten = is_stored && written.snapshot.is_clean();
            {
                let mut health = self.health.lock();
                health.held.forget(&dirty);
                if is_rewritten {
                    health.rewrites_failed = 0;
                }
            }
            report.rewritten += u64::from(is_rewritten);
            match (committed, staged, &written.content) {
                (true, Some(in_flight), WrittenAs::Content { .. }) => {
                    kept.push(in_flight);
                    report.shared += 1;
                }
                (true, Some(mut in_flight), WrittenAs::Version { length, missing, .. }) => {
                    drop(in_flight.storing.take());
                    kept.push(in_flight);
                    report.blocks += 1;
                    report.bytes += length;
                    report.degraded += u64::from(!missing.is_empty());
                }
                (true, ..) => report.dropped += 1,
                (false, ..) => report.overtaken += 1,
            }
        }
        kept
    }

    /// Waits until so many bytes more may be in memory.
    async fn room_for(&self, bytes: u64, is_clean: bool) -> Option<Arc<OwnedSemaphorePermit>> {
        let (semaphore, units) = match is_clean {
            true => (&self.rewriting, self.units.div_ceil(2)),
            false => (&self.in_flight, self.units),
        };
        let wanted = bytes.div_ceil(UNIT).clamp(1, u64::from(units)) as u32;
        // Never closed; without a permit the bound would be missed by these bytes.
        Arc::clone(semaphore).acquire_many_owned(wanted).await.ok().map(Arc::new)
    }

    /// Keeps a block that could not be stored out of the queue for a while. One that nobody waits for is offered again.
    fn hold(&self, dirty: DirtyBlock) {
        if dirty.is_rewrite() {
            return self.rewrites.refused();
        }
        let now = self.env.clock.monotonic();
        let entropy = &*self.env.entropy;
        self.health.lock().held.hold(dirty, |failures| now + self.backoff.pause(failures, entropy));
    }

    fn succeeded(&self) {
        let mut health = self.health.lock();
        if health.failures >= FAILURES_BEFORE_PAUSE {
            tracing::info!(volume = %self.volume.id(), "write-back goes on");
        }
        health.failures = 0;
    }

    fn failed(&self) -> u32 {
        let mut health = self.health.lock();
        health.failures = health.failures.saturating_add(1);
        if health.failures >= FAILURES_BEFORE_PAUSE {
            let pauses = health.failures - FAILURES_BEFORE_PAUSE + 1;
            let pause = self.backoff.pause(pauses, &*self.env.entropy);
            health.paused_until = self.env.clock.monotonic() + pause;
        }
        health.failures
    }

    /// Counts a failure of one block, and tells of the first ones in a row.
    fn complain_of(&self, snapshot: &BlockSnapshot, error: &(dyn std::error::Error + Sync)) {
        if !snapshot.is_clean() {
            return self.complain(error);
        }
        // It may be that what is stored cannot be read, or that one cloud is away: that says nothing of those who write.
        let volume = self.volume.id();
        let failures = {
            let mut health = self.health.lock();
            health.rewrites_failed = health.rewrites_failed.saturating_add(1);
            health.rewrites_failed
        };
        if failures <= FAILURES_BEFORE_PAUSE {
            tracing::warn!(%volume, %error, failures, "a block could not be moved to the new policy of its file; it stays where it is, and is tried again");
        } else {
            tracing::debug!(%volume, %error, failures, "a block could not be moved");
        }
    }

    /// Counts a failure, and tells of the first ones in a row.
    fn complain(&self, error: &(dyn std::error::Error + Sync)) {
        let failures = self.failed();
        let volume = self.volume.id();
        if failures <= FAILURES_BEFORE_PAUSE {
            tracing::warn!(%volume, %error, failures, "a block could not be written back; it stays in the journal and is tried again");
        } else {
            tracing::debug!(%volume, %error, failures, "write-back pauses");
        }
    }
}
