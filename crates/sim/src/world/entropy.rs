use environment::Entropy;
use parking_lot::Mutex;

use super::dice::Dice;

/// Random bytes that follow from a seed.
pub struct SeededEntropy(Mutex<Dice>);

impl SeededEntropy {
    pub fn new(seed: u64, machine: u64) -> SeededEntropy {
        SeededEntropy(Mutex::new(Dice::new(seed, &format!("entropy of machine {machine}"))))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, out: &mut [u8]) {
        self.0.lock().fill(out);
    }
}
