//! Counters for operators. Every one is an atomic number of its own: counting takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nfs4::{NfsStatus, OpCode};

use crate::refusals::RefusalCounts;
use crate::state::CallbackEnd;
use crate::{Census, Counts};

/// Operation numbers that have a counter; everything above shares the last one.
const CODES: usize = 80;

/// The place of COMPOUND_MODE, whose number is far above.
const COMPOUND_MODE: usize = CODES - 2;

/// The place of an operation.
fn place(code: OpCode) -> usize {
    match code {
        OpCode::CompoundMode => COMPOUND_MODE,
        code => (code as usize).min(CODES - 1),
    }
}

/// Upper ends of the classes of a [`Latency`] in microseconds; what takes longer is in one more class.
const CLASSES: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// How long something takes, in classes.
#[derive(Default)]
struct Histogram {
    classes: [AtomicU64; CLASSES.len() + 1],
    nanos: AtomicU64,
}

impl Histogram {
    fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        let class = CLASSES.partition_point(|end| *end < micros);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    fn snapshot(&self) -> Latency {
        let mut count = 0;
        let mut classes = Vec::with_capacity(CLASSES.len());
        for (class, end) in self.classes.iter().zip(CLASSES) {
            count += load(class);
            classes.push((Duration::from_micros(end), count));
        }
        count += load(&self.classes[CLASSES.len()]);
        Latency { classes, count, total: Duration::from_nanos(load(&self.nanos)) }
    }
}

struct Operation {
    took: Histogram,
    /// Errors by status: in the order of [`NfsStatus::ALL`], then all others.
    errors: Vec<AtomicU64>,
}

impl Operation {
    fn new() -> Operation {
        let errors = (0..=NfsStatus::ALL.len()).map(|_| AtomicU64::new(0)).collect();
        Operation { took: Histogram::default(), errors }
    }

    fn snapshot(&self, number: usize) -> Option<OperationMetrics> {
        let latency = self.took.snapshot();
        let names = NfsStatus::ALL.iter().map(|status| status.name()).chain(["other"]);
        let errors = names.zip(&self.errors).map(|(name, count)| (name, load(count)));
        (latency.count > 0).then(|| OperationMetrics {
            name: match number {
                COMPOUND_MODE => OpCode::CompoundMode.name(),
                number => OpCode::from_number(number as u32).map_or("ILLEGAL", |code| code.name()),
            },
            latency,
            errors: errors.filter(|(_, count)| *count > 0).collect(),
        })
    }
}

#[derive(Default)]
struct Callbacks {
    answered: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
}

impl Callbacks {
    fn snapshot(&self) -> CallbackMetrics {
        CallbackMetrics {
            answered: load(&self.answered),
            refused: load(&self.refused),
            lost: load(&self.lost),
        }
    }
}

/// Counts while requests run.
pub(crate) struct Metrics {
    operations: Vec<Operation>,
    compounds: Histogram,
    replays: AtomicU64,
    conflicts: AtomicU64,
    waits_for_returns: AtomicU64,
    recalls: Callbacks,
    other_callbacks: Callbacks,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics {
            operations: (0..CODES).map(|_| Operation::new()).collect(),
            compounds: Histogram::default(),
            replays: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            waits_for_returns: AtomicU64::new(0),
            recalls: Callbacks::default(),
            other_callbacks: Callbacks::default(),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        }
    }

    /// An operation has ended.
    pub fn operation(&self, code: OpCode, status: NfsStatus, took: Duration) {
        let operation = &self.operations[place(code)];
        operation.took.record(took);
        if !status.is_ok() {
            // In the order of their codes.
            let place = NfsStatus::ALL.binary_search_by_key(&status.code(), |known| known.code());
            add(&operation.errors[place.unwrap_or(NfsStatus::ALL.len())], 1);
        }
    }

    /// A request was answered.
    pub fn compound(&self, took: Duration) {
        self.compounds.record(took);
    }

    pub fn replay(&self) {
        add(&self.replays, 1);
    }

    pub fn conflict(&self) {
        add(&self.conflicts, 1);
    }

    /// A request waits until a delegation is returned.
    pub fn wait_for_return(&self) {
        add(&self.waits_for_returns, 1);
    }

    /// A callback was sent.
    pub fn callback(&self, is_recall: bool, end: &CallbackEnd) {
        let callbacks = if is_recall { &self.recalls } else { &self.other_callbacks };
        let counter = match end {
            CallbackEnd::Answered(status) if status.is_ok() => &callbacks.answered,
            CallbackEnd::Answered(_) | CallbackEnd::Refused(_) => &callbacks.refused,
            CallbackEnd::Lost => &callbacks.lost,
        };
        add(counter, 1);
    }

    pub fn read(&self, bytes: usize) {
        add(&self.read_bytes, bytes as u64);
    }

    pub fn written(&self, bytes: usize) {
        add(&self.written_bytes, bytes as u64);
    }

    /// Everything counted here; the state and the refusals have counters of their own.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let operations = self.operations.iter().enumerate();
        let compounds = self.compounds.snapshot();
        MetricsSnapshot {
            operations: operations.filter_map(|(number, operation)| operation.snapshot(number)).collect(),
            compounds: compounds.count,
            compound_latency: compounds,
            replays: load(&self.replays),
            conflicts: load(&self.conflicts),
            waits_for_returns: load(&self.waits_for_returns),
            recalls: self.recalls.snapshot(),
            other_callbacks: self.other_callbacks.snapshot(),
            read_bytes: load(&self.read_bytes),
            written_bytes: load(&self.written_bytes),
            ..MetricsSnapshot::default()
        }
    }
}

