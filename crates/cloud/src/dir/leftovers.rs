use std::io::{self, ErrorKind as Io};
use std::path::Path;
use std::sync::Arc;

use environment::Clock;

use crate::hourly::{HOUR, Hourly};

/// What crashes have left of objects that were being written.
pub(super) struct Leftovers {
    hourly: Hourly,
}

impl Leftovers {
    pub fn new(clock: Arc<dyn Clock>) -> Leftovers {
        Leftovers { hourly: Hourly::new(clock) }
    }

    /// As [`Leftovers::sweep`], if that was not done for an hour.
    pub fn sweep_when_due(&self, fresh: &Path) {
        if self.hourly.begin_when_due()
            && let Err(error) = self.sweep(fresh)
        {
            // They are tried again, and in nobody's way.
            tracing::debug!(%error, "leftovers could not be swept");
        }
    }

    /// Removes what lies beside `fresh`, a file that was written just now, and is much older by the clock of the store.
    pub fn sweep(&self, fresh: &Path) -> io::Result<()> {
        self.hourly.begun();
        let now = std::fs::metadata(fresh)?.modified()?;
        let Some(folder) = fresh.parent() else { return Ok(()) };
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let modified = entry.metadata().and_then(|meta| meta.modified());
            let age = modified.ok().and_then(|at| now.duration_since(at).ok());
            if age.is_some_and(|age| age > HOUR) {
                // Another gateway may sweep the same directory.
                std::fs::remove_file(entry.path())
                    .or_else(|e| if e.kind() == Io::NotFound { Ok(()) } else { Err(e) })?;
            }
        }
        Ok(())
    }
}
