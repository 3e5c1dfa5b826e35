//! The end of clients: leases that ran out (RFC 8881 §8.3, §8.4.3).
//!
//! An expired client keeps what it has, its sessions and a place among the clients too, until somebody else wants
//! that, or for the courtesy time; it then loses everything at once, and finds out by `NFS4ERR_BADSESSION`.

use std::sync::Arc;
use std::time::Duration;

use nfs4::{ClientId, NfsStatus};

use super::client::Client;
use super::{Held, Refusal, State};

impl State {
    /// Clients to forget now.
    pub fn overdue(&self, now: Duration) -> Vec<ClientId> {
        let overdue = self.clients.values().filter(|client| {
            let keep = if client.confirmed { self.config.courtesy } else { Duration::ZERO };
            now > client.renewed + self.config.lease + keep && self.is_expired(client.id, now)
        });
        overdue.map(|client| client.id).collect()
    }

    /// Drops a client with everything it has, if its lease is still expired; says whether it is gone. Only after its record
    /// is durably gone: after a restart it must not reclaim what somebody else may have by then (RFC 8881 §8.4.3).
    pub fn forget(&mut self, id: ClientId, now: Duration) -> bool {
        let expired = self.is_expired(id, now);
        if expired {
            self.drop_client(id);
        }
        expired
    }

    /// Clients that the grace period has been waiting for too long; `None` while it lasts or when it is over. See
    /// [`State::end_grace`].
    pub fn late_reclaimers(&self, now: Duration) -> Option<Vec<Arc<[u8]>>> {
        self.grace.is_over_due(now)
    }

    /// Whether this is one of them.
    pub fn is_late(&self, owner: &[u8]) -> bool {
        self.grace.is_waiting_for(owner)
    }

    /// Ends the grace period. Only after the records of [`State::late_reclaimers`] are durably gone.
    pub fn end_grace(&mut self) {
        self.grace.end();
    }

    /// Why something is not granted for which there is no room: an expired client that holds state makes some.
    pub(super) fn no_room(&self, now: Duration) -> Refusal {
        match self.longest_expired(now, |client| !client.holds_nothing()) {
            Some(client) => Refusal::Expired(client),
            None => NfsStatus::Delay.into(),
        }
    }

    /// The expired client that has been silent for the longest time among those that `choose` chooses.
    pub(super) fn longest_expired(
        &self,
        now: Duration,
        choose: impl Fn(&Client) -> bool,
    ) -> Option<ClientId> {
        let expired =
            self.clients.values().filter(|client| choose(client) && self.is_expired(client.id, now));
        expired.min_by_key(|client| (client.renewed, client.id)).map(|client| client.id)
    }

    pub(super) fn drop_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else { return };
        let (sessions, held) = (client.sessions.clone(), client.held.clone());
        sessions.into_iter().for_each(|session| self.drop_session(session));
        for other in held {
            match self.held.get(&other) {
                Some(Held::Open(_)) => self.drop_open(&other),
                Some(Held::Delegation(_)) => drop(self.drop_delegation(&other)),
                // Goes with its open.
                Some(Held::Lock(_)) | None => {}
            }
        }
        self.drop_offloads(id);
        self.end_path(id);
        self.clients.remove(&id);
        self.minor0.forget(id);
    }
}
