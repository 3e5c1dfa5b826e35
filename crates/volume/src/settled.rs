use std::ops::Range;

use file_system::{Authority, Caller, CommitMode, FileId, FileSystem, FsError, Mode, SetAttributes};

use crate::stored_end::StoredEnd;
use crate::volume::Volume;

/// Tries of a change against others; there are none.
const TRIES: usize = 4;

/// What became of a file with data that was nowhere but on a lost machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Its size at the instant of the backup.
    pub size_was: u64,
    /// Its size now: what had been appended and not stored is cut off.
    pub size: u64,
    /// Whether the size now is certain to be that of what was stored.
    pub certain: bool,
    /// The ranges that were lost. Inside of the file they read as what had been stored before.
    pub ranges: Vec<Range<u64>>,
}

/// The size that a file had before what is unsaved was appended.
fn saved_size(stored: StoredEnd, unsaved: &[Range<u64>]) -> u64 {
    let tail = unsaved.iter().find(|range| range.end >= stored.size && range.start < stored.size);
    tail.map_or(stored.size, |tail| tail.start.max(stored.end.min(stored.size)))
}

impl Volume {
    /// Brings a file into a state that it can be in when these ranges of it, which were dirty, are gone. `None`: nothing of it is lost, or there is no
    /// such regular file that anybody could see.
    ///
    /// # Errors
    /// As of any change.
    pub async fn settle(&self, file: FileId, unsaved: &[Range<u64>]) -> Result<Option<Settled>, FsError> {
        let stored = self.stored_end(file.object).await.map_err(|error| FsError::Io(error.to_string()))?;
        let Some(stored) = stored else { return Ok(None) };
        let size = saved_size(stored, unsaved);
        // What lies behind the end in the last stored block may be of before a cut, and the zeros that covered it are gone: a cut
        // makes them anew.
        let renewed = async {
            self.set_size(file, size.max(stored.size) + 1).await?;
            self.set_size(file, size).await
        };
        match renewed.await {
            // It has no name, and nobody has it open any more: the next start takes it apart.
            Err(FsError::Stale) => return Ok(None),
            renewed => renewed?,
        }
        let inside = |range: &&Range<u64>| range.start < stored.size;
        let ranges = unsaved.iter().filter(inside).map(|range| range.start..range.end.min(stored.size));
        let settled =
            Settled { size_was: stored.size, size, certain: stored.certain, ranges: ranges.collect() };
        // Zeros behind the end are nothing that anybody had written.
        Ok((!settled.ranges.is_empty()).then_some(settled))
    }

    async fn set_size(&self, file: FileId, size: u64) -> Result<(), FsError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let done = async {
                let mut transaction = self.begin(&Caller::root(), Mode::Optimistic).await?;
                transaction.set_attributes(file, &SetAttributes::with_size(size), Authority::Opened).await?;
                // The close of the store makes it durable; the tier `cloud` would wait for a write-back that nobody does here.
                transaction.commit(CommitMode::Visible).await
            };
            match done.await {
                Err(FsError::Conflict) if tries < TRIES => {}
                done => return done.map(drop),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // ranges are what is meant
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_and_not_stored_is_cut_off_and_nothing_else() {
        let saved = |size: u64, end: u64, ranges: &[Range<u64>]| {
            saved_size(StoredEnd { size, end, certain: true }, ranges)
        };
        assert_eq!(saved(300, 0, &[0..300]), 0, "never stored");
        assert_eq!(saved(300, 100, &[100..300]), 100, "appended");
        assert_eq!(saved(300, 100, &[50..300]), 100, "the end was overwritten, too");
        assert_eq!(saved(300, 300, &[50..300]), 300, "overwritten only");
        assert_eq!(saved(300, 300, &[50..90]), 300, "in the middle");
        assert_eq!(saved(1100, 100, &[1000..1100]), 1000, "appended behind a hole");
        assert_eq!(saved(10, 64, &[10..64]), 10, "zeros behind a cut");
        assert_eq!(saved(10, 64, &[5..64]), 10);
    }
}
