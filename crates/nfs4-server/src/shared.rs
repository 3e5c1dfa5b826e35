//! What all requests of a server share.

use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, Environment};
use file_system::FileId;
use nfs4::{NfsStatus, OwnerName};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::exports::ExportTable;
use crate::failure::Failure;
use crate::file_handle::HandleKey;
use crate::metrics::Metrics;
use crate::minor0::Duplicates;
use crate::offloads::Offloads;
use crate::owner_names::OwnerNames;
use crate::recording::Turns;
use crate::refusals::Refusals;
use crate::state::{Question, Refusal, Signals, State};
use crate::{ClientRecords, Limits};

/// How long a request waits for delegations that are in its way, before its client is told to come again: a client
/// that is well returns them within milliseconds, and the one that waits asks again after a tenth of a second or more.
const RETURN_PATIENCE: Duration = Duration::from_millis(100);

/// How long a request waits for what holders of delegations say, before those are taken for unable to: longer than for a
/// return, because the delegation is recalled then.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// One per server; requests hold it by reference.
pub(crate) struct Shared {
    pub exports: ExportTable,
    pub handles: HandleKey,
    /// What users and groups are called.
    pub owners: OwnerNames,
    pub records: Arc<dyn ClientRecords>,
    pub records_in_turn: Turns,
    pub environment: Environment,
    pub server_id: OwnerName,
    pub lease: Duration,
    pub limits: Limits,
    /// Held for microseconds, never across an await.
    pub state: Arc<Mutex<State>>,
    /// What the state wakes.
    pub signals: Arc<Signals>,
    /// One permit for each request that may wait for the return of a delegation.
    pub waiting_for_returns: Semaphore,
    pub metrics: Metrics,
    pub refusals: Refusals,
    /// One permit for each compound that may copy now.
    pub copies: Semaphore,
    /// Copies that go on by themselves.
    pub offloads: Offloads,
    /// Replies to clients of 4.0.
    pub duplicates: Duplicates,
}

pub(crate) const REVOKED: &str = "delegations were not returned for a whole lease and count no more";

impl Shared {
    /// Monotonic time, as the state wants it.
    pub fn now(&self) -> Duration {
        Clock::monotonic(&*self.environment.clock)
    }

    /// Runs `attempt` on the state, now.
    pub fn with_state<T>(
        &self,
        attempt: impl FnOnce(&mut State, Duration) -> Result<T, Refusal>,
    ) -> Result<T, Failure> {
        let now = self.now();
        Ok(attempt(&mut self.state.lock(), now)?)
    }

    /// Waits until all these questions have ended, together with not too many others; says whether they have. Those that
    /// are not answered within a time count as ended. Never to be called with a transaction open.
    pub async fn answered(&self, questions: &[Question]) -> bool {
        if questions.is_empty() {
            return true;
        }
        let Ok(_permit) = self.waiting_for_returns.try_acquire() else { return false };
        let ended = async {
            loop {
                let mut answered = std::pin::pin!(self.signals.answered.notified());
                answered.as_mut().enable();
                let all = {
                    let state = self.state.lock();
                    questions.iter().all(|question| state.has_ended(question))
                };
                if all {
                    return;
                }
                answered.await;
            }
        };
        tokio::select! {
            biased;
            () = ended => {}
            () = self.environment.clock.sleep(ANSWER_PATIENCE) => {
                let mut state = self.state.lock();
                questions.iter().for_each(|question| state.not_answered(&question.delegation, question.number));
            }
        }
        true
    }

    /// Waits for the return of the delegations of these files that were recalled, for a short time and together with not
    /// too many others; says whether they are gone. Never to be called with a transaction open.
    pub async fn returned(&self, files: &[FileId]) -> bool {
        if files.is_empty() {
            return true;
        }
        let Ok(_permit) = self.waiting_for_returns.try_acquire() else { return false };
        self.metrics.wait_for_return();
        let gone = async {
            loop {
                let mut returned = std::pin::pin!(self.signals.returned.notified());
                returned.as_mut().enable();
                let recalled = {
                    let state = self.state.lock();
                    files.iter().any(|file| state.is_being_recalled(*file))
                };
                if !recalled {
                    return;
                }
                returned.await;
            }
        };
        tokio::select! {
            biased;
            () = gone => true,
            () = self.environment.clock.sleep(RETURN_PATIENCE) => false,
        }
    }

    /// Housekeeping: ends the grace period, revokes delegations, forgets clients that were silent for too long, and lets locks
    /// go to the next who waits. To be called every few seconds.
    pub async fn tick(&self) -> Result<(), NfsStatus> {
        let now = self.now();
        let (late, overdue, revoked) = {
            let mut state = self.state.lock();
            state.offer_all_locks(now);
            state.look_after_paths(now);
            (state.late_reclaimers(now), state.overdue(now), state.revoke_overdue(now))
        };
        if revoked > 0 {
            tracing::warn!(revoked, "{REVOKED}");
        }
        let writers = self.state.lock().overdue_writers(now);
        for client in writers {
            self.revoke_writer(client).await?;
        }
        if let Some(late) = late {
            for owner in &late {
                self.remove_late_record(owner).await?;
            }
            tracing::info!(clients = late.len(), "grace period over; these clients did not come back");
            self.state.lock().end_grace();
        }
        if !self.state.lock().census().in_grace {
            // Whoever had a removed file open has reclaimed it by now (§18.16.3).
            let exports = self.exports.all();
            exports.as_slice().iter().for_each(|export| export.file_system.end_of_claims());
        }
        for client in overdue {
            self.evict(client).await?;
        }
        Ok(())
    }
}

/// Without its records the server must not give out state: the client is asked to come again.
pub(crate) fn records_failed(error: crate::RecordsError) -> NfsStatus {
    tracing::error!(%error, "client records cannot be changed");
    NfsStatus::Delay
}
