use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use parking_lot::Mutex;
use serde::Serialize;

use crate::estimate::{Estimate, LATE, Sample};
use crate::limited::of_writes;
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
    /// Operations that run at a time; the others wait. 0: nobody has said.
    places: u32,
    last_error: Option<String>,
}

#[derive(Default)]
struct Track {
    /// By size: up to 64 KiB, up to 1 MiB, larger.
    latency: [Estimate; 3],
    /// Share of operations that failed or brought something unusable, exponentially weighted.
    failing: f64,
    in_flight: u32,
    /// Those in flight and those that wait for their turn.
    pending: u32,
    /// Until when the rates that are allowed are used up.
    booked: Duration,
    /// When an operation was answered for the last time.
    answered: Duration,
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
    /// Mean bytes per second of one transfer, of the same.
    pub bytes_per_second: [Option<f64>; 3],
    /// Running now.
    pub in_flight: u32,
    /// Asked for and not done: those in flight and those that wait for their turn.
    pub pending: u32,
}

/// When one operation more would be done, in seconds; 0 as long as nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// On average; later where much has failed lately.
    pub expected: f64,
    /// So long it takes at most, nineteen times out of twenty, if it succeeds.
    pub slow: f64,
    /// So long it takes at most, two times out of three, if it succeeds; does not fade.
    pub late: f64,
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

/// Share of answers of no use from which on a cloud is doubtful.
const DOUBTFUL: f64 = 0.3;

/// The five operations with a counter, in the order of [`CloudHealth::operations`].
const COUNTED: [(Operation, &str); 5] = [
    (Operation::Put, "put"),
    (Operation::Get, "get"),
    (Operation::Head, "head"),
    (Operation::Delete, "delete"),
    (Operation::List, "list"),
];

impl State {
    /// How many operations of one direction run at a time, and how many turns of those the next one waits for.
    fn queue_of(&self, direction: Direction) -> (u32, f64) {
        if self.places == 0 {
            return (u32::MAX, 0.0);
        }
        let pending = |direction: Direction| self.directions[direction as usize].pending;
        let turns =
            |before: u32, places: u32| f64::from((before + 1).saturating_sub(places)) / f64::from(places);
        let of_writes = of_writes(self.places as usize) as u32;
        let (reads, writes) = (pending(Direction::Read), pending(Direction::Write));
        let shared = turns(reads + writes.min(of_writes), self.places);
        match direction {
            Direction::Read => (self.places, shared),
            Direction::Write => (of_writes, shared.max(turns(writes, of_writes))),
        }
    }

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

    fn failed(&mut self, now: Duration) {
        self.note(true);
        self.sickness.failed(now);
    }

