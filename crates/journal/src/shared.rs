use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use environment::Environment;
use parking_lot::{Condvar, Mutex};
use seal::{NodeKey, SegmentKey};
use tokio::sync::{Notify, oneshot, watch};

use crate::batch::{Batch, record_length};
use crate::layout::{BATCH_HEAD, MARK, RUN_HEADER, RunHeader, record_space};
use crate::pen::Pen;
use crate::segment::{Mark, Segment, SegmentFile};
use crate::space::{Reservation, Space};
use crate::{Appended, JournalConfig, JournalError, Lsn, PayloadRef, Record};

type DurableWaiter = oneshot::Sender<Result<(), JournalError>>;

/// What the handles, the writer and the filler share.
pub(crate) struct Shared {
    pub environment: Environment,
    pub directory: PathBuf,
    pub node_key: NodeKey,
    pub config: JournalConfig,
    pub state: Mutex<State>,
    /// Taken before `state`.
    pub pen: Mutex<Pen>,
    /// Work for the writer, when it is a thread.
    pub work: Condvar,
    /// Work for the writer, when it is a task.
    pub work_task: Notify,
    /// A spare file is wanted, or has been made.
    pub files: Condvar,
    /// Last durable record.
    durable: AtomicU64,
    waiters: Mutex<BTreeMap<Lsn, Vec<DurableWaiter>>>,
    /// The writer has ended: nothing becomes durable any more.
    writer_ended: AtomicBool,
    /// How many of writer and filler still run.
    pub running: watch::Sender<u8>,
}

/// Where the next batch goes, and everything on its way to the disk.
pub(crate) struct State {
    /// The segment that batches are placed in.
    pub current: Arc<Segment>,
    /// Its size.
    pub current_bytes: u64,
    /// First offset behind the last closed batch.
    pub at: u64,
    /// Key and number of the current run; none before this process has begun one.
    pub run_key: Option<Arc<SegmentKey>>,
    /// Number of the last run.
    pub run: u64,
    /// Number of the next batch in the run.
    pub batch_number: u64,
    pub next_lsn: Lsn,
    pub open: Option<Batch>,
    pub closed: VecDeque<Batch>,
    pub writing: Option<Arc<Batch>>,
    /// Segments that hold something needed, with the first record behind each; the current one is not among them.
    pub live: BTreeMap<u64, (Arc<Segment>, Lsn)>,
    /// Segments that are not needed and not yet durably forgotten.
    pub dying: Vec<Arc<Segment>>,
    /// Files ready for a new segment.
    pub free: Vec<SegmentFile>,
    /// Segment files in all.
    pub file_count: u64,
    /// Segments that there may be. More than configured while a start found too much in them.
    pub segments: u64,
    /// No file could be made for want of space on the disk: those that there are must do.
    pub disk_full: bool,
    /// The filler has given up; the writer makes its files itself.
    pub filler_gone: bool,
    /// For the name of the next file.
    pub next_file: u64,
    /// Oldest segment that is needed.
    pub oldest_segment: u64,
    /// What the segment before the current one may not say, because the process that left it was interrupted.
    pub unmarked: Option<Mark>,
    /// Records that the last batch on the disk carries; one without records proves that it is whole.
    pub tail_unproven: bool,
    pub space: Space,
    pub failed: Option<JournalError>,
    pub stop: bool,
}

impl State {
    pub(crate) fn failure(&self) -> Option<JournalError> {
        self.failed.clone().or(self.stop.then_some(JournalError::Closed))
    }

    /// Where what can be placed in the current segment ends.
    fn end_of_segment(&self) -> u64 {
        self.current_bytes - MARK
    }

    /// Bytes of the current segment behind everything placed in it.
    pub(crate) fn rest_of_segment(&self) -> u64 {
        self.end_of_segment().saturating_sub(self.open.as_ref().map_or(self.at, Batch::end))
    }

    /// Segments that cannot be reused yet.
    pub(crate) fn segments_in_use(&self) -> u64 {
        1 + self.live.len() as u64 + self.dying.len() as u64
    }

    /// Segments that can be begun: those that are not in use, or, on a full disk, files that no segment has.
    pub(crate) fn segments_to_begin(&self, segments: u64) -> u64 {
        if !self.disk_full {
            return segments.saturating_sub(self.segments_in_use());
        }
        self.files_to_begin()
    }

    /// Files that no segment has or is about to take.
    pub(crate) fn files_to_begin(&self) -> u64 {
        let waiting = self.live.values().map(|live| &live.0).chain([&self.current]);
        let waiting = waiting.filter(|segment| segment.file().is_none()).count() as u64;
        (self.free.len() as u64).saturating_sub(waiting)
    }

    /// Oldest segment that something in the queue is bound for.
    fn oldest_queued(&self) -> u64 {
        let writing = self.writing.as_ref().map(|batch| batch.segment.sequence);
        let queued = self.closed.front().or(self.open.as_ref()).map(|batch| batch.segment.sequence);
        writing.or(queued).unwrap_or(self.current.sequence)
    }

