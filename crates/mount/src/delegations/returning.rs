//! Delegations on their way back.

use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use nfs4::{CbRecallArgs, DelegReturnArgs, FileHandle, NfsArgOp, NfsStatus};
use nfs4_client::ClientError;
use nfs4_client::operations::put_handle;

use super::Delegated;
use crate::core::Core;

/// How long the kernel may take to forget pages before the delegation goes back without: it may have locked them for an
/// answer of the server's.
const FORGETTING: Duration = Duration::from_secs(3);

/// How often a return is tried, and the first pause in between; each further one is twice as long.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

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
        let (client, clock) = (self.callers.mounter().clone(), self.clock.clone());
        let back = async move {
            let back = DelegReturnArgs { state_id: recall.state_id.newest() };
            let request = [put_handle(&recall.file_handle), NfsArgOp::DelegReturn(back)];
            let attempt = || async { client.compound(&request).await?.into_results().map(drop) };
            insist(&*clock, attempt).await;
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
            insist(&*self.clock, || client.close_file(state)).await;
        }
        insist(&*self.clock, || client.return_delegation(state)).await;
    }
}

/// Tries it until it is done, or refused for good. Doing it twice does no harm; if nothing helps, the server revokes it.
pub(super) async fn insist<F: Future<Output = Result<(), ClientError>>>(
    clock: &dyn Clock,
    attempt: impl Fn() -> F,
) {
    let mut pause = PAUSE;
    for _ in 0..TRIES {
        match attempt().await {
            Err(ClientError::Unknown | ClientError::Unreachable { .. } | ClientError::SessionLost) => {}
            Err(error) if error.asks_to_retry() => {}
            _ => return,
        }
        clock.sleep(pause).await;
        pause *= 2;
    }
}
