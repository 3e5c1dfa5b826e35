use bytes::Bytes;

/// Seeded random numbers (SplitMix64): the same seed makes the same choices.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// Seeded by `KURMA_SEED`, else by the clock; prints the seed.
    pub fn from_environment(scenario: &str) -> Random {
        let seed = match std::env::var("KURMA_SEED") {
            Ok(seed) => seed.parse().expect("KURMA_SEED is a number"),
            Err(_) => std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
        };
        println!("{scenario}: KURMA_SEED={seed}");
        Random(seed)
    }

    /// Numbers of their own for a part of the scenario.
    pub fn fork(&mut self) -> Random {
        Random(self.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end - 1`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len() as u64) as usize) }
    }

    /// Bytes without any pattern.
    pub fn bytes(&mut self, length: usize) -> Bytes {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes.into()
    }
}
