use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use environment::Clock;
use ids::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// When worlds begin.
const BEGINNING: i128 = 1_900_000_000_000_000_000;

/// The time of the world, which outlives machines. It runs on tokio's paused clock: as soon as nobody has anything to do, it is
/// the time of the next timer.
#[derive(Clone, Default)]
pub struct Time(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Before this machine was started.
    before: Duration,
    started: Option<Instant>,
    /// By how much wall clocks are wrong, in nanoseconds.
    wrong_by: i128,
    /// By how much they go faster, in parts of a million.
    skew: i64,
}

impl Time {
    /// A machine starts, in the runtime of the caller.
    pub fn machine(&self) -> Arc<MachineClock> {
        let mut inner = self.0.lock();
        let started = Instant::now();
        inner.started = Some(started);
        Arc::new(MachineClock { time: self.clone(), started })
    }

    /// The machine has ended; its runtime may go.
    pub fn stop(&self) {
        let mut inner = self.0.lock();
        if let Some(started) = inner.started.take() {
            inner.before += started.elapsed();
        }
    }

    /// Since the beginning of the world.
    pub fn now(&self) -> Duration {
        let inner = self.0.lock();
        inner.before + inner.started.map_or(Duration::ZERO, |started| started.elapsed())
    }

    /// Wall clocks jump by so many milliseconds.
    pub fn jump(&self, millis: i64) {
        self.0.lock().wrong_by += i128::from(millis) * 1_000_000;
    }

    /// Wall clocks gain so many microseconds in a second from the beginning of the world on.
    pub fn set_skew(&self, skew: i64) {
        self.0.lock().skew = skew;
    }
}

/// The clock of one machine, from its start to its end.
pub struct MachineClock {
    time: Time,
    started: Instant,
}

#[async_trait]
impl Clock for MachineClock {
    fn wall(&self) -> Timestamp {
        let elapsed = self.time.now().as_nanos() as i128;
        let inner = self.time.0.lock();
        let now = BEGINNING + elapsed + elapsed * i128::from(inner.skew) / 1_000_000 + inner.wrong_by;
        Timestamp { seconds: (now / 1_000_000_000) as i64, nanos: (now % 1_000_000_000) as u32 }
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    #[allow(clippy::disallowed_methods)] // the simulated clock itself
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
