use std::sync::Arc;

use environment::{Environment, failpoint};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::pace::Pace;
use crate::write_back::RewriteQueue;
use crate::{MaintainedVolume, Rewrite, UpkeepConfig, UpkeepError, WriteBack};

/// Blocks offered at a time: fewer than write-back has under way, so that others go on where these wait for their clouds.
const BATCH: u32 = 256;

/// Moves files from the policy that they are stored by to the one that they have now (decision 28): finds the blocks that are stored
/// otherwise, and has write-back store each once more. At a bounded rate, and only when write-back has nothing better to do.
pub struct Migrator<V: ?Sized> {
    volume: Arc<V>,
    queue: Arc<RewriteQueue>,
    env: Environment,
    config: UpkeepConfig,
    backoff: Backoff,
    /// One for each block that is offered.
    offers: Arc<Semaphore>,
}

/// What a look for blocks to move has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// Blocks that write-back was asked to store once more.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether everything has been looked at since this was last true.
    pub is_last: bool,
    /// Whether nothing is left to be moved.
    pub is_done: bool,
}

impl<V: MaintainedVolume + ?Sized> Migrator<V> {
    /// Moves the files of `volume`; `write_back` does the work.
    pub fn new(
        volume: Arc<V>,
        write_back: &WriteBack<V>,
        env: Environment,
        config: UpkeepConfig,
    ) -> Migrator<V> {
        let backoff = Backoff::new(config.first_pause, config.longest_pause);
        let offers = Arc::new(Semaphore::new(BATCH as usize));
        Migrator { volume, queue: write_back.rewrites(), env, config, backoff, offers }
    }

    /// Works when somebody has asked for it, and at intervals, until `stop`. What is begun goes on after a restart.
    pub async fn run(&self, stop: &CancellationToken) {
        loop {
            // Safe to drop anywhere: each step is a transaction, and what is offered is looked for again.
            tokio::select! {
                () = stop.cancelled() => return,
                result = self.all() => if let Err(error) = result {
                    tracing::warn!(volume = %self.volume.id(), %error, "files could not be moved to their new policy; it is tried again");
                },
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.env.clock.sleep(self.config.migration_interval) => {}
                () = self.volume.migrations_waiting() => {}
            }
        }
    }

    /// Looks once, and offers what it finds to write-back.
    pub async fn step(&self) -> Result<Offered, UpkeepError> {
        let found = self.volume.find_migrating().await;
        found.map_err(UpkeepError::volume("looking for files to move"))?;
        let rewrites = self.volume.to_rewrite(BATCH as usize, self.config.in_flight.max(1)).await;
        let rewrites = rewrites.map_err(UpkeepError::volume("looking for blocks to move"))?;
        let bytes = rewrites.blocks.iter().map(|block| block.length).sum();
        let blocks = self.offer(rewrites.blocks).await;
        Ok(Offered { blocks, bytes, is_last: rewrites.is_last, is_done: rewrites.is_done })
    }

    /// Asks write-back to store blocks once more; how many.
    pub async fn offer(&self, blocks: Vec<Rewrite>) -> u64 {
        let mut offered = 0;
        for rewrite in blocks {
            // Never closed.
            let Ok(ticket) = Arc::clone(&self.offers).acquire_owned().await else { break };
            offered += 1;
            self.queue.offer(rewrite, Box::new(ticket));
        }
        offered
    }

    /// Until nothing is left to be moved. Needs a write-back that runs.
    async fn all(&self) -> Result<(), UpkeepError> {
        let clock = &*self.env.clock;
        let mut pace = Pace::new(self.config.migration_rate, clock);
        let (mut passes, mut refused) = (0, 0);
        loop {
            let offered = self.step().await?;
            failpoint!("migration.offered");
            pace.wait(offered.bytes, clock).await;
            // All of them have been stored, or tried.
            drop(self.offers.acquire_many(BATCH).await);
            // A cloud may be away, and what the others took is garbage now.
            refused = if self.queue.take_refused() > 0 { refused + 1 } else { 0 };
            if refused > 0 {
                clock.sleep(self.backoff.pause(refused, &*self.env.entropy)).await;
            }
            if !offered.is_last {
                continue;
            }
            if offered.is_done {
                return Ok(());
            }
            // One pass moves, and one finds that all is moved. More are for blocks that could not be.
            passes += 1;
            if passes > 2 {
                clock.sleep(self.backoff.pause(passes - 2, &*self.env.entropy)).await;
            }
        }
    }
}