/// Everything counted since the start; only the census can fall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsSnapshot {
    /// Operations that were called at least once, by number.
    pub operations: Vec<OperationMetrics>,
    /// Requests that were answered.
    pub compounds: u64,
    /// How long requests took, from the first byte looked at to the reply, commits and waits included.
    pub compound_latency: Latency,
    /// Requests that were answered from the reply cache.
    pub replays: u64,
    /// Transactions that met another one and were run again.
    pub conflicts: u64,
    /// Requests that waited until a delegation was returned.
    pub waits_for_returns: u64,
    /// CB_RECALL.
    pub recalls: CallbackMetrics,
    /// Everything else that clients were told.
    pub other_callbacks: CallbackMetrics,
    /// Bytes that READ returned.
    pub read_bytes: u64,
    /// Bytes that WRITE took.
    pub written_bytes: u64,
    /// What happened in the state.
    pub counts: Counts,
    /// What was refused.
    pub refusals: RefusalCounts,
    /// How much state there is now.
    pub census: Census,
}

/// One operation of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationMetrics {
    /// As in the RFC, such as `READDIR`.
    pub name: &'static str,
    /// How often it was called, repetitions after conflicts included, and how long it took, without the commit.
    pub latency: Latency,
    /// Errors by the name of their status.
    pub errors: Vec<(&'static str, u64)>,
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// How often it took no longer than that.
    pub classes: Vec<(Duration, u64)>,
    /// How often it happened.
    pub count: u64,
    /// Time of all together.
    pub total: Duration,
}

/// What became of callbacks that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallbackMetrics {
    /// The client did what it was told.
    pub answered: u64,
    /// The client answered by an error; it is told again where that helps.
    pub refused: u64,
    /// There was no answer.
    pub lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_as_long_as_a_class_ends_is_in_that_class() {
        let histogram = Histogram::default();
        let micros = [0, 100, 101, 1_000_000, 1_000_001];
        micros.into_iter().for_each(|micros| histogram.record(Duration::from_micros(micros)));
        histogram.record(Duration::from_nanos(100_001));
        let latency = histogram.snapshot();
        assert_eq!((latency.count, latency.classes.len()), (6, CLASSES.len()));
        assert_eq!(latency.classes[..2], [(Duration::from_micros(100), 2), (Duration::from_micros(250), 4)]);
        assert_eq!(latency.classes.last(), Some(&(Duration::from_secs(1), 5)), "one took longer");
        assert_eq!(latency.total, Duration::from_micros(2_000_202) + Duration::from_nanos(100_001));
    }

    #[test]
    fn errors_are_counted_by_operation_and_status() {
        let metrics = Metrics::new();
        for status in [NfsStatus::Ok, NfsStatus::Stale, NfsStatus::Delay, NfsStatus::Delay] {
            metrics.operation(OpCode::Read, status, Duration::from_millis(1));
        }
        metrics.operation(OpCode::Write, NfsStatus::Other(77), Duration::ZERO);
        metrics.operation(OpCode::CompoundMode, NfsStatus::Ok, Duration::ZERO);
        metrics.operation(OpCode::Illegal, NfsStatus::OpIllegal, Duration::ZERO);
        let snapshot = metrics.snapshot();
        let [read, write, mode, illegal] = &snapshot.operations[..] else { panic!("{snapshot:?}") };
        assert_eq!((mode.name, illegal.name), ("COMPOUND_MODE", "ILLEGAL"));
        assert_eq!((read.name, read.latency.count), ("READ", 4));
        assert_eq!(read.errors, [("NFS4ERR_STALE", 1), ("NFS4ERR_DELAY", 2)]);
        assert_eq!((write.name, &write.errors[..]), ("WRITE", &[("other", 1)][..]));
    }
}
