use std::io::{self, IoSlice};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::batch::Batch;
use crate::layout::BATCH_HEAD;
use crate::segment::SegmentFile;
use crate::shared::{Shared, State};
use crate::{JournalError, WriterKind};

/// Starts the writer of an opened journal, and the filler beside it.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>, JournalError> {
    if shared.config.writer == WriterKind::Task {
        tokio::spawn(Writer::new(shared.clone()).run_task());
        return Ok(Vec::new());
    }
    let thread = |name: &str, body: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|cause| JournalError::Open {
            what: "starting a thread for",
            path: shared.directory.clone(),
            cause: Arc::new(cause),
        })
    };
    let (writer, filler) = (Writer::new(shared.clone()), Running::new(shared));
    Ok(vec![
        thread("journal", Box::new(|| writer.run()))?,
        thread("journal-fill", Box::new(move || filler.shared.fill()))?,
    ])
}

/// Writes batches, one at a time: whatever has been queued while the last one was synced.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    buffer: Vec<u8>,
    _running: Running,
}

/// How long a full disk is left alone.
const DISK_FULL_PAUSE: Duration = Duration::from_secs(1);

/// Memory that the writer's buffer keeps between batches.
const KEPT_BUFFER: usize = 16 << 20;

enum Work {
    Write(Arc<Batch>),
    Wait,
    Stop,
}

/// Counts as running while it lives.
struct Running {
    shared: Arc<Shared>,
}

