//! Which clients have durable records, by which they may reclaim after a restart (RFC 8881 §8.4.2.1, §8.4.3).
//!
//! A client has one as long as it holds something, and for a short time after that: a restart waits for nobody who has
//! nothing to reclaim. It is written before the client gets what it could reclaim ([`Refusal::Unrecorded`]), and removed before others get what it held. Whoever changes a
//! record has the turn of its owner ([`crate::recording::Turns`]).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use nfs4::{ClientId, NfsStatus, StateId};

use super::client::Client;
use super::{Refusal, State};

#[derive(Debug)]
struct Record {
    /// Otherwise it is being written or removed, or that has failed.
    is_durable: bool,
    /// When its client last held something, or was about to.
    used: Duration,
}

/// By the owner ids of clients. Who is not among them has none.
#[derive(Debug)]
pub(super) struct Records(HashMap<Arc<[u8]>, Record>);

impl Records {
    /// Those that were there at the start.
    pub fn new(known: &[Arc<[u8]>], now: Duration) -> Records {
        Records(known.iter().map(|owner| (owner.clone(), Record { is_durable: true, used: now })).collect())
    }

    pub fn is_durable(&self, owner: &[u8]) -> bool {
        self.0.get(owner).is_some_and(|record| record.is_durable)
    }
}

impl State {
    /// The owner whose record is that of this client; `None` for an incarnation that was never confirmed, so that it does not
    /// take the record of the confirmed one with it.
    pub fn record_of(&self, id: ClientId) -> Option<Arc<[u8]>> {
        self.clients.get(&id).filter(|client| client.confirmed).map(|client| client.owner.clone())
    }

    /// The owner whose record has to be durable before the client gets anything; `None` if it is, or must not be.
    pub fn missing_record(&self, id: ClientId) -> Option<Arc<[u8]>> {
        self.clients
            .get(&id)
            .filter(|client| client.confirmed && self.lacks_record(client))
            .map(|client| client.owner.clone())
    }

    pub(super) fn lacks_record(&self, client: &Client) -> bool {
        !client.barred && !self.records.is_durable(&client.owner)
    }

    /// Whether the client holds something that it could not reclaim after a restart.
    pub fn is_unprotected(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| !client.holds_nothing() && self.lacks_record(client))
    }

    /// Whether there is, or may be, a record of this owner.
    pub fn may_have_record(&self, owner: &[u8]) -> bool {
        self.records.0.contains_key(owner)
    }

    /// The record is about to be written.
    pub fn begin_record(&mut self, owner: &Arc<[u8]>, now: Duration) {
        self.records.0.insert(owner.clone(), Record { is_durable: false, used: now });
    }

    /// The record is durable.
    pub fn recorded(&mut self, owner: &[u8]) {
        if let Some(record) = self.records.0.get_mut(owner) {
            record.is_durable = true;
        }
    }

    /// The record is about to be removed: from now on its client gets nothing without a new one.
    pub fn begin_removal(&mut self, owner: &[u8]) {
        if let Some(record) = self.records.0.get_mut(owner) {
            record.is_durable = false;
        }
    }

    /// The record is durably gone.
    pub fn removed(&mut self, owner: &[u8]) {
        self.records.0.remove(owner);
    }

    /// The client gets something.
    pub(super) fn use_record(&mut self, id: ClientId, now: Duration) {
        if let Some(client) = self.clients.get(&id)
            && let Some(record) = self.records.0.get_mut(&client.owner)
        {
            record.used = now;
        }
    }

    /// Notes whose records are of use now. Returns clients that hold something without one, as when it could not be written:
    /// they need it.
    pub fn review_records(&mut self, now: Duration) -> Vec<ClientId> {
        let mut unprotected = Vec::new();
        for client in self.clients.values().filter(|client| client.confirmed && !client.holds_nothing()) {
            let record = self.records.0.get_mut(&client.owner);
            let is_durable = record.is_some_and(|record| {
                record.used = now;
                record.is_durable
            });
            // Who has not reclaimed everything when the grace period ends is not to try again after the next restart.
            let has_reclaimed = client.reclaim_complete || client.minor0;
            if !is_durable && has_reclaimed && !client.barred {
                unprotected.push(client.id);
            }
        }
        unprotected
    }

    /// Owners with a record that has been of no use for `idle`.
    pub fn unused_records(&self, idle: Duration, now: Duration) -> Vec<Arc<[u8]>> {
        let holders = self.clients.values().filter(|client| client.confirmed && !client.holds_nothing());
        let holders: HashSet<&[u8]> = holders.map(|client| &client.owner[..]).collect();
        let records = self.records.0.iter();
        let unused = records.filter(|(owner, record)| {
            now >= record.used + idle && !holders.contains(&owner[..]) && !self.grace.may_reclaim(owner)
        });
        unused.map(|(owner, _)| owner.clone()).collect()
    }

    /// The same of one owner.
    pub fn is_unused_record(&self, owner: &[u8], idle: Duration, now: Duration) -> bool {
        let mut holders = self.clients.values().filter(|client| client.confirmed && !client.holds_nothing());
        self.records.0.get(owner).is_some_and(|record| now >= record.used + idle)
            && !self.grace.may_reclaim(owner)
            && holders.all(|client| *client.owner != *owner)
    }

    /// The client frees what `id` names. When that is the last delegation of it that was revoked, it has taken notice of
    /// all, will reclaim none of it, and may have a record again, which comes first.
    pub fn take_notice(&mut self, id: ClientId, freed: &StateId) -> Result<(), Refusal> {
        let is_revoked = self.test_state_id(id, freed) == NfsStatus::DelegRevoked;
        let client = self.client_mut(id)?;
        if client.revoked != 1 || !is_revoked {
            return Ok(());
        }
        client.barred = false;
        let client = self.client(id)?;
        let needs_record = match client.reclaim_complete {
            true => !client.holds_nothing(),
            false => self.grace.may_reclaim(&client.owner),
        };
        if needs_record && self.lacks_record(client) { Err(Refusal::Unrecorded(id)) } else { Ok(()) }
    }
}
