//! Promises that can be broken on purpose, to prove that the simulator (crate `sim`) would notice.
//!
//! Only a build with the feature `mutants` *and* debug assertions can: in every other one [`is_broken`] is `false` at compile
//! time, so a released binary has none of this even if the feature gets into its build by accident. Nothing outside of the
//! process can ask for it: a test calls `break_here` for its own thread, and no configuration, argument or variable does.

/// What can be broken, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Nonces follow from file and block, so that all versions of a block share one (`K25`).
    NonceReuse,
    /// An old version of a block passes for the current one.
    VersionUnchecked,
    /// The journal tells that a batch is durable without having synced it.
    SyncDropped,
    /// A repair is taken off the queue before it is done.
    RepairSwapped,
    /// Transactions are not validated at their commit.
    LockDropped,
    /// A client that comes back is not kept waiting for what its former life has sent.
    FormerLife,
    /// A backup does not tell which ranges of files are not in the clouds yet.
    UnsavedUntold,
    /// A client takes content from its cache whether or not the file has changed since.
    StaleContent,
    /// The disk cache takes what it reads for what it has written.
    DiskUnverified,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 9] = [
        Mutant::NonceReuse,
        Mutant::VersionUnchecked,
        Mutant::SyncDropped,
        Mutant::RepairSwapped,
        Mutant::LockDropped,
        Mutant::FormerLife,
        Mutant::UnsavedUntold,
        Mutant::StaleContent,
        Mutant::DiskUnverified,
    ];
}

/// Whether this promise is broken in this thread.
#[cfg(not(all(feature = "mutants", debug_assertions)))]
#[inline(always)]
pub fn is_broken(_promise: Mutant) -> bool {
    false
}

#[cfg(all(feature = "mutants", debug_assertions))]
mod chosen {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Whether this promise is broken in this thread.
    pub fn is_broken(promise: Mutant) -> bool {
        CHOSEN.get() == Some(promise)
    }

    /// From now on this thread breaks this promise, and no other.
    pub fn break_here(promise: Option<Mutant>) {
        CHOSEN.set(promise);
    }
}

#[cfg(all(feature = "mutants", debug_assertions))]
pub use chosen::{break_here, is_broken};
