//! What clients are told on the back channels of their sessions (RFC 8881 §2.10.3.1, §20).
//!
//! Each session has one slot for callbacks, and a callback keeps its slot and number until it is answered, over lost
//! connections too. Of a client with several sessions each may carry one at a time.

use std::collections::BTreeSet;

use file_system::FileId;
use nfs4::{ClientId, NfsStatus, SessionId, StateId};
use onc_rpc::{ConnectionId, Credential};
use tokio::sync::Notify;

use super::{Held, State};

/// Tasks that wait for the state.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// A delegation was returned or revoked, or went with its client.
    pub returned: Notify,
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
}

/// Clients that may have something to be told.
#[derive(Debug, Default)]
pub(super) struct ToCall(BTreeSet<ClientId>);

/// The one slot of a back channel.
#[derive(Debug, Default)]
pub(super) struct BackSlot {
    /// Of the newest callback that was answered.
    sequence: u32,
    /// What is being told, until it is answered.
    telling: Option<Notice>,
    /// Whether it is on its way.
    in_flight: bool,
    /// How often it was put off.
    attempts: u32,
    /// The client and we do not agree on the slot: nothing can be told here.
    pub faulty: bool,
}

/// A callback to be sent now.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingCallback {
    pub session: SessionId,
    pub connection: ConnectionId,
    pub minor_version: u32,
    pub program: u32,
    pub credential: Credential,
    pub sequence: u32,
    /// How often it was put off by the client.
    pub attempts: u32,
    /// The request whose reply the client has to read first, if it may not have done so.
    pub referring: Option<RequestId>,
    pub notice: Notice,
}

/// What became of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackEnd {
    /// CB_SEQUENCE succeeded; the status of the operation behind it.
    Answered(NfsStatus),
    /// CB_SEQUENCE failed: the slot did not move.
    Refused(NfsStatus),
    /// No answer: the client may have executed it or not.
    Lost,
}

impl State {
    /// Whether there is a way to call the client back.
    pub(super) fn can_call_back(&self, client: ClientId) -> bool {
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
            self.to_call.0.remove(&client);
        }
        None
    }

    fn next_callback_of(&mut self, client: ClientId, id: SessionId) -> Option<OutgoingCallback> {
        let session = self.sessions.get(&id).filter(|session| session.can_call())?;
        if session.back_slot.in_flight {
            return None;
        }
        let notice = match session.back_slot.telling.clone() {
            // Under its number it has to be told, whether it still matters or not.
            Some(notice) => notice,
            None => self.next_notice(client)?,
        };
        let referring = self.may_be_unread(&notice);
        let session = self.sessions.get_mut(&id)?;
        let connection = session.back_channels.last().copied()?;
        session.back_slot.telling = Some(notice.clone());
        session.back_slot.in_flight = true;
        Some(OutgoingCallback {
            session: id,
            connection,
            minor_version: session.minor_version,
            program: session.callback_program,
            credential: session.callback_credential.clone(),
            sequence: session.back_slot.sequence.wrapping_add(1),
            attempts: session.back_slot.attempts,
            referring,
            notice,
        })
    }

    /// The next notice that still matters.
    fn next_notice(&mut self, client: ClientId) -> Option<Notice> {
        loop {
            let notice = self.clients.get_mut(&client)?.notices.pop_front()?;
            let Notice::Recall { id, .. } = &notice;
            if matches!(self.held.get(&id.other), Some(Held::Delegation(held)) if !held.revoked) {
                return Some(notice);
            }
        }
    }

    /// The request that gave the client what the notice is about, as long as it may not have read the reply
    /// (RFC 8881 §2.10.6.3): the next one on its slot would show that it has.
    fn may_be_unread(&self, notice: &Notice) -> Option<RequestId> {
        let Notice::Recall { id, .. } = notice;
        let Some(Held::Delegation(held)) = self.held.get(&id.other) else { return None };
        held.given_by.filter(|request| {
            let session = self.sessions.get(&request.session);
            session.is_some_and(|session| session.slots.is_newest(request.slot, request.sequence))
        })
    }

    /// A callback has ended.
    pub fn end_callback(&mut self, id: SessionId, connection: ConnectionId, end: CallbackEnd) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let client = session.client;
        let slot = &mut session.back_slot;
        slot.in_flight = false;
        let mut again = None;
        match end {
            CallbackEnd::Answered(status) => {
                slot.sequence = slot.sequence.wrapping_add(1);
                let told = slot.telling.take();
                slot.attempts = if status.is_ok() { 0 } else { slot.attempts.saturating_add(1) };
                // It may not know yet what this is about.
                again = told.filter(|_| !status.is_ok());
            }
            CallbackEnd::Refused(NfsStatus::Delay) => slot.attempts = slot.attempts.saturating_add(1),
            // It counts from the beginning: it has forgotten what it was told.
            CallbackEnd::Refused(NfsStatus::SeqMisordered) if slot.sequence != 0 => slot.sequence = 0,
            CallbackEnd::Refused(_) => {
                slot.faulty = true;
                again = slot.telling.take();
            }
            CallbackEnd::Lost => {
                session.back_channels.retain(|bound| *bound != connection);
                // Another session may be faster than a new connection of this one.
                again = slot.telling.clone();
            }
        }
        if let (Some(notice), Some(known)) = (again, self.clients.get_mut(&client))
            && !known.notices.contains(&notice)
        {
            known.notices.push_front(notice);
        }
        self.call(client);
    }

    /// The session is gone: what was not told goes to others of the client.
    pub(super) fn give_back_notice(&mut self, client: ClientId, slot: BackSlot) {
        if let (Some(notice), Some(known)) = (slot.telling, self.clients.get_mut(&client)) {
            known.notices.push_front(notice);
            self.call(client);
        }
    }
}