    fn snapshot(&self) -> DirectionHealth {
        DirectionHealth {
            sick: self.sickness.is_sick(),
            failures_in_a_row: self.sickness.failures_in_a_row(),
            error_rate: self.failing,
            mean_latency: std::array::from_fn(|at| self.latency[at].mean()),
            p95_latency: std::array::from_fn(|at| {
                self.latency[at].percentile(95).map(|p95| p95.as_secs_f64())
            }),
            bytes_per_second: std::array::from_fn(|at| self.latency[at].rate()),
            in_flight: self.in_flight,
            pending: self.pending,
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

    /// Whether it is sick, or three in ten of its last answers in this direction, weighted by their age, were of no use.
    pub fn is_doubtful(&self, direction: Direction) -> bool {
        let state = self.state.lock();
        let track = &state.directions[direction as usize];
        track.sickness.is_sick() || track.failing > DOUBTFUL
    }

    /// Whether an operation may go there as if the cloud were well. True for a sick cloud when a probe is due: the
    /// caller's operation then is the probe and ought to be sent.
    pub fn admits(&self, direction: Direction) -> bool {
        let now = self.clock.monotonic();
        self.state.lock().directions[direction as usize].sickness.admits(now)
    }

    /// Whether [`admits`](Self::admits) would be true now; asking changes nothing.
    pub fn would_admit(&self, direction: Direction) -> bool {
        let now = self.clock.monotonic();
        self.state.lock().directions[direction as usize].sickness.would_admit(now)
    }

    /// Whether operations wait for their turn in the gateway, or for the rates that are allowed.
    pub fn has_line(&self, direction: Direction) -> bool {
        let state = self.state.lock();
        let track = &state.directions[direction as usize];
        track.pending > track.in_flight
    }

    /// Whether an operation was answered since then.
    pub fn has_answered(&self, direction: Direction, since: Duration) -> bool {
        self.state.lock().directions[direction as usize].answered > since
    }

    /// When moving `bytes` would be done if it were asked for now, to rank clouds by: after what is pending there already (so that many callers
    /// spread in proportion to speed, `K60`) and, where rates are limited, after what they have been used up for. Recent failures make
    /// it later. A cloud without news for long, or at all, is expected to be fast and so gets measured (`K35`), by one operation at a time.
    pub fn forecast(&self, direction: Direction, bytes: u64) -> Forecast {
        let now = self.clock.monotonic();
        let state = self.state.lock();
        let track = &state.directions[direction as usize];
        let Some(estimate) = track.latency_of(bytes) else {
            return Forecast { expected: 1e-6 * f64::from(1 + track.pending), slow: 0.0, late: 0.0 };
        };
        let mean = estimate.mean().unwrap_or_default() + 1e-6;
        let fresh = match track.pending {
            0 => estimate.aged(now).unwrap_or_default() + 1e-6,
            _ => mean,
        };
        let (places, queued) = state.queue_of(direction);
        let load = f64::from((track.pending + 1).min(places));
        let held_up = estimate.factor(load) * (1.0 + queued);
        let failing = 1.0 + 9.0 * track.failing;
        let booked = track.booked.saturating_sub(now).as_secs_f64();
        let percentile = |percent| estimate.percentile(percent).unwrap_or_default().as_secs_f64();
        let slow = percentile(95).max(mean) * fresh / mean;
        Forecast {
            expected: booked + fresh * held_up * failing,
            slow: booked + slow * held_up,
            late: booked + percentile(LATE) * held_up,
        }
    }

    /// The 95th percentile of the time that moving `bytes` takes, as far as known.
    pub fn p95(&self, direction: Direction, bytes: u64) -> Option<Duration> {
        self.state.lock().directions[direction as usize].latency_of(bytes)?.percentile(95)
    }

    /// The reader found what this cloud returned to be missing or unusable.
    pub fn report_bad(&self) {
        self.state.lock().directions[Direction::Read as usize].note(true);
    }

    /// The caller gave an operation up, after a longer wait than any that is to be expected: a failure if nobody else was answered since
    /// it began to wait, either, unless the rates that are allowed kept it here.
    pub fn report_silence(&self, direction: Direction, since: Duration) {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        let track = &mut state.directions[direction as usize];
        if track.answered.max(track.booked) <= since {
            track.failed(now);
            state.last_error = Some(format!("no answer within {:?}", now.saturating_sub(since)));
        }
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

    /// So many operations run at a time.
    pub(crate) fn has_places(&self, places: usize) {
        self.state.lock().places = u32::try_from(places).unwrap_or(u32::MAX);
    }

    /// The rates that are allowed in this direction are used up until `booked`.
    pub(crate) fn book(&self, direction: Direction, booked: Duration) {
        let mut state = self.state.lock();
        let track = &mut state.directions[direction as usize];
        track.booked = track.booked.max(booked);
    }

    /// An operation is asked for; it is done when the guard is dropped.
    pub(crate) fn arrive(&self, operation: Operation) -> Pending<'_> {
        let direction = Direction::of(operation);
        self.state.lock().directions[direction as usize].pending += 1;
        Pending { health: self, direction }
    }

    /// An operation begins; tell the returned guard how it ended.
    pub(crate) fn begin(&self, operation: Operation) -> Running<'_> {
        let mut state = self.state.lock();
        let track = &mut state.directions[Direction::of(operation) as usize];
        track.in_flight += 1;
        Running {
            health: self,
            operation,
            begun: self.clock.monotonic(),
            load: track.in_flight,
            ended: false,
        }
    }
}

/// An operation that is asked for and not done.
pub(crate) struct Pending<'a> {
    health: &'a Health,
    direction: Direction,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.health.state.lock().directions[self.direction as usize].pending -= 1;
    }
}

/// An operation under way; dropping it means that nobody waits any more.
pub(crate) struct Running<'a> {
    health: &'a Health,
    operation: Operation,
    begun: Duration,
    load: u32,
    ended: bool,
}

impl Running<'_> {
    /// As far as it has gone.
    fn sample(&self, now: Duration) -> Sample {
        Sample { took: now.saturating_sub(self.begun), load: self.load, bytes: 0 }
    }

    /// The operation is over and moved `bytes`.
    pub fn end(mut self, result: Result<u64, &CloudError>) {
        self.ended = true;
        let now = self.health.clock.monotonic();
        let sample = self.sample(now);
        let mut state = self.health.state.lock();
        let track = &mut state.directions[Direction::of(self.operation) as usize];
        track.in_flight -= 1;
        let answered = result.is_ok() || result.is_err_and(|error| error.kind().is_an_answer());
        if answered {
            track.note(false);
            track.answered = now;
            track.sickness.succeeded();
        } else {
            track.failed(now);
        }
        if is_transfer(self.operation) {
            match result {
                Ok(bytes) => track.latency[size_class(bytes)].record(Sample { bytes, ..sample }, now),
                Err(_) if answered => {}
                Err(_) => track.latency.iter_mut().for_each(|estimate| {
                    if estimate.mean().is_some() {
                        estimate.record_at_least(sample, now);
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
        let sample = self.sample(now);
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
                    estimate.record_at_least(sample, now);
                }
            }
        }
    }
}
