use std::sync::Arc;

use async_trait::async_trait;
use blocks::BlockStore;
use bytes::Bytes;
use cache::{BlockLoader, FileKey, LoadError};
use ids::{BlockIndex, Version};

use crate::{BadFragments, BlockVersion};

/// Loads one block version for the cache, and has the bad fragments repaired that it meets (`K65`).
pub struct VersionLoader {
    blocks: Arc<BlockStore>,
    version: BlockVersion,
    bad: BadFragments,
}

impl VersionLoader {
    /// A loader of `version` and nothing else.
    #[allow(clippy::new_ret_no_self)] // nobody needs it as anything but a loader
    pub fn new(blocks: Arc<BlockStore>, version: BlockVersion, bad: BadFragments) -> Arc<dyn BlockLoader> {
        Arc::new(VersionLoader { blocks, version, bad })
    }
}

#[async_trait]
impl BlockLoader for VersionLoader {
    async fn load(&self, _file: FileKey, _block: BlockIndex, _version: Version) -> Result<Bytes, LoadError> {
        let BlockVersion { identity, key, placement, seal } = &self.version;
        let loaded =
            self.blocks.load(key, identity, *seal, placement).await.map_err(|e| Arc::new(e) as LoadError)?;
        let fragments = loaded.bad.iter().map(|fault| fault.fragment).collect();
        self.bad.report(identity.volume, identity.object, identity.block, identity.version, fragments);
        Ok(loaded.plaintext)
    }
}
