use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use environment::DISK_FULL_PAUSE;
use journal::Lsn;

use crate::engine::Write;
use crate::local::{LocalConfig, Shared};
use crate::{CommitObserver, MetaError};

/// Transactions that are visible and not yet in the engine, oldest first.
#[derive(Default)]
pub(crate) struct ApplyQueue {
    waiting: VecDeque<Pending>,
    bytes: u64,
    /// Why nothing can be committed any more.
    ended: Option<String>,
    closed: bool,
}

struct Pending {
    lsn: Lsn,
    writes: Vec<Write>,
    bytes: u64,
}

impl ApplyQueue {
    pub(crate) fn push(&mut self, lsn: Lsn, writes: Vec<Write>, bytes: u64) {
        self.bytes += bytes;
        self.waiting.push_back(Pending { lsn, writes, bytes });
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the applier has slept long enough; it looks by itself after an interval.
    pub(crate) fn wants_applier(&self, config: &LocalConfig) -> bool {
        self.waiting.len() == 1 || self.bytes >= config.overlay / 16
    }

    /// Fails when the applier has ended.
    pub(crate) fn check(&self) -> Result<(), MetaError> {
        match &self.ended {
            Some(cause) => {
                Err(MetaError::Engine { what: "the store has stopped after a failure", cause: cause.clone() })
            }
            None if self.closed => Err(MetaError::Closed),
            None => Ok(()),
        }
    }
}

/// Moves durable transactions from the overlay to the engine, makes the engine durable now and then, and trims
/// the journal.
pub(crate) struct Applier {
    shared: Arc<Shared>,
    /// Applied up to here by a durable commit of the engine.
    checkpointed: Lsn,
    last_checkpoint: Duration,
    /// Bytes of metadata applied since.
    bytes: u64,
}

/// How much longer the applier sleeps when nothing waits.
const IDLE_FACTOR: u32 = 10;

/// Metadata applied at once, in bytes.
const APPLY_BYTES: u64 = 8 << 20;

impl Applier {
    pub(crate) fn new(shared: Arc<Shared>, now: Duration) -> Applier {
        let checkpointed = shared.engine.applied();
        Applier { shared, checkpointed, last_checkpoint: now, bytes: 0 }
    }

    pub(crate) async fn run(mut self) {
        let result = self.work().await;
        let engine = self.shared.engine.clone();
        let closed = self
            .blocking(move || {
                engine.close();
                Ok(())
            })
            .await;
        let result = result.and(closed);
        let mut queue = self.shared.queue.lock();
        queue.closed = true;
        if let Err(error) = result {
            tracing::error!(%error, "the metadata store has stopped");
            queue.ended = Some(error.to_string());
        }
        drop(queue);
        // Nobody trims it any more, so who waits for space would wait for ever.
        self.shared.journal.stop();
        self.shared.has_ended.store(true, Ordering::Release);
        self.shared.room.notify_waiters();
        self.shared.ended.notify_waiters();
    }

    async fn work(&mut self) -> Result<(), MetaError> {
        let shared = self.shared.clone();
        loop {
            self.wait_for_room().await;
            let stopping = shared.is_stopped();
            if stopping {
                shared.queue.lock().closed = true;
                self.wait_until_durable().await;
            }
            // Under load there is always more to apply; a checkpoint must not wait for the end of it.
            let mut more = true;
            while more && (stopping || !self.checkpoint_is_due(false) && shared.engine.has_room()) {
                more = self.apply().await?;
            }
            if self.checkpoint_is_due(stopping) {
                self.checkpoint().await?;
            }
            self.trim();
            if stopping {
                return Ok(());
            }
            more |= self.make_room().await?;
            if more {
                continue;
            }
            let idle = shared.queue.lock().waiting.is_empty() && shared.journal.usage().waiting == 0;
            let pause = shared.config.apply_interval * if idle { IDLE_FACTOR } else { 1 };
            tokio::select! {
                () = shared.work.notified() => {}
                () = shared.environment.clock.sleep(pause) => {}
            }
        }
    }

    /// A full disk is left alone. Meanwhile everything can be read, and the journal takes changes for a while; an error would
    /// end the engine for good.
    async fn wait_for_room(&self) {
        let shared = &self.shared;
        let mut has_waited = false;
        while !shared.is_stopped() && !shared.engine.has_room() {
            if !std::mem::replace(&mut has_waited, true) {
                shared.disk_full.store(true, Ordering::Release);
                tracing::error!(
                    "the disk is full: the metadata store cannot grow, and changes wait as soon as much is to be applied; \
                     free space on this disk"
                );
            }
            tokio::select! {
                () = shared.work.notified() => {}
                () = shared.environment.clock.sleep(DISK_FULL_PAUSE) => {}
            }
        }
        if has_waited {
            shared.disk_full.store(false, Ordering::Release);
            tracing::info!("the disk has room for the metadata store again");
        }
    }

