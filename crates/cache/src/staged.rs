use std::sync::Arc;

use bytes::Bytes;

use crate::block_key::BlockKey;
use crate::clean::Clean;

/// A block version that is stored in the clouds and about to be committed. It can be read from memory at once,
/// so that nobody has to fetch it in the moment between the commit and its durability.
#[must_use = "a staged block is forgotten unless it is kept"]
pub struct StagedBlock {
    pub(crate) clean: Arc<Clean>,
    pub(crate) block: BlockKey,
    pub(crate) content: Option<Bytes>,
}

impl StagedBlock {
    /// The commit is durable: the block goes to the disk tier too. Waits for its turn there: what was just written is
    /// not to come from the clouds only because much was written at once.
    pub async fn keep(mut self) {
        if let Some(content) = self.content.take()
            && let Some(disk) = self.clean.disk()
        {
            disk.insert_in_turn(self.block, content).await;
        }
    }
}

impl Drop for StagedBlock {
    fn drop(&mut self) {
        // Nobody will ask for it.
        if self.content.is_some() {
            self.clean.remove_from_memory(self.block);
        }
    }
}