    /// A payload that is not yet on the disk.
    pub(crate) fn queued_payload(&self, place: PayloadRef) -> Option<Bytes> {
        let queued = self.closed.iter().chain(&self.open);
        self.writing.as_deref().into_iter().chain(queued).find_map(|batch| batch.payload(place))
    }

    pub(crate) fn segment(&self, sequence: u64) -> Option<Arc<Segment>> {
        if sequence == self.current.sequence {
            return Some(self.current.clone());
        }
        self.live.get(&sequence).map(|live| live.0.clone())
    }
}

impl Shared {
    pub(crate) fn new(
        environment: Environment,
        directory: PathBuf,
        node_key: NodeKey,
        config: JournalConfig,
        state: State,
    ) -> Shared {
        let durable = AtomicU64::new(state.next_lsn.0 - 1);
        Shared {
            environment,
            directory,
            node_key,
            config,
            state: Mutex::new(state),
            pen: Mutex::default(),
            work: Condvar::new(),
            work_task: Notify::new(),
            files: Condvar::new(),
            durable,
            waiters: Mutex::default(),
            writer_ended: AtomicBool::new(false),
            running: watch::Sender::new(0),
        }
    }

    pub(crate) fn wake_writer(&self) {
        self.work.notify_one();
        self.work_task.notify_one();
    }

    pub(crate) fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Gives the record a number and a place, and queues it.
    pub(crate) fn append(
        self: &Arc<Self>,
        record: Record,
        mut reservation: Reservation,
    ) -> Result<Appended, JournalError> {
        let length = record_length(&record);
        if length > self.config.max_record {
            return Err(JournalError::TooLarge { bytes: length, limit: self.config.max_record });
        }
        let mut state = self.state.lock();
        if let Some(error) = state.failure() {
            drop(state); // the reservation takes the lock when it goes
            return Err(error);
        }
        let lsn = state.next_lsn;
        let space = record_space(length);
        if space > reservation.bytes {
            drop(state);
            let reserved = reservation.bytes;
            return Err(JournalError::ReservationTooSmall { lsn, bytes: space, reserved });
        }
        let batch = self.batch_for(&mut state, length);
        let refs = batch.push(record);
        state.next_lsn = lsn.next();
        state.space.reserved -= reservation.bytes;
        reservation.bytes = 0;
        state.space.queued += length;
        self.grant(&mut state); // the record may have taken less than was set aside
        drop(state);
        Ok(Appended { lsn, refs })
    }