    /// A stop takes along what is on its way to the disk.
    async fn wait_until_durable(&self) {
        let last = self.shared.queue.lock().waiting.back().map(|pending| pending.lsn);
        if let Some(last) = last
            && let Err(error) = self.shared.journal.durable(last).await
        {
            tracing::warn!(%error, "the last transactions did not become durable");
        }
    }

    /// Applies a part of what is durable; false when there was nothing.
    async fn apply(&mut self) -> Result<bool, MetaError> {
        let durable = self.shared.journal.durable_lsn();
        let mut taken = Vec::new();
        let mut bytes = 0;
        {
            let mut queue = self.shared.queue.lock();
            let hold = self.shared.hold.lock().filter(|_| !self.shared.is_stopped());
            let last = hold.map_or(durable, |hold| hold.min(durable));
            while bytes < APPLY_BYTES && queue.waiting.front().is_some_and(|pending| pending.lsn <= last) {
                let Some(pending) = queue.waiting.pop_front() else { break };
                bytes += pending.bytes;
                taken.push(pending);
            }
        }
        let Some(last) = taken.last().map(|pending| pending.lsn) else { return Ok(false) };
        environment::failpoint!("meta.before-apply");
        let shared = self.shared.clone();
        self.blocking(move || {
            let writes = || taken.iter().flat_map(|pending| &pending.writes);
            shared.engine.apply(&mut writes(), last, false)?;
            shared.changes.note(writes());
            shared.overlay.applied(shared.engine.view()?, last, writes());
            Ok(())
        })
        .await?;
        self.bytes += bytes;
        self.shared.queue.lock().bytes -= bytes;
        self.shared.room.notify_waiters();
        Ok(true)
    }

    fn checkpoint_is_due(&self, stopping: bool) -> bool {
        let shared = &self.shared;
        let now = shared.environment.clock.monotonic();
        let config = &shared.config;
        shared.engine.applied() > self.checkpointed
            && (stopping
                || self.bytes >= config.checkpoint_bytes
                || now.saturating_sub(self.last_checkpoint) >= config.checkpoint_interval
                || (shared.journal.is_short() && self.holds_journal()))
    }

    /// Whether the oldest segment of the journal is needed for want of a checkpoint.
    fn holds_journal(&self) -> bool {
        self.shared.journal.oldest_segment_end().is_some_and(|end| self.checkpointed.next() < end)
    }

    /// Moves a part of what the observer needs of the oldest segment, if the journal is short of space and nothing
    /// else holds the segment; false when there was nothing to be done.
    async fn make_room(&mut self) -> Result<bool, MetaError> {
        let shared = self.shared.clone();
        let Some(end) = shared.movable(self.checkpointed) else { return Ok(false) };
        match shared.move_held(end).await {
            // It has stopped; whoever waits for it is told so.
            Err(MetaError::Journal(_)) => Ok(false),
            moved => moved,
        }
    }

    async fn checkpoint(&mut self) -> Result<(), MetaError> {
        let applied = self.shared.engine.applied();
        environment::failpoint!("meta.before-checkpoint");
        let shared = self.shared.clone();
        self.blocking(move || shared.engine.apply(&mut std::iter::empty(), applied, true)).await?;
        environment::failpoint!("meta.after-checkpoint");
        self.checkpointed = applied;
        self.bytes = 0;
        self.last_checkpoint = self.shared.environment.clock.monotonic();
        Ok(())
    }

    /// Releases the records that neither the engine nor the observer needs.
    fn trim(&self) {
        let observer: &dyn CommitObserver = &*self.shared.observer;
        let needed = observer.oldest_needed();
        let end = self.checkpointed.next();
        self.shared.journal.release(needed.map_or(end, |needed| needed.min(end)));
    }

    async fn blocking(
        &self,
        work: impl FnOnce() -> Result<(), MetaError> + Send + 'static,
    ) -> Result<(), MetaError> {
        if self.shared.config.inline {
            return work();
        }
        tokio::task::spawn_blocking(work).await.unwrap_or(Err(MetaError::Closed))
    }
}
