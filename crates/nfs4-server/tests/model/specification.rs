//! What the RFC says of clients, sessions, opens, locks and delegations, in the plainest form there is.
//!
//! An operation is judged first ([`Specification::judge`]), which changes nothing, and done when the server has granted
//! it ([`Specification::grant`]). Where the RFC leaves a choice to the server (which ids it gives, whether it delegates),
//! the server is followed as long as nothing speaks against its choice.

mod clients;
mod delegations;
mod grant;
mod judge;
mod locks;
mod opens;
mod records;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nfs4::{ClientId, NfsStatus, SessionId, StateId};

pub use clients::{Client, Presented};
pub use delegations::Delegation;
pub use judge::Verdict;
pub use locks::{BYTES, LockState, Locks};
pub use opens::Open;
pub use records::Records;
pub use sessions::{CreatedSession, Session};

use crate::world::{COURTESY, LEASE};

/// What state ids have in common that name the same state.
pub type Other = [u8; 12];

/// The number of a file.
pub type File = usize;

#[derive(Default)]
pub struct Specification {
    pub now: Duration,
    pub clients: BTreeMap<ClientId, Client>,
    pub sessions: BTreeMap<SessionId, Session>,
    pub opens: BTreeMap<Other, Open>,
    pub locks: Locks,
    pub delegations: BTreeMap<Other, Delegation>,
    /// Owner ids of clients that may reclaim after a restart.
    pub records: Records,
    pub grace: Option<Grace>,
}

/// The grace period (§8.4.2).
pub struct Grace {
    /// It lasts so long at least, and so long at most.
    earliest: Duration,
    latest: Duration,
    /// Who may reclaim.
    waiting: BTreeSet<Vec<u8>>,
}

/// Time that went by, and what it brought.
#[derive(Default)]
pub struct Passed {
    pub revoked: usize,
    pub forgotten: usize,
}

impl Specification {
    /// The server ends and begins again: nothing is left but the records that are `there`. Says what is wrong with those.
    pub fn restart(&mut self, there: BTreeSet<Vec<u8>>) -> Result<(), String> {
        let (now, records) = (self.now, self.records_at_stop(&there)?);
        let grace = (!there.is_empty()).then(|| Grace {
            earliest: now + LEASE,
            latest: now + 2 * LEASE,
            waiting: there,
        });
        *self = Specification { now, records, grace, ..Specification::default() };
        Ok(())
    }

    /// Time goes by; the server looks at its leases. `graceful`: it has put off the end of the grace period, if it
    /// may, for somebody who reclaims.
    pub fn pass(&mut self, time: Duration, graceful: bool) -> Passed {
        self.now += time;
        let before = self.holders();
        let mut passed = Passed { revoked: self.revoke(), forgotten: 0 };
        if let Some(grace) =
            self.grace.take_if(|grace| self.now >= grace.latest || self.now >= grace.earliest && !graceful)
        {
            grace.waiting.iter().for_each(|owner| self.records.remove(owner));
        }
        let late = |client: &&Client| {
            let keep = if client.confirmed { COURTESY } else { Duration::ZERO };
            self.now > client.renewed + LEASE + keep
        };
        let late: Vec<ClientId> = self.clients.values().filter(late).map(|client| client.id).collect();
        for client in late {
            passed.forgotten += 1;
            self.forget(client);
        }
        let waiting = self.grace.as_ref().map_or(BTreeSet::new(), |grace| grace.waiting.clone());
        self.review_records(&waiting, &before);
        passed
    }

    /// The client is gone, and cannot reclaim what it had.
    pub fn forget(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get(&id)
            && client.confirmed
        {
            self.records.remove(&client.owner);
        }
        self.drop_client(id);
    }

    fn drop_client(&mut self, id: ClientId) {
        self.sessions.retain(|_, session| session.client != id);
        self.opens.retain(|_, open| open.client != id);
        self.locks.drop_client(id);
        self.delegations.retain(|_, held| held.client != id);
        self.clients.remove(&id);
    }

    /// Who has reclaimed everything, or is gone for good.
    fn done_with_grace(&mut self, owner: &[u8]) {
        if let Some(grace) = &mut self.grace {
            grace.waiting.remove(owner);
        }
        self.grace.take_if(|grace| grace.waiting.is_empty());
    }

    fn may_reclaim(&self, owner: &[u8]) -> bool {
        self.grace.as_ref().is_some_and(|grace| grace.waiting.contains(owner))
    }

    /// Expired clients that hold something of a file.
    pub fn expired_holders(&self, file: File) -> BTreeSet<ClientId> {
        let opens = self.opens.values().filter(|open| open.file == file).map(|open| open.client);
        let held = self.delegations.values().filter(|held| held.file == file).map(|held| held.client);
        // Who has locked a file has it open.
        opens.chain(held).filter(|client| self.is_expired(*client)).collect()
    }

    /// What a state id is to this client (§8.2.2, §8.2.4).
    fn named(&self, client: ClientId, id: &StateId) -> Result<Named<'_>, NfsStatus> {
        let (named, whose, newest) = if let Some(open) = self.opens.get(&id.other) {
            (Named::Open(open), open.client, open.seqid)
        } else if let Some(lock) = self.locks.states.get(&id.other) {
            (Named::Lock(lock), lock.client, lock.seqid)
        } else if let Some(held) = self.delegations.get(&id.other) {
            (Named::Delegation(held), held.client, held.seqid)
        } else {
            return Err(NfsStatus::BadStateId);
        };
        if whose != client || id.seqid > newest {
            return Err(NfsStatus::BadStateId);
        }
        if id.seqid != 0 && id.seqid < newest {
            return Err(NfsStatus::OldStateId);
        }
        match named {
            Named::Delegation(held) if held.revoked => Err(NfsStatus::DelegRevoked),
            named => Ok(named),
        }
    }

    /// Whether nothing has this name yet.
    fn is_new(&self, other: &Other) -> bool {
        !self.opens.contains_key(other)
            && !self.locks.states.contains_key(other)
            && !self.delegations.contains_key(other)
    }
}

enum Named<'a> {
    Open(&'a Open),
    Lock(&'a LockState),
    Delegation(&'a Delegation),
}
