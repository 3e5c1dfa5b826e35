//! What clients are told: on the back channels of their sessions (RFC 8881 §2.10.3.1, §20), or, in 4.0, on connections to them
//! (`path`).
//!
//! A callback keeps its slot and number until it is answered, over lost connections too. Each session has as many slots
//! as its client granted, so that no recall waits for the answer to another.

use std::collections::BTreeSet;

use file_system::FileId;
use nfs4::{ClientId, NfsStatus, SessionId, StateId};
use onc_rpc::{ConnectionId, Credential};
use tokio::sync::Notify;

use super::{Held, LockOwner, OffloadEnd, State};

/// Tasks that wait for the state.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// A delegation was returned or revoked, or went with its client.
    pub returned: Notify,
    /// A question to the holder of a delegation has ended.
    pub answered: Notify,
    /// There may be something for [`State::next_callback`].
    pub to_call: Notify,
}

/// Names a request of a client (`referring_call4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    pub session: SessionId,
    pub slot: u32,
    pub sequence: u32,
}

/// Something that a client has to be told: the operation behind CB_SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// CB_RECALL: the delegation is wanted back.
    Recall { id: StateId, file: FileId },
    /// CB_RECALL_ANY: all delegations but `keep` are wanted back.
    RecallAny { keep: u32 },
    /// CB_GETATTR: what has the holder of a delegation for writing changed? See [`super::asking`].
    Ask { id: StateId, file: FileId, number: u64 },
    /// CB_OFFLOAD: a copy has ended. See [`super::offload`].
    Offload { id: StateId, file: FileId, end: OffloadEnd },
    /// CB_NOTIFY_LOCK: what this owner waits for may be had. See [`super::waiting`].
    LockFree { file: FileId, owner: LockOwner },
}

impl Notice {
    /// Whether the client is told again when it does not know what this is about.
    pub(super) fn is_insistent(&self) -> bool {
        matches!(self, Notice::Recall { .. })
    }
}

/// Clients that may have something to be told.
#[derive(Debug, Default)]
pub(super) struct ToCall(BTreeSet<ClientId>);

/// A slot of a back channel.
#[derive(Debug, Default)]
struct BackSlot {
    /// Of the newest callback that was answered.
    sequence: u32,
    /// What is being told, until it is answered.
    telling: Option<Notice>,
    /// Whether it is on its way.
    in_flight: bool,
    /// How often it was put off.
    attempts: u32,
}

/// The slots of a back channel.
#[derive(Debug)]
pub(super) struct BackSlots {
    /// Those that were used already.
    slots: Vec<BackSlot>,
    /// How many there may be; at least one.
    limit: usize,
    /// The client and we do not agree on a slot: nothing can be told here.
    pub faulty: bool,
}

impl BackSlots {
    /// As many as the client granted.
    pub fn new(granted: u32) -> BackSlots {
        BackSlots { slots: Vec::new(), limit: granted.max(1) as usize, faulty: false }
    }

    /// The slot of what has to be told again; otherwise one that is free.
    fn next(&self) -> Option<usize> {
        let again = self.slots.iter().position(|slot| slot.telling.is_some() && !slot.in_flight);
        let free = || self.slots.iter().position(|slot| slot.telling.is_none() && !slot.in_flight);
        again.or_else(free).or((self.slots.len() < self.limit).then_some(self.slots.len()))
    }

    /// What is not on its way, and will not be told here.
    fn give_up(&mut self) -> Vec<Notice> {
        let waiting = self.slots.iter_mut().filter(|slot| !slot.in_flight);
        waiting.filter_map(|slot| slot.telling.take()).collect()
    }
}

/// A callback to be sent now.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingCallback {
    pub connection: ConnectionId,
    pub minor_version: u32,
    pub program: u32,
    pub credential: Credential,
    /// How often it was put off by the client.
    pub attempts: u32,
    pub way: Way,
    pub notice: Notice,
}

/// How a callback reaches its client.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Session(SessionSlot),
    /// In 4.0. `ident` is the client's name for it.
    Path {
        client: ClientId,
        ident: u32,
    },
}

