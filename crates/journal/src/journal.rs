use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use environment::Environment;
use parking_lot::Mutex;
use seal::NodeKey;

use crate::batch::{self, record_length};
use crate::files::Files;
use crate::layout::record_space;
use crate::open::open;
use crate::shared::Shared;
use crate::{
    Appended, JournalConfig, JournalError, Lsn, PayloadRef, Priority, Record, Recovery, Reservation,
    WriterKind,
};

/// The write-ahead journal of a node. Cheap to clone; closed, with everything written, when the last clone goes.
///
/// One process may have a directory open at a time; whoever opens it sees to that.
#[derive(Clone)]
pub struct Journal {
    handle: Arc<Handle>,
}

pub(crate) struct Handle {
    pub shared: Arc<Shared>,
    pub threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
    }
}

/// How full the journal is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// All segments together.
    pub capacity: u64,
    /// Segments that hold something needed, whole, and the used part of the current one.
    pub used: u64,
    /// What upkeep could still append.
    pub free: u64,
    /// Reserved and not yet appended.
    pub reserved: u64,
    /// Appended and not yet durable.
    pub queued: u64,
    /// Asked for and not admitted: somebody waits for space.
    pub waiting: u64,
    /// There is no room on the disk for all segments: the journal makes do with those that it has.
    pub disk_full: bool,
}

impl Journal {
    /// Opens the journal in `directory`, or makes a new one, and finds the records it holds.
    ///
    /// A torn write at the end is cut off: nobody was promised what it held. Damage anywhere else is an error
    /// (`Damaged`, `NewestSegmentLost`), here or from the iterator, and changes nothing. The files are touched by this call only to
    /// make durable what a crash had left in the page cache. Blocks. With [`WriterKind::Task`] it must be called
    /// on a tokio runtime.
    pub fn open(
        environment: Environment,
        directory: &Path,
        node_key: &NodeKey,
        config: JournalConfig,
    ) -> Result<(Journal, Recovery), JournalError> {
        config.check()?;
        let (state, recovery) = open(&environment, directory, node_key, &config)?;
        let shared =
            Arc::new(Shared::new(environment, directory.to_owned(), node_key.clone(), config, state));
        let threads = Mutex::new(crate::writer::start(&shared)?);
        Ok((Journal { handle: Arc::new(Handle { shared, threads }) }, recovery))
    }

    /// Whether `directory` holds a journal of this key, whatever its state. Changes nothing. Blocks.
    pub fn exists(
        environment: &Environment,
        directory: &Path,
        node_key: &NodeKey,
    ) -> Result<bool, JournalError> {
        let disk = &*environment.disk;
        let fail = |cause| JournalError::Open {
            what: "making the directory",
            path: directory.to_owned(),
            cause: Arc::new(cause),
        };
        disk.make_directory(directory).map_err(fail)?;
        let files = Files::list(disk, directory, node_key)?;
        Ok(files.foreign.is_some() || !files.segments.is_empty())
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Bytes to reserve for a record with a body and attachments of these lengths (descriptor, payload).
    pub fn space_for(body: usize, attachments: impl Iterator<Item = (usize, usize)>) -> u64 {
        batch::length_of(body, attachments)
    }

    /// Bytes to reserve for `record`.
    pub fn space_of(record: &Record) -> u64 {
        record_length(record)
    }

    /// The largest record that [`Journal::append`] takes, by the measure of [`Journal::space_of`].
    pub fn max_record(&self) -> u64 {
        self.shared().config.max_record
    }

    /// Sets space for one record of `bytes` aside ([`Journal::space_of`]); waits while the journal or its queue
    /// is full. First come, first served among equals; higher priorities go first and may use the head-room.
    pub fn reserve(
        &self,
        bytes: u64,
        priority: Priority,
    ) -> impl Future<Output = Result<Reservation, JournalError>> + Send + 'static {
        let shared = self.shared().clone();
        async move {
            let limit = shared.config.max_record;
            if bytes > limit {
                return Err(JournalError::TooLarge { bytes, limit });
            }
            match shared.admit(record_space(bytes), priority) {
                Ok(reservation) => Ok(reservation),
                Err(waiting) => waiting.granted().await,
            }
        }
    }

    /// As [`Journal::reserve`], but `None` where that would wait.
    pub fn try_reserve(&self, bytes: u64, priority: Priority) -> Result<Option<Reservation>, JournalError> {
        let limit = self.shared().config.max_record;
        if bytes > limit {
            return Err(JournalError::TooLarge { bytes, limit });
        }
        match self.shared().admit(record_space(bytes), priority) {
            Ok(reservation) => Ok(Some(reservation)),
            Err(_waiting) => self.failed().map_or(Ok(None), Err),
        }
    }

    /// Whether clients have to wait for space, or soon will: high time to empty the oldest segment.
    pub fn is_short(&self) -> bool {
        let (shared, state) = (self.shared(), self.shared().state.lock());
        let config = &shared.config;
        let needed = state.space.reserved + config.headroom + record_space(config.max_record);
        shared.admissible(&state, config.segments()) < needed
    }

    /// Whether emptying the oldest segments, wherever that leads, frees a good part of what it moves: of all that is
    /// in use, `kept` bytes are needed.
    pub fn is_worth_moving(&self, kept: u64) -> bool {
        let usage = self.usage();
        usage.used > kept + kept / 16 + 2 * self.shared().config.segment
    }

