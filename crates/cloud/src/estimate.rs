use std::time::Duration;

/// Samples that the quantile is taken from.
const WINDOW: usize = 64;
/// Weight of a new sample in the mean.
const WEIGHT: f64 = 0.2;
/// Weight of a wait that was given up: the truth is longer.
const LATE_WEIGHT: f64 = 0.5;
/// After so long without a sample a mean counts half, so that a cloud that was slow once is tried again.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// How long one kind of operation takes: an exponentially weighted mean and the 95th percentile of the last
/// samples.
#[derive(Default)]
pub(crate) struct Estimate {
    mean: Option<f64>,
    at: Duration,
    recent: Vec<Duration>,
    next: usize,
}

impl Estimate {
    /// An operation took `sample`; it is `now`.
    pub fn record(&mut self, sample: Duration, now: Duration) {
        self.add(sample, WEIGHT, now);
    }

    fn add(&mut self, sample: Duration, weight: f64, now: Duration) {
        let seconds = sample.as_secs_f64();
        self.mean = Some(self.mean.map_or(seconds, |mean| mean + weight * (seconds - mean)));
        self.at = now;
        if self.recent.len() < WINDOW {
            self.recent.push(sample);
        } else {
            self.recent[self.next] = sample;
        }
        self.next = (self.next + 1) % WINDOW;
    }

    /// An operation was given up after `elapsed`: it would have taken longer.
    pub fn record_at_least(&mut self, elapsed: Duration, now: Duration) {
        if self.mean.is_none_or(|mean| elapsed.as_secs_f64() > mean) {
            self.add(elapsed, LATE_WEIGHT, now);
        }
    }

    /// The mean in seconds.
    pub fn mean(&self) -> Option<f64> {
        self.mean
    }

    /// The mean in seconds, halved for every minute without news.
    pub fn aged(&self, now: Duration) -> Option<f64> {
        let age = now.saturating_sub(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.mean.map(|mean| mean * (-age).exp2())
    }

    /// The 95th percentile of the last samples.
    pub fn p95(&self) -> Option<Duration> {
        let mut sorted = self.recent.clone();
        let at = (sorted.len() * 95).div_ceil(100).checked_sub(1)?;
        Some(*sorted.select_nth_unstable(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_follows_the_window_and_ignores_the_rare_outlier() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.p95(), None);
        for i in 0..200 {
            let millis = if i % 40 == 0 { 5000 } else { 10 };
            estimate.record(Duration::from_millis(millis), Duration::from_secs(i));
        }
        assert_eq!(estimate.p95(), Some(Duration::from_millis(10)));
        (0..64).for_each(|_| estimate.record(Duration::from_millis(70), Duration::from_secs(200)));
        assert_eq!(estimate.p95(), Some(Duration::from_millis(70)));
    }

    #[test]
    fn old_news_fade() {
        let mut estimate = Estimate::default();
        estimate.record(Duration::from_secs(1), Duration::from_secs(100));
        assert_eq!(estimate.aged(Duration::from_secs(100)), Some(1.0));
        assert_eq!(estimate.aged(Duration::from_secs(220)), Some(0.25));
        estimate.record_at_least(Duration::from_millis(1), Duration::from_secs(221));
        assert_eq!(estimate.mean(), Some(1.0), "a short wait says nothing");
    }
}
