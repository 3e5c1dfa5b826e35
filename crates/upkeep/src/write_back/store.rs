use std::sync::Arc;

use blocks::{StoreError, Stored};
use bytes::Bytes;
use cache::{BlockLoader, BlockSnapshot, CacheError, FileKey, Sealing};
use seal::{BlockIdentity, content_id};

use super::together::{SmallBlock, is_small};
use super::{InFlight, Parts};
use crate::loader::VersionLoader;
use crate::{Base, MaintainedVolume, NewBlock, VolumeFailure, WrittenAs};

/// Why a block was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlockFailure {
    #[error("its older content or its dirty data could not be read: {0}")]
    Read(#[from] CacheError),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("it could not be looked up whether the same content is stored: {0}")]
    Content(VolumeFailure),
}

/// What became of a block.
#[allow(clippy::large_enum_variant)] // few at a time, and not for long
pub(super) enum Outcome {
    /// It is stored.
    Stored(WrittenAs, InFlight),
    /// It is complete, and waits for others to travel with.
    Small(SmallBlock),
}

impl<V: MaintainedVolume + ?Sized> Parts<V> {
    /// Completes a block; seals and disperses it, unless it is a small one that had better travel with others.
    pub(super) async fn store(
        &self,
        snapshot: &BlockSnapshot,
        new: NewBlock,
    ) -> Result<Outcome, BlockFailure> {
        let permit = self.room_for(new.length, snapshot.is_clean()).await;
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
        if is_small(&new, self.config.longest_packed) {
            return Ok(Outcome::Small(SmallBlock { new, parts }));
        }
        let NewBlock { identity, seal, ref key, ref placement, protection, length, .. } = new;
        let is_shared = placement.scheme().is_convergent();
        let content_id = is_shared.then(|| content_id(key.content_key(), &parts, protection.padding));
        let mut storing = None;
        if let Some(content) = content_id {
            // Whoever comes second finds what the first has committed.
            let first = self.contents.begin(content).await;
            let found = self.volume.find_content(file.object, content).await;
            if let Some((origin, sealed_as)) = found.map_err(BlockFailure::Content)? {
                let BlockIdentity { volume, object, block, version, .. } = origin;
                let (of, sealing) = (FileKey { volume, object }, Sealing { version, seal: sealed_as });
                let staged = self.cache.stage(of, block, sealing, whole(&parts));
                let written = WrittenAs::Content { identity, seal, content, length };
                return Ok(Outcome::Stored(written, InFlight { staged, _permit: permit, storing: None }));
            }
            storing = Some(first);
        }
        let stored = self.put(snapshot, &new, &parts).await?;
        let sealing = Sealing { version: identity.version, seal };
        let staged = self.cache.stage(file, snapshot.block(), sealing, whole(&parts));
        Ok(Outcome::Stored(
            WrittenAs::Version {
                identity,
                seal,
                missing: stored.missing,
                packed: None,
                length,
                content: content_id,
            },
            InFlight { staged, _permit: permit, storing },
        ))
    }
}

impl<V: MaintainedVolume + ?Sized> Parts<V> {
    /// Seals and disperses a block as a version of its own.
    pub(super) async fn put(
        &self,
        snapshot: &BlockSnapshot,
        new: &NewBlock,
        parts: &[Bytes],
    ) -> Result<Stored, StoreError> {
        let NewBlock { identity, seal, key, placement, protection, .. } = new;
        match snapshot.is_clean() {
            true => self.blocks.store_whole(key, identity, *seal, placement, parts, *protection).await,
            false => self.blocks.store(key, identity, *seal, placement, parts, *protection).await,
        }
    }
}

pub(super) fn whole(parts: &[Bytes]) -> Bytes {
    match parts {
        [one] => one.clone(),
        many => many.concat().into(),
    }
}
