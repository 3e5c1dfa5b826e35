//! How long a cloud takes to answer: log-normal, drawn from a seed.

use std::time::Duration;

/// The quantile of the standard normal distribution that is exceeded by one in a hundred.
const Z99: f64 = 2.326;

/// A log-normal distribution.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    median: f64,
    sigma: f64,
}

/// Where samples come from.
pub struct Draws(u64);

impl Latency {
    /// With this median in milliseconds, and a 99th percentile that is `tail` times the median.
    pub fn new(median: f64, tail: f64) -> Latency {
        Latency { median: median / 1e3, sigma: tail.max(1.0).ln() / Z99 }
    }

    pub fn draw(&self, draws: &mut Draws) -> Duration {
        Duration::from_secs_f64(self.median * (self.sigma * draws.normal()).exp())
    }
}

impl Draws {
    pub fn new(seed: u64) -> Draws {
        Draws(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// From 0 to 1, neither included.
    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// By Box and Muller.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_tail_are_as_asked_for() {
        let (latency, mut draws) = (Latency::new(50.0, 5.0), Draws::new(1));
        let mut samples: Vec<f64> =
            (0..20_000).map(|_| latency.draw(&mut draws).as_secs_f64() * 1e3).collect();
        samples.sort_by(f64::total_cmp);
        let (median, p99) = (samples[10_000], samples[19_800]);
        assert!((median - 50.0).abs() < 2.0, "{median}");
        assert!((p99 - 250.0).abs() < 25.0, "{p99}");
    }
}
