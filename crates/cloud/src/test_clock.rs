use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use environment::{Clock, Environment};
use ids::Timestamp;
use tokio::time::Instant;

/// A clock that follows tokio's: with paused time it stands still until a test advances it or everything waits.
/// Wall-clock time begins at 1,700,000,000 s.
pub struct TestClock {
    origin: Instant,
}

impl TestClock {
    /// A clock whose origin is now. Call inside of the runtime of the test.
    pub fn new() -> Arc<TestClock> {
        Arc::new(TestClock { origin: Instant::now() })
    }
}

#[async_trait]
impl Clock for TestClock {
    fn wall(&self) -> Timestamp {
        let since = self.monotonic();
        Timestamp { seconds: 1_700_000_000 + since.as_secs() as i64, nanos: since.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    #[allow(clippy::disallowed_methods)] // this is a Clock
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The actual machine with a [`TestClock`].
pub fn test_environment() -> Environment {
    Environment { clock: TestClock::new(), ..Environment::real() }
}
