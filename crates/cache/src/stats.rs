use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start of the process.
#[derive(Default)]
pub(crate) struct Stats {
    pub memory_hits: AtomicU64,
    pub disk_hits: AtomicU64,
    pub fetches: AtomicU64,
    pub readahead: AtomicU64,
    pub bad_disk_blocks: AtomicU64,
    pub disk_inserts_skipped: AtomicU64,
    pub bad_operations: AtomicU64,
    pub waiting: AtomicU64,
}

/// Somebody waits while this lives.
pub(crate) struct Waiting<'a>(&'a Stats);

impl Waiting<'_> {
    pub fn new(stats: &Stats) -> Waiting<'_> {
        Stats::add(&stats.waiting);
        Waiting(stats)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the cache holds and has done. Bytes unless said otherwise; counters run from the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Dirty data, wherever it lies.
    pub dirty: u64,
    /// Dirty data in memory.
    pub dirty_memory: u64,
    /// The books of the dirty data, and of what was admitted and is not yet dirty.
    pub bookkeeping: u64,
    /// What the dirty data takes in the journal.
    pub journal: u64,
    /// Writers that wait until dirty data has become less; a number.
    pub waiting: u64,
    /// Clean data in memory.
    pub clean_memory: u64,
    /// Clean data on disk.
    pub clean_disk: u64,
    /// Clean data waiting to be written to disk.
    pub disk_queue: u64,
    /// Block reads answered from memory.
    pub memory_hits: u64,
    /// Block reads answered from the disk tier.
    pub disk_hits: u64,
    /// Blocks loaded from the clouds, readahead included.
    pub fetches: u64,
    /// Blocks loaded ahead of a reader.
    pub readahead: u64,
    /// Damaged blocks found in the disk tier; each was a miss.
    pub bad_disk_blocks: u64,
    /// Blocks that were not cached on disk because the disk was too slow.
    pub disk_inserts_skipped: u64,
    /// Journal attachments that could not be understood; always zero unless versions are mixed.
    pub bad_operations: u64,
}

impl Stats {
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters, with the sizes left at zero.
    pub fn usage(&self) -> Usage {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Usage {
            memory_hits: get(&self.memory_hits),
            disk_hits: get(&self.disk_hits),
            fetches: get(&self.fetches),
            readahead: get(&self.readahead),
            bad_disk_blocks: get(&self.bad_disk_blocks),
            disk_inserts_skipped: get(&self.disk_inserts_skipped),
            bad_operations: get(&self.bad_operations),
            waiting: get(&self.waiting),
            ..Usage::default()
        }
    }
}