/// The place of a callback in a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionSlot {
    pub session: SessionId,
    pub slot: u32,
    /// The highest slot in use.
    pub highest_slot: u32,
    pub sequence: u32,
    /// The request whose reply the client has to read first, if it may not have done so.
    pub referring: Option<RequestId>,
}

/// What became of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackEnd {
    /// CB_SEQUENCE succeeded, where there is one; the status of the operation behind it.
    Answered(NfsStatus),
    /// CB_SEQUENCE failed: the slot did not move. In 4.0, no operation was run.
    Refused(NfsStatus),
    /// No answer: the client may have executed it or not.
    Lost,
}

impl State {
    /// Whether there is a way to call the client back.
    pub fn can_call_back(&self, client: ClientId) -> bool {
        self.has_back_channel(client) || self.has_path(client)
    }

    /// Whether there is a way to call the client back by what 4.0 has not.
    pub fn has_back_channel(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|client| {
            client.sessions.iter().any(|id| self.sessions.get(id).is_some_and(|session| session.can_call()))
        })
    }

    /// The client is told as soon as there is a way.
    pub(super) fn notify(&mut self, client: ClientId, notice: Notice) {
        if let Some(known) = self.clients.get_mut(&client) {
            known.notices.push_back(notice);
            self.call(client);
        }
    }

    /// Looks whether there is something to tell the client.
    pub(super) fn call(&mut self, client: ClientId) {
        self.to_call.0.insert(client);
        self.signals.to_call.notify_one();
    }

    /// A callback that can be sent now; [`State::end_callback`] must follow.
    pub fn next_callback(&mut self) -> Option<OutgoingCallback> {
        while let Some(client) = self.to_call.0.first().copied() {
            let sessions = self.clients.get(&client).map_or(Vec::new(), |client| client.sessions.clone());
            for session in sessions {
                if let Some(callback) = self.next_callback_of(client, session) {
                    return Some(callback);
                }
            }
            if let Some(callback) = self.next_callback_on_path(client) {
                return Some(callback);
            }
            self.to_call.0.remove(&client);
        }
        None
    }

    fn next_callback_of(&mut self, client: ClientId, id: SessionId) -> Option<OutgoingCallback> {
        let session = self.sessions.get(&id).filter(|session| session.can_call())?;
        let number = session.back_slots.next()?;
        let notice = match session.back_slots.slots.get(number).and_then(|slot| slot.telling.clone()) {
            // Under its number it has to be told, whether it still matters or not; and not twice.
            Some(notice) => {
                let known = self.clients.get_mut(&client)?;
                known.notices.retain(|other| *other != notice);
                notice
            }
            None => self.next_notice(client)?,
        };
        let referring = self.may_be_unread(&notice);
        let session = self.sessions.get_mut(&id)?;
        let connection = session.back_channels.last().copied()?;
        let slots = &mut session.back_slots.slots;
        if number == slots.len() {
            slots.push(BackSlot::default());
        }
        (slots[number].telling, slots[number].in_flight) = (Some(notice.clone()), true);
        let highest = slots.iter().rposition(|slot| slot.in_flight).unwrap_or(number);
        Some(OutgoingCallback {
            connection,
            minor_version: session.minor_version,
            program: session.callback_program,
            credential: session.callback_credential.clone(),
            attempts: slots[number].attempts,
            way: Way::Session(SessionSlot {
                session: id,
                slot: number as u32,
                highest_slot: highest as u32,
                sequence: slots[number].sequence.wrapping_add(1),
                referring,
            }),
            notice,
        })
    }

    /// The next notice that still matters.
    pub(super) fn next_notice(&mut self, client: ClientId) -> Option<Notice> {
        loop {
            let notice = self.clients.get_mut(&client)?.notices.pop_front()?;
            let matters = match &notice {
                Notice::Recall { id, .. } => {
                    matches!(self.held.get(&id.other), Some(Held::Delegation(held)) if !held.revoked)
                }
                Notice::Ask { id, number, .. } => self.is_asked(&id.other, *number),
                Notice::RecallAny { .. } => true,
                Notice::Offload { id, .. } => self.is_to_be_told(&id.other),
                Notice::LockFree { file, owner } => self.is_called(*file, owner),
            };
            if matters {
                return Some(notice);
            }
        }
    }

    /// The request that gave the client what the notice is about, as long as it may not have read the reply
    /// (RFC 8881 §2.10.6.3): the next one on its slot would show that it has.
    fn may_be_unread(&self, notice: &Notice) -> Option<RequestId> {
        let given_by = match notice {
            Notice::Recall { id, .. } | Notice::Ask { id, .. } => match self.held.get(&id.other) {
                Some(Held::Delegation(held)) => held.given_by,
                _ => None,
            },
            Notice::Offload { id, .. } => self.offloads.get(&id.other).map(|offload| offload.given_by),
            Notice::RecallAny { .. } | Notice::LockFree { .. } => None,
        };
        given_by.filter(|request| {
            let session = self.sessions.get(&request.session);
            session.is_some_and(|session| session.slots.is_newest(request.slot, request.sequence))
        })
    }

    /// A callback has ended.
    pub fn end_callback(&mut self, callback: &OutgoingCallback, end: CallbackEnd) {
        match &callback.way {
            Way::Session(place) => self.end_callback_in_session(place, callback.connection, end),
            Way::Path { client, .. } => self.end_callback_on_path(*client, callback, end),
        }
    }

    fn end_callback_in_session(&mut self, place: &SessionSlot, connection: ConnectionId, end: CallbackEnd) {
        let Some(session) = self.sessions.get_mut(&place.session) else { return };
        let client = session.client;
        let slots = &mut session.back_slots;
        let Some(slot) = slots.slots.get_mut(place.slot as usize) else { return };
        slot.in_flight = false;
        let (mut again, mut ended) = (Vec::new(), None);
        match end {
            CallbackEnd::Answered(status) => {
                slot.sequence = slot.sequence.wrapping_add(1);
                let told = slot.telling.take();
                slot.attempts = if status.is_ok() { 0 } else { slot.attempts.saturating_add(1) };
                match told {
                    Some(Notice::Offload { id, .. }) => ended = told.map(|told| (id.other, told, status)),
                    // It may not know yet what this is about.
                    _ => again.extend(told.filter(|told| !status.is_ok() && told.is_insistent())),
                }
            }
            CallbackEnd::Refused(NfsStatus::Delay) => slot.attempts = slot.attempts.saturating_add(1),
            // It counts from the beginning: it has forgotten what it was told.
            CallbackEnd::Refused(NfsStatus::SeqMisordered) if slot.sequence != 0 => slot.sequence = 0,
            // It has fewer than it said.
            CallbackEnd::Refused(NfsStatus::BadSlot) if place.slot > 0 => {
                slots.limit = slots.limit.min(place.slot as usize);
                again.extend(slot.telling.take());
                slot.in_flight = true; // Never to be used again.
            }
            CallbackEnd::Refused(_) => {
                slots.faulty = true;
                again = slots.give_up();
            }
            CallbackEnd::Lost => {
                // Another session may be faster than a new connection of this one.
                again.extend(slot.telling.clone());
                session.back_channels.retain(|bound| *bound != connection);
            }
        }
        if let Some((other, told, status)) = ended
            && self.offload_told(&other, status)
        {
            again.push(told);
        }
        if let Some(known) = self.clients.get_mut(&client) {
            for notice in again {
                if !known.notices.contains(&notice) {
                    known.notices.push_front(notice);
                }
            }
        }
        self.call(client);
    }

    /// The session is gone: what was not told goes to others of the client.
    pub(super) fn give_back_notices(&mut self, client: ClientId, slots: BackSlots) {
        let notices: Vec<Notice> = slots.slots.into_iter().filter_map(|slot| slot.telling).collect();
        if let (false, Some(known)) = (notices.is_empty(), self.clients.get_mut(&client)) {
            notices.into_iter().for_each(|notice| known.notices.push_front(notice));
            self.call(client);
        }
    }
}
