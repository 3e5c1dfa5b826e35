use std::io::{self, IoSlice};
use std::sync::Arc;

use environment::mutant::{Mutant, is_broken};

use crate::batch::Batch;
use crate::layout::BATCH_HEAD;
use crate::shared::{Shared, State};
use crate::{JournalError, WriterKind};

/// Memory that the buffer keeps between batches.
const KEPT_BUFFER: usize = 16 << 20;
/// The longest batch that a waiting task writes on its own thread.
const HELP_BYTES: u64 = 256 << 10;

/// Who holds the pen writes batches, one at a time: the writer's thread as long as there is a queue, otherwise who
/// waits for a record, which saves the way to that thread and back.
#[derive(Default)]
pub(crate) struct Pen {
    buffer: Vec<u8>,
}

/// What there is to be done.
pub(crate) enum Work {
    Write(Arc<Batch>),
    Wait,
    Stop,
}

impl State {
    /// Whether somebody should take the pen.
    pub(crate) fn has_work(&self) -> bool {
        let queued = self.open.is_some() || !self.closed.is_empty();
        queued || !self.dying.is_empty() || self.stop || self.failed.is_some()
    }
}

impl Shared {
    /// The next batch. Only for the holder of the pen.
    pub(crate) fn next(&self, state: &mut State) -> Work {
        if state.failed.is_some() {
            return Work::Stop;
        }
        if state.closed.is_empty() {
            self.close_batch(state);
        }
        let batch = match state.closed.pop_front() {
            Some(batch) => batch,
            // An empty batch tells durably that segments are no longer needed, or that the last batch is whole.
            None if !state.dying.is_empty() || (state.stop && state.tail_unproven) => {
                let batch = self.place_batch(state, 0);
                state.at = batch.end();
                batch
            }
            None if state.stop => return Work::Stop,
            None => return Work::Wait,
        };
        let batch = Arc::new(batch);
        state.writing = Some(batch.clone());
        Work::Write(batch)
    }

    /// Sees to it that what is queued will be written.
    pub(crate) fn nudge(&self) {
        if self.state.lock().has_work() {
            self.wake_writer();
        }
    }

    /// As [`Shared::nudge`], for a caller that will wait: when nobody is writing it writes a short batch itself. Blocks
    /// for a write and a sync.
    pub(crate) fn help(self: &Arc<Self>) {
        if self.config.writer == WriterKind::Thread {
            // Who has the pen looks for work when he has put it down.
            let Some(mut pen) = self.pen.try_lock() else { return };
            let mut state = self.state.lock();
            let batch = state.closed.front().or(state.open.as_ref());
            let short = batch.is_some_and(|b| b.length() <= HELP_BYTES && b.segment.file().is_some());
            let work = if short { self.next(&mut state) } else { Work::Wait };
            drop(state);
            if let Work::Write(batch) = work {
                pen.write(self, &batch);
            }
        }
        self.nudge();
    }
}

impl Pen {
    /// Writes and syncs a batch; false when the journal has failed.
    pub(crate) fn write(&mut self, shared: &Arc<Shared>, batch: &Batch) -> bool {
        match self.try_write(shared, batch) {
            Ok(()) => {
                shared.complete(batch);
                true
            }
            Err(cause) => {
                tracing::error!(%cause, "the journal has stopped: a write or sync failed");
                shared.fail(JournalError::Failed { cause: Arc::new(cause) });
                false
            }
        }
    }

    fn try_write(&mut self, shared: &Shared, batch: &Batch) -> io::Result<()> {
        let offset = batch.encode(&mut self.buffer);
        let file = match batch.segment.file() {
            Some(file) => file.clone(),
            None => {
                let file = shared.free_file()?;
                batch.segment.set_file(file.clone());
                file
            }
        };
        environment::failpoint!("journal.before-write");
        if environment::failpoint::is_armed("journal.torn-write") {
            let half = &self.buffer[..self.buffer.len() / 2];
            file.file.write_all_at(&[IoSlice::new(half)], offset)?;
            environment::failpoint!("journal.torn-write");
        }
        file.file.write_all_at(&[IoSlice::new(&self.buffer)], offset)?;
        environment::failpoint!("journal.before-sync");
        if !is_broken(Mutant::SyncDropped) {
            file.file.sync_data()?;
        }
        environment::failpoint!("journal.after-sync");
        if let Some(mark) = &batch.mark {
            mark.write(&shared.environment, &shared.node_key)?;
            environment::failpoint!("journal.segment-ended");
        }
        if self.buffer.capacity() > KEPT_BUFFER {
            self.buffer = Vec::new();
        }
        debug_assert!(batch.length() >= BATCH_HEAD);
        Ok(())
    }
}
