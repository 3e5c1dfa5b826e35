//! Keeping the durable records of clients in step with the state.

use std::sync::Arc;
use std::time::Duration;

use nfs4::{ClientId, NfsStatus};
use tokio::sync::{Mutex, MutexGuard};
use twox_hash::XxHash3_64;

use crate::RecordsError;
use crate::shared::{Shared, records_failed};
use crate::state::State;

/// How long a record stays when its client holds nothing any more: who opens and closes files all the time does not write it each
/// time.
pub(crate) const REST: Duration = Duration::from_secs(5);

/// Records that change at the same time.
const TURNS: usize = 64;

/// One change of a record after the other: what is written last was decided last. Some owners share a turn.
#[derive(Debug)]
pub(crate) struct Turns([Mutex<()>; TURNS]);

impl Turns {
    pub fn new() -> Turns {
        Turns(std::array::from_fn(|_| Mutex::default()))
    }

    /// Waits for the turn of an owner. Nobody waits for a second one, nor with a transaction open.
    pub async fn of(&self, owner: &[u8]) -> MutexGuard<'_, ()> {
        self.0[XxHash3_64::oneshot(owner) as usize % TURNS].lock().await
    }
}

/// All that is never to be called with a transaction open: the records may wait for it.
impl Shared {
    /// Makes sure that the client has a record, if it is there and may have one (RFC 8881 §8.4.2.1).
    pub async fn record(&self, client: ClientId) -> Result<(), NfsStatus> {
        let Some(owner) = self.state.lock().missing_record(client) else { return Ok(()) };
        let _turn = self.records_in_turn.of(&owner).await;
        self.write_record(client).await.map_err(records_failed)
    }

    /// [`Shared::record`] of who has the turn.
    pub async fn write_record(&self, client: ClientId) -> Result<(), RecordsError> {
        let now = self.now();
        let owner = {
            let mut state = self.state.lock();
            // It may have been written since, or its client may be gone.
            let Some(owner) = state.missing_record(client) else { return Ok(()) };
            state.begin_record(&owner, now);
            owner
        };
        environment::failpoint!("clients.before-record");
        self.records.put(&owner).await?;
        self.state.lock().recorded(&owner);
        Ok(())
    }

    /// For who has the turn: removes a record, if there is one and it is `right` to. Says whether it did.
    pub async fn remove_record(
        &self,
        owner: &Arc<[u8]>,
        right: impl FnOnce(&State) -> bool,
    ) -> Result<bool, RecordsError> {
        {
            let mut state = self.state.lock();
            if !state.may_have_record(owner) || !right(&state) {
                return Ok(false);
            }
            state.begin_removal(owner);
        }
        self.records.remove(owner).await?;
        self.state.lock().removed(owner);
        Ok(true)
    }

    /// Writes the records that are needed and not there, and removes those that nobody needs. To be called every few seconds.
    pub async fn review_records(&self) -> Result<(), NfsStatus> {
        let now = self.now();
        let (unprotected, unused) = {
            let mut state = self.state.lock();
            (state.review_records(now), state.unused_records(REST, now))
        };
        for client in unprotected {
            self.record(client).await?;
        }
        for owner in unused {
            self.remove_unused_record(&owner, REST).await?;
        }
        Ok(())
    }

    /// Removes a record that has been of no use for `idle`.
    pub async fn remove_unused_record(&self, owner: &Arc<[u8]>, idle: Duration) -> Result<(), NfsStatus> {
        let _turn = self.records_in_turn.of(owner).await;
        let now = self.now();
        let right = |state: &State| state.is_unused_record(owner, idle, now);
        self.remove_record(owner, right).await.map(drop).map_err(records_failed)
    }

    /// Removes the record of a client that did not come back in the grace period.
    pub async fn remove_late_record(&self, owner: &Arc<[u8]>) -> Result<(), NfsStatus> {
        let _turn = self.records_in_turn.of(owner).await;
        self.remove_record(owner, |state| state.is_late(owner)).await.map(drop).map_err(records_failed)
    }

    /// Forgets an expired client, its record first: after a restart it must not reclaim what somebody else is about to get
    /// (RFC 8881 §8.4.3).
    pub async fn evict(&self, client: ClientId) -> Result<(), NfsStatus> {
        let owner = self.state.lock().record_of(client);
        let Some(owner) = owner else {
            let now = self.now();
            self.state.lock().forget(client, now);
            return Ok(());
        };
        let _turn = self.records_in_turn.of(&owner).await;
        let now = self.now();
        let right = |state: &State| state.record_of(client).is_some() && state.is_expired(client, now);
        let removed = self.remove_record(&owner, right).await.map_err(records_failed)?;
        let now = self.now();
        let came_back = {
            let mut state = self.state.lock();
            !state.forget(client, now) && state.is_unprotected(client)
        };
        if removed && came_back {
            self.write_record(client).await.map_err(records_failed)?;
        }
        Ok(())
    }

    /// Revokes the delegations for writing that a client did not return in time, its record first: after a restart it must
    /// not reclaim them.
    pub async fn revoke_writer(&self, client: ClientId) -> Result<(), NfsStatus> {
        let Some(owner) = self.state.lock().record_of(client) else { return Ok(()) };
        let _turn = self.records_in_turn.of(&owner).await;
        let right = |state: &State| state.record_of(client).is_some();
        let removed = self.remove_record(&owner, right).await.map_err(records_failed)?;
        let now = self.now();
        let (revoked, returned) = {
            let mut state = self.state.lock();
            (state.revoke_writer(client, now), state.is_unprotected(client))
        };
        if revoked > 0 {
            tracing::warn!(revoked, "{}", crate::shared::REVOKED);
        } else if removed && returned {
            // It returned them at the last moment.
            self.write_record(client).await.map_err(records_failed)?;
        }
        Ok(())
    }
}
