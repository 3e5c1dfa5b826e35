use std::time::Duration;

/// The percentile beyond which an answer is late: where all that is left has to answer, it is asked for once more then.
pub(crate) const LATE: usize = 67;
/// Samples that the quantile is taken from.
const WINDOW: usize = 64;
/// Weight of a new sample in the means.
const WEIGHT: f64 = 0.2;
/// The least share of that of one among many.
const LEAST_SHARE: f64 = 0.1;
/// Weight of a wait that was given up: the truth is longer.
const LATE_WEIGHT: f64 = 0.5;
/// After so long without a sample a mean counts half, so that a cloud that was slow once is tried again.
const HALF_LIFE: Duration = Duration::from_secs(60);
/// Of a cloud of which nothing else is known, so many operations more at the same time double the time of each.
const USUAL_DOUBLING: f64 = 8.0;
/// How much the usual weighs against what was seen: as a spread of the load by one.
const RIDGE: f64 = 1.0;

/// How long one kind of operation takes, and how that depends on how many run at the same time (the *load*): exponentially
/// weighted means of both, a line through the samples, and percentiles of the last ones.
#[derive(Default)]
pub(crate) struct Estimate {
    mean: Option<f64>,
    /// Mean load of the samples, its variance, and its covariance with the time.
    load: f64,
    variance: f64,
    covariance: f64,
    /// Mean load of the last few operations, however many there were at the same time.
    lately: f64,
    /// Bytes per second of one transfer.
    rate: Option<f64>,
    at: Duration,
    recent: Vec<Duration>,
    next: usize,
}

/// One operation.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub took: Duration,
    /// Operations that ran when it began, with itself.
    pub load: u32,
    pub bytes: u64,
}

impl Estimate {
    /// An operation is done; it is `now`.
    pub fn record(&mut self, sample: Sample, now: Duration) {
        // What has faded counts less than what is new.
        self.add(sample, 1.0 - (1.0 - WEIGHT * self.share(&sample)) * self.freshness(now), now);
        self.keep(sample.took);
        if sample.bytes > 0 && !sample.took.is_zero() {
            let rate = sample.bytes as f64 / sample.took.as_secs_f64();
            self.rate = Some(self.rate.map_or(rate, |mean| mean + WEIGHT * (rate - mean)));
        }
    }

    /// Operations that run together share the weight of one, so that one that is late by chance does not outweigh the others.
    fn share(&self, sample: &Sample) -> f64 {
        (1.0 / self.lately.max(f64::from(sample.load)).max(1.0)).max(LEAST_SHARE)
    }

    /// A sample for the means.
    fn add(&mut self, sample: Sample, weight: f64, now: Duration) {
        let (seconds, load) = (sample.took.as_secs_f64(), f64::from(sample.load));
        self.lately += WEIGHT * (load - self.lately);
        match &mut self.mean {
            None => (self.mean, self.load) = (Some(seconds), load),
            Some(mean) => {
                let (more, longer) = (load - self.load, seconds - *mean);
                *mean += weight * longer;
                self.load += weight * more;
                self.variance = (1.0 - weight) * (self.variance + weight * more * more);
                self.covariance = (1.0 - weight) * (self.covariance + weight * more * longer);
            }
        }
        self.at = now;
    }

    /// A sample for the percentiles.
    fn keep(&mut self, took: Duration) {
        if self.recent.len() < WINDOW {
            self.recent.push(took);
        } else {
            self.recent[self.next] = took;
        }
        self.next = (self.next + 1) % WINDOW;
    }

    /// An operation was given up: it would have taken longer. How much is not known; as long again is what the mean is told, since such are
    /// the tails that clouds have. That is news if it is longer than what is left of the mean by now, which takes half of it, or a share of that if
    /// it did not run alone, unless it is old. The percentiles from
    /// [`LATE`] on are told no guess, or they would soon be made of guesses: a wait beyond them is one of the long ones, however long, and a
    /// shorter one says nothing.
    pub fn record_at_least(&mut self, sample: Sample, now: Duration) {
        if self.percentile(LATE).is_none_or(|late| sample.took >= late) {
            self.keep(sample.took);
        }
        let left = self.aged(now);
        if left.is_none_or(|left| sample.took.as_secs_f64() > left) {
            self.mean = left;
            // What has faded has no weight of its own.
            let share = self.share(&sample).max(1.0 - self.freshness(now));
            self.add(Sample { took: 2 * sample.took, ..sample }, LATE_WEIGHT * share, now);
        }
    }

    /// The mean in seconds.
    pub fn mean(&self) -> Option<f64> {
        self.mean
    }

    /// Mean bytes per second of one transfer.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// What the mean is multiplied with to give what is expected of an operation that makes the load `load`: by the line through the
    /// samples, drawn towards the usual as long as the load has hardly changed.
    pub fn factor(&self, load: f64) -> f64 {
        let Some(mean) = self.mean.filter(|mean| *mean > 0.0) else { return 1.0 };
        let usual = mean / (USUAL_DOUBLING + self.load);
        let slope = (self.covariance + RIDGE * usual) / (self.variance + RIDGE);
        let steepest = mean / self.load.max(1.0);
        1.0 + slope.clamp(0.0, steepest) * (load - self.load) / mean
    }

    /// The mean in seconds, halved for every minute without news.
    pub fn aged(&self, now: Duration) -> Option<f64> {
        self.mean.map(|mean| mean * self.freshness(now))
    }

