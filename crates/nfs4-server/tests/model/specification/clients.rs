//! Clients and their leases (§18.35, §18.36, §18.50, §18.51).

use std::time::Duration;

use nfs4::{ClientId, NfsStatus};

use super::{Specification, Verdict};
use crate::world::LEASE;

#[derive(Debug)]
pub struct Client {
    pub id: ClientId,
    pub owner: Vec<u8>,
    /// Unlike that of any other start of the client.
    pub boot: u8,
    pub user: u32,
    pub confirmed: bool,
    pub renewed: Duration,
    pub reclaim_complete: bool,
    /// A delegation for writing was revoked, and the client has not taken notice: after a restart it must not reclaim.
    pub barred: bool,
    /// Of the newest CREATE_SESSION that was granted.
    pub created: u32,
    /// Its result.
    pub result: Option<super::CreatedSession>,
}

/// Who says EXCHANGE_ID.
#[derive(Clone, Debug)]
pub struct Presented<'a> {
    pub owner: &'a [u8],
    pub boot: u8,
    pub user: u32,
    pub update: bool,
}

impl Specification {
    /// The confirmed incarnation of an owner (or the other one).
    pub fn incarnation(&self, owner: &[u8], confirmed: bool) -> Option<&Client> {
        self.clients.values().find(|client| client.confirmed == confirmed && client.owner == owner)
    }

    pub fn is_expired(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| self.now > client.renewed + LEASE)
    }

    /// Whether the client has anything that others could want.
    pub fn holds_something(&self, id: ClientId) -> bool {
        self.opens.values().any(|open| open.client == id)
            || self.locks.states.values().any(|lock| lock.client == id)
            || self.delegations.values().any(|held| held.client == id && !held.revoked)
    }

    fn has_sessions(&self, id: ClientId) -> bool {
        self.sessions.values().any(|session| session.client == id)
    }

    /// EXCHANGE_ID (§18.35.4).
    pub fn judge_exchange(&self, who: &Presented<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        let known = self.incarnation(who.owner, true);
        match known {
            None if who.update => verdict.refuse(NfsStatus::NoEnt),
            Some(known) if who.update => {
                if known.boot != who.boot {
                    verdict.refuse(NfsStatus::NotSame);
                }
                if known.user != who.user {
                    verdict.refuse(NfsStatus::Perm);
                }
            }
            Some(known) if known.user != who.user => {
                if self.is_expired(known.id) {
                    verdict.in_the_way.insert(known.id);
                } else if self.holds_something(known.id) || self.has_sessions(known.id) {
                    verdict.refuse(NfsStatus::ClidInUse);
                }
            }
            _ => {}
        }
        verdict
    }

    /// EXCHANGE_ID was granted. Returns whether it is one that was known and confirmed before.
    pub fn exchange(&mut self, who: &Presented<'_>, id: ClientId) -> Result<&Client, String> {
        let known = self.incarnation(who.owner, true).map(|known| (known.id, known.boot, known.user));
        let waiting = self.incarnation(who.owner, false).map(|client| client.id);
        if !who.update
            && let Some(waiting) = waiting
        {
            self.drop_client(waiting);
        }
        match known {
            Some((known, boot, user)) if boot == who.boot && user == who.user => {
                if known != id {
                    return Err(format!("the client is {known:?} and was told {id:?}"));
                }
            }
            _ if self.clients.contains_key(&id) => return Err(format!("{id:?} is somebody else")),
            known => {
                if let Some((former, _, user)) = known
                    && user != who.user
                {
                    self.drop_client(former);
                }
                let client = Client {
                    id,
                    owner: who.owner.to_vec(),
                    boot: who.boot,
                    user: who.user,
                    confirmed: false,
                    renewed: self.now,
                    reclaim_complete: false,
                    barred: false,
                    created: 0,
                    result: None,
                };
                self.clients.insert(id, client);
            }
        }
        Ok(&self.clients[&id])
    }

    /// DESTROY_CLIENTID (§18.50).
    pub fn judge_destroy_client(&self, id: ClientId, user: u32) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(client) = self.clients.get(&id) else { return Verdict::refused(NfsStatus::StaleClientId) };
        if client.user != user {
            verdict.refuse(NfsStatus::WrongCred);
        }
        if self.has_sessions(id) || self.holds_something(id) {
            verdict.refuse(NfsStatus::ClientIdBusy);
        }
        verdict
    }

    pub fn destroy_client(&mut self, id: ClientId) {
        let client = &self.clients[&id];
        if client.confirmed {
            let owner = client.owner.clone();
            self.records.remove(&owner);
            self.done_with_grace(&owner);
        }
        self.drop_client(id);
    }

    /// RECLAIM_COMPLETE (§18.51).
    pub(super) fn judge_reclaim_complete(&self, id: ClientId) -> Verdict {
        match self.clients[&id].reclaim_complete {
            true => Verdict::refused(NfsStatus::CompleteAlready),
            false => Verdict::default(),
        }
    }

    pub(super) fn reclaim_complete(&mut self, id: ClientId) {
        let client = self.clients.get_mut(&id).expect("it has a session");
        client.reclaim_complete = true;
        let owner = client.owner.clone();
        if self.holds_something(id) {
            self.protect(id);
        }
        self.done_with_grace(&owner);
    }

    /// Whether the client may ask for old state, or for new (§8.4.2.1, §18.51.3).
    pub(super) fn judge_claim(&self, id: ClientId, reclaim: bool, verdict: &mut Verdict) {
        let client = &self.clients[&id];
        if reclaim {
            if client.reclaim_complete || !self.may_reclaim(&client.owner) {
                verdict.refuse(NfsStatus::NoGrace);
            }
        } else if self.grace.is_some() || !client.reclaim_complete {
            verdict.refuse(NfsStatus::Grace);
        }
    }
}
