use std::time::Duration;

use environment::Clock;

/// Holds work down to a rate of bytes a second.
pub(crate) struct Pace {
    rate: u64,
    begun: Duration,
    bytes: u64,
}

impl Pace {
    /// A rate of zero is no limit.
    pub fn new(rate: u64, clock: &dyn Clock) -> Pace {
        Pace { rate, begun: clock.monotonic(), bytes: 0 }
    }

    /// Waits until `bytes` more are due.
    pub async fn wait(&mut self, bytes: u64, clock: &dyn Clock) {
        if self.rate == 0 {
            return;
        }
        let due = self.begun + Duration::from_secs_f64(self.bytes as f64 / self.rate as f64);
        self.bytes += bytes;
        let now = clock.monotonic();
        if due > now {
            clock.sleep(due - now).await;
        }
    }
}
