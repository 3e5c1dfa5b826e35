//! Clients: SETCLIENTID, SETCLIENTID_CONFIRM and RENEW (RFC 7530 §9.1.1, §16.33, §16.34, §16.29).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nfs4::{ClientId, NfsStatus, Verifier};
use onc_rpc::ConnectionId;

use super::owner::Owners;
use super::path::{Callback, Path};
use crate::state::{Other, Principal, Refusal, State};

/// What 4.0 keeps of a client beside its lease and its place among all clients.
#[derive(Debug)]
pub(crate) struct Client {
    /// What confirms it, or has confirmed it.
    confirm: Verifier,
    /// Where it wants to be called back, as soon as it is confirmed.
    callback: Option<Callback>,
    /// Another place, or none, and what confirms it.
    update: Option<(Verifier, Option<Callback>)>,
    /// The way back to it.
    path: Option<Path>,
    pub open_owners: Owners,
    pub lock_owners: Owners,
    /// The last open that each open-owner closed, if that is its newest operation: a repeated CLOSE names nothing that
    /// still exists.
    pub closed: HashMap<Other, Arc<[u8]>>,
}

impl Client {
    /// Forgets what owners closed that are no more.
    pub(super) fn forget_closed(&mut self) {
        self.closed.retain(|_, owner| self.open_owners.contains_key(owner));
    }
}

/// The clients of 4.0, confirmed or not.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(super) by_id: HashMap<ClientId, Client>,
    /// When all open-owners were last looked through.
    swept: Duration,
}

/// Between two searches for open-owners that nobody would miss, when there are too many.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(1);

impl Clients {
    /// Whether there may be one more open-owner beside at most `limit` of all clients together. Those that nobody would
    /// miss go first.
    pub(super) fn has_room(&mut self, limit: usize, now: Duration, lease: Duration) -> bool {
        let count = |clients: &Clients| clients.by_id.values().map(|it| it.open_owners.len()).sum::<usize>();
        if count(self) >= limit && now >= self.swept + BETWEEN_SWEEPS {
            self.swept = now;
            for client in self.by_id.values_mut() {
                client.open_owners.retain(|_, owner| !owner.is_idle(now, lease));
                client.forget_closed();
            }
        }
        count(self) < limit
    }

    pub fn path(&self, id: ClientId) -> Option<&Path> {
        self.by_id.get(&id)?.path.as_ref()
    }

    pub fn path_mut(&mut self, id: ClientId) -> Option<&mut Path> {
        self.by_id.get_mut(&id)?.path.as_mut()
    }

    pub fn take_path(&mut self, id: ClientId) -> Option<Path> {
        self.by_id.get_mut(&id)?.path.take()
    }

    pub fn set_path(&mut self, id: ClientId, path: Path) {
        if let Some(client) = self.by_id.get_mut(&id) {
            client.path = Some(path);
        }
    }

    /// Clients with a path.
    pub fn with_paths(&self) -> Vec<ClientId> {
        let clients = self.by_id.iter().filter(|(_, client)| client.path.is_some());
        clients.map(|(id, _)| *id).collect()
    }

    /// Whose path this connection is.
    pub fn client_on(&self, connection: ConnectionId) -> Option<ClientId> {
        let is_on = |client: &Client| client.path.as_ref().and_then(Path::connection) == Some(connection);
        self.by_id.iter().find(|(_, client)| is_on(client)).map(|(id, _)| *id)
    }

    /// The client is gone, and all its opens and locks with it.
    pub fn forget(&mut self, id: ClientId) {
        self.by_id.remove(&id);
    }
}

/// The arguments of SETCLIENTID.
#[derive(Clone, Debug)]
pub(crate) struct SetClientId<'a> {
    pub name: &'a [u8],
    /// Changes when the client restarts.
    pub verifier: Verifier,
    pub principal: Principal,
    /// Where it can be called back.
    pub callback: Option<Callback>,
    /// What shall confirm it: random.
    pub confirm: Verifier,
}

