use std::sync::Arc;

use blocks::{BlockStore, Fault, FragmentFault};
use environment::{Environment, failpoint};
use futures::stream::{StreamExt, iter};
use tokio_util::sync::CancellationToken;

use crate::{GarbageRow, MaintainedVolume, UpkeepConfig, UpkeepError};

/// Rows taken at a time.
const BATCH: usize = 64;
/// Versions deleted at the same time.
const PARALLEL: usize = 16;

/// Deletes the fragments of block versions that nobody refers to any more (`K47`). A row of the queue goes away
/// only after all its fragments are gone; deleting twice is harmless.
pub struct GarbageCollector<V: ?Sized> {
    volume: Arc<V>,
    blocks: Arc<BlockStore>,
    env: Environment,
    config: UpkeepConfig,
}

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GarbageReport {
    /// Block versions deleted.
    pub versions: u64,
    /// Rows of the queue done.
    pub rows: u64,
    /// Rows left for later, because some cloud did not delete its fragments.
    pub postponed: u64,
    /// Rows left for later, because puts that were given up may still bring fragments.
    pub awaited: u64,
    /// Rows left because something that might be restored refers to their versions.
    pub held: u64,
}

impl<V: MaintainedVolume + ?Sized> GarbageCollector<V> {
    /// Collects the garbage of `volume`.
    pub fn new(
        volume: Arc<V>,
        blocks: Arc<BlockStore>,
        env: Environment,
        config: UpkeepConfig,
    ) -> GarbageCollector<V> {
        GarbageCollector { volume, blocks, env, config }
    }

    /// Collects again and again until `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.env.clock.sleep(self.config.garbage_interval) => {}
            }
            // Safe to drop anywhere: what is deleted is deleted again next time.
            tokio::select! {
                () = stop.cancelled() => return,
                result = self.once() => match result {
                    Ok(GarbageReport { postponed: 0, .. }) => {}
                    Ok(report) => tracing::warn!(volume = %self.volume.id(), ?report, "some garbage could not be deleted; it is tried again"),
                    Err(error) => tracing::warn!(volume = %self.volume.id(), %error, "garbage collection stopped; it is tried again"),
                },
            }
        }
    }

    /// Collects all garbage that is due now. Fragments of it that are just being stored are waited for.
    pub async fn once(&self) -> Result<GarbageReport, UpkeepError> {
        let mut report = GarbageReport::default();
        let until = self.env.clock.wall();
        let mut writes_ended = false;
        let mut after = None;
        loop {
            let rows = self.volume.garbage(until, after.as_ref(), BATCH).await;
            let rows = rows.map_err(UpkeepError::volume("looking for garbage"))?;
            let Some(last) = rows.last() else { return Ok(report) };
            after = Some(last.row.clone());
            if !std::mem::replace(&mut writes_ended, true) {
                self.blocks.writes_ended().await;
            }
            failpoint!("gc.before-delete");
            let mut done = Vec::new();
            for row in rows {
                if !self.volume.may_delete(&row.row) {
                    report.held += 1;
                    continue;
                }
                let faults = self.delete(&row).await;
                if faults.is_empty() {
                    report.versions += row.versions.len() as u64;
                    done.push(row.row);
                } else if faults.iter().all(|fault| matches!(fault.what, FragmentFault::PutLate)) {
                    report.awaited += 1;
                } else {
                    report.postponed += 1;
                }
            }
            failpoint!("gc.before-commit");
            if !done.is_empty() {
                report.rows += done.len() as u64;
                let collected = self.volume.garbage_collected(&done).await;
                collected.map_err(UpkeepError::volume("removing deleted garbage from the queue"))?;
            }
        }
    }

    async fn delete(&self, row: &GarbageRow) -> Vec<Fault> {
        let mut deletions = Vec::with_capacity(row.versions.len());
        for (version, seal) in &row.versions {
            deletions.push(self.blocks.delete(&row.key, version, *seal, &row.placement));
        }
        iter(deletions).buffer_unordered(PARALLEL).concat().await
    }
}
