use std::sync::Arc;

use bytes::Bytes;
use cache::{BlockLoader, BlockSnapshot, CacheError, FileKey, Sealing};
use seal::BlockIdentity;

use super::{InFlight, Parts, UNIT};
use crate::loader::VersionLoader;
use crate::{Base, MaintainedVolume, NewBlock, WrittenAs};

/// Why a block was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlockFailure {
    #[error("its older content or its dirty data could not be read: {0}")]
    Read(#[from] CacheError),
    #[error("{0}")]
    Store(#[from] blocks::StoreError),
}

impl<V: MaintainedVolume + ?Sized> Parts<V> {
    /// Completes, seals and disperses a block.
    pub(super) async fn store(
        &self,
        snapshot: &BlockSnapshot,
        new: NewBlock,
    ) -> Result<(WrittenAs, InFlight), BlockFailure> {
        let units = new.length.div_ceil(UNIT).clamp(1, u64::from(self.units)) as u32;
        // Never closed; without a permit the bound would be missed by this one block.
        let permit = Arc::clone(&self.in_flight).acquire_many_owned(units).await.ok();
        let file = snapshot.file();
        let base = match &new.base {
            _ if snapshot.covers(new.length) => None,
            Base::Hole => Some(Bytes::new()),
            Base::Stored(stored) => {
                let shift = new.placement.block_shift();
                // Content that is shared was stored for another block.
                let BlockIdentity { volume, object, block, version, .. } = stored.identity;
                let (of, sealing) = (FileKey { volume, object }, Sealing { version, seal: stored.seal });
                let (volume, blocks) = (self.volume.clone(), self.blocks.clone());
                let loader: Arc<dyn BlockLoader> =
                    Arc::new(VersionLoader { volume, blocks, version: stored.clone() });
                Some(self.cache.stored_block(of, shift, block, sealing, &loader).await?)
            }
        };
        let parts = snapshot.assemble(new.length, base.as_ref()).await?;
        let NewBlock { identity, seal, key, placement, protection, length, .. } = new;
        let stored = self.blocks.store(&key, &identity, seal, &placement, &parts, protection).await?;
        let content = match &parts[..] {
            [one] => one.clone(),
            many => many.concat().into(),
        };
        let sealing = Sealing { version: identity.version, seal };
        let staged = self.cache.stage(file, snapshot.block(), sealing, content);
        Ok((
            WrittenAs::Version { identity, seal, missing: stored.missing, length },
            InFlight { staged, _permit: permit },
        ))
    }
}
