//! Counters for operators.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nfs4::OpCode;

use crate::Census;

/// Operation numbers that have a counter; everything above shares the last one.
const CODES: usize = 80;

#[derive(Default)]
struct Counter {
    calls: AtomicU64,
    errors: AtomicU64,
    nanos: AtomicU64,
}

/// Counts while requests run.
pub(crate) struct Metrics {
    operations: Vec<Counter>,
    compounds: AtomicU64,
    replays: AtomicU64,
    conflicts: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics {
            operations: (0..CODES).map(|_| Counter::default()).collect(),
            compounds: AtomicU64::new(0),
            replays: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        }
    }

    pub fn operation(&self, code: OpCode, failed: bool, took: Duration) {
        let counter = &self.operations[(code as usize).min(CODES - 1)];
        counter.calls.fetch_add(1, Ordering::Relaxed);
        counter.errors.fetch_add(failed.into(), Ordering::Relaxed);
        counter.nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn compound(&self) {
        self.compounds.fetch_add(1, Ordering::Relaxed);
    }

    pub fn replay(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }

    pub fn conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn written(&self, bytes: usize) {
        self.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn snapshot(&self, census: Census) -> MetricsSnapshot {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let operations = self
            .operations
            .iter()
            .enumerate()
            .filter(|(_, counter)| load(&counter.calls) > 0)
            .map(|(number, counter)| OperationMetrics {
                name: OpCode::from_number(number as u32).map_or("ILLEGAL", |code| code.name()),
                calls: load(&counter.calls),
                errors: load(&counter.errors),
                time: Duration::from_nanos(load(&counter.nanos)),
            })
            .collect();
        MetricsSnapshot {
            operations,
            compounds: load(&self.compounds),
            replays: load(&self.replays),
            conflicts: load(&self.conflicts),
            read_bytes: load(&self.read_bytes),
            written_bytes: load(&self.written_bytes),
            census,
        }
    }
}

/// Everything counted since the start; only the census can fall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsSnapshot {
    /// Operations that were called at least once, by number.
    pub operations: Vec<OperationMetrics>,
    /// Requests that were run.
    pub compounds: u64,
    /// Requests that were answered from the reply cache.
    pub replays: u64,
    /// Transactions that met another one and were run again.
    pub conflicts: u64,
    /// Bytes that READ returned.
    pub read_bytes: u64,
    /// Bytes that WRITE took.
    pub written_bytes: u64,
    /// How much state there is now.
    pub census: Census,
}

/// One operation of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationMetrics {
    /// As in the RFC, such as `READDIR`.
    pub name: &'static str,
    /// Calls, repetitions after conflicts included.
    pub calls: u64,
    /// Calls that ended in an error.
    pub errors: u64,
    /// Time of all calls together, without the commit.
    pub time: Duration,
}
