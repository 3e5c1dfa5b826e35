//! Delegations on their way back.

use std::sync::Arc;
use std::time::Duration;

use nfs4::{CbRecallArgs, FileHandle, NfsStatus};

use super::Delegated;
use crate::core::Core;

/// How long the kernel may take to forget pages before the delegation goes back without: it may have locked them for an
/// answer of the server's.
const FORGETTING: Duration = Duration::from_secs(3);

impl Core {
    /// The server wants a delegation back (CB_RECALL).
    pub fn recall(self: &Arc<Core>, recall: CbRecallArgs) -> NfsStatus {
        if let Some(delegated) = self.delegations.recalled(&recall) {
            self.let_go(delegated, true);
            return NfsStatus::Ok;
        }
        let Ok(permit) = self.delegations.returning.clone().try_acquire_owned() else {
            return NfsStatus::Delay;
        };
        let client = self.callers.mounter().clone();
        let back = async move {
            client.bring_back_early(&recall.file_handle, recall.state_id).await;
            drop(permit);
        };
        self.tasks.spawn_on(back, &self.runtime);
        NfsStatus::Ok
    }

    /// Keeps only so many (CB_RECALL_ANY).
    pub fn keep_delegations(self: &Arc<Core>, most: usize) {
        self.delegations.all_but(most).iter().for_each(|held| self.give_back_later(held));
    }

    /// Gives back what nobody uses.
    pub fn give_back_idle(self: &Arc<Core>) {
        let idle = self.delegations.idle(self.clock.monotonic());
        idle.iter().for_each(|held| self.give_back_later(held));
    }

    /// The kernel knows the file no more.
    pub fn give_back_of(self: &Arc<Core>, handle: &FileHandle) {
        if let Some(held) = self.delegations.find(handle) {
            self.give_back_later(&held);
        }
    }

    /// Closes every file that only its delegation keeps open; returns when that is done. Whether there were any.
    pub async fn give_back_unused(self: &Arc<Core>) -> bool {
        let mut held = self.delegations.all_but(0);
        held.retain(|held| held.inner.lock().users == 0 && self.delegations.remove(held));
        for held in &held {
            let is_unused = held.end();
            self.bring_back(held, is_unused).await;
        }
        !held.is_empty()
    }

    pub(super) fn give_back_later(self: &Arc<Core>, delegated: &Arc<Delegated>) {
        if self.delegations.remove(delegated) {
            self.let_go(delegated.clone(), false);
        }
    }

    /// Gives back what is in the table no more. `forgets`: somebody is about to change the file.
    pub(super) fn let_go(self: &Arc<Core>, delegated: Arc<Delegated>, forgets: bool) {
        let is_unused = delegated.end();
        let core = self.clone();
        let back = async move {
            if forgets {
                let forgetting = core.forget_pages_now(&delegated.inode, None);
                if tokio::time::timeout(FORGETTING, forgetting).await.is_err() {
                    tracing::debug!(inode = delegated.inode.number, "the kernel forgets no pages in time");
                }
            }
            core.bring_back(&delegated, is_unused).await;
        };
        self.tasks.spawn_on(back, &self.runtime);
    }

    /// Closed first: whoever forbids to read the file finds it open otherwise.
    async fn bring_back(&self, delegated: &Delegated, is_unused: bool) {
        let Delegated { client, state, .. } = delegated;
        if is_unused {
            client.insist(|| client.close_file(state)).await;
        }
        client.bring_back(state).await;
    }
}
