//! Time that moves when told.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use environment::Clock;
use ids::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

pub struct ManualClock {
    now: watch::Sender<Duration>,
    /// How long it stood still.
    suspended: Mutex<Duration>,
    /// Pauses up to this pass by themselves: back-off, as against leases.
    skipped: Duration,
}

impl ManualClock {
    pub fn new(skipped: Duration) -> Arc<ManualClock> {
        let (now, suspended) = (watch::Sender::new(Duration::from_secs(1)), Mutex::default());
        Arc::new(ManualClock { now, suspended, skipped })
    }

    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now += by);
    }

    /// The machine sleeps for so long.
    pub fn suspend(&self, by: Duration) {
        *self.suspended.lock() += by;
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        let now = *self.now.borrow();
        Timestamp { seconds: 1_000_000 + now.as_secs() as i64, nanos: now.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        *self.now.borrow()
    }

    fn since_boot(&self) -> Duration {
        self.monotonic() + *self.suspended.lock()
    }

    #[allow(clippy::disallowed_methods)] // lets others run, for no matter how long
    async fn sleep(&self, duration: Duration) {
        if duration <= self.skipped {
            return tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let until = *self.now.borrow() + duration;
        let mut now = self.now.subscribe();
        // The sender is this clock, which is borrowed.
        now.wait_for(|now| *now >= until).await.unwrap();
    }
}
