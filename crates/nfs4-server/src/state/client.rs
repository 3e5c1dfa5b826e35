//! What the server knows of one client.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use nfs4::{ClientId, NfsStatus, SessionId, Verifier};

use super::callback::Notice;
use super::create_session::SessionGrant;
use super::{Other, Refusal, State};
use crate::overview::Origin;

/// Who a request comes from, as far as ownership of a client id goes (RFC 8881 §2.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Principal {
    /// AUTH_NONE.
    Nobody,
    /// AUTH_SYS with this user.
    Unix(u32),
    /// The same, or AUTH_NONE, from an address that no export trusts: somebody who must not be taken for one of those.
    Stranger(Option<u32>),
    /// RPCSEC_GSS: a digest of the principal's name.
    Gss([u8; 16]),
}

/// One incarnation of a client: an owner id with one verifier.
#[derive(Debug)]
pub(super) struct Client {
    pub id: ClientId,
    pub owner: Arc<[u8]>,
    pub verifier: Verifier,
    pub principal: Principal,
    /// Whether it came by SETCLIENTID; its `owner` is not that of EXCHANGE_ID, then, and it has no sessions.
    pub minor0: bool,
    /// By a CREATE_SESSION (RFC 8881 §18.36.4, phase 3).
    pub confirmed: bool,
    /// When it was last heard of.
    pub renewed: Duration,
    /// The sequence of the newest CREATE_SESSION, and its result (RFC 8881 §18.36.4, phase 2).
    pub create_sequence: u32,
    pub create_result: Option<Result<SessionGrant, NfsStatus>>,
    pub sessions: Vec<SessionId>,
    /// Whether it has sent RECLAIM_COMPLETE.
    pub reclaim_complete: bool,
    /// State ids of its opens, lock-owners and delegations.
    pub held: HashSet<Other>,
    pub opens: usize,
    /// Delegations, revoked ones among them.
    pub delegations: usize,
    /// Delegations that were revoked and not freed yet.
    pub revoked: usize,
    /// State ids of its copies.
    pub offloads: BTreeSet<Other>,
    /// What it has to be told.
    pub notices: VecDeque<Notice>,
    /// When it was last asked to return delegations because there are too many.
    pub asked_for_fewer: Option<Duration>,
    /// A delegation for writing of it was revoked, and it has not taken notice: it must not reclaim after a restart.
    pub barred: bool,
    /// Who asked for the id, and from where.
    pub origin: Option<Arc<Origin>>,
}

impl Client {
    /// One that nothing is known of but who it says it is: not confirmed, and by EXCHANGE_ID.
    pub fn new(
        id: ClientId,
        owner: Arc<[u8]>,
        verifier: Verifier,
        principal: Principal,
        now: Duration,
    ) -> Client {
        Client {
            id,
            owner,
            verifier,
            principal,
            minor0: false,
            confirmed: false,
            renewed: now,
            create_sequence: 0,
            create_result: None,
            sessions: Vec::new(),
            reclaim_complete: false,
            held: HashSet::new(),
            opens: 0,
            delegations: 0,
            revoked: 0,
            offloads: BTreeSet::new(),
            notices: VecDeque::new(),
            asked_for_fewer: None,
            barred: false,
            origin: None,
        }
    }

    /// Whether there is nothing that others could want.
    pub fn holds_nothing(&self) -> bool {
        self.held.len() == self.revoked
    }
}

impl State {
    /// The confirmed incarnation of an owner, and the one that waits for its CREATE_SESSION.
    pub(super) fn incarnations(&self, owner: &[u8]) -> (Option<ClientId>, Option<ClientId>) {
        let find = |confirmed| {
            self.clients
                .values()
                .find(|client| !client.minor0 && client.confirmed == confirmed && *client.owner == *owner)
                .map(|client| client.id)
        };
        (find(true), find(false))
    }

    /// Whether the lease has run out (RFC 8881 §8.3). A client is not expired while a request of it is run, or a piece of a
    /// copy.
    pub fn is_expired(&self, id: ClientId, now: Duration) -> bool {
        self.clients.get(&id).is_none_or(|client| {
            now > client.renewed + self.config.lease
                && !client.sessions.iter().any(|id| self.sessions.get(id).is_some_and(|s| s.slots.is_busy()))
                && !self.is_in_piece(id)
        })
    }

    /// DESTROY_CLIENTID (RFC 8881 §18.50). Returns the owner whose record may be of no use now.
    pub fn destroy_client(
        &mut self,
        id: ClientId,
        principal: Principal,
    ) -> Result<Option<Arc<[u8]>>, NfsStatus> {
        let client = self.session_client(id)?;
        if client.principal != principal {
            return Err(NfsStatus::WrongCred);
        }
        if !client.sessions.is_empty() || !client.holds_nothing() || self.copies_of(id) > 0 {
            return Err(NfsStatus::ClientIdBusy);
        }
        let owner = self.record_of(id);
        if let Some(owner) = &owner {
            self.grace.done(owner);
        }
        self.drop_client(id);
        Ok(owner)
    }

    /// RECLAIM_COMPLETE (RFC 8881 §18.51.3): from now on this client gets new state, and nothing by reclaim.
    pub fn reclaim_complete(&mut self, id: ClientId) -> Result<(), Refusal> {
        if self.client(id)?.reclaim_complete {
            return Err(NfsStatus::CompleteAlready.into());
        }
        // It was late, and may now keep what it got in time.
        if self.is_unprotected(id) {
            return Err(Refusal::Unrecorded(id));
        }
        let client = self.client_mut(id)?;
        client.reclaim_complete = true;
        let owner = client.owner.clone();
        self.grace.done(&owner);
        Ok(())
    }
}