impl Running {
    fn new(shared: &Arc<Shared>) -> Running {
        shared.running.send_modify(|running| *running += 1);
        Running { shared: shared.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.running.send_modify(|running| *running -= 1);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.end_writer();
    }
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Writer {
        let _running = Running::new(&shared);
        Writer { shared, buffer: Vec::new(), _running }
    }

    /// The writer as a thread: returns when the journal is closed or has failed.
    pub(crate) fn run(mut self) {
        loop {
            let work = {
                let mut state = self.shared.state.lock();
                loop {
                    match self.next(&mut state) {
                        Work::Wait => self.shared.work.wait(&mut state),
                        work => break work,
                    }
                }
            };
            match work {
                Work::Write(batch) if self.write(&batch) => {}
                _ => return,
            }
        }
    }

    /// The writer as a task.
    pub(crate) async fn run_task(mut self) {
        loop {
            let work = self.next(&mut self.shared.state.lock());
            match work {
                Work::Write(batch) => {
                    // There is no filler whose pauses would be waited for.
                    while batch.segment.file().is_none() && self.shared.state.lock().free.is_empty() {
                        match self.shared.make_file() {
                            Made::DiskFull if !self.shared.state.lock().stop => {
                                self.shared.environment.clock.sleep(DISK_FULL_PAUSE).await;
                            }
                            _ => break,
                        }
                    }
                    if !self.write(&batch) {
                        return;
                    }
                }
                Work::Wait => self.shared.work_task.notified().await,
                _ => return,
            }
        }
    }

    fn next(&self, state: &mut State) -> Work {
        if state.failed.is_some() {
            return Work::Stop;
        }
        if state.closed.is_empty() {
            self.shared.close_batch(state);
        }
        let batch = match state.closed.pop_front() {
            Some(batch) => batch,
            // An empty batch tells durably that segments are no longer needed, or that the last batch is whole.
            None if !state.dying.is_empty() || (state.stop && state.tail_unproven) => {
                let batch = self.shared.place_batch(state, 0);
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

    /// Writes and syncs a batch; false when the journal has failed.
    fn write(&mut self, batch: &Batch) -> bool {
        match self.try_write(batch) {
            Ok(()) => {
                self.shared.complete(batch);
                true
            }
            Err(cause) => {
                tracing::error!(%cause, "the journal has stopped: a write or sync failed");
                self.shared.fail(JournalError::Failed { cause: Arc::new(cause) });
                false
            }
        }
    }

    fn try_write(&mut self, batch: &Batch) -> io::Result<()> {
        let offset = batch.encode(&mut self.buffer);
        let file = match batch.segment.file() {
            Some(file) => file.clone(),
            None => {
                let file = self.free_file()?;
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
        file.file.sync_data()?;
        environment::failpoint!("journal.after-sync");
        if self.buffer.capacity() > KEPT_BUFFER {
            self.buffer = Vec::new();
        }
        debug_assert!(batch.length() >= BATCH_HEAD);
        Ok(())
    }

    /// A spare file; waits for the filler, for as long as the disk is full if need be, or makes one when there is
    /// nobody to wait for.
    fn free_file(&self) -> io::Result<SegmentFile> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(file) = state.free.pop() {
                self.shared.files.notify_all();
                return Ok(file);
            }
            let filler_works = self.shared.config.writer == WriterKind::Thread
                && !state.filler_gone
                && self.shared.wants_file(&state);
            if !filler_works || state.stop || state.failed.is_some() {
                break;
            }
            self.shared.files.wait(&mut state);
        }
        state.file_count += 1;
        state.next_file += 1;
        let index = state.next_file;
        drop(state);
        self.shared.create_file(index)
    }
}

/// How an attempt to make a spare file ended.
enum Made {
    Ready,
    DiskFull,
    Failed,
}

impl Shared {
    fn wants_file(&self, state: &State) -> bool {
        let few = state.disk_full || state.free.len() as u64 <= self.config.headroom_segments();
        few && state.file_count < state.segments
    }

    /// Makes spare files ahead of their use; a thread beside the writer's. One more than the head-room takes, so that
    /// upkeep goes on when the disk is full.
    pub(crate) fn fill(self: &Arc<Self>) {
        loop {
            {
                let mut state = self.state.lock();
                while !self.wants_file(&state) && !state.stop && state.failed.is_none() {
                    self.files.wait(&mut state);
                }
                if state.stop || state.failed.is_some() {
                    return;
                }
            }
            match self.make_file() {
                Made::Ready => {}
                Made::DiskFull => {
                    let mut state = self.state.lock();
                    if !state.stop {
                        // A thread of its own sleeps here, which a simulated process does not have.
                        self.files.wait_for(&mut state, DISK_FULL_PAUSE);
                    }
                }
                Made::Failed => {
                    self.state.lock().filler_gone = true;
                    self.files.notify_all();
                    return;
                }
            }
        }
    }

    fn create_file(&self, index: u64) -> io::Result<SegmentFile> {
        SegmentFile::create(&*self.environment.disk, &self.directory, index, self.config.segment)
    }

    /// Makes a spare file. On a full disk nothing stops: nobody is admitted beyond the files that there are, and what
    /// is released goes back to those who wait.
    fn make_file(self: &Arc<Self>) -> Made {
        let index = {
            let mut state = self.state.lock();
            state.next_file += 1;
            state.next_file
        };
        let made = self.create_file(index);
        let mut state = self.state.lock();
        match made {
            Ok(file) => {
                state.file_count += 1;
                state.free.push(file);
                if std::mem::take(&mut state.disk_full) {
                    tracing::info!("the disk has room for the journal again");
                }
                self.files.notify_all();
                self.grant(&mut state);
                Made::Ready
            }
            Err(cause) if is_disk_full(&cause) => {
                if !std::mem::replace(&mut state.disk_full, true) {
                    tracing::error!(
                        directory = %self.directory.display(),
                        segment = self.config.segment,
                        have = state.file_count,
                        want = state.segments,
                        "the disk is full: the journal cannot grow to its configured size, and writers wait for what is \
                         written back; free space on this disk, or lower cache.journal"
                    );
                }
                Made::DiskFull
            }
            Err(cause) => {
                // Not fatal by itself: the writer makes the file when it needs it, and fails if it cannot.
                tracing::warn!(%cause, "cannot prepare a journal segment");
                Made::Failed
            }
        }
    }
}

fn is_disk_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
