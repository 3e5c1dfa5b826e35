use std::collections::VecDeque;

use crate::walk::{Step, Walk};
use crate::{JournalError, Lsn, RecoveredRecord};

/// The records that the journal held when it was opened, oldest first; an iterator.
///
/// It may begin with records that had been released, because space is released in whole segments. Read it to
/// its end before anything is appended or any recovered payload is read: it checks on its way that nothing is
/// missing. An error means that nothing may be appended; nothing has been changed.
pub struct Recovery {
    pub(crate) segments: VecDeque<Walk>,
    pub(crate) ready: VecDeque<RecoveredRecord>,
    pub(crate) next_lsn: Lsn,
}

impl Recovery {
    /// The number that the next record will get.
    pub fn next_lsn(&self) -> Lsn {
        self.next_lsn
    }
}

impl Iterator for Recovery {
    type Item = Result<RecoveredRecord, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(record));
            }
            match self.segments.front_mut()?.step() {
                Ok(Step::Batch { records, .. }) => self.ready.extend(records),
                Ok(Step::Run) => {}
                Ok(Step::End) => {
                    let next = self.segments.pop_front().map(|walk| walk.next_lsn);
                    if let (Some(next), Some(walk)) = (next, self.segments.front())
                        && next != walk.next_lsn
                    {
                        let damaged = walk.damaged("the records that come before this segment");
                        self.segments.clear();
                        return Some(Err(damaged));
                    }
                }
                Ok(Step::Invalid | Step::Continues) => {
                    let damaged = self.segments.front().map(|walk| walk.damaged("a batch of records"));
                    self.segments.clear();
                    return damaged.map(Err);
                }
                Err(error) => {
                    self.segments.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
