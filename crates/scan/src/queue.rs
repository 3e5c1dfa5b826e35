use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ids::ObjectId;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Files that are held back until they are scanned. As many as there are with dirty data: the books of that bound it.
#[derive(Default)]
pub(crate) struct Queue {
    files: HashMap<ObjectId, Waiting>,
    ready: VecDeque<ObjectId>,
    /// Looked at, and to be shown to the scanner.
    to_scan: VecDeque<ObjectId>,
    resting: Vec<ObjectId>,
}

/// A file that waits, or is being scanned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    /// Since when.
    pub since: Duration,
    /// Tries that led to nothing.
    pub failures: u32,
    /// Not before.
    pub until: Duration,
    /// Times that something was found in a version that was not the present one any more.
    pub found_in_older: u32,
    /// Why the last try led to nothing.
    pub why: Option<String>,
}

impl Queue {
    /// Takes a file in, unless it is there. Whether it is new.
    pub fn submit(&mut self, object: ObjectId, now: Duration, is_due: bool) -> bool {
        if self.files.contains_key(&object) {
            return false;
        }
        self.files.insert(object, Waiting { since: now, ..Waiting::default() });
        match is_due {
            true => self.ready.push_back(object),
            false => self.resting.push(object),
        }
        true
    }

    /// The next file to look at. It stays in the queue until it is [removed](Queue::remove) or [put back](Queue::put_back).
    pub fn next(&mut self) -> Option<(ObjectId, Waiting)> {
        let object = self.ready.pop_front()?;
        Some((object, self.files.get(&object).cloned().unwrap_or_default()))
    }

    /// A file that was looked at needs a scan.
    pub fn needs_scan(&mut self, object: ObjectId) {
        self.to_scan.push_back(object);
    }

    /// As [`Queue::next`], of those that need a scan.
    pub fn next_to_scan(&mut self) -> Option<(ObjectId, Waiting)> {
        let object = self.to_scan.pop_front()?;
        Some((object, self.files.get(&object).cloned().unwrap_or_default()))
    }

    pub fn has_to_scan(&self) -> bool {
        !self.to_scan.is_empty()
    }

    pub fn has_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Looks at those that rest whether they are due now.
    pub fn wake(&mut self, is_due: impl Fn(ObjectId, &Waiting) -> bool) {
        let Queue { files, ready, resting, .. } = self;
        resting.retain(|object| match files.get(object) {
            Some(waiting) if is_due(*object, waiting) => {
                ready.push_back(*object);
                false
            }
            Some(_) => true,
            None => false,
        });
    }

    pub fn remove(&mut self, object: ObjectId) {
        self.files.remove(&object);
    }

    /// A try has led to nothing.
    pub fn put_back(&mut self, object: ObjectId, waiting: Waiting) {
        self.files.insert(object, waiting);
        self.resting.push(object);
    }

    /// Has a file that rests be due at once.
    pub fn hurry(&mut self, object: ObjectId) {
        if let Some(at) = self.resting.iter().position(|other| *other == object) {
            self.resting.swap_remove(at);
            self.ready.push_back(object);
        }
    }

    pub fn has(&self, object: ObjectId) -> bool {
        self.files.contains_key(&object)
    }

    /// All of them.
    pub fn files(&self) -> impl Iterator<Item = (ObjectId, &Waiting)> {
        self.files.iter().map(|(object, waiting)| (*object, waiting))
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }
}

impl Waiting {
    /// After one more failure.
    pub fn failed(mut self, now: Duration, why: String) -> Waiting {
        let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        self.until = now + pause.min(LONGEST_PAUSE);
        self.why = Some(why);
        self
    }
}

#[cfg(test)]
mod tests {
    use ids::{GatewayId, ObjectNumber};

    use super::*;

    fn object(number: u128) -> ObjectId {
        ObjectId { creator: GatewayId(1), number: ObjectNumber(number) }
    }

    #[test]
    fn a_file_is_there_once_until_it_is_removed() {
        let mut queue = Queue::default();
        assert!(queue.submit(object(1), Duration::ZERO, true));
        assert!(!queue.submit(object(1), Duration::ZERO, true));
        assert!(queue.submit(object(2), Duration::ZERO, false));
        let (first, waiting) = queue.next().unwrap();
        assert_eq!(first, object(1));
        assert!(!queue.submit(object(1), Duration::ZERO, true), "it is being scanned");
        assert!(queue.next().is_none(), "the other one is not due");
        queue.put_back(first, waiting.failed(Duration::ZERO, "no".into()));
        queue.wake(|_, waiting| waiting.until <= Duration::from_millis(999));
        assert_eq!(queue.next().map(|(object, _)| object), Some(object(2)));
        queue.hurry(object(1));
        let (again, waiting) = queue.next().unwrap();
        assert_eq!((again, waiting.failures), (object(1), 1));
        queue.remove(object(1));
        queue.hurry(object(1));
        assert!(!queue.has(object(1)) && queue.next().is_none() && queue.len() == 1);
        queue.needs_scan(object(2));
        assert!(queue.has_to_scan());
        assert_eq!(queue.next_to_scan().map(|(object, _)| object), Some(object(2)));
    }

    #[test]
    fn pauses_grow_up_to_a_minute() {
        let mut waiting = Waiting::default();
        for _ in 0..40 {
            waiting = waiting.failed(Duration::ZERO, String::new());
        }
        assert_eq!(waiting.until, LONGEST_PAUSE);
    }
}
