use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use blocks::{BlockStore, CloudId, PackBuilder, PackVersion, PlaceInPack, Placement, Redundancy};
use bytes::Bytes;
use cloud::{Direction, Prices};
use environment::{Environment, failpoint};
use parking_lot::Mutex;
use seal::{BlockIdentity, SealedBlock};
use tokio_util::sync::CancellationToken;

use crate::pace::Pace;
use crate::{
    BlockVersion, InPack, MaintainedVolume, MovedBlock, NewPack, UpkeepConfig, UpkeepError, UsedPack,
};

/// Packs looked at at a time.
const BATCH: usize = 256;
/// After failures the next try comes after at most 2 to the power of one more than this times the usual interval.
const LONGEST_PAUSE: u32 = 5;
/// Packs whose blocks go into one new pack at most.
const MOST_PACKS: usize = 64;

/// What cleaning costs beside what garbage costs, where the clouds of a pack have no prices. The unit is a byte that is kept for a month,
/// so that prices of providers that differ by factors agree: the defaults are those of the large object stores, read from outside of
/// their networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningCosts {
    /// One PUT.
    pub put: u64,
    /// One GET.
    pub get: u64,
    /// A byte that is read.
    pub read: u64,
    /// For how many months garbage would stay otherwise.
    pub months: u64,
}

impl Default for CleaningCosts {
    fn default() -> CleaningCosts {
        CleaningCosts { put: 240 << 10, get: 20 << 10, read: 4, months: 6 }
    }
}

/// Takes what is still held out of packs that are mostly garbage, and puts it into new ones, sealed as it is (decision 25 §13).
/// The old packs become garbage when their last block has moved.
pub struct Cleaner<V: ?Sized> {
    volume: Arc<V>,
    blocks: Arc<BlockStore>,
    env: Environment,
    config: UpkeepConfig,
    /// One pass at a time: two would read the same packs.
    alone: tokio::sync::Mutex<()>,
    seen: Mutex<PacksSeen>,
    cleaned: AtomicU64,
    moved: AtomicU64,
    /// Failures to store a new pack in a row, and until when no other one is tried: its blocks would be read for nothing.
    refused: Mutex<(u32, Duration)>,
}

/// What a pass over the packs found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// Packs that nothing lies in any more.
    pub cleaned: u64,
    /// Packs that their blocks were moved to.
    pub made: u64,
    /// Blocks that have moved.
    pub blocks: u64,
    /// Their sealed bytes.
    pub bytes: u64,
    /// Packs that had better be cleaned and could not be read or replaced.
    pub failed: u64,
}

/// What a volume has in packs, by the last look at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacksSeen {
    /// How many there are.
    pub packs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that are of blocks that are held, or wait for their deletion.
    pub live: u64,
}

/// Packs whose blocks go into one new pack.
struct Haul {
    packs: Vec<(UsedPack, BlockVersion)>,
}

impl Haul {
    fn placement(&self) -> &Placement {
        &self.packs[0].1.placement
    }

    fn sum(&self, of: impl Fn(&UsedPack) -> u32) -> u64 {
        self.packs.iter().map(|(pack, _)| u64::from(of(pack))).sum()
    }

    /// Whether the blocks of one more fit the new pack.
    fn has_room(&self, pack: &UsedPack, size: u64) -> bool {
        self.packs.len() < MOST_PACKS && self.sum(|pack| pack.live) + u64::from(pack.live) <= size
    }

    /// Whether keeping the garbage would cost more than cleaning, where these are the prices of its clouds.
    fn is_worth_it(&self, costs: &CleaningCosts, prices: Option<&[Prices]>) -> bool {
        let Some(prices) = prices else { return self.is_usually_worth_it(costs) };
        let needed = self.placement().scheme().needed().max(1) as f64;
        let (all, live) = (self.sum(|pack| pack.len), self.sum(|pack| pack.live));
        let sum = |of: &dyn Fn(&Prices) -> f64| prices.iter().map(of).sum::<f64>();
        let kept = sum(&|of| of.of_keeping((all - live) as f64 / needed)) * costs.months as f64;
        // Which of the clouds are read from is not known before.
        let reads = self.packs.iter().map(|(pack, _)| (f64::from(pack.len) / needed) as u64);
        let reading: f64 = reads.map(|bytes| sum(&|of| of.of_reading(bytes))).sum();
        let reading = reading / prices.len() as f64 * needed;
        kept > reading + sum(&|of| of.put)
    }

