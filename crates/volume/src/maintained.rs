use async_trait::async_trait;
use blocks::{PlaceInPack, Placement, SealId};
use bytes::Bytes;
use ids::{BlockIndex, GatewayId, ObjectId, Timestamp, Version, VolumeId};
use seal::{BlockIdentity, ContentId, Owner};
use upkeep::{
    BlockVersion, GarbageRow, MaintainedVolume, MovedBlock, NewPack, Plans, RepairRow, Repaired, Rewrites,
    UsedPack, VolumeFailure, Written,
};

use crate::volume::Volume;

/// Removed files that are taken apart at once.
const REAPED: usize = 1024;

#[async_trait]
impl MaintainedVolume for Volume {
    fn id(&self) -> VolumeId {
        self.inner.id
    }

    async fn plan_write_back(&self, blocks: &[(ObjectId, BlockIndex)]) -> Result<Plans, VolumeFailure> {
        let plans = Volume::plan_write_back(self, blocks).await?;
        Ok(plans.into_iter().map(|plan| Ok(plan?)).collect())
    }

    async fn commit_written(&self, written: &[Written]) -> Result<Vec<bool>, VolumeFailure> {
        Ok(Volume::commit_written(self, written).await?)
    }

    async fn plan_pack(&self, placement: &Placement, size: u64) -> Result<Option<NewPack>, VolumeFailure> {
        Ok(Some(Volume::plan_pack(self, placement, size).await?))
    }

    async fn settle_pack(&self, pack: &BlockIdentity) -> Result<(), VolumeFailure> {
        Ok(Volume::settle_pack(self, pack).await?)
    }

    async fn used_packs(
        &self,
        after: Option<(ObjectId, BlockIndex)>,
        limit: usize,
    ) -> Result<Vec<UsedPack>, VolumeFailure> {
        Ok(Volume::used_packs(self, after, limit).await?)
    }

    async fn find_pack(
        &self,
        object: ObjectId,
        number: BlockIndex,
    ) -> Result<Option<BlockVersion>, VolumeFailure> {
        Ok(Volume::find_pack(self, object, number).await?)
    }

    async fn lie_in(
        &self,
        pack: &BlockIdentity,
        blocks: &[(BlockIdentity, PlaceInPack)],
    ) -> Result<Vec<bool>, VolumeFailure> {
        Ok(Volume::lie_in(self, pack, blocks).await?)
    }

    async fn commit_moved(
        &self,
        pack: &BlockIdentity,
        moved: &[MovedBlock],
    ) -> Result<Vec<bool>, VolumeFailure> {
        Ok(Volume::commit_moved(self, pack, moved).await?)
    }

    async fn find_content(
        &self,
        object: ObjectId,
        content: ContentId,
    ) -> Result<Option<(BlockIdentity, SealId)>, VolumeFailure> {
        Ok(Volume::find_content(self, object, content).await?)
    }

    async fn garbage(
        &self,
        until: Timestamp,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<GarbageRow>, VolumeFailure> {
        Ok(Volume::garbage(self, until, after, limit).await?)
    }

    fn may_delete(&self, row: &Bytes) -> bool {
        self.inner.node.may_delete.get().is_none_or(|may_delete| may_delete(row))
    }

    async fn garbage_collected(&self, rows: &[Bytes]) -> Result<(), VolumeFailure> {
        Ok(Volume::garbage_collected(self, rows).await?)
    }

    async fn repairs(&self, after: Option<&Bytes>, limit: usize) -> Result<Vec<RepairRow>, VolumeFailure> {
        Ok(Volume::repairs(self, after, limit).await?)
    }

    async fn repaired(&self, rows: &[Repaired]) -> Result<(), VolumeFailure> {
        Ok(Volume::repaired(self, rows).await?)
    }

    fn owner(&self, gateway: GatewayId) -> Option<Owner> {
        let owner = self.inner.node.keys.read().signer().owner();
        (owner.gateway == gateway).then_some(owner)
    }

    async fn orphans_waiting(&self) {
        Volume::orphans_waiting(self).await;
    }

    async fn repairs_waiting(&self) {
        self.inner.repair_queued.notified().await;
    }

    async fn queue_repair(
        &self,
        object: ObjectId,
        block: BlockIndex,
        version: Version,
        fragments: &[u8],
    ) -> Result<(), VolumeFailure> {
        Ok(Volume::queue_repair(self, object, block, version, fragments).await?)
    }

    async fn stored_blocks(
        &self,
        after: Option<BlockIdentity>,
        limit: usize,
    ) -> Result<Vec<BlockVersion>, VolumeFailure> {
        Ok(Volume::stored_blocks(self, after, limit).await?)
    }

    async fn find_migrating(&self) -> Result<(), VolumeFailure> {
        Ok(Volume::find_migrating(self).await?)
    }

    async fn to_rewrite(&self, most: usize, bytes: u64) -> Result<Rewrites, VolumeFailure> {
        Ok(Volume::to_rewrite(self, most, bytes).await?)
    }

    async fn migrations_waiting(&self) {
        self.inner.migration.begun.notified().await;
    }

    async fn reap(&self) -> Result<bool, VolumeFailure> {
        Ok(self.reap_orphans(REAPED).await? == REAPED)
    }
}
