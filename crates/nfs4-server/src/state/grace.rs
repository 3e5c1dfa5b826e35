//! The grace period after a restart (RFC 8881 §8.4.2).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// How long the next reclaim of a client that is at it may take.
const BETWEEN_RECLAIMS: Duration = Duration::from_secs(3);

/// Which clients may still reclaim, and until when.
///
/// There is a grace period only if clients were known at the start. It ends when all of them are done, or, at
/// the latest, when [`Grace::is_over_due`] and the records of those that did not come back are gone
/// ([`Grace::end`]): they must not be able to reclaim after yet another restart what others were given since
/// (RFC 8881 §8.4.3).
#[derive(Debug)]
pub(crate) struct Grace {
    until: Duration,
    /// Reclaims do not put off the end beyond this.
    at_most_until: Duration,
    /// Owner ids of the clients that may have something to reclaim and are not done.
    waiting: HashSet<Arc<[u8]>>,
    /// Those that came back, and will not say when they are done: clients of 4.0.
    returned: HashSet<Arc<[u8]>>,
}

impl Grace {
    /// Begins now for these clients, for `length`, and for twice as much at most while they reclaim.
    pub fn new(known: impl IntoIterator<Item = Arc<[u8]>>, now: Duration, length: Duration) -> Grace {
        Grace {
            until: now + length,
            at_most_until: now + 2 * length,
            waiting: known.into_iter().collect(),
            returned: HashSet::new(),
        }
    }

    /// Whether only reclaims are granted.
    pub fn is_active(&self) -> bool {
        !self.waiting.is_empty() || !self.returned.is_empty()
    }

    /// Whether this client may reclaim.
    pub fn may_reclaim(&self, owner: &[u8]) -> bool {
        self.waiting.contains(owner) || self.returned.contains(owner)
    }

    /// Whether this client has not reclaimed anything yet, or not everything.
    pub fn is_waiting_for(&self, owner: &[u8]) -> bool {
        self.waiting.contains(owner)
    }

    /// This client has reclaimed something, and may go on until the end: it is not late.
    pub fn came_back(&mut self, owner: &Arc<[u8]>) {
        if self.waiting.remove(owner) {
            self.returned.insert(owner.clone());
        }
    }

    /// Somebody reclaims now: who began late is not cut off in the middle (RFC 8881 §8.4.2.1).
    pub fn goes_on(&mut self, now: Duration) {
        self.until = self.until.max(now + BETWEEN_RECLAIMS).min(self.at_most_until);
    }

    /// This client has reclaimed everything, or is gone for good.
    pub fn done(&mut self, owner: &[u8]) {
        self.waiting.remove(owner);
        self.returned.remove(owner);
    }

    /// The clients that had their time and did not use it; `None` while it lasts or when it has ended.
    pub fn is_over_due(&self, now: Duration) -> Option<Vec<Arc<[u8]>>> {
        (self.is_active() && now >= self.until).then(|| self.waiting.iter().cloned().collect())
    }

    /// Ends it. Only after the records of the late clients are durably gone.
    pub fn end(&mut self) {
        self.waiting.clear();
        self.returned.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Arc<[u8]> {
        name.as_bytes().into()
    }

    #[test]
    fn without_known_clients_there_is_no_grace() {
        assert!(!Grace::new([], Duration::ZERO, Duration::from_secs(90)).is_active());
    }

    #[test]
    fn grace_ends_with_the_last_known_client() {
        let mut grace = Grace::new([owner("a"), owner("b")], Duration::ZERO, Duration::from_secs(90));
        assert!(grace.may_reclaim(b"a") && !grace.may_reclaim(b"c"));
        grace.done(b"a");
        assert!(grace.is_active() && !grace.may_reclaim(b"a"));
        grace.done(b"b");
        assert!(!grace.is_active());
    }

    #[test]
    fn late_clients_are_named_when_the_time_is_over() {
        let mut grace = Grace::new([owner("a")], Duration::from_secs(5), Duration::from_secs(90));
        assert_eq!(grace.is_over_due(Duration::from_secs(94)), None);
        assert_eq!(grace.is_over_due(Duration::from_secs(95)), Some(vec![owner("a")]));
        assert!(grace.is_active(), "until their records are gone");
        grace.end();
        assert!(!grace.is_active());
        assert_eq!(grace.is_over_due(Duration::from_secs(96)), None);
    }

    #[test]
    fn the_end_waits_for_who_is_reclaiming_but_not_for_ever() {
        let seconds = Duration::from_secs;
        let mut grace = Grace::new([owner("a")], Duration::ZERO, seconds(90));
        grace.goes_on(seconds(10));
        assert!(grace.is_over_due(seconds(90)).is_some(), "there was time enough");
        for now in (89..179).step_by(2) {
            grace.goes_on(seconds(now));
            assert!(grace.is_over_due(seconds(now + 2)).is_none() || now + 2 >= 180, "{now}");
        }
        assert!(grace.is_over_due(seconds(180)).is_some());
        let mut grace = Grace::new([owner("a")], Duration::ZERO, seconds(90));
        grace.goes_on(seconds(89));
        assert!(grace.is_over_due(seconds(91)).is_none());
        assert!(grace.is_over_due(seconds(92)).is_some(), "it has stopped");
    }

    #[test]
    fn who_came_back_and_cannot_say_that_he_is_done_has_all_the_time_and_is_not_late() {
        let mut grace = Grace::new([owner("a"), owner("b")], Duration::ZERO, Duration::from_secs(90));
        grace.came_back(&owner("a"));
        grace.came_back(&owner("stranger"));
        assert!(grace.may_reclaim(b"a") && !grace.may_reclaim(b"stranger"));
        grace.done(b"b");
        assert!(grace.is_active());
        assert_eq!(grace.is_over_due(Duration::from_secs(90)), Some(Vec::new()));
        grace.end();
        assert!(!grace.is_active());
    }
}