    fn is_usually_worth_it(&self, costs: &CleaningCosts) -> bool {
        let scheme = self.placement().scheme();
        let (total, needed) = (scheme.total() as u64, scheme.needed().max(1) as u64);
        let dead = self.sum(|pack| pack.len) - self.sum(|pack| pack.live);
        let kept = dead.saturating_mul(costs.months) / needed * total;
        let reading = self.sum(|pack| pack.len).saturating_mul(costs.read);
        let requests = self.packs.len() as u64 * needed * costs.get + total * costs.put;
        kept > reading.saturating_add(requests)
    }
}

/// A pass over the packs that is under way.
struct Pass<'a> {
    pace: Pace,
    report: CleanReport,
    stop: Option<&'a CancellationToken>,
}

impl Pass<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(CancellationToken::is_cancelled)
    }
}

/// A sealed block on its way to another pack.
struct Taken {
    /// Where its pack is among those of the haul.
    from: usize,
    id: BlockIdentity,
    place: PlaceInPack,
    sealed: SealedBlock,
}

impl<V: MaintainedVolume + ?Sized> Cleaner<V> {
    /// Cleans the packs of `volume`.
    pub fn new(
        volume: Arc<V>,
        blocks: Arc<BlockStore>,
        env: Environment,
        config: UpkeepConfig,
    ) -> Cleaner<V> {
        let (cleaned, moved) = (AtomicU64::new(0), AtomicU64::new(0));
        let (alone, seen, refused) = (tokio::sync::Mutex::default(), Mutex::default(), Mutex::default());
        Cleaner { volume, blocks, env, config, alone, seen, cleaned, moved, refused }
    }

    /// What there was at the last look.
    pub fn seen(&self) -> PacksSeen {
        *self.seen.lock()
    }

    /// Packs cleaned, and blocks moved for that, since the start.
    pub fn totals(&self) -> (u64, u64) {
        (self.cleaned.load(Ordering::Relaxed), self.moved.load(Ordering::Relaxed))
    }

