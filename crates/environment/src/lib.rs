//! The machine, as the core crates see it.
//!
//! Time, randomness and durable files reach the core crates only through the traits of this crate
//! (decision D12), so that a simulation can put many gateways and clouds into one process under one seed and
//! replay any failure. [`Environment`] bundles the three; [`Environment::real`] is the actual machine. Tasks
//! run on tokio, whose single-threaded runtime with paused time is deterministic by itself.
//!
//! [`failpoint!`] marks the places where a test may kill the process; [`mutant`] those where a test of the tests breaks a promise.

#![deny(missing_docs)]

mod clock;
mod disk;
mod disk_full;
mod entropy;
pub mod failpoint;
pub mod mutant;

use std::sync::Arc;

pub use clock::{Clock, SystemClock};
pub use disk::{Disk, DiskFile, LocalDisk};
pub use disk_full::{DISK_FULL_PAUSE, is_disk_full};
pub use entropy::{Entropy, SystemEntropy};

/// The three ambient services together; cheap to clone.
#[derive(Clone)]
pub struct Environment {
    /// Wall-clock and monotonic time, timers.
    pub clock: Arc<dyn Clock>,
    /// Cryptographically strong random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// Durable files.
    pub disk: Arc<dyn Disk>,
}

impl Environment {
    /// The actual machine.
    pub fn real() -> Environment {
        Environment {
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy::new()),
            disk: Arc::new(LocalDisk),
        }
    }
}
