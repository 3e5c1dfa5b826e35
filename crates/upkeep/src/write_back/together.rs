//! Small blocks travel together, in packs (decision 25).

use std::sync::Arc;

use blocks::{BlockStore, PackBuilder, PackVersion, Placement, Redundancy, Writing};
use bytes::Bytes;
use cache::{BlockSnapshot, DirtyBlock, Sealing};
use environment::failpoint;
use futures::future::join_all;
use seal::{BlockIdentity, SealedBlock, sealed_len};
use tokio::sync::OwnedSemaphorePermit;

use super::store::{BlockFailure, whole};
use super::{InFlight, Parts, Ready};
use crate::{InPack, MaintainedVolume, NewBlock, NewPack, UpkeepError, Written, WrittenAs};

/// Blocks with which a pack is full.
const MOST_BLOCKS: usize = 4096;

/// A small block that waits for others to travel with.
pub(super) struct Small {
    pub dirty: DirtyBlock,
    pub snapshot: BlockSnapshot,
    pub block: SmallBlock,
    /// Held until it is stored.
    pub _writing: Writing,
}

/// What is to be stored of it.
pub(super) struct SmallBlock {
    pub new: NewBlock,
    /// All of its content.
    pub parts: Vec<Bytes>,
}

impl SmallBlock {
    fn sealed_len(&self) -> u64 {
        sealed_len(self.new.length as usize, self.new.protection.padding) as u64
    }

    /// Bytes that it takes in a pack.
    fn room(&self) -> u64 {
        PackBuilder::room_for(self.sealed_len())
    }
}

/// Whether a block had better travel with others: a small one, shorter than a block of its file. Where equal content is kept
/// once, whoever has the same waits for the first one's commit; so nobody makes them wait for company.
pub(super) fn is_small(new: &NewBlock, longest: u64) -> bool {
    let sealed = sealed_len(new.length as usize, new.protection.padding) as u64;
    sealed <= longest
        && new.length < new.placement.block_shift().bytes()
        && !new.placement.scheme().is_convergent()
}

/// Blocks that will travel in one pack. Those that are stored already, and may wait, travel without those that are not.
pub(super) struct Group {
    blocks: Vec<Small>,
    /// Of the pack.
    bytes: u64,
}

impl Group {
    fn of(small: Small) -> Group {
        let bytes = PackBuilder::EMPTY + small.block.room();
        Group { blocks: vec![small], bytes }
    }

    fn placement(&self) -> &Placement {
        &self.blocks[0].block.new.placement
    }

    fn takes(&self, small: &Small) -> bool {
        self.blocks[0].snapshot.is_clean() == small.snapshot.is_clean()
            && self.placement().shares_packs(&small.block.new.placement)
    }

    fn redundancy(&self) -> Redundancy {
        match self.blocks[0].snapshot.is_clean() {
            true => Redundancy::Whole,
            false => Redundancy::Enough,
        }
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }
}

/// The groups that are waiting: two at most for each placement in use.
pub(super) struct Groups {
    groups: Vec<Group>,
    /// Bytes of a pack.
    pack_size: u64,
    /// Bytes that may wait in all groups.
    most: u64,
}

impl Groups {
    pub fn new(pack_size: u64, most: u64) -> Groups {
        Groups { groups: Vec::new(), pack_size, most }
    }

    /// Adds a block. Returns the groups that will not wait for more.
    pub fn add(&mut self, small: Small) -> Vec<Group> {
        let mut done = Vec::new();
        match self.groups.iter().position(|group| group.takes(&small)) {
            None => self.groups.push(Group::of(small)),
            Some(at) => {
                let group = &mut self.groups[at];
                let bytes = group.bytes + small.block.room();
                if bytes > self.pack_size || group.blocks.len() >= MOST_BLOCKS {
                    done.push(std::mem::replace(group, Group::of(small)));
                } else {
                    group.bytes = bytes;
                    group.blocks.push(small);
                }
            }
        }
        while self.groups.iter().map(|group| group.bytes).sum::<u64>() > self.most {
            let largest = self.groups.iter().enumerate().max_by_key(|(_, group)| group.bytes);
            let Some((largest, _)) = largest else { break };
            done.push(self.groups.swap_remove(largest));
        }
        done
    }

    /// Those that wait in vain for more.
    pub fn take(&mut self) -> Vec<Group> {
        std::mem::take(&mut self.groups)
    }
}

/// A pack whose blocks are on their way to their commits; the last of them has the volume settle it.
pub(super) struct Settling {
    pack: BlockIdentity,
}

/// What became of a group.
#[derive(Default)]
pub(super) struct Together {
    pub ready: Vec<Ready>,
    pub not_stored: Vec<DirtyBlock>,
}

