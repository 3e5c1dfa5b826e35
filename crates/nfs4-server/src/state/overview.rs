//! Copies of the state for operators: a page at a time, so that the lock is held for a short time only.

use std::sync::Arc;
use std::time::Duration;

use nfs4::ClientId;

use super::client::Client;
use super::delegation::Delegation;
use super::lock::LockState;
use super::open::{Open, Share};
use super::{ByteRange, Held, Other, State};
use crate::minor0;
use crate::overview::{
    Access, ClientOverview, ClientPage, DelegationStanding, Held as Row, HeldPage, Holding, LockedBytes,
    Origin, OwnerText, Standing,
};

/// Locked ranges of one lock-owner that a page shows, and places in queues of one open.
const RANGES: usize = 64;

/// Locked ranges that are looked at for one page.
const RANGES_SEEN: usize = 1 << 16;

impl State {
    /// Notes who asked for a client id, and from where.
    pub fn came_from(&mut self, id: ClientId, origin: Origin) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.origin = Some(Arc::new(origin));
        }
    }

    /// Clients in the order of their ids.
    pub fn clients_behind(&self, after: Option<ClientId>, limit: usize, now: Duration) -> ClientPage {
        let ids = self.clients.keys().copied().filter(|id| after.is_none_or(|after| *id > after));
        let (ids, more) = smallest(ids.collect(), limit);
        ClientPage {
            next: ids.last().copied().filter(|_| more),
            clients: ids.into_iter().filter_map(|id| self.overview(id, now)).collect(),
            total: self.clients.len(),
        }
    }

    /// One client.
    pub fn overview(&self, id: ClientId, now: Duration) -> Option<ClientOverview> {
        let client = self.clients.get(&id)?;
        let sessions = || client.sessions.iter().filter_map(|id| self.sessions.get(id));
        let minor_version = match client.minor0 {
            true => Some(0),
            false => sessions().next().map(|session| session.minor_version),
        };
        let standing = match (self.is_expired(id, now), client.holds_nothing() || !client.confirmed) {
            (false, _) => Standing::Active,
            (true, false) => Standing::Courteous,
            (true, true) => Standing::Expired,
        };
        Some(ClientOverview {
            id,
            owner: OwnerText(own_name(client)),
            origin: client.origin.clone(),
            minor_version,
            confirmed: client.confirmed,
            standing,
            silent: now.saturating_sub(client.renewed),
            lease_left: (client.renewed + self.config.lease).saturating_sub(now),
            sessions: client.sessions.len(),
            slots: sessions().map(|session| session.slots.len()).sum(),
            busy_slots: sessions().map(|session| session.slots.busy()).sum(),
            opens: client.opens,
            lock_owners: client.held.len().saturating_sub(client.opens + client.delegations),
            delegations: client.delegations,
            revoked: client.revoked,
            copies: self.copies_of(id),
            connections: sessions().flat_map(|session| session.connections.iter().copied()).collect(),
        })
    }

    /// What a client holds, in the order of the state ids.
    pub fn held_behind(
        &self,
        id: ClientId,
        after: Option<Other>,
        limit: usize,
        now: Duration,
    ) -> Option<HeldPage> {
        let held = &self.clients.get(&id)?.held;
        let ids = held.iter().copied().filter(|id| after.is_none_or(|after| *id > after));
        let (ids, mut more) = smallest(ids.collect(), limit);
        let (mut rows, mut last, mut seen) = (Vec::with_capacity(ids.len()), None, 0);
        for other in ids {
            if seen >= RANGES_SEEN {
                more = true;
                break;
            }
            last = Some(other);
            let row = match self.held.get(&other) {
                Some(Held::Open(open)) => self.of_open(other, open),
                Some(Held::Delegation(delegation)) => of_delegation(other, delegation, now),
                Some(Held::Lock(lock)) => {
                    seen += self.files.get(&lock.file).map_or(0, |file| file.ranges.len());
                    self.of_lock(other, lock)
                }
                None => continue,
            };
            rows.push(row);
        }
        Some(HeldPage { held: rows, next: last.filter(|_| more) })
    }

    fn of_open(&self, id: Other, open: &Open) -> Row {
        let access = |bits: u32| Access { read: bits & Share::READ != 0, write: bits & Share::WRITE != 0 };
        let (access, deny) = (access(open.share.access), access(open.share.deny));
        let waits = self.waits_by(open.file, id).take(RANGES);
        let waits = waits
            .map(|wanted| (OwnerText(wanted.owner.owner.clone()), bytes(wanted.range, wanted.exclusive)));
        let owner = OwnerText(open.owner.clone());
        Row { id, file: open.file, holding: Holding::Open { owner, access, deny, waits: waits.collect() } }
    }

    fn of_lock(&self, id: Other, lock: &LockState) -> Row {
        let held = self.files.get(&lock.file).map_or(Vec::new(), |file| file.ranges.of(&lock.owner));
        let ranges = held.iter().take(RANGES).map(|held| bytes(held.range, held.exclusive));
        let owner = OwnerText(lock.owner.owner.clone());
        let holding =
            Holding::Locks { owner, ranges: ranges.collect(), more: held.len().saturating_sub(RANGES) };
        Row { id, file: lock.file, holding }
    }

    /// Ends the sessions of a client. In 4.0 there are none.
    pub fn shut_out(&mut self, id: ClientId) {
        let sessions = self.clients.get(&id).map_or(Vec::new(), |client| client.sessions.clone());
        sessions.into_iter().for_each(|session| self.drop_session(session));
    }

    /// Drops a client with everything it has, whatever its lease says. Only after its record is durably gone.
    pub fn discard(&mut self, id: ClientId) {
        if let Some(owner) = self.record_of(id) {
            self.grace.done(&owner);
        }
        self.drop_client(id);
    }
}

/// The smallest of `all` in order, and whether there are more.
fn smallest<T: Ord>(mut all: Vec<T>, limit: usize) -> (Vec<T>, bool) {
    let more = all.len() > limit;
    if more {
        all.select_nth_unstable(limit);
        all.truncate(limit);
    }
    all.sort_unstable();
    (all, more)
}

/// As the client said it: the records of 4.0 have more before it.
fn own_name(client: &Client) -> Arc<[u8]> {
    match client.minor0 {
        true => minor0::own_name(&client.owner).into(),
        false => client.owner.clone(),
    }
}

fn bytes(range: ByteRange, exclusive: bool) -> LockedBytes {
    let length = Some(range.length()).filter(|length| *length != u64::MAX);
    LockedBytes { offset: range.offset(), length, exclusive }
}

fn of_delegation(id: Other, delegation: &Delegation, now: Duration) -> Row {
    let standing = match delegation.recalled {
        _ if delegation.revoked => DelegationStanding::Revoked,
        Some(since) => DelegationStanding::Recalled(now.saturating_sub(since)),
        None => DelegationStanding::Held,
    };
    let holding = Holding::Delegation { write: delegation.writing.is_some(), standing };
    Row { id, file: delegation.file, holding }
}
