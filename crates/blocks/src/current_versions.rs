use std::future::Future;

use seal::{BlockIdentity, SealId};

/// Whoever knows which block versions are current. Asked before a cloud is accused: the fragments of a version that
/// was superseded meanwhile may have been deleted in good order.
pub trait CurrentVersions: Sync {
    /// Whether this sealing of the version is what its block holds now; true when that cannot be found out.
    fn is_current(&self, id: &BlockIdentity, seal: SealId) -> impl Future<Output = bool> + Send;
}
