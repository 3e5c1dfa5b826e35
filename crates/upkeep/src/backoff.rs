use std::time::Duration;

use environment::Entropy;

/// Pauses that double with every failure in a row, with a quarter of chance so that waiters do not march in step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest }
    }

    /// The pause after so many failures in a row.
    pub fn pause(&self, failures: u32, entropy: &dyn Entropy) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(self.longest);
        doubled.mul_f64(0.75 + (entropy.next_u64() % 1000) as f64 / 4000.0)
    }
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;

    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        let entropy = SystemEntropy::new();
        for (failures, most) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (u32::MAX, 60)] {
            let pause = backoff.pause(failures, &entropy);
            let most = Duration::from_secs(most);
            assert!(pause <= most && pause >= most.mul_f64(0.7), "{failures} {pause:?}");
        }
    }
}