    /// The open batch, or a new one, with space for `length` more bytes.
    fn batch_for<'a>(&self, state: &'a mut State, length: u64) -> &'a mut Batch {
        let fits = state.open.as_ref().is_some_and(|open| {
            let after = open.length() + length;
            open.start() + after <= state.end_of_segment() && (open.is_empty() || after <= self.config.batch)
        });
        if !fits {
            self.close_batch(state);
            state.open = Some(self.place_batch(state, length));
        }
        #[allow(clippy::expect_used)]
        state.open.as_mut().expect("just opened")
    }

    /// Moves the open batch to the queue.
    pub(crate) fn close_batch(&self, state: &mut State) {
        if let Some(mut batch) = state.open.take() {
            batch.oldest_segment = state.oldest_segment;
            state.at = batch.end();
            state.closed.push_back(batch);
        }
    }

    /// A batch with space for `length` bytes of records behind everything that is placed.
    pub(crate) fn place_batch(&self, state: &mut State, length: u64) -> Batch {
        let header = if state.run_key.is_some() { 0 } else { RUN_HEADER };
        let mut run = None;
        let mut previous_end = state.at;
        let mut left = None;
        if state.at + header + BATCH_HEAD + length > state.end_of_segment() {
            let next = Arc::new(Segment::new(state.current.sequence + 1));
            let segment = std::mem::replace(&mut state.current, next);
            state.live.insert(segment.sequence, (segment.clone(), state.next_lsn));
            left = Some(segment);
            previous_end = std::mem::replace(&mut state.at, 0);
            state.current_bytes = self.config.segment;
            state.run_key = None;
        }
        let key = state.run_key.clone().unwrap_or_else(|| {
            let mut salt = [0; 32];
            self.environment.entropy.fill(&mut salt);
            let key = Arc::new(SegmentKey::derive(&self.node_key, "journal", &salt));
            state.run += 1;
            state.batch_number = 0;
            run = Some(RunHeader {
                segment_bytes: state.current_bytes,
                segment: state.current.sequence,
                run: state.run,
                salt,
                first_lsn: state.next_lsn,
                previous_end,
                oldest_segment: state.oldest_segment,
            });
            state.current.add_run(state.at, key.clone());
            state.at += RUN_HEADER;
            key
        });
        state.run_key = Some(key.clone());
        let number = state.batch_number;
        state.batch_number += 1;
        let (segment, oldest) = (state.current.clone(), state.oldest_segment);
        let mut batch = Batch::new(segment, run, key, state.at, number, state.next_lsn, oldest);
        // If this process leaves a segment at once, what that one says is enough.
        let unmarked = state.unmarked.take();
        batch.mark = match (left, &batch.run) {
            (Some(segment), Some(next)) => Some(Mark { segment, next: next.clone() }),
            _ => unmarked,
        };
        batch
    }

    /// Lets go of all segments whose records lie below `up_to`.
    pub(crate) fn release(&self, up_to: Lsn) {
        let mut state = self.state.lock();
        let up_to = up_to.min(self.durable_lsn().next());
        let queued = state.oldest_queued();
        let mut any = false;
        while let Some(entry) = state.live.first_entry() {
            if entry.get().1 > up_to || *entry.key() >= queued {
                break;
            }
            let (segment, _) = entry.remove();
            state.oldest_segment = segment.sequence + 1;
            state.dying.push(segment);
            any = true;
        }
        drop(state);
        if any {
            self.wake_writer();
        }
    }

    /// A batch is on the disk.
    pub(crate) fn complete(self: &Arc<Self>, batch: &Batch) {
        let oldest_segment = batch.oldest_segment;
        let records = batch.next_lsn().0 - 1;
        let mut recycled = Vec::new();
        {
            let mut state = self.state.lock();
            state.writing = None;
            state.tail_unproven = !batch.is_empty();
            state.space.queued -= batch.length() - BATCH_HEAD;
            self.durable.fetch_max(records, Ordering::AcqRel);
            if !state.dying.is_empty() {
                state.dying.retain(|segment| {
                    let dead = segment.sequence < oldest_segment;
                    recycled.extend(dead.then(|| segment.clone()));
                    !dead
                });
            }
            if !recycled.is_empty() {
                environment::failpoint!("journal.before-recycle");
                self.recycle(&mut state, &recycled);
            }
            self.grant(&mut state);
        }
        self.wake_durable();
    }

    fn recycle(&self, state: &mut State, segments: &[Arc<Segment>]) {
        for file in segments.iter().filter_map(|segment| segment.file()) {
            // Segments beyond the configured ones go as soon as upkeep can do without.
            let enough = self.config.headroom + 2 * self.config.segment;
            if state.segments > self.config.segments() && self.admissible(state, state.segments) > enough {
                state.segments -= 1;
            }
            if file.bytes == self.config.segment && state.file_count <= state.segments {
                state.free.push(file.clone());
            } else if self.environment.disk.remove(&file.path).is_ok() {
                // A file of another size, from before the configuration changed, or one too many.
                state.file_count -= 1;
            }
        }
        self.files.notify_all();
    }

    /// The channel on which it is told that `lsn` is durable; `None` when it is already.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Option<oneshot::Receiver<Result<(), JournalError>>> {
        if self.durable_lsn() >= lsn {
            return None;
        }
        let mut waiters = self.waiters.lock();
        if self.durable_lsn() >= lsn {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        // The writer stores the failure before it takes this lock, so that nobody is left behind.
        let failed = self.state.lock().failed.clone();
        match failed.or(self.writer_ended.load(Ordering::Acquire).then_some(JournalError::Closed)) {
            Some(error) => drop(sender.send(Err(error))),
            None => waiters.entry(lsn).or_default().push(sender),
        }
        Some(receiver)
    }

    fn wake_durable(&self) {
        let ready = {
            let mut waiters = self.waiters.lock();
            let later = waiters.split_off(&self.durable_lsn().next());
            std::mem::replace(&mut *waiters, later)
        };
        for waiter in ready.into_values().flatten() {
            let _ = waiter.send(Ok(()));
        }
    }

    /// Stops the journal for good after a failed write or sync.
    pub(crate) fn fail(&self, error: JournalError) {
        {
            let mut state = self.state.lock();
            state.failed = Some(error.clone());
            Shared::refuse_waiters(&mut state, &error);
        }
        self.refuse_durable(&error);
        self.files.notify_all();
    }

    /// Lets no more in; the writer ends when everything queued is written.
    pub(crate) fn stop(&self) {
        {
            let mut state = self.state.lock();
            state.stop = true;
            Shared::refuse_waiters(&mut state, &JournalError::Closed);
        }
        self.wake_writer();
        self.files.notify_all();
    }

    /// The writer is gone.
    pub(crate) fn end_writer(&self) {
        self.writer_ended.store(true, Ordering::Release);
        let failed = self.state.lock().failed.clone();
        self.refuse_durable(&failed.unwrap_or(JournalError::Closed));
    }

    /// Tells everybody who waits for durability that it does not come.
    fn refuse_durable(&self, error: &JournalError) {
        for waiter in std::mem::take(&mut *self.waiters.lock()).into_values().flatten() {
            let _ = waiter.send(Err(error.clone()));
        }
    }
}
