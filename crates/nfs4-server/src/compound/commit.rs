//! One transaction for the whole compound (decision D1).

use file_system::{CommitMode, FsError};

use super::Compound;
use crate::failure::Failure;

/// What the transaction of a compound has changed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    None,
    /// Data that may be lost until COMMIT, and nothing else.
    Unstable,
    Durable,
}

impl Compound<'_> {
    /// Commits the transaction, if there is one; from then on nothing can be taken back. Readers commit as well:
    /// only then do their answers belong together, and last.
    pub(crate) async fn commit(&mut self) -> Result<(), Failure> {
        if let Some((_, transaction)) = self.transaction.take() {
            let mode = match self.changes {
                Changes::Unstable => CommitMode::Visible,
                Changes::None | Changes::Durable => CommitMode::Durable,
            };
            if self.is_atomic() {
                environment::failpoint!("compound.before-commit");
            }
            match transaction.into_inner().commit(mode).await {
                Ok(()) => {}
                Err(FsError::Conflict) => return Err(Failure::Conflict),
                Err(error) => return Err(error.into()),
            }
        }
        if self.is_atomic() {
            environment::failpoint!("compound.after-commit");
        }
        self.close_all();
        if !self.undo.is_empty() {
            self.undo.keep();
            let now = self.server.now();
            self.server.state.lock().offer_changed_locks(now);
        }
        self.changing.end();
        self.offloads.drain(..).for_each(|job| self.server.offloads.begin(job));
        self.changes = Changes::None;
        self.copying = None;
        Ok(())
    }

    /// Drops the transaction and takes back what was done to the state since the last commit.
    pub(crate) fn roll_back(&mut self) {
        self.transaction = None;
        self.closing.clear();
        self.offloads.clear();
        self.changes = Changes::None;
        self.copying = None;
        if !self.undo.is_empty() {
            self.server.state.lock().roll_back(&mut self.undo);
        }
        self.changing.end();
    }
}