impl State {
    /// SETCLIENTID: the id of the client; [`SetClientId::confirm`] confirms it (RFC 7530 §16.33.5).
    pub fn set_client_id(&mut self, request: &SetClientId, now: Duration) -> Result<ClientId, Refusal> {
        let key = super::record_key(request.name);
        let (confirmed, unconfirmed) = self.incarnations_of_minor0(&key);
        if let Some(id) = confirmed {
            let known = self.lease(id, now)?;
            if known.principal != request.principal {
                // Somebody else uses that name, and is protected while he has state and a lease.
                if known.holds_something && known.expired {
                    return Err(Refusal::Expired(id));
                }
                if known.holds_something {
                    return Err(NfsStatus::ClidInUse.into());
                }
            } else if known.verifier == request.verifier {
                // The same incarnation: it may want to be called back elsewhere.
                if let Some(stale) = unconfirmed {
                    self.end_lease(stale);
                }
                let client = self.minor0.by_id.get_mut(&id).ok_or(NfsStatus::StaleClientId)?;
                client.update = Some((request.confirm, request.callback.clone()));
                return Ok(id);
            }
        }
        // A new client, or one that restarted: what it held stays until the new id is confirmed.
        if let Some(stale) = unconfirmed {
            self.end_lease(stale);
        }
        let id = self.begin_lease(key, request.verifier, request.principal, now)?;
        let client = Client {
            confirm: request.confirm,
            callback: request.callback.clone(),
            update: None,
            path: None,
            open_owners: Owners::default(),
            lock_owners: Owners::default(),
            closed: HashMap::new(),
        };
        self.minor0.by_id.insert(id, client);
        Ok(id)
    }

    /// SETCLIENTID_CONFIRM (RFC 7530 §16.34.5).
    pub fn confirm_client(
        &mut self,
        id: ClientId,
        confirm: Verifier,
        principal: Principal,
        now: Duration,
    ) -> Result<(), Refusal> {
        let client = self.minor0.by_id.get_mut(&id).ok_or(NfsStatus::StaleClientId)?;
        let is_update = client.update.as_ref().is_some_and(|(verifier, _)| *verifier == confirm);
        if !is_update && client.confirm != confirm {
            return Err(NfsStatus::StaleClientId.into());
        }
        if self.lease(id, now)?.principal != principal {
            return Err(NfsStatus::ClidInUse.into());
        }
        if is_update {
            let client = self.minor0.by_id.get_mut(&id).ok_or(NfsStatus::StaleClientId)?;
            if let Some((verifier, callback)) = client.update.take() {
                client.confirm = verifier;
                self.replace_path(id, callback);
            }
        } else if !self.lease(id, now)?.confirmed {
            self.replace_former(id, principal, now)?;
            let callback = self.minor0.by_id.get_mut(&id).and_then(|client| client.callback.take());
            self.replace_path(id, callback);
        }
        self.renew_lease(id, now);
        Ok(())
    }

    /// The client is confirmed; what its former incarnation held is released.
    fn replace_former(&mut self, id: ClientId, principal: Principal, now: Duration) -> Result<(), Refusal> {
        let key = self.lease(id, now)?.record.clone();
        if let (Some(former), _) = self.incarnations_of_minor0(&key) {
            let known = self.lease(former, now)?;
            if known.principal != principal && known.holds_something {
                // It was somebody else's since SETCLIENTID.
                return Err(if known.expired {
                    Refusal::Expired(former)
                } else {
                    NfsStatus::ClidInUse.into()
                });
            }
            self.end_lease(former);
        }
        self.confirm_lease(id);
        Ok(())
    }

    /// RENEW, and the beginning of every operation that names its client (RFC 7530 §9.5, §9.6.3).
    pub fn renew_client(&mut self, id: ClientId, now: Duration) -> Result<(), NfsStatus> {
        if !self.minor0.by_id.contains_key(&id) {
            return Err(self.why_gone(id));
        }
        if !self.lease(id, now)?.confirmed {
            return Err(NfsStatus::StaleClientId);
        }
        self.renew_lease(id, now);
        Ok(())
    }

    /// Why a client id names nobody: given out before the last restart, or its lease expired since.
    fn why_gone(&self, id: ClientId) -> NfsStatus {
        if self.has_issued_client(id) { NfsStatus::Expired } else { NfsStatus::StaleClientId }
    }
}
