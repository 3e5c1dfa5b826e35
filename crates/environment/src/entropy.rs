/// Cryptographically strong random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `out`. Aborts the process when the operating system has no entropy to give: going on would mean
    /// predictable keys and nonces.
    fn fill(&self, out: &mut [u8]);

    /// A random 64-bit number.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The random generator of the operating system. That of the crypto library is taken down when the process ends, and aborts it
/// if a thread that goes on draws then.
#[derive(Clone, Copy, Debug)]
pub struct SystemEntropy(());

impl SystemEntropy {
    /// Ready to use.
    #[allow(clippy::new_without_default)]
    pub fn new() -> SystemEntropy {
        SystemEntropy(())
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, out: &mut [u8]) {
        if getrandom::fill(out).is_err() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ() {
        let entropy = SystemEntropy::new();
        assert_ne!(entropy.next_u64(), entropy.next_u64());
    }
}