    /// Looks, and cleans, again and again until `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        if let Err(error) = self.look().await {
            tracing::warn!(volume = %self.volume.id(), %error, "packs could not be counted");
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.env.clock.sleep(self.config.clean_interval) => {}
            }
            match self.pass(self.config.clean_rate, Some(stop)).await {
                Ok(CleanReport { failed: 0, .. }) => {}
                Ok(report) => {
                    tracing::warn!(volume = %self.volume.id(), ?report, "some packs could not be cleaned; it is tried again")
                }
                Err(error) => {
                    tracing::warn!(volume = %self.volume.id(), %error, "cleaning of packs stopped; it is tried again")
                }
            }
        }
    }

    /// One pass over all packs, as fast as it goes.
    pub async fn once(&self) -> Result<CleanReport, UpkeepError> {
        self.pass(0, None).await
    }

    /// Counts what there is, and cleans nothing.
    pub async fn look(&self) -> Result<PacksSeen, UpkeepError> {
        let (mut seen, mut after) = (PacksSeen::default(), None);
        while let Some(packs) = self.next(&mut after).await? {
            packs.iter().for_each(|pack| seen.count(pack));
        }
        *self.seen.lock() = seen;
        Ok(seen)
    }

    async fn next(
        &self,
        after: &mut Option<(ids::ObjectId, ids::BlockIndex)>,
    ) -> Result<Option<Vec<UsedPack>>, UpkeepError> {
        let packs = self.volume.used_packs(*after, BATCH).await;
        let packs = packs.map_err(UpkeepError::volume("looking at packs"))?;
        let Some(last) = packs.last() else { return Ok(None) };
        *after = Some((last.object, last.number));
        Ok(Some(packs))
    }

    async fn pass(&self, rate: u64, stop: Option<&CancellationToken>) -> Result<CleanReport, UpkeepError> {
        let _alone = self.alone.lock().await;
        let pace = Pace::new(rate, &*self.env.clock);
        let mut pass = Pass { pace, report: CleanReport::default(), stop };
        let (mut seen, mut after) = (PacksSeen::default(), None);
        let mut hauls: Vec<Haul> = Vec::new();
        while let Some(packs) = self.next(&mut after).await? {
            for pack in packs {
                seen.count(&pack);
                if !pack.is_settled || u64::from(pack.live) * 2 >= u64::from(pack.len) {
                    continue;
                }
                let found = self.volume.find_pack(pack.object, pack.number).await;
                let Some(version) = found.map_err(UpkeepError::volume("looking for a pack"))? else {
                    continue;
                };
                match hauls.iter().position(|haul| haul.placement().shares_packs(&version.placement)) {
                    Some(at) if hauls[at].has_room(&pack, self.config.pack_size) => {
                        hauls[at].packs.push((pack, version));
                    }
                    Some(at) => {
                        let full = std::mem::replace(&mut hauls[at], Haul { packs: vec![(pack, version)] });
                        self.clean(full, &mut pass).await?;
                    }
                    None => hauls.push(Haul { packs: vec![(pack, version)] }),
                }
            }
        }
        *self.seen.lock() = seen;
        for haul in hauls {
            self.clean(haul, &mut pass).await?;
        }
        Ok(pass.report)
    }

    /// Moves the blocks of some packs to a new one, if that is worth it.
    async fn clean(&self, haul: Haul, pass: &mut Pass<'_>) -> Result<(), UpkeepError> {
        if !haul.is_worth_it(&self.config.cleaning, self.prices_of(haul.placement()).as_deref()) {
            return Ok(());
        }
        // What is read would be read in vain.
        let is_sick = |cloud: &CloudId| {
            self.blocks.clouds().get(cloud).is_none_or(|it| it.health().is_sick(Direction::Write))
        };
        let is_too_early = pass.stop.is_some() && self.env.clock.monotonic() < self.refused.lock().1;
        if haul.placement().clouds().iter().any(is_sick) || is_too_early {
            pass.report.failed += 1;
            return Ok(());
        }
        let mut taken = Vec::new();
        for (from, (pack, version)) in haul.packs.iter().enumerate() {
            pass.pace.wait(u64::from(pack.len), &*self.env.clock).await;
            if pass.is_stopped() {
                return Ok(());
            }
            match self.take_out(from, version).await? {
                Some(blocks) => taken.extend(blocks),
                None => pass.report.failed += 1,
            }
        }
        // Packs may have been larger when it was made.
        let sizes = taken.iter().map(|block| PackBuilder::room_for(u64::from(block.place.len)));
        let Some(largest) = sizes.max() else { return Ok(()) };
        let size = self.config.pack_size.max(PackBuilder::EMPTY + largest);
        let writing = self.blocks.writing();
        let planned = self.volume.plan_pack(haul.placement(), size).await;
        let planned = planned.map_err(UpkeepError::volume("planning a pack"))?;
        let Some(new) = planned else { return Ok(()) };
        let moved = self.store(&new, size, taken, &mut pass.report).await;
        drop(writing);
        let committed = match moved {
            Some(moved) => self.commit(&haul, moved, &mut pass.report).await,
            None => Ok(()),
        };
        failpoint!("clean.before-settle");
        let settled = self.volume.settle_pack(&new.identity).await;
        committed?;
        settled.map_err(UpkeepError::volume("settling a pack"))
    }

    /// What the clouds of a placement charge; `None` when not all of them charge for what they keep: somebody pays for that, too.
    fn prices_of(&self, placement: &Placement) -> Option<Vec<Prices>> {
        let of = |cloud: &CloudId| self.blocks.clouds().get(cloud)?.prices().copied();
        let prices = placement.clouds().iter().map(of).collect::<Option<Vec<_>>>()?;
        prices.iter().all(|prices| prices.storage_gb_month > 0.0).then_some(prices)
    }

    /// What lies in a pack and is held; `None` when it cannot be read now.
    async fn take_out(&self, from: usize, version: &BlockVersion) -> Result<Option<Vec<Taken>>, UpkeepError> {
        let BlockVersion { identity, key, placement, seal, .. } = version;
        let pack = PackVersion { key, id: identity, seal: *seal, placement };
        let Some(owner) = self.volume.owner(identity.creator) else {
            tracing::warn!(pack = %identity, "a pack with much garbage is of a gateway that is not known");
            return Ok(None);
        };
        let loaded = match self.blocks.load_pack(pack, &owner, &*self.volume).await {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::warn!(pack = %identity, %error, "a pack with much garbage cannot be read");
                return Ok(None);
            }
        };
        if !loaded.bad.is_empty() {
            let bad: Vec<u8> = loaded.bad.iter().map(|fault| fault.fragment).collect();
            let queued =
                self.volume.queue_repair(identity.object, identity.block, identity.version, &bad).await;
            queued.map_err(UpkeepError::volume("queueing a repair"))?;
        }
        let inside = loaded.pack.blocks();
        let held = self.volume.lie_in(identity, inside).await;
        let held = held.map_err(UpkeepError::volume("looking for what lies in a pack"))?;
        let held = inside.iter().zip(held).filter(|(_, held)| *held);
        let taken = held.filter_map(|((id, place), _)| {
            let sealed = loaded.pack.sealed(place)?;
            // A slice would keep all of the old pack in memory.
            let sealed = SealedBlock::from_untrusted(Bytes::copy_from_slice(sealed.as_bytes()));
            Some(Taken { from, id: *id, place: *place, sealed })
        });
        Ok(Some(taken.collect()))
    }

    /// Stores a new pack; which blocks lie where in it. What does not fit stays where it is.
    async fn store(
        &self,
        new: &NewPack,
        size: u64,
        taken: Vec<Taken>,
        report: &mut CleanReport,
    ) -> Option<Vec<(usize, MovedBlock)>> {
        let NewPack { identity, key, placement, seal, owner } = new;
        let mut builder = PackBuilder::new(identity.volume, size);
        let mut inside = Vec::with_capacity(taken.len());
        for Taken { from, id, place, sealed } in taken {
            if builder.push(id, sealed).is_ok() {
                inside.push((from, id, place));
            }
        }
        failpoint!("clean.before-put");
        let version = PackVersion { key, id: identity, seal: *seal, placement };
        match self.blocks.store_pack(version, builder, owner, Redundancy::Whole).await {
            Ok(stored) => {
                report.made += 1;
                *self.refused.lock() = (0, Duration::ZERO);
                let moved = inside.into_iter().zip(stored.places).map(|((at, id, from), place)| {
                    let to = InPack { pack: *identity, place, missing: Arc::default() };
                    (at, MovedBlock { id, from, to })
                });
                Some(moved.collect())
            }
            Err(error) => {
                tracing::warn!(pack = %identity, %error, "blocks of packs with much garbage stay where they are");
                report.failed += 1;
                let mut refused = self.refused.lock();
                let pause = self.config.clean_interval * (2 << refused.0.min(LONGEST_PAUSE));
                *refused = (refused.0.saturating_add(1), self.env.clock.monotonic() + pause);
                None
            }
        }
    }

    async fn commit(
        &self,
        haul: &Haul,
        moved: Vec<(usize, MovedBlock)>,
        report: &mut CleanReport,
    ) -> Result<(), UpkeepError> {
        failpoint!("clean.before-commit");
        let mut left = moved.len();
        for (at, (_, version)) in haul.packs.iter().enumerate() {
            let of_pack: Vec<MovedBlock> =
                moved.iter().filter(|(from, _)| *from == at).map(|(_, block)| block.clone()).collect();
            for part in of_pack.chunks(self.config.batch.max(1)) {
                let done = self.volume.commit_moved(&version.identity, part).await;
                let done = done.map_err(UpkeepError::volume("moving blocks to another pack"))?;
                let bytes = part.iter().zip(&done).filter(|(_, done)| **done);
                let (blocks, bytes) =
                    bytes.fold((0, 0), |(n, sum), (block, _)| (n + 1, sum + u64::from(block.from.len)));
                report.blocks += blocks;
                report.bytes += bytes;
                self.moved.fetch_add(blocks, Ordering::Relaxed);
                left -= part.len();
                if left > 0 {
                    failpoint!("clean.between-commits");
                }
            }
            let is_empty = self.volume.find_pack(version.identity.object, version.identity.block).await;
            if is_empty.map_err(UpkeepError::volume("looking for a pack"))?.is_none() {
                report.cleaned += 1;
                self.cleaned.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl PacksSeen {
    fn count(&mut self, pack: &UsedPack) {
        self.packs += 1;
        self.bytes += u64::from(pack.len);
        self.live += u64::from(pack.live);
    }
}