    /// What is left of the weight of the last sample.
    fn freshness(&self, now: Duration) -> f64 {
        (-now.saturating_sub(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
    }

    /// So long `percent` of the last samples took at most.
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.recent.clone();
        let at = (sorted.len() * percent).div_ceil(100).checked_sub(1)?;
        Some(*sorted.select_nth_unstable(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(millis: u64, load: u32) -> Sample {
        Sample { took: Duration::from_millis(millis), load, bytes: 1000 }
    }

    #[test]
    fn the_percentile_follows_the_window_and_ignores_the_rare_outlier() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.percentile(95), None);
        for i in 0..200 {
            let millis = if i % 40 == 0 { 5000 } else { 10 };
            estimate.record(sample(millis, 1), Duration::from_secs(i));
        }
        assert_eq!(estimate.percentile(95), Some(Duration::from_millis(10)));
        (0..64).for_each(|_| estimate.record(sample(70, 1), Duration::from_secs(200)));
        assert_eq!(estimate.percentile(95), Some(Duration::from_millis(70)));
        assert_eq!(estimate.percentile(5), Some(Duration::from_millis(70)));
        let rate = estimate.rate().unwrap();
        assert!((rate - 1000.0 / 0.07).abs() < 1.0, "{rate}");
    }

    #[test]
    fn what_was_given_up_is_long_and_makes_no_percentile_longer_than_it_is() {
        let mut estimate = Estimate::default();
        // Every fifth takes 300 ms, and is given up after 110.
        for at in 0..64 {
            let now = Duration::from_millis(at);
            match at % 5 {
                4 => estimate.record_at_least(sample(110, 1), now),
                _ => estimate.record(sample(100, 1), now),
            }
        }
        assert_eq!(estimate.percentile(80), Some(Duration::from_millis(100)));
        assert_eq!(estimate.percentile(95), Some(Duration::from_millis(110)));
        let mean = estimate.mean().unwrap();
        assert!(0.1 < mean && mean < 0.2, "{mean}");
    }

    #[test]
    fn what_is_given_up_again_when_the_old_news_have_faded_is_news() {
        let mut estimate = Estimate::default();
        estimate.record(sample(20, 1), Duration::ZERO);
        // 200 ms each time: told as 400 ms, which the mean takes half of.
        estimate.record_at_least(sample(200, 1), Duration::ZERO);
        assert!((estimate.mean().unwrap() - 0.21).abs() < 1e-9);
        let later = Duration::from_secs(60);
        estimate.record_at_least(sample(200, 1), later);
        assert!((estimate.aged(later).unwrap() - (0.105 + 0.4) / 2.0).abs() < 1e-9);
        // Long after, what was slow once and is hardly too late now is not shut out for that again.
        let much_later = Duration::from_secs(660);
        estimate.record_at_least(sample(50, 1), much_later);
        assert!(estimate.aged(much_later).unwrap() < 0.06);
    }

    #[test]
    fn one_of_many_weighs_less_and_who_comes_after_them_does_not() {
        let mut estimate = Estimate::default();
        let at = Duration::ZERO;
        (0..100).for_each(|number| estimate.record(sample(100, 1 + number % 16), at));
        estimate.record(sample(1100, 1), at);
        let mean = estimate.mean().unwrap();
        assert!((0.11..0.13).contains(&mean), "{mean}");
        // One after the other: after ten of them the news are what counts.
        (0..20).for_each(|_| estimate.record(sample(500, 1), at));
        let mean = estimate.mean().unwrap();
        assert!((0.42..0.5).contains(&mean), "{mean}");
    }

    #[test]
    fn old_news_fade() {
        let mut estimate = Estimate::default();
        estimate.record(sample(1000, 1), Duration::from_secs(100));
        assert_eq!(estimate.aged(Duration::from_secs(100)), Some(1.0));
        assert_eq!(estimate.aged(Duration::from_secs(220)), Some(0.25));
        estimate.record_at_least(sample(1, 1), Duration::from_secs(221));
        assert_eq!(estimate.mean(), Some(1.0), "a short wait says nothing");
        estimate.record(sample(100, 1), Duration::from_secs(700));
        assert!(estimate.mean().unwrap() < 0.11, "and news count the more the older the rest is");
    }

    /// What is expected at a load, in milliseconds.
    fn expected(estimate: &Estimate, load: f64) -> f64 {
        estimate.mean().unwrap() * estimate.factor(load) * 1e3
    }

    #[test]
    fn without_a_change_of_the_load_eight_more_double_the_time() {
        let mut estimate = Estimate::default();
        (0..50).for_each(|at| estimate.record(sample(90, 1), Duration::from_millis(at)));
        assert!((expected(&estimate, 1.0) - 90.0).abs() < 0.1);
        assert!((expected(&estimate, 10.0) - 180.0).abs() < 0.1);
    }

    #[test]
    fn what_the_load_does_to_the_time_is_learned() {
        let (mut shared, mut wide) = (Estimate::default(), Estimate::default());
        for at in 0..200 {
            let load = 1 + (at * 7) % 16;
            shared.record(sample(10 * load, load as u32), Duration::from_millis(at));
            wide.record(sample(50, load as u32), Duration::from_millis(at));
        }
        // One line for all of them, or a line for each.
        for load in [1.0, 8.0, 16.0] {
            let (shared, wide) = (expected(&shared, load), expected(&wide, load));
            assert!((shared - 10.0 * load).abs() < 12.0, "{shared} at {load}");
            assert!((wide - 50.0).abs() < 5.0, "{wide} at {load}");
        }
    }
}
