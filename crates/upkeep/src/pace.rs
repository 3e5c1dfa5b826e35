use std::time::Duration;

use environment::Clock;

/// How much of what a pause has left over may be used at once.
const CREDIT: Duration = Duration::from_secs(1);

/// Holds work down to a rate of bytes a second.
pub struct Pace {
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
        self.spend(bytes);
        let now = clock.monotonic();
        if due > now {
            clock.sleep(due - now).await;
        } else {
            // Who was held up by others does not make up for it beyond the rate.
            self.begun += (now - due).saturating_sub(CREDIT);
        }
    }

    /// Counts bytes that were not known before: the next one waits for them.
    pub fn spend(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}
