use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use parking_lot::Mutex;
use serde::Serialize;

use crate::estimate::Estimate;
use crate::sickness::Sickness;
use crate::{CloudError, Operation};

/// The two directions whose health is kept apart: a full store still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `get`, `head`, `list`.
    Read,
    /// `put`, `delete`.
    Write,
}

/// What is known of one cloud's behaviour, fed by [`Observed`](crate::Observed); cheap to ask.
pub struct Health {
    cloud: Arc<str>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    directions: [Track; 2],
    counts: [OperationCounts; 5],
    last_error: Option<String>,
}

#[derive(Default)]
struct Track {
    /// By size: up to 64 KiB, up to 1 MiB, larger.
    latency: [Estimate; 3],
    /// Bytes per second of one transfer, exponentially weighted.
    rate: Option<f64>,
    /// Share of operations that failed or brought something unusable, exponentially weighted.
    failing: f64,
    in_flight: u32,
    sickness: Sickness,
}

/// How one operation of the contract has fared since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OperationCounts {
    /// Tries that succeeded or were answered in good order (such as "no such object").
    pub answered: u64,
    /// Tries that failed, time-outs included.
    pub failed: u64,
    /// Tries that nobody waited for any more.
    pub cancelled: u64,
    /// Payload bytes moved.
    pub bytes: u64,
}

/// A copy of [`Health`] for people and metrics.
#[derive(Clone, Debug, Serialize)]
pub struct CloudHealth {
    /// The configured name.
    pub cloud: String,
    /// Reads.
    pub read: DirectionHealth,
    /// Writes.
    pub write: DirectionHealth,
    /// By operation: put, get, head, delete, list.
    pub operations: Vec<(&'static str, OperationCounts)>,
    /// The last failure in words.
    pub last_error: Option<String>,
}

/// One direction in [`CloudHealth`].
#[derive(Clone, Debug, Serialize)]
pub struct DirectionHealth {
    /// Tried last, and probed from time to time.
    pub sick: bool,
    /// Failures since the last success.
    pub failures_in_a_row: u32,
    /// Share of recent operations that failed or brought something unusable, 0 to 1.
    pub error_rate: f64,
    /// Mean seconds of transfers up to 64 KiB, up to 1 MiB, and larger; `None` without a sample.
    pub mean_latency: [Option<f64>; 3],
    /// 95th percentile in seconds of the same.
    pub p95_latency: [Option<f64>; 3],
    /// Mean bytes per second of one transfer.
    pub bytes_per_second: Option<f64>,
    /// Running now.
    pub in_flight: u32,
}

impl Direction {
    pub(crate) fn of(operation: Operation) -> Direction {
        match operation {
            Operation::Put | Operation::Delete => Direction::Write,
            _ => Direction::Read,
        }
    }
}

fn size_class(bytes: u64) -> usize {
    match bytes {
        0..=0x1_0000 => 0,
        0x1_0001..=0x10_0000 => 1,
        _ => 2,
    }
}

fn is_transfer(operation: Operation) -> bool {
    matches!(operation, Operation::Put | Operation::Get)
}

/// The five operations with a counter, in the order of [`CloudHealth::operations`].
const COUNTED: [(Operation, &str); 5] = [
    (Operation::Put, "put"),
    (Operation::Get, "get"),
    (Operation::Head, "head"),
    (Operation::Delete, "delete"),
    (Operation::List, "list"),
];

impl State {
    fn counts(&mut self, operation: Operation) -> &mut OperationCounts {
        let at = COUNTED.iter().position(|(counted, _)| *counted == operation).unwrap_or(0);
        &mut self.counts[at]
    }
}

impl Track {
    /// The estimate for `bytes`, or that of the nearest size with samples.
    fn latency_of(&self, bytes: u64) -> Option<&Estimate> {
        let class = size_class(bytes);
        let order = [[0, 1, 2], [1, 2, 0], [2, 1, 0]][class];
        order.into_iter().map(|at| &self.latency[at]).find(|estimate| estimate.mean().is_some())
    }

    fn note(&mut self, failed: bool) {
        let sample = if failed { 1.0 } else { 0.0 };
        self.failing += 0.1 * (sample - self.failing);
    }

    fn snapshot(&self) -> DirectionHealth {
        DirectionHealth {
            sick: self.sickness.is_sick(),
            failures_in_a_row: self.sickness.failures_in_a_row(),
            error_rate: self.failing,
            mean_latency: std::array::from_fn(|at| self.latency[at].mean()),
            p95_latency: std::array::from_fn(|at| self.latency[at].p95().map(|p95| p95.as_secs_f64())),
            bytes_per_second: self.rate,
            in_flight: self.in_flight,
        }
    }
}

impl Health {
    /// Nothing known yet.
    pub fn new(cloud: &Arc<str>, clock: Arc<dyn Clock>) -> Arc<Health> {
        Arc::new(Health { cloud: cloud.clone(), clock, state: Mutex::default() })
    }

    /// Whether the cloud has failed too often in a row in this direction.
    pub fn is_sick(&self, direction: Direction) -> bool {
        self.state.lock().directions[direction as usize].sickness.is_sick()
    }

