use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use journal::{Journal, JournalError, Lsn, PayloadRef};
use parking_lot::Mutex;

use crate::{CacheError, FileKey};

/// Payloads below this are copied out of the buffer they arrived in, which may be far larger than they are.
const COPIED_BELOW: usize = 16 << 10;
/// Payloads up to this are read back whole, larger ones only when at least half of them is wanted.
const READ_WHOLE_BELOW: u64 = 64 << 10;

/// Where dirty data that is not in memory is read from: the journal.
#[async_trait]
pub trait PayloadStore: Send + Sync {
    /// `length` bytes from byte `from` of a payload.
    async fn read_range(&self, place: PayloadRef, from: u32, length: u32) -> Result<Bytes, JournalError>;
}

#[async_trait]
impl PayloadStore for Journal {
    async fn read_range(&self, place: PayloadRef, from: u32, length: u32) -> Result<Bytes, JournalError> {
        Journal::read_range(self, place, from, length).await
    }
}

/// What all payloads share: which journal records are needed, and how much memory they take.
#[derive(Default)]
pub(crate) struct Ledger {
    /// How many payloads of each record are alive: parts of the dirty data, or being read.
    live: Mutex<BTreeMap<Lsn, u32>>,
    /// In the order in which they came into memory; dropped from the front.
    resident: Mutex<VecDeque<Weak<Payload>>>,
    payloads: AtomicU64,
    memory: AtomicU64,
    limit: u64,
}

impl Ledger {
    pub fn new(limit: u64) -> Arc<Ledger> {
        Arc::new(Ledger { limit, ..Ledger::default() })
    }

    pub fn oldest(&self) -> Option<Lsn> {
        self.live.lock().first_key_value().map(|(lsn, _)| *lsn)
    }

    /// Bytes of dirty data in memory.
    pub fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Notes that `payload` is in memory, and makes room for it at the expense of the oldest.
    fn admit(&self, payload: &Arc<Payload>) {
        let mut over = self.memory().saturating_sub(self.limit);
        // Kept out of the lock: dropping the last handle of a payload takes other locks.
        let mut dropped = Vec::new();
        let mut resident = self.resident.lock();
        resident.push_back(Arc::downgrade(payload));
        while over > 0
            && let Some(oldest) = resident.pop_front()
        {
            if let Some(oldest) = oldest.upgrade() {
                over = over.saturating_sub(oldest.evict());
                dropped.push(oldest);
            }
        }
        if resident.len() as u64 > 1024 + 2 * self.payloads.load(Ordering::Relaxed) {
            resident.retain(|payload| payload.strong_count() > 0);
        }
    }
}

/// The bytes that one operation brought: in the journal for as long as this lives, and in memory while the budget
/// lasts. A payload of length zero stands for zeros.
pub(crate) struct Payload {
    /// The record that brought them.
    lsn: Lsn,
    /// The record that has them now: a younger one when they were moved.
    holder: Lsn,
    place: PayloadRef,
    memory: Mutex<Option<Bytes>>,
    ledger: Arc<Ledger>,
}

impl Payload {
    pub fn new(ledger: &Arc<Ledger>, lsn: Lsn, place: PayloadRef, bytes: Option<Bytes>) -> Arc<Payload> {
        let payload = Payload::moved(ledger, lsn, lsn, place);
        if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
            let own = if bytes.len() < COPIED_BELOW { Bytes::copy_from_slice(&bytes) } else { bytes };
            payload.keep(own);
        }
        payload
    }

    /// Bytes of the record `lsn` that the record `holder` has now. Not in memory: they have not been asked for
    /// lately.
    pub fn moved(ledger: &Arc<Ledger>, lsn: Lsn, holder: Lsn, place: PayloadRef) -> Arc<Payload> {
        *ledger.live.lock().entry(holder).or_default() += 1;
        ledger.payloads.fetch_add(1, Ordering::Relaxed);
        Arc::new(Payload { lsn, holder, place, memory: Mutex::new(None), ledger: Arc::clone(ledger) })
    }

    /// How old the bytes are.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The record that must not be released.
    pub fn holder(&self) -> Lsn {
        self.holder
    }

    pub fn place(&self) -> PayloadRef {
        self.place
    }

    pub fn is_zeros(&self) -> bool {
        self.place.length == 0
    }

    /// Bytes `from..from + length`, from memory or from the journal.
    pub async fn read(
        self: &Arc<Self>,
        store: Option<&Arc<dyn PayloadStore>>,
        from: u64,
        length: u64,
        reading: Reading,
    ) -> Result<Bytes, ReadFailure> {
        if let Some(bytes) = self.in_memory() {
            return Ok(bytes.slice(from as usize..(from + length) as usize));
        }
        let store = store.ok_or(ReadFailure::NotConnected)?;
        let whole = u64::from(self.place.length);
        let worth_it = whole <= READ_WHOLE_BELOW || length >= whole / 2;
        if reading == Reading::Maybe && worth_it {
            let bytes =
                store.read_range(self.place, 0, self.place.length).await.map_err(ReadFailure::Journal)?;
            self.keep(bytes.clone());
            Ok(bytes.slice(from as usize..(from + length) as usize))
        } else {
            store.read_range(self.place, from as u32, length as u32).await.map_err(ReadFailure::Journal)
        }
    }

    pub fn in_memory(&self) -> Option<Bytes> {
        self.memory.lock().clone()
    }

    fn keep(self: &Arc<Self>, bytes: Bytes) {
        let memory = &self.ledger.memory;
        // Counted before it can be evicted, so that the total never dips below zero.
        memory.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let before = self.memory.lock().replace(bytes);
        match before {
            Some(before) => drop(memory.fetch_sub(before.len() as u64, Ordering::Relaxed)),
            None => self.ledger.admit(self),
        }
    }

    /// Drops the bytes from memory and returns how many they were.
    fn evict(&self) -> u64 {
        let bytes = self.memory.lock().take().map_or(0, |bytes| bytes.len() as u64);
        self.ledger.memory.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.evict();
        self.ledger.payloads.fetch_sub(1, Ordering::Relaxed);
        let mut live = self.ledger.live.lock();
        if let Some(count) = live.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.holder);
            }
        }
    }
}

/// Whether the same bytes are likely to be read again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// By a client that may come back: worth the memory.
    Maybe,
    /// By write-back, after which they are clean.
    Once,
}

/// Why a payload could not be read.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    NotConnected,
    Journal(JournalError),
}

impl ReadFailure {
    /// The public error, for data of `file`.
    pub fn of(self, file: FileKey) -> CacheError {
        match self {
            ReadFailure::NotConnected => CacheError::NotConnected,
            ReadFailure::Journal(cause) => CacheError::Payload { file, cause: Arc::new(cause) },
        }
    }
}
