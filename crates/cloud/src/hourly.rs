use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use parking_lot::Mutex;

/// Leftovers older than this are swept; younger ones may belong to another gateway that is writing now. So often it is
/// looked for them.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// What is done while objects are written, once in an hour.
pub(crate) struct Hourly {
    clock: Arc<dyn Clock>,
    /// When it was done last.
    last: Mutex<Option<Duration>>,
}

impl Hourly {
    pub fn new(clock: Arc<dyn Clock>) -> Hourly {
        Hourly { clock, last: Mutex::new(None) }
    }

    /// Whether it is to be done now, by whoever asks; the next time is an hour later.
    pub fn begin_when_due(&self) -> bool {
        let now = self.clock.monotonic();
        let mut last = self.last.lock();
        let is_due = last.is_none_or(|last| now.saturating_sub(last) > HOUR);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    /// It is being done without having been due.
    pub fn begun(&self) {
        *self.last.lock() = Some(self.clock.monotonic());
    }
}
