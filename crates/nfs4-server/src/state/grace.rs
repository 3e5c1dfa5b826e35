//! The grace period after a restart (RFC 8881 §8.4.2).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Which clients may still reclaim, and until when.
///
/// There is a grace period only if clients were known at the start. It ends when all of them are done, or, at
/// the latest, when [`Grace::is_over_due`] and the records of those that did not come back are gone
/// ([`Grace::end`]): they must not be able to reclaim after yet another restart what others were given since
/// (RFC 8881 §8.4.3).
#[derive(Debug)]
pub(crate) struct Grace {
    until: Duration,
    /// Owner ids of the clients that may have something to reclaim and are not done.
    waiting: HashSet<Arc<[u8]>>,
}

impl Grace {
    /// Begins now for these clients, for `length` at most.
    pub fn new(known: impl IntoIterator<Item = Arc<[u8]>>, now: Duration, length: Duration) -> Grace {
        Grace { until: now + length, waiting: known.into_iter().collect() }
    }

    /// Whether only reclaims are granted.
    pub fn is_active(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether this client may reclaim.
    pub fn may_reclaim(&self, owner: &[u8]) -> bool {
        self.waiting.contains(owner)
    }

    /// This client has reclaimed everything, or is gone for good.
    pub fn done(&mut self, owner: &[u8]) {
        self.waiting.remove(owner);
    }

    /// The clients that had their time and did not use it; empty while it lasts.
    pub fn is_over_due(&self, now: Duration) -> Vec<Arc<[u8]>> {
        if now < self.until { Vec::new() } else { self.waiting.iter().cloned().collect() }
    }

    /// Ends it. Only after the records of the late clients are durably gone.
    pub fn end(&mut self) {
        self.waiting.clear();
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
        assert!(grace.is_over_due(Duration::from_secs(94)).is_empty());
        assert_eq!(grace.is_over_due(Duration::from_secs(95)), [owner("a")]);
        assert!(grace.is_active(), "until their records are gone");
        grace.end();
        assert!(!grace.is_active());
    }
}
