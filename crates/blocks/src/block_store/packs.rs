use bytes::Bytes;
use disperse::VerifiedFragment;
use seal::{GatewayPublicKey, OpenError, SealedBlock};

use super::gather::Gathered;
use super::ranged::{Given, Ranged};
use super::{BlockStore, fault};
use crate::target::Target;
use crate::{
    CurrentVersions, Fault, FragmentFault, LoadError, Loaded, Outcome, Pack, PackBuilder, PackVersion,
    PackedBlock, PlaceInPack, Placement, StoreError, Stored,
};

/// A pack that may be referred to.
#[derive(Clone, Debug)]
#[must_use = "without their places the blocks are lost"]
pub struct StoredPack {
    /// As of any block: what is missing has to be repaired.
    pub stored: Stored,
    /// Where its blocks lie, in the order in which they were put into it.
    pub places: Vec<PlaceInPack>,
}

/// A pack that was read whole.
#[derive(Clone, Debug)]
pub struct LoadedPack {
    /// What is in it.
    pub pack: Pack,
    /// Fragments of the pack that were found missing or bad on the way; have them repaired.
    pub bad: Vec<Fault>,
}

impl BlockStore {
    /// Stores a pack, certified as `owner`'s, as [`BlockStore::store`] stores a block.
    pub async fn store_pack(
        &self,
        pack: PackVersion<'_>,
        blocks: PackBuilder,
        owner: GatewayPublicKey,
    ) -> Result<StoredPack, StoreError> {
        let (parts, places) = blocks.finish(&pack, owner, self.env.clock.wall(), &*self.env.entropy);
        let PackVersion { key, id, seal, placement } = pack;
        let stored = self.store(key, id, seal, placement, &parts, PackVersion::PROTECTION).await?;
        Ok(StoredPack { stored, places })
    }

    /// Reads a whole pack, as [`BlockStore::load`] reads a block, and proves all that is in it.
    pub async fn load_pack(
        &self,
        pack: PackVersion<'_>,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Result<LoadedPack, LoadError> {
        let PackVersion { key, id, seal, placement } = pack;
        let Loaded { plaintext, bad, .. } = self.load(key, id, seal, placement, versions).await?;
        let opened = Pack::open(key, id, plaintext);
        let pack = opened.map_err(|cause| LoadError::NotOpened { block: Box::new(*id), cause })?;
        Ok(LoadedPack { pack, bad })
    }

    /// Reads one block of a pack: the right content, or an error, never anything else. The rest of the pack is left alone
    /// where that is possible; see the crate's front page.
    ///
    /// [`Loaded::bad`] are fragments of the pack, and the pack is what is repaired. `versions` is asked for the pack; when that is
    /// [superseded](LoadError::Superseded), the block has another place by now.
    pub async fn load_packed(
        &self,
        pack: PackVersion<'_>,
        block: PackedBlock<'_>,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Result<Loaded, LoadError> {
        let PackVersion { key, id, seal, placement } = pack;
        let target = Target::new(key, id, seal, placement);
        let Ranged { bytes, faults, given } = self.ranged(&target, block.place).await;
        if let Some(sealed) = bytes.and_then(|bytes| block.place.prove(bytes)) {
            drop(given);
            let bad = self.report(&target, &faults, Outcome::ServedFromOthers, versions).await;
            return opened(&block, placement, Some(sealed), bad.unwrap_or_default());
        }
        let (content, faults) = self.whole(&pack, &target, faults, given, versions).await?;
        let bad = self.report(&target, &faults, Outcome::ServedFromOthers, versions).await;
        opened(&block, placement, block.place.cut(&content), bad.unwrap_or_default())
    }

    /// The content of a pack of which a part could not be had alone, and all faults, also of those who gave wrong parts.
    async fn whole(
        &self,
        pack: &PackVersion<'_>,
        target: &Target<'_>,
        before: Vec<Fault>,
        given: Vec<Given>,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Result<(Bytes, Vec<Fault>), LoadError> {
        let scheme = pack.placement.scheme();
        let _room = self.budget.reserve(pack.placement.usual_fragment() * scheme.needed() as u64).await;
        let Gathered { good, mut faults } = self.gather(target, &[]).await;
        let is_new = |faults: &[Fault], fragment: u8| faults.iter().all(|fault| fault.fragment != fragment);
        for fault in before {
            // What was missing and has come back since is no fault.
            if is_new(&faults, fault.fragment) && good.iter().all(|good| good.index() != fault.fragment) {
                faults.push(fault);
            }
        }
        if good.len() < scheme.needed() {
            return Err(self.unreadable(target, good.len(), faults, versions).await);
        }
        let only: Option<VerifiedFragment> = good.first().filter(|_| good.len() == 1).cloned();
        let (opened, mut good) = self.open_consistent(pack.key, target, good, &mut faults).await?;
        good.extend(only);
        for Given { fragment, range, bytes } in given {
            let right = target.rebuild(&good, fragment).map(|right| right.to_bytes());
            let right = right.as_ref().and_then(|right| right.get(range.start as usize..range.end as usize));
            if right.is_some_and(|right| right != bytes) && is_new(&faults, fragment) {
                if let Some(cloud) = self.cloud_of(target, fragment) {
                    cloud.report_bad();
                }
                faults.push(fault(target, fragment, FragmentFault::OtherPart));
            }
        }
        Ok((opened.plaintext, faults))
    }
}

fn opened(
    block: &PackedBlock<'_>,
    placement: &Placement,
    sealed: Option<SealedBlock>,
    bad: Vec<Fault>,
) -> Result<Loaded, LoadError> {
    let failed = |cause: OpenError| LoadError::NotOpened { block: Box::new(*block.id), cause };
    let opened = block.open(placement, sealed).map_err(failed)?;
    Ok(Loaded { plaintext: opened.plaintext, sealed_at: opened.sealed_at, bad })
}
