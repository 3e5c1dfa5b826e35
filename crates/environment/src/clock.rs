use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use ids::Timestamp;

/// Time and timers.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Wall-clock time; may jump in both directions.
    fn wall(&self) -> Timestamp;

    /// Time since an arbitrary origin that is fixed for the life of the process; never goes back.
    fn monotonic(&self) -> Duration;

    /// Returns after `duration` of monotonic time.
    async fn sleep(&self, duration: Duration);
}

/// The clock of the machine.
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic origin is now.
    #[allow(clippy::disallowed_methods, clippy::new_without_default)] // the one place where time is read
    pub fn new() -> SystemClock {
        SystemClock { origin: Instant::now() }
    }
}

#[async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place where time is read
    fn wall(&self) -> Timestamp {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp { seconds: after.as_secs() as i64, nanos: after.subsec_nanos() },
            // A machine that believes it is before 1970: the epoch is as good as any time.
            Err(_) => Timestamp::default(),
        }
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    #[allow(clippy::disallowed_methods)] // the one place that sleeps
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
