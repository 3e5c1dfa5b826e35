//! An operation's turn with its owner: admitted in order, settled with an answer (RFC 7530 §9.1.9, §9.1.10).

use std::sync::Arc;
use std::time::Duration;

use nfs4::{ClientId, NfsStatus, StateId};

use super::owner::{Answer, Order, Owner, OwnerKind, Owners, make_room};
use crate::state::{HolderKind, Other, Principal, Refusal, State};

/// The number of an operation, and a hash of it: what comes again under the same number must be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub seqid: u32,
    pub digest: u64,
}

/// An operation that may run now. It ends with [`State::settle`] or [`State::give_back`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub client: ClientId,
    /// Whose turn it is: of the open-owner or lock-owner of this name.
    pub kind: OwnerKind,
    owner: Arc<[u8]>,
    number: Numbered,
    /// The lock-owner that a LOCK on an open is for, and the number that it counts as (RFC 7530 §16.10.5).
    lock_owner: Option<(Arc<[u8]>, u32)>,
}

/// What is to be done with an operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    Run(Turn),
    /// It came before: this is its answer.
    Again(Answer),
}

/// What an operation did, as far as its owner matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// `confirmed`: the owner needs no OPEN_CONFIRM, as after a reclaim (RFC 7530 §16.18.5).
    Opened {
        open: Other,
        by: Principal,
        confirmed: bool,
    },
    Confirmed,
    Closed(Other),
    Locked {
        lock: Other,
        by: Principal,
    },
}

/// Which owners an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// OPEN_CONFIRM.
    Unconfirmed,
    /// Everything else.
    Confirmed,
}

/// The owners of one kind that a client has.
fn owners(state: &mut State, client: ClientId, kind: OwnerKind) -> Option<&mut Owners> {
    let client = state.minor0.by_id.get_mut(&client)?;
    match kind {
        OwnerKind::Open => Some(&mut client.open_owners),
        OwnerKind::Lock => Some(&mut client.lock_owners),
    }
}

fn owner<'a>(state: &'a mut State, client: ClientId, kind: OwnerKind, name: &[u8]) -> Option<&'a mut Owner> {
    owners(state, client, kind)?.get_mut(name)
}

impl State {
    /// Admits an OPEN. An open-owner that is not known, or was never confirmed, begins anew with whatever number it
    /// sends; what it had open unconfirmed is closed (RFC 7530 §16.18.5).
    pub fn admit_open(
        &mut self,
        client: ClientId,
        name: &[u8],
        number: Numbered,
        now: Duration,
    ) -> Result<Admitted, Refusal> {
        self.renew_client(client, now)?;
        if let Some(known) = owner(self, client, OwnerKind::Open, name) {
            match known.order(number.seqid, number.digest) {
                Ok(Order::Again(answer)) => return Ok(Admitted::Again(answer)),
                Ok(Order::Next) if known.confirmed => {}
                Err(status) if known.confirmed => return Err(status.into()),
                Err(NfsStatus::Resource) => return Err(NfsStatus::Resource.into()),
                Ok(Order::Next) | Err(_) => {
                    let opens: Vec<Other> = known.states.drain().map(|(open, _)| open).collect();
                    opens.iter().for_each(|open| self.cancel_open(open));
                    self.new_open_owner(client, name, number, now)?;
                }
            }
        } else {
            self.new_open_owner(client, name, number, now)?;
        }
        self.begin_turn(client, OwnerKind::Open, name, number, None, now)
    }

    fn new_open_owner(
        &mut self,
        client: ClientId,
        name: &[u8],
        number: Numbered,
        now: Duration,
    ) -> Result<(), NfsStatus> {
        let (lease, limit, all) = (self.lease_time(), self.limits().opens_per_client, self.limits().states);
        let has_room = self.minor0.has_room(all, now, lease);
        let client = self.minor0.by_id.get_mut(&client).ok_or(NfsStatus::Expired)?;
        make_room(&mut client.open_owners, |owner| !owner.is_idle(now, lease));
        if client.closed.len() > client.open_owners.len() {
            client.forget_closed();
        }
        if !has_room || client.open_owners.len() >= limit {
            return Err(NfsStatus::Resource);
        }
        client.open_owners.insert(name.into(), Owner::before(number.seqid, now));
        Ok(())
    }

    /// Admits an operation on the open or the lock-owner's state that `id` names. Whether `id` is the newest of its
    /// names is not looked at: that would be an error that counts.
    pub fn admit_by_state(
        &mut self,
        id: &StateId,
        kind: OwnerKind,
        number: Numbered,
        standing: Standing,
        now: Duration,
    ) -> Result<Admitted, Refusal> {
        let holder = self.whose(id, now).map(|holder| (holder.client, holder.by));
        let (client, name) = match holder {
            Ok((client, HolderKind::Owner(of, owner))) if of == kind => (client, owner),
            Ok(_) => return Err(NfsStatus::BadStateId.into()),
            Err(status) => return self.closed_again(id, number).ok_or(status.into()),
        };
        let known = owner(self, client, kind, &name).ok_or(NfsStatus::BadStateId)?;
        if let Order::Again(answer) = known.order(number.seqid, number.digest)? {
            return Ok(Admitted::Again(answer));
        }
        if known.confirmed != (standing == Standing::Confirmed) {
            return Err(NfsStatus::BadStateId.into());
        }
        self.begin_turn(client, kind, &name, number, None, now)
    }

