use std::sync::Arc;

use async_trait::async_trait;
use blocks::BlockStore;
use bytes::Bytes;
use cache::{BlockLoader, FileKey, LoadError, Sealing};
use ids::BlockIndex;

use crate::{BlockVersion, MaintainedVolume};

/// Loads one block version for the cache, and has the bad fragments repaired that it meets (`K65`).
pub(crate) struct VersionLoader<V: ?Sized> {
    pub volume: Arc<V>,
    pub blocks: Arc<BlockStore>,
    pub version: BlockVersion,
}

#[async_trait]
impl<V: MaintainedVolume + ?Sized> BlockLoader for VersionLoader<V> {
    async fn load(&self, _file: FileKey, _block: BlockIndex, _sealing: Sealing) -> Result<Bytes, LoadError> {
        let loaded = self.version.load(&self.blocks, &*self.volume).await;
        let loaded = loaded.map_err(|error| Arc::new(error) as LoadError)?;
        if !loaded.bad.is_empty() {
            let fragments: Vec<u8> = loaded.bad.iter().map(|fault| fault.fragment).collect();
            let (volume, id) = (self.volume.clone(), self.version.stored().identity);
            // Beside the load: a reader who waits for the same block may keep all others from committing.
            tokio::spawn(async move {
                let queued = volume.queue_repair(id.object, id.block, id.version, &fragments);
                if let Err(error) = queued.await {
                    // The content is good; the next read or scrub meets the fragments again.
                    tracing::warn!(block = %id, %error, "a repair could not be queued");
                }
            });
        }
        Ok(loaded.plaintext)
    }
}
