use std::ops::RangeInclusive;
use std::time::Duration;

use environment::Environment;

/// Pauses that double from the shortest to the longest, each spread by chance over its upper half so that many
/// clients do not come back at the same instant.
pub(super) struct BackOff {
    environment: Environment,
    bounds: RangeInclusive<Duration>,
    next: Duration,
}

impl BackOff {
    pub fn new(environment: &Environment, bounds: &RangeInclusive<Duration>) -> BackOff {
        BackOff { environment: environment.clone(), bounds: bounds.clone(), next: *bounds.start() }
    }

    /// The next pause.
    pub async fn wait(&mut self) {
        let pause = self.draw();
        self.environment.clock.sleep(pause).await;
    }

    /// Begins with the shortest pause again.
    pub fn reset(&mut self) {
        self.next = *self.bounds.start();
    }

    fn draw(&mut self) -> Duration {
        let whole = self.next;
        self.next = whole.saturating_mul(2).min(*self.bounds.end());
        let spread = (self.environment.entropy.next_u64() % 1024) as u32;
        whole / 2 + whole / 2 * spread / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let bounds = Duration::from_millis(20)..=Duration::from_millis(100);
        let mut back_off = BackOff::new(&Environment::real(), &bounds);
        for whole in [20, 40, 80, 100, 100] {
            let pause = back_off.draw();
            let whole = Duration::from_millis(whole);
            assert!(pause >= whole / 2 && pause <= whole, "{pause:?} of {whole:?}");
        }
        back_off.reset();
        assert!(back_off.draw() <= Duration::from_millis(20));
    }
}