impl<V: MaintainedVolume + ?Sized> Parts<V> {
    pub(super) async fn store_group(&self, group: Group) -> Together {
        let redundancy = group.redundancy();
        let permit = self.room_for(group.bytes, redundancy == Redundancy::Whole).await;
        let mut together = Together::default();
        if group.blocks.len() == 1 {
            self.store_alone(group.blocks, &permit, &mut together).await;
            return together;
        }
        let planned = self.volume.plan_pack(group.placement(), self.config.pack_size).await;
        match planned.map_err(UpkeepError::volume("planning a pack")) {
            Ok(Some(pack)) => {
                self.store_packed(pack, group.blocks, redundancy, &permit, &mut together).await;
            }
            Ok(None) => self.store_alone(group.blocks, &permit, &mut together).await,
            // That says nothing of clouds.
            Err(error) => {
                self.report.lock().failed += group.blocks.len() as u64;
                self.complain(&error);
                together.not_stored.extend(group.blocks.into_iter().map(|small| small.dirty));
            }
        }
        together
    }

    /// Each as a version with fragments of its own.
    async fn store_alone(
        &self,
        blocks: Vec<Small>,
        permit: &Option<Arc<OwnedSemaphorePermit>>,
        together: &mut Together,
    ) {
        let stores = blocks.into_iter().map(|small| async move {
            let stored = self.put(&small.snapshot, &small.block.new, &small.block.parts).await;
            (small, stored)
        });
        for (small, stored) in join_all(stores).await {
            match stored {
                Ok(stored) => together.ready.push(self.ready(small, stored.missing, None, permit)),
                Err(error) => self.give_up(vec![small], &BlockFailure::Store(error), together),
            }
        }
    }

    async fn store_packed(
        &self,
        pack: NewPack,
        blocks: Vec<Small>,
        redundancy: Redundancy,
        permit: &Option<Arc<OwnedSemaphorePermit>>,
        together: &mut Together,
    ) {
        let NewPack { identity, key, placement, seal, owner } = &pack;
        let settling = Arc::new(Settling { pack: *identity });
        let mut builder = PackBuilder::new(identity.volume, self.config.pack_size);
        let (mut inside, mut outside) = (Vec::with_capacity(blocks.len()), Vec::new());
        for small in blocks {
            match seal_small(&self.blocks, &small.block) {
                Ok(sealed) => match builder.push(small.block.new.identity, sealed) {
                    Ok(()) => inside.push(small),
                    Err(_) => outside.push(small),
                },
                Err(error) => self.give_up(vec![small], &error, together),
            }
        }
        failpoint!("pack.before-put");
        let version = PackVersion { key, id: identity, seal: *seal, placement };
        match self.blocks.store_pack(version, builder, owner, redundancy).await {
            Ok(stored) => {
                failpoint!("pack.before-commit");
                {
                    let mut report = self.report.lock();
                    report.packs += 1;
                    report.packed_blocks += inside.len() as u64;
                }
                let missing: Arc<[u8]> = stored.stored.missing.into();
                for (small, place) in inside.into_iter().zip(stored.places) {
                    let packed = InPack { pack: *identity, place, missing: missing.clone() };
                    let ready = self.ready(small, Vec::new(), Some((packed, settling.clone())), permit);
                    together.ready.push(ready);
                }
            }
            Err(error) => self.give_up(inside, &BlockFailure::Store(error), together),
        }
        self.settle(Some(settling)).await;
        self.store_alone(outside, permit, together).await;
    }

    fn ready(
        &self,
        Small { dirty, snapshot, block, .. }: Small,
        missing: Vec<u8>,
        packed: Option<(InPack, Arc<Settling>)>,
        permit: &Option<Arc<OwnedSemaphorePermit>>,
    ) -> Ready {
        let SmallBlock { new: NewBlock { identity, seal, length, .. }, parts } = block;
        let sealing = Sealing { version: identity.version, seal };
        let staged = self.cache.stage(snapshot.file(), snapshot.block(), sealing, whole(&parts));
        let (packed, settling) = packed.unzip();
        let content = WrittenAs::Version { identity, seal, missing, packed, length, content: None };
        let in_flight = InFlight { staged, _permit: permit.clone(), storing: None };
        Ready { dirty, written: Written { snapshot, content }, staged: Some(in_flight), settling }
    }

    fn give_up(&self, blocks: Vec<Small>, error: &(dyn std::error::Error + Sync), together: &mut Together) {
        self.report.lock().failed += blocks.len() as u64;
        if let Some(first) = blocks.first() {
            self.complain_of(&first.snapshot, error);
        }
        together.not_stored.extend(blocks.into_iter().map(|small| small.dirty));
    }

    /// Lets packs go; the volume is told of those whose blocks have all been committed, or will never be.
    pub(super) async fn settle(&self, packs: impl IntoIterator<Item = Arc<Settling>>) {
        for Settling { pack } in packs.into_iter().filter_map(Arc::into_inner) {
            failpoint!("pack.before-settle");
            if let Err(cause) = self.volume.settle_pack(&pack).await {
                // Its note stays, and the next start does it.
                let error = UpkeepError::volume("settling a pack")(cause);
                tracing::warn!(volume = %self.volume.id(), %pack, %error, "a pack stays noted");
            }
        }
    }
}

fn seal_small(blocks: &BlockStore, small: &SmallBlock) -> Result<SealedBlock, BlockFailure> {
    let SmallBlock { new: NewBlock { identity, key, placement, protection, .. }, parts } = small;
    Ok(blocks.seal_for_pack(key, identity, placement, parts, *protection)?)
}
