use std::sync::Arc;
use std::time::Duration;

use blocks::BlockStore;
use cache::{Cache, Scope};
use environment::Environment;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    Cleaner, GarbageCollector, Gate, MaintainedVolume, Migrator, Reaper, Repairer, ScrubNotes, ScrubSchedule,
    Scrubber, UpkeepConfig, UpkeepError, WriteBack,
};

/// Blocks counted at a time.
const COUNTED: usize = 4096;

/// All upkeep of one volume. [`Upkeep::start`] runs the loops; the parts can also be driven one by one.
pub struct Upkeep<V: ?Sized> {
    /// Dirty data to the clouds.
    pub write_back: WriteBack<V>,
    /// Missing and bad fragments.
    pub repairer: Repairer<V>,
    /// Old versions.
    pub garbage: GarbageCollector<V>,
    /// Packs with much garbage.
    pub cleaner: Cleaner<V>,
    /// Fragments that nobody reads.
    pub scrubber: Scrubber<V>,
    /// Removed files.
    pub reaper: Reaper<V>,
    /// Files on their way to another policy.
    pub migrator: Migrator<V>,
    pub(crate) volume: Arc<V>,
    cache: Cache,
    env: Environment,
    stop: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

/// What a flush left undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "says what is not in the clouds yet"]
pub struct Flushed {
    /// Dirty bytes that are only in the local journal, but for what a [`Gate`] keeps there. None if all that was dirty when the flush began
    /// is in the clouds, whatever was written since.
    pub left_dirty_bytes: u64,
    /// Blocks that lack fragments in some clouds.
    pub left_repairs: u64,
}

impl<V: MaintainedVolume + ?Sized> Upkeep<V> {
    /// The upkeep of `volume`, not yet running; `gate` is asked before dirty data is written back.
    pub fn new(
        volume: Arc<V>,
        cache: Cache,
        blocks: Arc<BlockStore>,
        env: Environment,
        config: UpkeepConfig,
        gate: Option<Arc<dyn Gate>>,
    ) -> Arc<Upkeep<V>> {
        let (v, b, e, c) = (&volume, &blocks, &env, &config);
        let write_back = WriteBack::new(v.clone(), cache.clone(), b.clone(), e.clone(), c.clone(), gate);
        Arc::new(Upkeep {
            migrator: Migrator::new(v.clone(), &write_back, e.clone(), c.clone()),
            write_back,
            repairer: Repairer::new(v.clone(), b.clone(), e.clone(), c.clone()),
            garbage: GarbageCollector::new(v.clone(), b.clone(), e.clone(), c.clone()),
            cleaner: Cleaner::new(v.clone(), b.clone(), e.clone(), c.clone()),
            scrubber: Scrubber::new(v.clone(), b.clone(), e.clone()),
            reaper: Reaper::new(v.clone(), e.clone(), c.clone()),
            volume,
            cache,
            env,
            stop: CancellationToken::new(),
            tasks: Mutex::default(),
        })
    }

    /// Starts the loops but that of scrubs. Once.
    pub fn start(self: &Arc<Self>) {
        let mut tasks = self.tasks.lock();
        let me = || Arc::clone(self);
        let (one, two, three) = (me(), me(), me());
        let (four, five, six) = (me(), me(), me());
        tasks.spawn(async move { one.write_back.run(&one.stop).await });
        tasks.spawn(async move { two.repairer.run(&two.stop).await });
        tasks.spawn(async move { three.garbage.run(&three.stop).await });
        tasks.spawn(async move { four.reaper.run(&four.stop).await });
        tasks.spawn(async move { five.migrator.run(&five.stop).await });
        tasks.spawn(async move { six.cleaner.run(&six.stop).await });
    }

    /// Writes back what is dirty now and repairs what is queued, for at most `limit`; says what is left. Needs the
    /// running loops.
    pub async fn flush(&self, limit: Duration) -> Result<Flushed, UpkeepError> {
        let scope = Scope::Volume(self.volume.id());
        let flush = self.cache.flush(scope);
        self.write_back.retry_now();
        let is_done = tokio::select! {
            () = flush.done() => true,
            () = self.env.clock.sleep(limit) => false,
        };
        self.repairer.retry_now();
        let repaired = tokio::select! {
            repaired = self.repairer.once() => Some(repaired?),
            () = self.env.clock.sleep(limit) => None,
        };
        let left_repairs = match repaired {
            Some(report) => report.left,
            None => self.queued_repairs().await?,
        };
        let left_dirty_bytes = if is_done { 0 } else { self.dirty_bytes() };
        Ok(Flushed { left_dirty_bytes, left_repairs })
    }

    /// Dirty bytes, but for what the gate keeps here.
    fn dirty_bytes(&self) -> u64 {
        let kept = self.cache.held_back(self.volume.id()).kept_bytes;
        self.cache.dirty_bytes(Scope::Volume(self.volume.id())).saturating_sub(kept)
    }

    /// Blocks in the repair queue.
    pub async fn queued_repairs(&self) -> Result<u64, UpkeepError> {
        self.repairer.queued().await
    }

    /// Blocks and packs that are stored.
    pub async fn count_blocks(&self) -> Result<u64, UpkeepError> {
        let (mut total, mut after) = (0, None);
        loop {
            let versions = self.volume.stored_blocks(after, COUNTED).await;
            let versions = versions.map_err(UpkeepError::volume("counting blocks"))?;
            let Some(last) = versions.last() else { return Ok(total) };
            after = Some(last.identity);
            total += versions.len() as u64;
        }
    }

    /// Starts to check all fragments once in every period. Once.
    pub fn start_scrubs(self: &Arc<Self>, schedule: ScrubSchedule, notes: Arc<dyn ScrubNotes>) {
        let me = Arc::clone(self);
        self.tasks.lock().spawn(async move {
            me.scrubber.run(schedule, (&me.repairer, &*notes), &me.stop).await;
        });
    }

    /// Flushes for at most `limit`, then ends the loops; what has been begun is finished, for at most `limit` again.
    pub async fn stop(&self, limit: Duration) -> Result<Flushed, UpkeepError> {
        let flushed = self.flush(limit).await;
        self.stop.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tokio::select! {
            () = async { while tasks.join_next().await.is_some() {} } => {}
            () = self.env.clock.sleep(limit) => tasks.abort_all(),
        }
        let left_dirty_bytes = self.dirty_bytes();
        flushed.map(|flushed| Flushed { left_dirty_bytes, ..flushed })
    }
}
