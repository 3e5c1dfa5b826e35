//! What the state machine of 4.0 ([`crate::minor0`]) sees of the tables that all clients share: leases, and who holds
//! what. Opens, locks and their conflicts are those of every minor version.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use nfs4::{ClientId, NfsStatus, StateId, Verifier};

use super::client::Client;
use super::delegation::Delegation;
use super::state_ids::next_seqid;
use super::{Held, Other, Principal, Refusal, State};
use crate::Limits;
use crate::minor0::OwnerKind;

/// A client of 4.0, as one among all clients.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub principal: Principal,
    pub verifier: Verifier,
    pub confirmed: bool,
    pub expired: bool,
    /// Whether there is something that others could want.
    pub holds_something: bool,
    /// The key of its durable record.
    pub record: Arc<[u8]>,
}

/// Who holds what a state id names.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub client: ClientId,
    pub by: HolderKind,
}

/// What of a client holds it.
#[derive(Clone, Debug)]
pub(crate) enum HolderKind {
    /// An open or locks.
    Owner(OwnerKind, Arc<[u8]>),
    /// A delegation, that came with an OPEN of this user.
    Delegated(Principal),
}

impl State {
    /// The confirmed incarnation of a client of 4.0, and the one that waits for its confirmation.
    pub fn incarnations_of_minor0(&self, record: &[u8]) -> (Option<ClientId>, Option<ClientId>) {
        let find = |confirmed| {
            let mut clients = self.clients.values();
            let found = clients
                .find(|client| client.minor0 && client.confirmed == confirmed && *client.owner == *record);
            found.map(|client| client.id)
        };
        (find(true), find(false))
    }

    pub(super) fn is_of_minor0(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| client.minor0)
    }

    /// The lease of a client of 4.0.
    pub fn lease(&self, id: ClientId, now: Duration) -> Result<Lease, NfsStatus> {
        let client = self.client(id)?;
        Ok(Lease {
            principal: client.principal,
            verifier: client.verifier,
            confirmed: client.confirmed,
            expired: self.is_expired(id, now),
            holds_something: !client.holds_nothing(),
            record: client.owner.clone(),
        })
    }

    /// Makes room for a new client of 4.0, not confirmed yet, and gives it an id.
    pub fn begin_lease(
        &mut self,
        record: Arc<[u8]>,
        verifier: Verifier,
        principal: Principal,
        now: Duration,
    ) -> Result<ClientId, Refusal> {
        let id = self.new_client_id(now)?;
        let client = Client { minor0: true, ..Client::new(id, record, verifier, principal, now) };
        self.clients.insert(id, client);
        Ok(id)
    }

    /// The client is confirmed.
    pub fn confirm_lease(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.confirmed = true;
        }
    }

    /// Whether a request from this address can be one of that client's: its first one came from there.
    pub fn is_at(&self, id: ClientId, address: IpAddr) -> bool {
        let origin = self.clients.get(&id).and_then(|client| client.origin.as_ref());
        self.is_of_minor0(id) && origin.is_some_and(|origin| origin.address == address.to_canonical())
    }

    /// The client was heard of.
    pub fn renew_lease(&mut self, id: ClientId, now: Duration) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.renewed = now;
        }
    }

    /// The client is gone, with everything it has.
    pub fn end_lease(&mut self, id: ClientId) {
        self.drop_client(id);
    }

    /// How long a client may be silent.
    pub fn lease_time(&self) -> Duration {
        self.config.lease
    }

    /// Bounds on what clients may have.
    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Whether this instance of the server gave out that client id.
    pub fn has_issued_client(&self, id: ClientId) -> bool {
        (id.0 >> 32) as u32 == self.config.instance && (1..=self.issued).contains(&(id.0 & 0xffff_ffff))
    }

    /// Whether a state id was given out since the last restart.
    pub fn is_of_this_instance(&self, other: &Other) -> bool {
        other[..4] == self.config.instance.to_be_bytes()
    }

    /// The client that a state id of 4.0 was given to, whether it still exists or not.
    pub fn client_of(&self, other: &Other) -> Option<ClientId> {
        let id = ClientId(u64::from_be_bytes([
            other[0], other[1], other[2], other[3], other[4], other[5], other[6], other[7],
        ]));
        self.has_issued_client(id).then_some(id)
    }

    /// A name for new state of a client. In 4.0 it begins with the client id, so that it says whose it was when the
    /// client is gone.
    pub(super) fn new_other_for(&mut self, id: ClientId) -> Other {
        let mut other = self.new_other();
        if self.is_of_minor0(id) {
            other[4..8].copy_from_slice(&(id.0 as u32).to_be_bytes());
        }
        other
    }

    /// Who holds what goes by this name.
    pub fn holder(&self, other: &Other) -> Option<Holder> {
        match self.held.get(other)? {
            Held::Open(open) => {
                let by = HolderKind::Owner(OwnerKind::Open, open.owner.clone());
                Some(Holder { client: open.client, by })
            }
            Held::Lock(lock) => {
                let by = HolderKind::Owner(OwnerKind::Lock, lock.owner.owner.clone());
                Some(Holder { client: lock.owner.client, by })
            }
            Held::Delegation(held) => {
                Some(Holder { client: held.client, by: HolderKind::Delegated(held.by) })
            }
        }
    }

    /// Whether `id` is the newest of its names. Unlike later, 0 does not stand for it (RFC 7530 §9.1.4.2).
    pub fn check_newest(&self, id: &StateId) -> Result<(), NfsStatus> {
        let newest = match self.held.get(&id.other) {
            Some(Held::Open(open)) => open.seqid,
            Some(Held::Lock(lock)) => lock.seqid,
            Some(Held::Delegation(_)) => Delegation::SEQID,
            None => return Err(NfsStatus::BadStateId),
        };
        match (id.seqid.wrapping_sub(newest) as i32).cmp(&0) {
            Ordering::Equal => Ok(()),
            Ordering::Less => Err(NfsStatus::OldStateId),
            Ordering::Greater => Err(NfsStatus::BadStateId),
        }
    }

    /// A new name for an unchanged open, as OPEN_CONFIRM gives it.
    pub fn rename_open(&mut self, other: &Other) -> Result<StateId, NfsStatus> {
        let Some(Held::Open(open)) = self.held.get_mut(other) else { return Err(NfsStatus::BadStateId) };
        open.seqid = next_seqid(open.seqid);
        Ok(StateId { seqid: open.seqid, other: *other })
    }

    /// Gives up an open that was never confirmed.
    pub fn cancel_open(&mut self, other: &Other) {
        self.drop_open(other);
    }

    /// A client of 4.0 has reclaimed something: its record stays when the grace period ends.
    pub fn has_reclaimed(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get(&id) {
            self.grace.came_back(&client.owner);
        }
    }
}
