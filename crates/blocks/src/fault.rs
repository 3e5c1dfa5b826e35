use cloud::CloudError;
use disperse::BadFragment;

use crate::CloudId;

/// A fragment that its cloud did not give back as it was stored.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which fragment of the block.
    pub fragment: u8,
    /// Where it should be.
    pub cloud: CloudId,
    /// What is wrong.
    pub what: FragmentFault,
}

/// What can be wrong with a fragment.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FragmentFault {
    /// The cloud answered that it has no such object.
    #[error("missing")]
    Missing,
    /// It came back and is not what was stored.
    #[error("{0}")]
    Bad(BadFragment),
    /// It came back longer than any fragment of such a block.
    #[error("longer than the {limit} bytes that it can have")]
    TooLong {
        /// The longest fragment possible.
        limit: u64,
    },
    /// It verifies, but is of another sealing of the same content than the other fragments.
    #[error("of another sealing than the other fragments")]
    OtherSealing,
    /// Asked for a part of it, the cloud gave other bytes than it has when asked for all of it.
    #[error("other bytes in a part of it than in the whole")]
    OtherPart,
    /// The cloud could not be asked; the fragment may well be there.
    #[error("unreachable: {0}")]
    Unreachable(CloudError),
    /// The cloud is not configured (any more).
    #[error("no such cloud is configured")]
    NoSuchCloud,
    /// The cloud was not asked, because it fails at present.
    #[error("not asked: the cloud fails at present")]
    Sick,
    /// A put of it was given up, and may still arrive.
    #[error("may still be put by a request that was given up")]
    PutLate,
}

impl FragmentFault {
    /// Whether the cloud lost or changed what it was given, so that the fragment must be stored anew. A cloud
    /// that is only out of reach has not.
    pub fn needs_repair(&self) -> bool {
        match self {
            FragmentFault::Missing
            | FragmentFault::Bad(_)
            | FragmentFault::TooLong { .. }
            | FragmentFault::OtherSealing
            | FragmentFault::OtherPart => true,
            FragmentFault::Unreachable(_)
            | FragmentFault::NoSuchCloud
            | FragmentFault::Sick
            | FragmentFault::PutLate => false,
        }
    }

    /// Whether asking the same cloud again may bring the fragment.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, FragmentFault::Unreachable(error) if error.kind().is_retryable())
    }
}