    /// The first record behind the oldest segment: when nothing below it is needed any more, the segment can be
    /// released. `None` when there is no segment but the one that is being written.
    pub fn oldest_segment_end(&self) -> Option<Lsn> {
        self.shared().state.lock().live.first_key_value().map(|(_, live)| live.1)
    }

    /// Gives the record the next number and a place, and queues it for the next batch. The order of calls is the
    /// order of records. Never waits. Payloads can be read at once. Nobody writes the batch before [`Journal::durable`] or
    /// [`Journal::nudge`] is called.
    pub fn append(&self, record: Record, reservation: Reservation) -> Result<Appended, JournalError> {
        self.shared().append(record, reservation)
    }

    /// Lets the writer write what is queued.
    pub fn nudge(&self) {
        self.shared().nudge();
    }

    /// Resolves when the record and all before it are durable, or when that has become impossible.
    ///
    /// When nobody is writing, the call itself writes and syncs the batch if it is short: a thread switch takes as long as
    /// a sync does. An async runtime needs a second thread then to go on meanwhile.
    pub fn durable(&self, lsn: Lsn) -> impl Future<Output = Result<(), JournalError>> + Send + 'static {
        if self.durable_lsn() < lsn {
            self.shared().help();
        }
        let waiting = self.shared().wait_durable(lsn);
        async move {
            match waiting {
                None => Ok(()),
                Some(told) => told.await.unwrap_or(Err(JournalError::Closed)),
            }
        }
    }

    /// The last durable record.
    pub fn durable_lsn(&self) -> Lsn {
        self.shared().durable_lsn()
    }

    /// Reads a payload and verifies it. From memory while it is queued, otherwise on a blocking thread.
    pub async fn read(&self, place: PayloadRef) -> Result<Bytes, JournalError> {
        self.read_range(place, 0, place.length).await
    }

    /// Reads `length` bytes at `from` of a payload; only the 64 KiB chunks they touch are read and verified.
    pub async fn read_range(&self, place: PayloadRef, from: u32, length: u32) -> Result<Bytes, JournalError> {
        if let Some(bytes) = self.read_queued(place, from, length)? {
            return Ok(bytes);
        }
        match self.shared().config.writer {
            WriterKind::Task => self.read_blocking(place, from, length),
            WriterKind::Thread => {
                let journal = self.clone();
                tokio::task::spawn_blocking(move || journal.read_blocking(place, from, length))
                    .await
                    .unwrap_or(Err(JournalError::Closed))
            }
        }
    }

    /// As [`Journal::read_range`], on this thread.
    pub fn read_blocking(&self, place: PayloadRef, from: u32, length: u32) -> Result<Bytes, JournalError> {
        if let Some(bytes) = self.read_queued(place, from, length)? {
            return Ok(bytes);
        }
        let segment = self.shared().state.lock().segment(place.segment);
        let segment = segment.ok_or(JournalError::NoSuchPayload { place })?;
        segment.read(place, from, length).map_err(|error| {
            // A reader that was overtaken by the release of its segment sees other bytes; that is no damage.
            match self.shared().state.lock().segment(place.segment) {
                Some(_) => error,
                None => JournalError::NoSuchPayload { place },
            }
        })
    }

    fn read_queued(&self, place: PayloadRef, from: u32, length: u32) -> Result<Option<Bytes>, JournalError> {
        let (start, end) = (from as usize, from as usize + length as usize);
        if end > place.length as usize {
            return Err(JournalError::NoSuchPayload { place });
        }
        if length == 0 {
            return Ok(Some(Bytes::new()));
        }
        Ok(self.shared().state.lock().queued_payload(place).map(|bytes| bytes.slice(start..end)))
    }

    /// No record below `up_to` is needed any more. Space comes back in whole segments, once it is durably
    /// forgotten what they held. Numbers that are not durable yet are left alone.
    pub fn release(&self, up_to: Lsn) {
        self.shared().release(up_to);
    }

    /// How full the journal is.
    pub fn usage(&self) -> Usage {
        let shared = self.shared();
        let state = shared.state.lock();
        let whole = (state.segments_in_use() - 1) * shared.config.segment;
        Usage {
            capacity: shared.config.capacity,
            used: whole + state.current_bytes - state.rest_of_segment(),
            free: shared.admissible(&state, state.segments).saturating_sub(state.space.reserved),
            reserved: state.space.reserved,
            queued: state.space.queued,
            waiting: state.space.waiting(),
            disk_full: state.disk_full,
        }
    }

    /// Lets no more in: whoever waits for space is told that the journal is closed. What is queued is still written.
    pub fn stop(&self) {
        self.shared().stop();
    }

    /// Writes what is queued and ends. Nothing can be appended afterwards; reading still works.
    pub async fn close(&self) -> Result<(), JournalError> {
        self.shared().stop();
        // The sender lives as long as the journal.
        let _ = self.shared().running.subscribe().wait_for(|running| *running == 0).await;
        self.failed().map_or(Ok(()), Err)
    }

    /// The key that seals the journal, for stores that lie beside it.
    pub fn node_key(&self) -> &NodeKey {
        &self.shared().node_key
    }

    /// Why the journal has stopped, if it has.
    pub fn failed(&self) -> Option<JournalError> {
        self.shared().state.lock().failed.clone()
    }
}
