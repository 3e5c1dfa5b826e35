use volume::{ScanState, VolumeError};

use crate::{ScanError, Stage, Verdict};

/// Marks read at once.
const PAGE: usize = 256;

impl Stage {
    /// Scans, now and then, what went to the clouds without, until the stop.
    pub(crate) async fn keep_rescanning(&self) {
        let clock = &*self.shared.environment.clock;
        loop {
            // Safe to drop anywhere: what is found is noted in one transaction.
            tokio::select! {
                () = self.stopped() => return,
                () = clock.sleep(self.shared.config().rescan) => {}
            }
            tokio::select! {
                () = self.stopped() => return,
                scanned = self.rescan() => if let Err(error) = scanned {
                    tracing::warn!(%error, "files that were not scanned wait for another try");
                },
            }
        }
    }

    /// One pass over the files that were not scanned; ends early when the scanner fails.
    async fn rescan(&self) -> Result<(), VolumeError> {
        let mut after = None;
        loop {
            let marks = self.volume.scan_marks(after, PAGE).await?;
            for (object, mark) in &marks {
                if mark.state != ScanState::Unscanned {
                    continue;
                }
                let Some(target) = self.volume.scan_target(*object).await? else { continue };
                // Never closed.
                let Ok(_slot) = self.shared.slots.acquire().await else { return Ok(()) };
                if !self.shared.health.may_try(self.shared.now()) {
                    return Ok(());
                }
                match self.scan(*object, target).await {
                    Ok(Verdict::Clean) => self.volume.mark_clean(*object).await?,
                    // One that has changed meanwhile keeps its mark, and is scanned again.
                    Ok(Verdict::Infected(name)) => drop(self.found(*object, target, &name, 0).await?),
                    Err(ScanError::Refused(_) | ScanError::Content(_)) => {}
                    Err(_) => return Ok(()),
                }
            }
            match marks.last() {
                Some((last, _)) if marks.len() == PAGE => after = Some(*last),
                _ => return Ok(()),
            }
        }
    }
}
