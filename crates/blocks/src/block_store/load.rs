use seal::{BlockIdentity, FileKey};

use super::BlockStore;
use super::gather::Gathered;
use crate::target::Target;
use crate::{LoadError, Loaded, Outcome, Placement, SealId};

impl BlockStore {
    /// Reads the block version `id` that was stored as `seal`: the right content, or an error, never anything
    /// else (`K26`, `K27`).
    ///
    /// Dropping the future cancels the requests.
    pub async fn load(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
    ) -> Result<Loaded, LoadError> {
        let target = Target::new(key, id, seal, placement);
        let needed = placement.scheme().needed();
        let _room = self.budget.reserve(placement.usual_fragment() * needed as u64).await;
        let Gathered { good, mut faults } = self.gather(&target, &[]).await;
        if good.len() < needed {
            self.report(&target, faults.clone(), Outcome::Unreadable);
            return Err(LoadError::Unreadable { block: Box::new(*id), good: good.len(), needed, faults });
        }
        let (block, _) = self.open_consistent(key, &target, good, &mut faults).await?;
        let bad = self.report(&target, faults, Outcome::ServedFromOthers);
        Ok(Loaded { plaintext: block.plaintext, sealed_at: block.sealed_at, bad })
    }
}
