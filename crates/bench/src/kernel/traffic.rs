//! What a client has sent, and what it has waited for.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of one client.
#[derive(Default)]
pub struct Traffic {
    rpcs: AtomicU64,
    queued: AtomicU64,
    answered: AtomicU64,
}

/// Their sums, as `/proc/self/mountstats` has them for the client of the kernel (kurma.md §2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Compounds.
    pub rpcs: u64,
    /// Nanoseconds that compounds have waited for a slot of the session.
    pub queued: u64,
    /// Nanoseconds from there to their answers.
    pub answered: u64,
}

impl Traffic {
    pub fn add(&self, queued: Duration, answered: Duration) {
        self.rpcs.fetch_add(1, Ordering::Relaxed);
        self.queued.fetch_add(queued.as_nanos() as u64, Ordering::Relaxed);
        self.answered.fetch_add(answered.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn totals(&self) -> Totals {
        Totals {
            rpcs: self.rpcs.load(Ordering::Relaxed),
            queued: self.queued.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
        }
    }
}

impl Add for Totals {
    type Output = Totals;

    fn add(self, other: Totals) -> Totals {
        Totals {
            rpcs: self.rpcs + other.rpcs,
            queued: self.queued + other.queued,
            answered: self.answered + other.answered,
        }
    }
}

impl Sub for Totals {
    type Output = Totals;

    fn sub(self, before: Totals) -> Totals {
        Totals {
            rpcs: self.rpcs - before.rpcs,
            queued: self.queued - before.queued,
            answered: self.answered - before.answered,
        }
    }
}
