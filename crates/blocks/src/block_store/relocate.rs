use std::sync::Arc;

use cloud::{Connection, Direction, ErrorKind, PutMode};
use seal::{BlockIdentity, FileKey};

use super::BlockStore;
use crate::target::Target;
use crate::{FragmentFault, Placement, SealId};

/// What became of a fragment that was to change its cloud.
#[derive(Clone, Debug)]
#[must_use]
pub enum Relocated {
    /// It is in its new cloud, and in the old one no more.
    Moved {
        /// Bytes copied; 0 when it was there already.
        bytes: u64,
    },
    /// The old cloud does not have it as it was stored, or cannot be asked: it has to be repaired.
    Lost(FragmentFault),
    /// The new cloud does not take it; try again later.
    Failed(FragmentFault),
}

impl BlockStore {
    /// Moves a fragment of a stored block version from one cloud to another: proves it, puts it, and only then deletes it.
    pub async fn relocate(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
        fragment: u8,
        (from, to): (&Connection, &Connection),
    ) -> Relocated {
        let target = Target::new(key, id, seal, placement);
        let name = target.name_of(fragment);
        let _room = self.budget.reserve(placement.usual_fragment()).await;
        let mut copied = 0;
        match to.head(&name).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if from.health().is_sick(Direction::Read) && !from.health().admits(Direction::Read) {
                    return Relocated::Lost(FragmentFault::NoSuchCloud);
                }
                let bytes = match target.fetch_bytes(from, fragment).await {
                    Ok(bytes) => bytes,
                    Err(fault) => return Relocated::Lost(fault),
                };
                copied = bytes.len() as u64;
                if let Err(error) = to.put(&name, vec![bytes], PutMode::Overwrite).await {
                    return Relocated::Failed(FragmentFault::Unreachable(error));
                }
            }
            Err(error) => return Relocated::Failed(FragmentFault::Unreachable(error)),
        }
        if !from.health().is_sick(Direction::Write)
            && let Err(error) = from.delete(&name).await
        {
            // The copy is what counts; whoever drains the old cloud sees that it is not empty.
            tracing::debug!(%error, "a moved fragment is left behind");
        }
        Relocated::Moved { bytes: copied }
    }

    /// Returns when every write that began before with the clouds as they were has ended.
    pub async fn writes_ended(&self) {
        let before = std::mem::take(&mut *self.writing.lock());
        while Arc::strong_count(&before) > 1 {
            self.env.clock.sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Held by everybody who puts fragments; see [`BlockStore::writes_ended`].
    pub(super) fn writing(&self) -> Arc<()> {
        self.writing.lock().clone()
    }
}
