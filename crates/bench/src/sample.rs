//! Repeated measurements and what they say.

/// Mean and half-width of the 95 % confidence interval (Student's t).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    pub half_width: f64,
}

/// Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom.
const T95: [f64; 15] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
];

/// The estimate from independent samples; no interval from a single one.
pub fn estimate(samples: &[f64]) -> Estimate {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    if samples.len() < 2 {
        return Estimate { mean, half_width: 0.0 };
    }
    let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = T95.get(samples.len() - 2).copied().unwrap_or(1.96);
    Estimate { mean, half_width: t * (variance / count).sqrt() }
}

/// How many times as large one thing is as another, by the geometric mean of pairs that were measured one after the other, and the 95 %
/// confidence interval (Student's t on the logarithms); no interval from a single pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub mean: f64,
    pub interval: Option<(f64, f64)>,
}

/// The ratio of pairs; `None` without any.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logarithms: Vec<f64> = pairs.iter().map(|(ours, theirs)| (ours / theirs).ln()).collect();
    if logarithms.is_empty() || logarithms.iter().any(|it| !it.is_finite()) {
        return None;
    }
    let Estimate { mean, half_width } = estimate(&logarithms);
    let interval = (pairs.len() > 1).then(|| ((mean - half_width).exp(), (mean + half_width).exp()));
    Some(Ratio { mean: mean.exp(), interval })
}

/// Median of independent samples, and a 95 % confidence interval for it: of few samples all of their range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Median {
    /// Whether the interval lies on one side of a limit.
    pub fn is_clear_of(&self, limit: f64) -> bool {
        self.high <= limit || self.low > limit
    }
}

/// The interval lies between order statistics; which follows from the binomial distribution, here by its normal approximation.
pub fn median(samples: &[f64]) -> Median {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let outside = ((count as f64 - 1.96 * (count as f64).sqrt()) / 2.0).floor().max(0.0) as usize;
    let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
    Median { median, low: sorted[outside], high: sorted[count - 1 - outside] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_samples_give_the_textbook_interval() {
        // Mean 5, standard deviation 1, n = 3: 4.303 / sqrt(3) = 2.484.
        let found = estimate(&[4.0, 5.0, 6.0]);
        assert_eq!(found.mean, 5.0);
        assert!((found.half_width - 2.484).abs() < 0.001, "{found:?}");
        assert_eq!(estimate(&[7.0]), Estimate { mean: 7.0, half_width: 0.0 });
    }

    #[test]
    fn the_interval_of_a_ratio_comes_from_pairs() {
        // Ratios 1, 2 and 4: the logarithms have the mean ln 2 and the deviation ln 2, so the factor is 2^2.484 = 5.595.
        let found = ratio(&[(10.0, 10.0), (40.0, 20.0), (400.0, 100.0)]).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!((found.mean - 2.0).abs() < 1e-9, "{found:?}");
        assert!((low - 2.0 / 5.595).abs() < 0.001 && (high - 2.0 * 5.595).abs() < 0.01, "{found:?}");
        // A machine that is slower in one repetition is slower for both: that moves nothing.
        let noisy = ratio(&[(10.0, 5.0), (100.0, 50.0), (1.0, 0.5)]).unwrap();
        let (low, high) = noisy.interval.unwrap();
        assert!(noisy.mean > 1.999 && low > 1.999 && high < 2.001, "{noisy:?}");
        // The other way round it is the reciprocal.
        let back = ratio(&[(10.0, 10.0), (20.0, 40.0), (100.0, 400.0)]).unwrap();
        assert!((back.interval.unwrap().1 - 1.0 / found.interval.unwrap().0).abs() < 1e-9);
    }

    #[test]
    fn no_interval_is_claimed_from_one_pair_and_no_ratio_from_nothing() {
        assert_eq!(ratio(&[(3.0, 2.0)]).unwrap().interval, None);
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[(3.0, 0.0)]), None);
    }

    #[test]
    fn a_median_is_not_moved_by_one_sample_far_out() {
        assert_eq!(median(&[1.0, 900.0, 2.0]), Median { median: 2.0, low: 1.0, high: 900.0 });
        let samples: Vec<f64> = (1..=24).map(f64::from).chain([1e9]).collect();
        // (25 - 9.8) / 2 = 7.6 samples are below.
        assert_eq!(median(&samples), Median { median: 13.0, low: 8.0, high: 18.0 });
    }
}
