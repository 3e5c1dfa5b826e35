use std::time::Duration;

/// So many failures in a row make a cloud sick.
const LIMIT: u32 = 5;
const FIRST_PROBE: Duration = Duration::from_secs(2);
const LONGEST_PROBE: Duration = Duration::from_secs(10);

/// Circuit breaker of one direction of one cloud: sick after [`LIMIT`] failures in a row, well again after one
/// success; while sick, one operation is let through as a probe at growing intervals.
#[derive(Default)]
pub(crate) struct Sickness {
    failures: u32,
    probe_at: Duration,
    interval: Duration,
}

impl Sickness {
    pub fn succeeded(&mut self) {
        *self = Sickness::default();
    }

    pub fn failed(&mut self, now: Duration) {
        self.failures = self.failures.saturating_add(1);
        if self.failures == LIMIT {
            self.interval = FIRST_PROBE;
            self.probe_at = now + FIRST_PROBE;
        }
    }

    /// Sick at once.
    pub fn went_down(&mut self, now: Duration) {
        *self = Sickness { failures: LIMIT - 1, ..Sickness::default() };
        self.failed(now);
    }

    pub fn failures_in_a_row(&self) -> u32 {
        self.failures
    }

    pub fn is_sick(&self) -> bool {
        self.failures >= LIMIT
    }

    /// Whether [`admits`](Self::admits) would be true; asking is no probe.
    pub fn would_admit(&self, now: Duration) -> bool {
        !self.is_sick() || now >= self.probe_at
    }

    /// Whether an operation may go to this cloud as if it were well: it is, or this operation is the probe.
    pub fn admits(&mut self, now: Duration) -> bool {
        if !self.would_admit(now) {
            return false;
        }
        if !self.is_sick() {
            return true;
        }
        self.interval = (self.interval * 2).min(LONGEST_PROBE);
        self.probe_at = now + self.interval;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sick_cloud_gets_one_probe_at_growing_intervals_until_one_succeeds() {
        let mut state = Sickness::default();
        let at = Duration::from_secs;
        (0..4).for_each(|_| state.failed(at(0)));
        assert!(state.admits(at(0)));
        state.failed(at(0));
        assert!(state.is_sick());
        assert!(!state.admits(at(1)));
        assert!(state.admits(at(2)), "the probe");
        assert!(!state.admits(at(2)), "only one");
        state.failed(at(2));
        assert!(!state.admits(at(5)));
        assert!(state.admits(at(6)));
        state.succeeded();
        assert!(!state.is_sick() && state.admits(at(6)));
        state.went_down(at(7));
        assert!(state.is_sick() && !state.admits(at(8)) && state.admits(at(9)));
    }
}
