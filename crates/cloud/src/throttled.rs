use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Clock;
use parking_lot::Mutex;

use crate::contract::length_of;
use crate::{Cloud, CloudError, Direction, Health, ObjectName, PutMode};

/// What a cloud may be given to do; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Requests per second.
    pub requests: Option<u32>,
    /// Bytes per second to the cloud.
    pub upload: Option<u64>,
    /// Bytes per second from the cloud.
    pub download: Option<u64>,
}

/// Makes operations wait so that a cloud is asked no more often, and moves no more bytes, than its [`Rates`] say.
///
/// What is not used within a second is lost. An upload waits before it begins; of a download nobody knows before how
/// much it is, so it is those after it that wait.
pub struct Throttled {
    inner: Arc<dyn Cloud>,
    clock: Arc<dyn Clock>,
    requests: Option<Line>,
    upload: Option<Line>,
    download: Option<Line>,
    health: Option<Arc<Health>>,
}

/// Whoever wants something gets the next time at which there is some.
struct Line {
    per_second: f64,
    /// When all that was asked for has been given.
    free_at: Mutex<Duration>,
}

/// Unused time that still counts.
const BURST: Duration = Duration::from_secs(1);

impl Line {
    fn new(per_second: Option<u64>) -> Option<Line> {
        let per_second = per_second?.max(1) as f64;
        Some(Line { per_second, free_at: Mutex::new(Duration::ZERO) })
    }

    /// Takes `amount` at `now`.
    fn take(&self, amount: u64, now: Duration) -> Booking<'_> {
        let takes = Duration::from_secs_f64(amount as f64 / self.per_second);
        let mut free_at = self.free_at.lock();
        *free_at = (*free_at).max(now.saturating_sub(BURST)) + takes;
        Booking { line: self, takes, wait: free_at.saturating_sub(now) }
    }

    fn free_at(&self) -> Duration {
        *self.free_at.lock()
    }
}

/// What somebody may have after a wait; dropped before, it is for whoever comes next.
#[must_use = "it is used up once it is said to be"]
struct Booking<'a> {
    line: &'a Line,
    takes: Duration,
    wait: Duration,
}

impl Booking<'_> {
    fn use_up(mut self) {
        self.takes = Duration::ZERO;
    }
}

impl Drop for Booking<'_> {
    fn drop(&mut self) {
        let mut free_at = self.line.free_at.lock();
        *free_at = free_at.saturating_sub(self.takes);
    }
}

impl Throttled {
    /// In front of `inner`.
    pub fn new(inner: Arc<dyn Cloud>, clock: Arc<dyn Clock>, rates: Rates) -> Throttled {
        Throttled {
            inner,
            clock,
            requests: Line::new(rates.requests.map(u64::from)),
            upload: Line::new(rates.upload),
            download: Line::new(rates.download),
            health: None,
        }
    }

    /// Tells `health` until when the rates are used up.
    #[must_use]
    pub fn telling(self, health: Arc<Health>) -> Throttled {
        Throttled { health: Some(health), ..self }
    }

    fn book(&self, direction: Direction, until: Duration) {
        self.health.iter().for_each(|health| health.book(direction, until));
    }

    async fn wait(&self, line: Option<&Line>, amount: u64, directions: &[Direction]) {
        let Some(line) = line else { return };
        let now = self.clock.monotonic();
        let booking = line.take(amount, now);
        if !booking.wait.is_zero() {
            directions.iter().for_each(|direction| self.book(*direction, now + booking.wait));
            self.clock.sleep(booking.wait).await;
        }
        booking.use_up();
    }

    async fn turn(&self) {
        self.wait(self.requests.as_ref(), 1, &[Direction::Read, Direction::Write]).await;
    }
}

#[async_trait]
impl Cloud for Throttled {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        self.turn().await;
        self.wait(self.upload.as_ref(), length_of(&parts), &[Direction::Write]).await;
        self.inner.put(name, parts, mode).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        self.turn().await;
        self.wait(self.download.as_ref(), 0, &[]).await;
        let bytes = self.inner.get(name, range).await?;
        if let Some(line) = &self.download {
            line.take(bytes.len() as u64, self.clock.monotonic()).use_up();
            self.book(Direction::Read, line.free_at());
        }
        Ok(bytes)
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        self.turn().await;
        self.inner.head(name).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        self.turn().await;
        self.inner.delete(name).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        self.turn().await;
        self.inner.list(prefix, after, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, TestClock};

    fn throttled(rates: Rates) -> (Throttled, Arc<TestClock>) {
        let clock = TestClock::new();
        (Throttled::new(Memory::new("m"), clock.clone(), rates), clock)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_rate_wait_for_their_turn() {
        let (cloud, clock) = throttled(Rates { requests: Some(10), ..Rates::default() });
        clock.sleep(Duration::from_secs(5)).await;
        let began = clock.monotonic();
        let name = ObjectName::new("name").unwrap();
        futures::future::join_all((0..30).map(|_| cloud.delete(&name))).await;
        // Ten are those of the second that was not used.
        let took = clock.monotonic() - began;
        assert!(took >= Duration::from_millis(1990) && took <= Duration::from_millis(2010), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_in_both_directions_keep_to_their_rates() {
        let rates = Rates { upload: Some(1000), download: Some(4000), requests: None };
        let (cloud, clock) = throttled(rates);
        let name = ObjectName::new("name").unwrap();
        for _ in 0..2 {
            cloud.put(&name, vec![vec![0; 8000].into()], PutMode::Overwrite).await.unwrap();
        }
        assert_eq!(clock.monotonic().as_secs(), 16);
        for _ in 0..2 {
            cloud.get(&name, None).await.unwrap();
        }
        assert_eq!(clock.monotonic().as_secs(), 17, "a second's worth is left, so two seconds become one");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_up_before_its_turn_uses_nothing_up() {
        let rates = Rates { upload: Some(1000), ..Rates::default() };
        let (cloud, clock) = throttled(rates);
        let name = ObjectName::new("name").unwrap();
        let put = |bytes: usize| cloud.put(&name, vec![vec![0; bytes].into()], PutMode::Overwrite);
        clock.sleep(Duration::from_secs(5)).await;
        let given_up = futures::future::join_all((0..10).map(|_| put(8000)));
        tokio::select! {
            _ = given_up => unreachable!("the first waits for seven seconds"),
            () = clock.sleep(Duration::from_secs(1)) => {}
        }
        put(2000).await.unwrap();
        assert_eq!(clock.monotonic().as_secs(), 7);
    }
}
