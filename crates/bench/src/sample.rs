//! Repeated measurements and what they say.

/// What one run of a workload cost.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Operations or MiB a second.
    pub rate: f64,
    /// Processor time of the server, in microseconds for each operation or MiB.
    pub cpu_micros: f64,
    /// Compounds for each operation or MiB.
    pub rpcs: f64,
}

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
}
