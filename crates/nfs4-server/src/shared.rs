//! What all requests of a server share.

use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, Environment};
use nfs4::{ClientId, NfsStatus, OwnerName};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::exports::ExportTable;
use crate::failure::Failure;
use crate::file_handle::HandleKey;
use crate::metrics::Metrics;
use crate::minor0::Duplicates;
use crate::refusals::Refusals;
use crate::state::{Refusal, State};
use crate::{ClientRecords, Limits};

/// One per server; requests hold it by reference.
pub(crate) struct Shared {
    pub exports: ExportTable,
    pub handles: HandleKey,
    pub records: Arc<dyn ClientRecords>,
    pub environment: Environment,
    pub server_id: OwnerName,
    pub lease: Duration,
    pub limits: Limits,
    /// Held for microseconds, never across an await.
    pub state: Mutex<State>,
    pub metrics: Metrics,
    pub refusals: Refusals,
    /// One permit for each compound that may copy now.
    pub copies: Semaphore,
    /// Replies to clients of 4.0.
    pub duplicates: Duplicates,
}

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

    /// Forgets an expired client, its durable record first: after a restart it must not reclaim what somebody
    /// else is about to get (RFC 8881 §8.4.3). Never to be called with a transaction open: the records may wait
    /// for it.
    pub async fn evict(&self, client: ClientId) -> Result<(), NfsStatus> {
        let record = self.state.lock().record_of(client);
        if let Some(owner) = &record {
            self.records.remove(owner).await.map_err(records_failed)?;
        }
        let now = self.now();
        let forgotten = self.state.lock().forget(client, now);
        // It came back at the last moment and keeps everything.
        if let (false, Some(owner)) = (forgotten, &record) {
            self.records.put(owner).await.map_err(records_failed)?;
        }
        Ok(())
    }

    /// Housekeeping: ends the grace period, forgets clients that were silent for too long. To be called every
    /// few seconds.
    pub async fn tick(&self) -> Result<(), NfsStatus> {
        let now = self.now();
        let (late, overdue) = {
            let state = self.state.lock();
            (state.late_reclaimers(now), state.overdue(now))
        };
        if let Some(late) = late {
            for owner in &late {
                self.records.remove(owner).await.map_err(records_failed)?;
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