    /// Admits a LOCK of a lock-owner on an open: the turn is the open-owner's, and the lock-owner's as well if that is
    /// known already.
    pub fn admit_first_lock(
        &mut self,
        open: &StateId,
        lock_owner: (ClientId, &[u8]),
        number: Numbered,
        lock_seqid: u32,
        now: Duration,
    ) -> Result<Admitted, Refusal> {
        let (client, name) = lock_owner;
        self.renew_client(client, now)?;
        let turn = match self.admit_by_state(open, OwnerKind::Open, number, Standing::Confirmed, now)? {
            Admitted::Run(turn) => turn,
            again => return Ok(again),
        };
        if turn.client != client {
            self.give_back(&turn);
            return Err(NfsStatus::BadStateId.into());
        }
        self.sweep_lock_owners(client, name);
        let order = owner(self, client, OwnerKind::Lock, name).map(|known| known.order(lock_seqid, 0));
        match order {
            None | Some(Ok(Order::Next)) => {
                Ok(Admitted::Run(Turn { lock_owner: Some((name.into(), lock_seqid)), ..turn }))
            }
            Some(refused) => {
                self.give_back(&turn);
                Err(refused.err().unwrap_or(NfsStatus::BadSeqId).into())
            }
        }
    }

    fn begin_turn(
        &mut self,
        client: ClientId,
        kind: OwnerKind,
        name: &[u8],
        number: Numbered,
        lock_owner: Option<(Arc<[u8]>, u32)>,
        now: Duration,
    ) -> Result<Admitted, Refusal> {
        let owners = owners(self, client, kind).ok_or(NfsStatus::Expired)?;
        // The name as it is kept, not one more copy of it.
        let name = owners.get_key_value(name).map(|(name, _)| name.clone()).ok_or(NfsStatus::BadStateId)?;
        if let Some(owner) = owners.get_mut(&name) {
            owner.begin(now);
        }
        Ok(Admitted::Run(Turn { client, kind, owner: name, number, lock_owner }))
    }

    /// A CLOSE that comes again finds nothing under its state id; what it closed is remembered.
    fn closed_again(&self, id: &StateId, number: Numbered) -> Option<Admitted> {
        let client = self.minor0.by_id.get(&self.client_of(&id.other)?)?;
        let owner = client.open_owners.get(client.closed.get(&id.other)?)?;
        match owner.order(number.seqid, number.digest) {
            Ok(Order::Again(answer)) => Some(Admitted::Again(answer)),
            _ => None,
        }
    }

    /// The operation did not happen, or does not count: the owner waits for the same number again.
    pub fn give_back(&mut self, turn: &Turn) {
        let Some(owners) = owners(self, turn.client, turn.kind) else { return };
        if let Some(owner) = owners.get_mut(&turn.owner) {
            owner.give_back();
            if owner.is_blank() {
                owners.remove(&turn.owner);
            }
        }
    }

    /// The operation is done, and counts.
    pub fn settle(&mut self, turn: &Turn, answer: Answer, effect: Effect, now: Duration) {
        let Some(client) = self.minor0.by_id.get_mut(&turn.client) else { return };
        let owners = match turn.kind {
            OwnerKind::Lock => &mut client.lock_owners,
            OwnerKind::Open => &mut client.open_owners,
        };
        let Some(owner) = owners.get_mut(&turn.owner) else { return };
        owner.count(turn.number.seqid, Some((turn.number.digest, answer)));
        if let Some(closed) = owner.closed.take() {
            client.closed.remove(&closed);
        }
        match effect {
            Effect::Opened { open, by, confirmed } => {
                owner.states.insert(open, by);
                owner.confirmed |= confirmed;
            }
            Effect::Confirmed => owner.confirmed = true,
            Effect::Closed(open) => {
                owner.states.remove(&open);
                owner.closed = Some(open);
                client.closed.insert(open, turn.owner.clone());
            }
            Effect::Locked { .. } | Effect::Nothing => {}
        }
        let Some((name, seqid)) = &turn.lock_owner else { return };
        if let Effect::Locked { lock, by } = effect {
            let owner = client.lock_owners.entry(name.clone()).or_insert_with(|| Owner::before(*seqid, now));
            owner.confirmed = true;
            owner.states.insert(lock, by);
        }
        if let Some(owner) = client.lock_owners.get_mut(name) {
            owner.count(*seqid, None);
        }
    }
}
