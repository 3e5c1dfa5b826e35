//! What all requests of a server share.

use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, Environment};
use nfs4::{ClientId, NfsStatus, OwnerName};
use parking_lot::Mutex;

use crate::exports::ExportTable;
use crate::file_handle::HandleKey;
use crate::metrics::Metrics;
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
}

/// How long a compound waits for an expired client to be forgotten.
const EVICTION_LIMIT: Duration = Duration::from_secs(1);

impl Shared {
    /// Monotonic time, as the state wants it.
    pub fn now(&self) -> Duration {
        Clock::monotonic(&*self.environment.clock)
    }

    /// Runs `attempt` on the state; whenever an expired client is in its way, forgets that client and tries
    /// again, a bounded number of times.
    pub async fn with_state<T>(
        &self,
        mut attempt: impl FnMut(&mut State, Duration) -> Result<T, Refusal>,
    ) -> Result<T, NfsStatus> {
        const EVICTIONS: usize = 64;
        for _ in 0..EVICTIONS {
            let now = self.now();
            let result = attempt(&mut self.state.lock(), now);
            match result {
                Ok(value) => return Ok(value),
                Err(Refusal::Status(status)) => return Err(status),
                // The compound may hold an exclusive transaction, which the change of the records would wait for:
                // then it has to end first, and finds the way clear when it comes again.
                Err(Refusal::Expired(client)) => tokio::select! {
                    evicted = self.evict(client) => evicted?,
                    () = self.environment.clock.sleep(EVICTION_LIMIT) => return Err(NfsStatus::Delay),
                },
            }
        }
        Err(NfsStatus::Delay)
    }

    /// Forgets an expired client, its durable record first: after a restart it must not reclaim what somebody
    /// else is about to get (RFC 8881 §8.4.3).
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
        if !late.is_empty() {
            for owner in &late {
                self.records.remove(owner).await.map_err(records_failed)?;
            }
            tracing::info!(clients = late.len(), "grace period over; these clients did not come back");
            self.state.lock().end_grace();
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
