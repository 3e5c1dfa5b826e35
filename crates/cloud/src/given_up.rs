use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Clock;
use parking_lot::Mutex;

use crate::{Cloud, CloudError, ObjectName, PutMode};

/// Puts that are remembered one by one; of more it is remembered that there were some.
const REMEMBERED: usize = 1 << 16;

/// Remembers the puts that ended with something else than success, or that nobody waited for: the store may carry them out all
/// the same, later. What was deleted before that comes back then, and nobody knows of it.
pub struct GivenUp {
    inner: Arc<dyn Cloud>,
    clock: Arc<dyn Clock>,
    puts: Mutex<Puts>,
}

struct Puts {
    /// When each was given up.
    known: HashMap<ObjectName, Duration>,
    /// When the last was of which nothing else is known.
    others: Duration,
    /// Since when they are watched.
    watched: Duration,
}

impl GivenUp {
    /// Watches what is put into `inner`. Of what was put before nothing is known.
    pub fn new(inner: Arc<dyn Cloud>, clock: Arc<dyn Clock>) -> GivenUp {
        let now = clock.monotonic();
        let puts = Puts { known: HashMap::new(), others: now, watched: now };
        GivenUp { inner, clock, puts: Mutex::new(puts) }
    }

    /// How long ago a put of this object may have been given up for the last time.
    pub fn since(&self, name: &ObjectName) -> Duration {
        let puts = self.puts.lock();
        let last = puts.known.get(name).copied().unwrap_or_default().max(puts.others);
        self.clock.monotonic().saturating_sub(last)
    }

    /// Whether a put of this object was given up so lately, as far as is known: of what was put before, nothing is.
    pub fn was_within(&self, name: &ObjectName, period: Duration) -> bool {
        let puts = self.puts.lock();
        let others = (puts.others > puts.watched).then_some(puts.others);
        let last = puts.known.get(name).copied().max(others);
        last.is_some_and(|last| self.clock.monotonic().saturating_sub(last) < period)
    }

    fn remember(&self, name: &ObjectName) {
        let (now, mut puts) = (self.clock.monotonic(), self.puts.lock());
        if puts.known.len() >= REMEMBERED {
            puts.known.clear();
            puts.others = now;
        }
        puts.known.insert(name.clone(), now);
    }
}

/// A put that is under way.
struct Sent<'a> {
    given_up: &'a GivenUp,
    name: &'a ObjectName,
    is_done: bool,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.given_up.remember(self.name);
        }
    }
}

#[async_trait]
impl Cloud for GivenUp {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        let mut sent = Sent { given_up: self, name, is_done: false };
        let result = self.inner.put(name, parts, mode).await;
        sent.is_done = result.is_ok();
        result
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        self.inner.get(name, range).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        self.inner.head(name).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        self.inner.delete(name).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        self.inner.list(prefix, after, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Fault, Faulty, Memory, Side, test_environment};

    const HOUR: Duration = Duration::from_secs(3600);

    fn name(number: usize) -> ObjectName {
        ObjectName::new(&format!("object{number}")).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_may_come_late_is_remembered_and_nothing_else() {
        let clock = test_environment().clock;
        let faulty = Faulty::new(Memory::new("m"), "m", clock.clone());
        let cloud = GivenUp::new(faulty.clone(), clock.clone());
        clock.sleep(HOUR).await;
        for (number, fault) in
            [Fault::None, Fault::Fail(ErrorKind::Refused), Fault::Hang].into_iter().enumerate()
        {
            faulty.set(Side::Writes, fault);
            let object = name(number);
            tokio::select! {
                _ = cloud.put(&object, vec![], PutMode::Overwrite) => {}
                () = clock.sleep(HOUR) => {}
            }
        }
        assert_eq!([0, 1, 2].map(|number| cloud.since(&name(number))), [2 * HOUR, HOUR, Duration::ZERO]);
        let within = |period| [0, 1, 2].map(|number| cloud.was_within(&name(number), period));
        assert_eq!(within(HOUR), [false, false, true]);
        assert_eq!(within(3 * HOUR), [false, true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_very_many_none_is_forgotten() {
        let clock = test_environment().clock;
        let cloud = GivenUp::new(Memory::new("m"), clock.clone());
        clock.sleep(HOUR).await;
        (0..=REMEMBERED).for_each(|number| cloud.remember(&name(number)));
        assert_eq!(cloud.puts.lock().known.len(), 1);
        clock.sleep(HOUR).await;
        assert!([0, 7, REMEMBERED, REMEMBERED + 1].iter().all(|number| cloud.since(&name(*number)) == HOUR));
        assert!(cloud.was_within(&name(7), 2 * HOUR));
    }
}
