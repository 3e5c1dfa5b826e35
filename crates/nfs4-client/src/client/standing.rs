//! Whether what the server has granted can be counted on without asking it (RFC 8881 §8.3, §10.2.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// What is known of that. Who relies on it first asks whether it [holds](Self::holds), and then whether there were
/// [doubts](Self::doubts): these are counted before it holds again.
#[derive(Default)]
pub(super) struct Standing {
    /// When that was sent which the server answered last without anything being wrong: milliseconds since boot, and one; 0 for
    /// never.
    vouched: AtomicU64,
    doubts: AtomicU64,
    /// Changes that nobody waits for, and that the server may execute yet.
    orphans: AtomicU64,
}

/// A change that nobody waits for. If it is dropped before it is [over](Self::over), that is never known.
pub(super) struct Orphan(Arc<Standing>);

impl Standing {
    /// The server has answered until `now` what was sent then, and all is well. Times are since boot.
    pub fn vouch(&self, sent: Duration, now: Duration, lease: Duration) {
        let former = self.vouched.load(SeqCst);
        if former > 0 && has_run_out(former, now, lease) {
            self.doubt();
        }
        self.vouched.fetch_max(sent.as_millis() as u64 + 1, SeqCst);
    }

    /// Something may be different from what it was.
    pub fn doubt(&self) {
        self.doubts.fetch_add(1, SeqCst);
    }

    pub fn doubts(&self) -> u64 {
        self.doubts.load(SeqCst)
    }

    pub fn orphan(self: &Arc<Standing>) -> Orphan {
        self.orphans.fetch_add(1, SeqCst);
        Orphan(self.clone())
    }

    /// Whether the lease has certainly not run out, and nothing of this client's own is on its way that nobody knows of.
    pub fn holds(&self, now: Duration, lease: Duration) -> bool {
        let vouched = self.vouched.load(SeqCst);
        vouched > 0 && !has_run_out(vouched, now, lease) && self.orphans.load(SeqCst) == 0
    }
}

impl Orphan {
    /// It was executed, or never will be.
    pub fn over(self) {
        self.0.doubt();
        self.0.orphans.fetch_sub(1, SeqCst);
    }
}

fn has_run_out(vouched: u64, now: Duration, lease: Duration) -> bool {
    now.saturating_sub(Duration::from_millis(vouched - 1)) >= lease
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(90);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_counts_from_when_it_was_asked_for_and_that_it_ran_out_is_never_forgotten() {
        let standing = Standing::default();
        assert!(!standing.holds(at(0), LEASE), "nothing was granted yet");
        standing.vouch(at(0), at(5), LEASE);
        assert!(standing.holds(at(89), LEASE));
        assert!(!standing.holds(at(90), LEASE));
        standing.vouch(at(80), at(89), LEASE);
        assert_eq!(standing.doubts(), 0);
        assert!(standing.holds(at(169), LEASE));
        // Sent in time, and executed nobody knows when.
        standing.vouch(at(169), at(171), LEASE);
        assert_eq!(standing.doubts(), 1);
        assert!(standing.holds(at(171), LEASE));
    }

    #[test]
    fn what_nobody_waits_for_is_in_doubt_until_it_is_over_and_has_been_for_ever() {
        let standing = Arc::new(Standing::default());
        standing.vouch(at(1), at(1), LEASE);
        let (one, other) = (standing.orphan(), standing.orphan());
        one.over();
        assert!(!standing.holds(at(1), LEASE));
        other.over();
        assert!(standing.holds(at(1), LEASE));
        assert_eq!(standing.doubts(), 2);
        drop(standing.orphan());
        assert!(!standing.holds(at(1), LEASE), "nobody has seen its end");
    }
}
