use std::fmt::Write;

use seal::{BlockIdentity, OpenError};

use crate::{CloudId, Fault};

/// Why a block version was not stored. Nothing may refer to it; storing it again later is safe.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The placement names a cloud that is not configured.
    #[error("cloud {cloud} is not configured; add it again, or move the file's blocks to other clouds")]
    NoSuchCloud {
        /// The cloud.
        cloud: CloudId,
    },
    /// The data, with padding, does not fit the block size.
    #[error(
        "{padded} bytes with padding are more than the {limit} that a block of this file may take; use less padding"
    )]
    TooLong {
        /// Plaintext and padding.
        padded: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// Too few clouds took their fragment.
    #[error("{block}: only {stored} of at least {needed} fragments could be stored; try again later{}", list(.faults))]
    TooFewStored {
        /// The block version.
        block: Box<BlockIdentity>,
        /// Fragments stored.
        stored: usize,
        /// Fragments required.
        needed: usize,
        /// What went wrong with the others.
        faults: Vec<Fault>,
    },
}

/// Why a block version could not be read or rebuilt. Wrong bytes are never returned.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// Too few good fragments.
    #[error("{block}: only {good} of {needed} needed fragments are good{}", list(.faults))]
    Unreadable {
        /// The block version.
        block: Box<BlockIdentity>,
        /// Good fragments found.
        good: usize,
        /// Fragments needed.
        needed: usize,
        /// What is wrong with the others.
        faults: Vec<Fault>,
    },
    /// All fragments verified, but the block they make does not open: it was stored by a faulty gateway, or the
    /// file key is wrong.
    #[error("{block}: the fragments verify but the block does not open: {cause}")]
    NotOpened {
        /// The block version.
        block: Box<BlockIdentity>,
        /// Why it does not open.
        cause: OpenError,
    },
    /// Fragments are missing, and rightly so: the version is not the current one any more. Look it up again.
    #[error("{block}: superseded meanwhile; look for the current version")]
    Superseded {
        /// The block version.
        block: Box<BlockIdentity>,
    },
}

impl LoadError {
    /// Whether trying again later may help: enough fragments are merely out of reach.
    pub fn is_temporary(&self) -> bool {
        match self {
            LoadError::Unreadable { good, needed, faults, .. } => {
                good + faults.iter().filter(|fault| !fault.what.needs_repair()).count() >= *needed
            }
            LoadError::NotOpened { .. } | LoadError::Superseded { .. } => false,
        }
    }
}

fn list(faults: &[Fault]) -> String {
    faults.iter().fold(String::new(), |mut text, Fault { fragment, cloud, what }| {
        let _ = write!(text, "; fragment {fragment} in cloud {cloud}: {what}");
        text
    })
}
