use std::time::Duration;

use parking_lot::Mutex;

use crate::ScanError;

/// After so many failures in a row the scanner is taken to be away.
const FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How the scanner is doing.
#[derive(Default)]
pub(crate) struct Health(Mutex<State>);

#[derive(Default)]
struct State {
    /// In a row.
    failures: u32,
    paused_until: Duration,
    /// Somebody tries whether it is back.
    is_tried: bool,
    last_error: Option<String>,
}

/// How the scanner is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthReport {
    /// Whether it has failed so often in a row that it is only tried now and then.
    pub is_away: bool,
    /// The last failure, if there was none without since.
    pub last_error: Option<String>,
}

impl Health {
    /// Whether it is worth a try: one at a time when it is away, after a pause. Whoever gets leave tells how it went.
    pub fn may_try(&self, now: Duration) -> bool {
        let mut state = self.0.lock();
        if state.failures < FAILURES {
            return true;
        }
        if state.is_tried || now < state.paused_until {
            return false;
        }
        state.is_tried = true;
        true
    }

    /// It has answered.
    pub fn answered(&self) {
        let mut state = self.0.lock();
        if state.failures >= FAILURES {
            tracing::info!("the scanner answers again");
        }
        *state = State::default();
    }

    /// It has not.
    pub fn failed(&self, now: Duration, error: &ScanError) {
        let mut state = self.0.lock();
        state.failures = state.failures.saturating_add(1);
        if state.failures <= FAILURES {
            tracing::warn!(%error, failures = state.failures, "a file could not be scanned");
        }
        let pause = FIRST_PAUSE * 2_u32.saturating_pow(state.failures.saturating_sub(FAILURES).min(10));
        state.paused_until = now + pause.min(LONGEST_PAUSE);
        state.is_tried = false;
        state.last_error = Some(error.to_string());
    }

    /// Whoever was to try it has ended without.
    pub fn gave_up(&self) {
        self.0.lock().is_tried = false;
    }

    pub fn report(&self) -> HealthReport {
        let state = self.0.lock();
        HealthReport { is_away: state.failures >= FAILURES, last_error: state.last_error.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_tries_a_scanner_that_is_away() {
        let health = Health::default();
        let second = Duration::from_secs(1);
        let error = ScanError::Connect("refused".into());
        for _ in 0..FAILURES {
            assert!(health.may_try(second));
            health.failed(second, &error);
        }
        assert!(!health.may_try(second), "it rests");
        assert!(health.may_try(2 * second));
        assert!(!health.may_try(2 * second), "somebody tries");
        health.failed(2 * second, &error);
        assert!(!health.may_try(3 * second), "longer than before");
        assert!(health.may_try(4 * second));
        assert!(health.report().is_away);
        health.answered();
        assert_eq!(health.report(), HealthReport::default());
        assert!(health.may_try(Duration::ZERO) && health.may_try(Duration::ZERO));
    }
}
