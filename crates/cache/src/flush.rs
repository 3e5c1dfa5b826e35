use std::sync::Arc;

use ids::VolumeId;
use journal::Lsn;
use tokio::sync::watch;

use crate::FileKey;
use crate::dirty::Dirty;

/// Whose dirty data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One file's.
    File(FileKey),
    /// One volume's.
    Volume(VolumeId),
    /// All.
    All,
}

/// Somebody waits for what was dirty when this was made; write-back takes it first. Dropping it stops the waiting,
/// not the write-back.
#[must_use = "call done() to wait"]
pub struct Flush {
    dirty: Arc<Dirty>,
    scope: Scope,
    up_to: Lsn,
    cleaned: watch::Receiver<u64>,
}

impl Flush {
    pub(crate) fn new(dirty: &Arc<Dirty>, scope: Scope) -> Flush {
        let flush =
            Flush { dirty: Arc::clone(dirty), scope, up_to: dirty.newest(), cleaned: dirty.cleaned() };
        match scope {
            Scope::File(file) => dirty.hurry_file(file, flush.up_to),
            Scope::Volume(volume) => dirty.hurry_volume(volume, flush.up_to),
            Scope::All => {
                dirty.volumes().into_iter().for_each(|volume| dirty.hurry_volume(volume, flush.up_to))
            }
        }
        flush
    }

    /// Whether everything is stored (or was overwritten, truncated or removed since).
    pub fn is_done(&self) -> bool {
        let oldest = match self.scope {
            Scope::File(file) => self.dirty.oldest_of_file(file),
            Scope::Volume(volume) => self.dirty.oldest_of_volume(volume),
            Scope::All => self
                .dirty
                .volumes()
                .into_iter()
                .filter_map(|volume| self.dirty.oldest_of_volume(volume))
                .min(),
        };
        oldest.is_none_or(|oldest| oldest > self.up_to)
    }

    /// Waits until [`Flush::is_done`]: for as long as the clouds fail, so put a limit around it.
    pub async fn done(mut self) {
        loop {
            self.cleaned.borrow_and_update();
            if self.is_done() || self.cleaned.changed().await.is_err() {
                return;
            }
        }
    }
}
