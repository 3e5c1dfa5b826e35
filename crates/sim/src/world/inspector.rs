use std::collections::HashMap;

use memchr::memmem;

use super::World;

/// A part of everything that clients write.
pub const CANARY: &[u8; 16] = b"~KURMA*CANARY*~\n";

/// How a sealed block begins (crate `seal`): format, suite, six zeros.
const SEALED: [u8; 8] = [0xB1, 1, 0, 0, 0, 0, 0, 0];
const NONCE: usize = 24;
/// Behind the nonce: a commitment to the key, and sealed length and time. Two sealings differ in them.
const REST: usize = 32 + 16;

/// Looks at everything that is brought to a cloud, as its owner may.
#[derive(Default)]
pub struct Inspector {
    /// What followed each nonce.
    nonces: HashMap<[u8; NONCE], [u8; REST]>,
}

impl Inspector {
    pub fn inspect(&mut self, world: &World, object: &[u8]) {
        if memmem::find(object, CANARY).is_some() {
            world.violate("plaintext was brought to a cloud".to_owned());
        }
        for at in memmem::find_iter(object, &SEALED) {
            let Some((nonce, rest)) = object[at + SEALED.len()..].split_first_chunk::<NONCE>() else {
                continue;
            };
            let Some(rest) = rest.first_chunk::<REST>() else { continue };
            if self.nonces.insert(*nonce, *rest).is_some_and(|before| before != *rest) {
                world.violate(format!("nonce {nonce:02x?} was used twice"));
            }
        }
    }

    /// How many different nonces were seen.
    pub fn seen(&self) -> usize {
        self.nonces.len()
    }
}