    /// Whether an operation may go there as if the cloud were well. True for a sick cloud when a probe is due: the
    /// caller's operation then is the probe and ought to be sent.
    pub fn admits(&self, direction: Direction) -> bool {
        let now = self.clock.monotonic();
        self.state.lock().directions[direction as usize].sickness.admits(now)
    }

    /// A number to rank clouds by for moving `bytes`, smaller is better: the expected seconds, raised by what is
    /// under way there already (so that many callers spread in proportion to speed, `K60`) and by recent
    /// failures. A cloud without news for long, or at all, ranks well and so gets measured (`K35`).
    pub fn cost(&self, direction: Direction, bytes: u64) -> f64 {
        let now = self.clock.monotonic();
        let state = self.state.lock();
        let track = &state.directions[direction as usize];
        let latency = track.latency_of(bytes).and_then(|estimate| estimate.aged(now)).unwrap_or(0.0);
        (latency + 1e-6) * (1.0 + f64::from(track.in_flight) / 8.0) * (1.0 + 9.0 * track.failing)
    }

    /// The 95th percentile of the time that moving `bytes` takes, as far as known.
    pub fn p95(&self, direction: Direction, bytes: u64) -> Option<Duration> {
        self.state.lock().directions[direction as usize].latency_of(bytes)?.p95()
    }

    /// The reader found what this cloud returned to be missing or unusable.
    pub fn report_bad(&self) {
        self.state.lock().directions[Direction::Read as usize].note(true);
    }

    /// The store cannot be used at all for now: sick in both directions, until a probe succeeds.
    pub fn report_down(&self, reason: &str) {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        state.last_error = Some(reason.to_owned());
        state.directions.iter_mut().for_each(|track| track.sickness.went_down(now));
    }

    /// A copy for people and metrics.
    pub fn snapshot(&self) -> CloudHealth {
        let state = self.state.lock();
        CloudHealth {
            cloud: self.cloud.to_string(),
            read: state.directions[Direction::Read as usize].snapshot(),
            write: state.directions[Direction::Write as usize].snapshot(),
            operations: COUNTED
                .iter()
                .zip(&state.counts)
                .map(|((_, name), counts)| (*name, counts.clone()))
                .collect(),
            last_error: state.last_error.clone(),
        }
    }

    /// An operation begins; tell the returned guard how it ended.
    pub(crate) fn begin(&self, operation: Operation) -> Running<'_> {
        self.state.lock().directions[Direction::of(operation) as usize].in_flight += 1;
        Running { health: self, operation, begun: self.clock.monotonic(), ended: false }
    }
}

/// An operation under way; dropping it means that nobody waits any more.
pub(crate) struct Running<'a> {
    health: &'a Health,
    operation: Operation,
    begun: Duration,
    ended: bool,
}

impl Running<'_> {
    /// The operation is over and moved `bytes`.
    pub fn end(mut self, result: Result<u64, &CloudError>) {
        self.ended = true;
        let now = self.health.clock.monotonic();
        let took = now.saturating_sub(self.begun);
        let mut state = self.health.state.lock();
        let track = &mut state.directions[Direction::of(self.operation) as usize];
        track.in_flight -= 1;
        let answered = result.is_ok() || result.is_err_and(|error| error.kind().is_an_answer());
        track.note(!answered);
        if answered {
            track.sickness.succeeded();
        } else {
            track.sickness.failed(now);
        }
        if is_transfer(self.operation) {
            match result {
                Ok(bytes) => {
                    track.latency[size_class(bytes)].record(took, now);
                    if bytes > 0 && !took.is_zero() {
                        let rate = bytes as f64 / took.as_secs_f64();
                        track.rate = Some(track.rate.map_or(rate, |mean| mean + 0.2 * (rate - mean)));
                    }
                }
                Err(_) if answered => {}
                Err(_) => track.latency.iter_mut().for_each(|estimate| {
                    if estimate.mean().is_some() {
                        estimate.record_at_least(took, now);
                    }
                }),
            }
        }
        let counts = state.counts(self.operation);
        match result {
            Ok(bytes) => counts.bytes += bytes,
            Err(error) if !answered => {
                counts.failed += 1;
                state.last_error = Some(error.to_string());
                return;
            }
            Err(_) => {}
        }
        counts.answered += 1;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let now = self.health.clock.monotonic();
        let took = now.saturating_sub(self.begun);
        let mut state = self.health.state.lock();
        state.counts(self.operation).cancelled += 1;
        let track = &mut state.directions[Direction::of(self.operation) as usize];
        track.in_flight -= 1;
        if is_transfer(self.operation) {
            // Somebody else was faster: the estimate must not stay what it was before this cloud got slow. The
            // size is unknown; the middle class stands for it when nothing else is known.
            let known = track.latency.iter().any(|estimate| estimate.mean().is_some());
            for (class, estimate) in track.latency.iter_mut().enumerate() {
                if estimate.mean().is_some() || (!known && class == 1) {
                    estimate.record_at_least(took, now);
                }
            }
        }
    }
}
