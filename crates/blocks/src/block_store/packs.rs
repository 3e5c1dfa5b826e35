use std::ops::Range;

use bytes::Bytes;
use disperse::VerifiedFragment;
use futures::future::join_all;
use seal::{OpenedBlock, Owner, SealedBlock, Signer};

use super::gather::Gathered;
use super::ranged::Given;
use super::recent::Way;
use super::{BlockStore, fault};
use crate::target::Target;
use crate::{
    CurrentVersions, Fault, FragmentFault, LoadError, Loaded, Outcome, Pack, PackBuilder, PackVersion,
    PackedBlock, PlaceInPack, Redundancy, StoreError, Stored,
};

/// Bytes between two blocks of a pack that are fetched with them rather than passed over: what a request costs in time.
const GAP: u32 = 32 << 10;

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

/// Blocks of one pack that were read.
#[derive(Clone, Debug)]
pub struct LoadedTogether {
    /// In the order in which they were asked for.
    pub blocks: Vec<Result<OpenedBlock, LoadError>>,
    /// Fragments of the pack that were found missing or bad on the way; have them repaired.
    pub bad: Vec<Fault>,
}

impl BlockStore {
    /// Stores a pack, certified as `owner`'s, as [`BlockStore::store`] or [`BlockStore::store_whole`] stores a block.
    pub async fn store_pack(
        &self,
        pack: PackVersion<'_>,
        blocks: PackBuilder,
        owner: &Signer,
        redundancy: Redundancy,
    ) -> Result<StoredPack, StoreError> {
        let (parts, places) = blocks.finish(&pack, owner, self.env.clock.wall(), &*self.env.entropy);
        let PackVersion { key, id, seal, placement } = pack;
        let target = Target::new(key, id, seal, placement);
        let stored = self.disperse(key, &target, &parts, PackVersion::PROTECTION, redundancy).await?;
        Ok(StoredPack { stored, places })
    }

    /// Reads a whole pack, as [`BlockStore::load`] reads a block, and proves all that is in it, and that it is `owner`'s.
    pub async fn load_pack(
        &self,
        pack: PackVersion<'_>,
        owner: &Owner,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Result<LoadedPack, LoadError> {
        let PackVersion { key, id, seal, placement } = pack;
        let Loaded { plaintext, bad, .. } = self.load(key, id, seal, placement, versions).await?;
        let opened = Pack::open(key, id, owner, plaintext);
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
        let LoadedTogether { mut blocks, bad } = self.load_packed_together(pack, &[block], versions).await?;
        let OpenedBlock { plaintext, sealed_at, .. } = blocks.remove(0)?;
        Ok(Loaded { plaintext, sealed_at, bad })
    }

    /// Reads blocks of one pack as [`BlockStore::load_packed`] reads one: those that lie side by side by one request, and the whole
    /// pack when that is most of it. Each block has a result of its own; an error of the pack is that of all.
    pub async fn load_packed_together(
        &self,
        pack: PackVersion<'_>,
        blocks: &[PackedBlock<'_>],
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Result<LoadedTogether, LoadError> {
        let PackVersion { key, id, seal, placement } = pack;
        let open = |(block, sealed): (&PackedBlock<'_>, Option<SealedBlock>)| {
            let failed = |cause| LoadError::NotOpened { block: Box::new(*block.id), cause };
            block.open(placement, sealed).map_err(failed)
        };
        if let Some(content) = self.recent.get(id, seal) {
            self.pack_reads.count(Way::Kept, blocks.len());
            let found = blocks.iter().map(|block| open((block, block.place.cut(&content))));
            return Ok(LoadedTogether { blocks: found.collect(), bad: Vec::new() });
        }
        let target = Target::new(key, id, seal, placement);
        let pack_len = blocks.first().map_or(0, |block| block.place.pack_len);
        let runs = match placement.scheme().shows_parts() {
            true => runs(blocks.iter().map(|block| block.place), pack_len),
            false => None,
        };
        let (mut sealed, mut faults, mut given) = (vec![None; blocks.len()], Vec::new(), Vec::new());
        if let Some(runs) = runs {
            let way = if blocks.len() == 1 { Way::Alone } else { Way::Run };
            self.pack_reads.count(way, blocks.len());
            let found = join_all(runs.iter().map(|run| self.ranged(&target, pack_len, &run.range))).await;
            for (run, ranged) in runs.iter().zip(found) {
                for fault in ranged.faults {
                    if faults.iter().all(|known: &Fault| known.fragment != fault.fragment) {
                        faults.push(fault);
                    }
                }
                given.extend(ranged.given);
                let Some(bytes) = ranged.bytes else { continue };
                match run.blocks[..] {
                    // As it came, so that it can be opened in place.
                    [one] => sealed[one] = blocks[one].place.prove(bytes),
                    _ => run.blocks.iter().for_each(|&at| sealed[at] = run.cut(blocks[at].place, &bytes)),
                }
            }
        } else {
            self.pack_reads.count(Way::Whole, blocks.len());
        }
        if sealed.iter().any(Option::is_none) {
            let (content, all) = self.whole(&pack, &target, faults, given, versions).await?;
            faults = all;
            for (block, sealed) in blocks.iter().zip(&mut sealed) {
                *sealed = block.place.cut(&content);
            }
            self.recent.keep(id, seal, content);
        } else {
            // The last references but those that are opened.
            drop(given);
        }
        let bad = self.report(&target, &faults, Outcome::ServedFromOthers, versions).await;
        let found = blocks.iter().zip(sealed).map(open);
        Ok(LoadedTogether { blocks: found.collect(), bad: bad.unwrap_or_default() })
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

/// Blocks of a pack that are fetched together.
struct Run {
    range: Range<u32>,
    /// Which ones.
    blocks: Vec<usize>,
}

impl Run {
    fn cut(&self, place: &PlaceInPack, bytes: &Bytes) -> Option<SealedBlock> {
        let Range { start, end } = place.range();
        let (start, end) = ((start - self.range.start) as usize, (end - self.range.start) as usize);
        // A copy: a slice would keep the bytes of all.
        (end <= bytes.len()).then(|| place.prove(Bytes::copy_from_slice(&bytes[start..end])))?
    }
}

/// Places in a pack with no more than [`GAP`] between them make one run. `None` when that is most of the pack.
fn runs<'a>(places: impl Iterator<Item = &'a PlaceInPack>, pack_len: u32) -> Option<Vec<Run>> {
    let mut places: Vec<(usize, Range<u32>)> = places.map(PlaceInPack::range).enumerate().collect();
    let is_one = places.len() == 1;
    places.sort_unstable_by_key(|(_, range)| range.start);
    let mut runs: Vec<Run> = Vec::new();
    for (at, range) in places {
        match runs.last_mut() {
            Some(run) if range.start <= run.range.end.saturating_add(GAP) => {
                run.range.end = run.range.end.max(range.end);
                run.blocks.push(at);
            }
            _ => runs.push(Run { range, blocks: vec![at] }),
        }
    }
    let bytes: u64 = runs.iter().map(|run| run.range.len() as u64).sum();
    (is_one || bytes * 2 < u64::from(pack_len)).then_some(runs)
}
