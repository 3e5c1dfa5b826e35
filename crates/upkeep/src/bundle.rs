use std::sync::Arc;
use std::time::Duration;

use blocks::BlockStore;
use cache::{Cache, Scope};
use environment::Environment;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    Cleaner, GarbageCollector, MaintainedVolume, Migrator, Reaper, Repairer, Scrubber, UpkeepConfig,
    UpkeepError, WriteBack,
};

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
    volume: Arc<V>,
    cache: Cache,
    env: Environment,
    stop: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

/// What a flush left undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "says what is not in the clouds yet"]
pub struct Flushed {
    /// Dirty bytes that are only in the local journal.
    pub left_dirty_bytes: u64,
    /// Blocks that lack fragments in some clouds.
    pub left_repairs: u64,
}

impl<V: MaintainedVolume + ?Sized> Upkeep<V> {
    /// The upkeep of `volume`, not yet running.
    pub fn new(
        volume: Arc<V>,
        cache: Cache,
        blocks: Arc<BlockStore>,
        env: Environment,
        config: UpkeepConfig,
    ) -> Arc<Upkeep<V>> {
        let (v, b, e, c) = (&volume, &blocks, &env, &config);
        let write_back = WriteBack::new(v.clone(), cache.clone(), b.clone(), e.clone(), c.clone());
        Arc::new(Upkeep {
            migrator: Migrator::new(v.clone(), &write_back, e.clone(), c.clone()),
            write_back,
            repairer: Repairer::new(v.clone(), b.clone(), e.clone(), c.clone()),
            garbage: GarbageCollector::new(v.clone(), b.clone(), e.clone(), c.clone()),
            cleaner: Cleaner::new(v.clone(), b.clone(), e.clone(), c.clone()),
            scrubber: Scrubber::new(v.clone(), b.clone(), e.clone(), c.clone()),
            reaper: Reaper::new(v.clone(), e.clone(), c.clone()),
            volume,
            cache,
            env,
            stop: CancellationToken::new(),
            tasks: Mutex::default(),
        })
    }

    /// Starts the loops. Once.
    pub fn start(self: &Arc<Self>) {
        let mut tasks = self.tasks.lock();
        let me = || Arc::clone(self);
        let (one, two, three, four) = (me(), me(), me(), me());
        let (five, six, seven) = (me(), me(), me());
        tasks.spawn(async move { one.write_back.run(&one.stop).await });
        tasks.spawn(async move { two.repairer.run(&two.stop).await });
        tasks.spawn(async move { three.garbage.run(&three.stop).await });
        tasks.spawn(async move { four.scrubber.run(&four.stop).await });
        tasks.spawn(async move { five.reaper.run(&five.stop).await });
        tasks.spawn(async move { six.migrator.run(&six.stop).await });
        tasks.spawn(async move { seven.cleaner.run(&seven.stop).await });
    }

    /// Writes back what is dirty now and repairs what is queued, for at most `limit`; says what is left. Needs the
    /// running loops.
    pub async fn flush(&self, limit: Duration) -> Result<Flushed, UpkeepError> {
        let scope = Scope::Volume(self.volume.id());
        let flush = self.cache.flush(scope);
        self.write_back.retry_now();
        tokio::select! {
            () = flush.done() => {}
            () = self.env.clock.sleep(limit) => {}
        }
        self.repairer.retry_now();
        let repaired = tokio::select! {
            repaired = self.repairer.once() => Some(repaired?),
            () = self.env.clock.sleep(limit) => None,
        };
        let left_repairs = match repaired {
            Some(report) => report.left,
            None => self.queued_repairs().await?,
        };
        Ok(Flushed { left_dirty_bytes: self.cache.dirty_bytes(scope), left_repairs })
    }

    /// Blocks in the repair queue.
    pub async fn queued_repairs(&self) -> Result<u64, UpkeepError> {
        let (mut count, mut after) = (0, None);
        loop {
            let rows = self.volume.repairs(after.as_ref(), 1024).await;
            let rows = rows.map_err(UpkeepError::volume("reading the repair queue"))?;
            let Some(last) = rows.last() else { return Ok(count) };
            count += rows.len() as u64;
            after = Some(last.row.clone());
        }
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
        flushed
    }
}
