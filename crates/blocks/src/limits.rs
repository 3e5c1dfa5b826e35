use std::time::Duration;

use crate::Preference;

/// Bounds and waits of a [`BlockStore`](crate::BlockStore).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of sealed blocks and fragments that may be under way together, over all calls; others wait. Default
    /// 256 MiB.
    pub bytes_in_flight: u64,
    /// Which clouds reads ask first; default [`Preference::Speed`].
    pub preference: Preference,
    /// The least time that a read waits before it asks further clouds; default 20 ms.
    pub shortest_hedge: Duration,
    /// The same for clouds of which nothing is known yet; default 200 ms.
    pub first_hedge: Duration,
    /// The longest such time; default 1 s.
    pub longest_hedge: Duration,
    /// Fragments beyond the needed ones with which a write waits only for stragglers; default 1.
    pub spare: usize,
    /// Fragments beyond the needed ones without which a write fails, even after the longest wait; default 0.
    pub least_spare: usize,
    /// How long a write with `spare` fragments more than it needs waits for the rest, at least; twice the 95th
    /// percentile of the slow clouds when that is longer. One with fewer waits twice as long. After half of it the rest is put
    /// once more, if that may help. Default 2 s.
    pub straggler: Duration,
    /// How long a write waits for the rest, at most; default 10 s.
    pub longest_straggler: Duration,
    /// How long after it was given up, or its sender has died, a put may still be carried out by its cloud: for so long nothing
    /// that it may have stored is deleted, and after a start nothing at all but what has moved to another cloud. Default 10 min.
    pub late_puts: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes_in_flight: 256 << 20,
            preference: Preference::Speed,
            shortest_hedge: Duration::from_millis(20),
            first_hedge: Duration::from_millis(200),
            longest_hedge: Duration::from_secs(1),
            spare: 1,
            least_spare: 0,
            straggler: Duration::from_secs(2),
            longest_straggler: Duration::from_secs(10),
            late_puts: Duration::from_secs(600),
        }
    }
}
