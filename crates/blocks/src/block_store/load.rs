use seal::{BlockIdentity, FileKey};

use super::BlockStore;
use super::gather::Gathered;
use crate::target::Target;
use crate::{CurrentVersions, Fault, LoadError, Loaded, Outcome, Placement, SealId};

impl BlockStore {
    /// Reads the block version `id` that was stored as `seal`: the right content, or an error, never anything
    /// else (`K26`, `K27`).
    ///
    /// `versions` is asked before anything is reported. Dropping the future cancels the requests.
    pub async fn load(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Result<Loaded, LoadError> {
        let target = Target::new(key, id, seal, placement);
        let needed = placement.scheme().needed();
        let _room = self.budget.reserve(placement.usual_fragment() * needed as u64).await;
        let Gathered { good, mut faults } = self.gather(&target, &[]).await;
        if good.len() < needed {
            return Err(self.unreadable(&target, good.len(), faults, versions).await);
        }
        let (block, _) = self.open_consistent(key, &target, good, &mut faults).await?;
        let bad = self.report(&target, &faults, Outcome::ServedFromOthers, versions).await;
        Ok(Loaded { plaintext: block.plaintext, sealed_at: block.sealed_at, bad: bad.unwrap_or_default() })
    }

    /// Why a block version with only `good` fragments cannot be read.
    pub(super) async fn unreadable(
        &self,
        target: &Target<'_>,
        good: usize,
        faults: Vec<Fault>,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> LoadError {
        let block = Box::new(*target.identity);
        match self.report(target, &faults, Outcome::Unreadable, versions).await {
            Some(_) => {
                LoadError::Unreadable { block, good, needed: target.placement.scheme().needed(), faults }
            }
            None => LoadError::Superseded { block },
        }
    }
}
