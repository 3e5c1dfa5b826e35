use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use environment::{DISK_FULL_PAUSE, is_disk_full};

use crate::pen::Work;
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
    _running: Running,
}

/// Files that the journal makes however full the disk is.
const FIRST_FILES: u64 = 4;
/// Bytes of the disk that it leaves to others from then on.
const LEFT: u64 = 64 << 20;

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
        Writer { shared, _running }
    }

    /// The writer as a thread: returns when the journal is closed or has failed.
    pub(crate) fn run(self) {
        let shared = &self.shared;
        loop {
            let mut pen = shared.pen.lock();
            let work = shared.next(&mut shared.state.lock());
            match work {
                Work::Write(batch) if pen.write(shared, &batch) => {}
                Work::Wait => {
                    // In this order: who finds the pen taken relies on its holder to look for work again.
                    drop(pen);
                    let mut state = shared.state.lock();
                    if !state.has_work() {
                        shared.work.wait(&mut state);
                    }
                }
                _ => return,
            }
        }
    }

    /// The writer as a task.
    pub(crate) async fn run_task(self) {
        loop {
            let work = self.shared.next(&mut self.shared.state.lock());
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
                    let latency = self.shared.environment.disk.latency();
                    if !latency.is_zero() {
                        self.shared.environment.clock.sleep(latency).await;
                    }
                    if !self.shared.pen.lock().write(&self.shared, &batch) {
                        return;
                    }
                }
                Work::Wait => self.shared.work_task.notified().await,
                _ => return,
            }
        }
    }
}

/// How an attempt to make a spare file ended.
enum Made {
    Ready,
    DiskFull,
    Failed,
}

impl Shared {
    /// A spare file; waits for the filler, for as long as the disk is full if need be, or makes one when there is
    /// nobody to wait for.
    pub(crate) fn free_file(&self) -> io::Result<SegmentFile> {
        let mut state = self.state.lock();
        loop {
            if let Some(file) = state.free.pop() {
                self.files.notify_all();
                return Ok(file);
            }
            let will_come = self.filler_works(&state) && self.wants_file(&state);
            if !will_come || state.stop || state.failed.is_some() {
                break;
            }
            self.files.wait(&mut state);
        }
        state.file_count += 1;
        state.next_file += 1;
        let index = state.next_file;
        drop(state);
        self.create_file(index)
    }

    /// Whether somebody makes files, and has not made all.
    pub(crate) fn filler_works(&self, state: &State) -> bool {
        self.config.writer == WriterKind::Thread && !state.filler_gone && state.file_count < state.segments
    }

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
                    let mut state = self.state.lock();
                    state.filler_gone = true;
                    self.files.notify_all();
                    self.grant(&mut state);
                    return;
                }
            }
        }
    }

    fn create_file(&self, index: u64) -> io::Result<SegmentFile> {
        SegmentFile::create(&*self.environment.disk, &self.directory, index, self.config.segment)
    }

    /// Beyond its first files the journal leaves something for the metadata: without that nothing in it is ever let go of.
    fn may_fill_the_disk(&self) -> bool {
        let state = self.state.lock();
        let Some(file) =
            state.free.first().or(state.current.file()).filter(|_| state.file_count >= FIRST_FILES)
        else {
            return true;
        };
        let file = file.file.clone();
        drop(state);
        file.available().is_ok_and(|bytes| bytes >= self.config.segment + LEFT)
    }

    /// Makes a spare file. On a full disk nothing stops: nobody is admitted beyond the files that there are, and what
    /// is released goes back to those who wait.
    fn make_file(self: &Arc<Self>) -> Made {
        let index = {
            let mut state = self.state.lock();
            state.next_file += 1;
            state.next_file
        };
        let made = match self.may_fill_the_disk() {
            true => self.create_file(index),
            false => Err(io::ErrorKind::StorageFull.into()),
        };
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
