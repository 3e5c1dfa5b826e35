use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use ids::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Time and timers.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Wall-clock time; may jump in both directions.
    fn wall(&self) -> Timestamp;

    /// Time since an arbitrary origin that is fixed for the life of the process; never goes back.
    fn monotonic(&self) -> Duration;

    /// Time since an arbitrary origin that is fixed for the life of the process; never goes back, and goes on while the machine is
    /// suspended, where [`monotonic`](Self::monotonic) may stand still. For what others count on their own clocks, as a lease.
    fn since_boot(&self) -> Duration {
        self.monotonic()
    }

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

    fn since_boot(&self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    #[allow(clippy::disallowed_methods)] // the one place that sleeps
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_boot_is_what_the_machine_says_it_is_suspended_or_not() {
        let up = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
        };
        // Said in hundredths.
        let (before, now, after) = (up(), SystemClock::new().since_boot(), up() + Duration::from_millis(20));
        assert!(before <= now && now <= after, "{before:?} {now:?} {after:?}");
    }
}
