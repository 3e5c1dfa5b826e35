//! SEQUENCE (RFC 8881 §18.46): the door every ordinary compound comes through.

use std::time::Duration;

use bytes::Bytes;
use nfs4::{ClientId, NfsStatus, SessionId};
use onc_rpc::ConnectionId;

use super::State;
use super::session::{Channel, Session};
use super::slot_table::{Admission, RequestDigest, SMALL_REPLY, SlotTable, beyond_small};

/// Bytes that an operation is expected to add to a reply which is kept, at most. One that adds more is allowed to, and counted when it is done.
const USUAL_RESULT: usize = 512;

/// `SEQ4_STATUS_CB_PATH_DOWN`.
const CB_PATH_DOWN: u32 = 0x1;
/// `SEQ4_STATUS_CB_PATH_DOWN_SESSION`.
const CB_PATH_DOWN_SESSION: u32 = 0x200;

/// `SEQ4_STATUS_RECALLABLE_STATE_REVOKED`.
const RECALLABLE_STATE_REVOKED: u32 = 0x40;
/// `SEQ4_STATUS_BACKCHANNEL_FAULT`.
const BACKCHANNEL_FAULT: u32 = 0x400;

/// The arguments, and the size of the whole compound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
    pub connection: ConnectionId,
    pub session: SessionId,
    pub slot: u32,
    pub sequence: u32,
    pub digest: RequestDigest,
    /// Operations of the compound.
    pub operations: usize,
    /// Bytes of the request, RPC header included.
    pub request_bytes: usize,
    /// Bytes of a reply with the result of SEQUENCE alone, RPC header included.
    pub reply_bytes: usize,
    /// Whether the client wants the reply kept.
    pub cache_this: bool,
}

/// What the result of SEQUENCE tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceStatus {
    pub highest_slot: u32,
    pub flags: u32,
}

/// What is to be done with the compound.
#[derive(Debug)]
pub(crate) enum Entered {
    /// Run it and call [`State::leave`]. A reply that the client wants kept has the size that the channel says, which may be less than
    /// was granted.
    Run { client: ClientId, channel: Channel, status: SequenceStatus },
    /// Send this.
    Replay(Bytes),
    /// Answer the operation behind SEQUENCE with `NFS4ERR_RETRY_UNCACHED_REP`.
    Uncached { status: SequenceStatus },
}

impl State {
    /// Admits a compound and renews the lease (RFC 8881 §8.3, §18.46.3).
    pub fn enter(&mut self, request: &Sequence, now: Duration) -> Result<Entered, NfsStatus> {
        let session = self.sessions.get_mut(&request.session).ok_or(NfsStatus::BadSession)?;
        let mut channel = session.fore;
        // These leave the slot as it is, as every error of SEQUENCE does (§18.46.3).
        if request.request_bytes > channel.max_request as usize {
            return Err(NfsStatus::ReqTooBig);
        }
        if request.operations > channel.operations as usize {
            return Err(NfsStatus::TooManyOps);
        }
        if request.reply_bytes > channel.max_response as usize {
            return Err(NfsStatus::RepTooBig);
        }
        if request.cache_this && request.reply_bytes > channel.max_response_cached as usize {
            return Err(NfsStatus::RepTooBigToCache);
        }
        let in_use = session.slots.is_running(request.slot);
        self.counts.slot_in_use += u64::from(in_use);
        let admission = session.slots.judge(request.slot, request.sequence, request.digest)?;
        if admission == Admission::New {
            let room = self.room_for_reply(request, &mut channel)?;
            self.change_slots(request.session, |slots| {
                slots.start(request.slot, request.sequence, request.digest, room);
            });
        }
        let session = self.sessions.get_mut(&request.session).ok_or(NfsStatus::BadSession)?;
        let slots = &session.slots;
        let exhausted = !in_use && slots.len() > 1 && slots.busy() == slots.len();
        self.counts.slots_exhausted += u64::from(exhausted);
        session.came_on(request.connection);
        let client = session.client;
        let status = SequenceStatus { highest_slot: session.slots.highest(), flags: 0 };
        let status = SequenceStatus { flags: self.status_flags(request.session, client), ..status };
        self.client_mut(client)?.renewed = now;
        Ok(match admission {
            Admission::New => Entered::Run { client, channel, status },
            Admission::Replay(reply) => Entered::Replay(reply),
            Admission::ReplayUncached => Entered::Uncached { status },
        })
    }

    /// The compound is done; `reply` is kept for retries, if that was promised or there is room. The session may be gone meanwhile.
    pub fn leave(
        &mut self,
        session: SessionId,
        slot: u32,
        reply: Option<Bytes>,
        is_promised: bool,
        now: Duration,
    ) {
        let known = self.sessions.get(&session).map(|session| (session.client, session.slots.room(slot)));
        let Some((client, room)) = known else { return };
        let fits = |reply: &Bytes| {
            let more = beyond_small(reply.len()).saturating_sub(room);
            is_promised || more == 0 || more <= self.room_left(client)
        };
        let reply = reply.filter(fits);
        self.change_slots(session, |slots| slots.finish(slot, reply));
        if let Some(client) = self.clients.get_mut(&client) {
            client.renewed = now;
        }
    }

    /// Room for the reply of a request, beyond what every slot has, if it is to be kept and may need it. Where there is not enough, a client
    /// waits for those of its other requests that will give some back (`NFS4ERR_DELAY`); if there are none, its reply has to be as small as
    /// there is room.
    fn room_for_reply(&mut self, request: &Sequence, channel: &mut Channel) -> Result<u64, NfsStatus> {
        let usual = request.operations.saturating_sub(1) * USUAL_RESULT;
        let expected = beyond_small(usual.min(channel.max_response_cached as usize));
        if !request.cache_this || expected == 0 {
            return Ok(0);
        }
        // The client has what its slot keeps.
        let client = self.change_slots(request.session, |slots| slots.release(request.slot));
        let client = client.ok_or(NfsStatus::BadSession)?;
        let room = self.room_left(client);
        if expected > room {
            if self.sessions_of(client).any(|session| session.slots.expects_large()) {
                self.counts.replies_put_off += 1;
                return Err(NfsStatus::Delay);
            }
            channel.max_response_cached = channel.max_response_cached.min(SMALL_REPLY + room as u32);
        }
        Ok(expected.min(room))
    }

    fn sessions_of(&self, client: ClientId) -> impl Iterator<Item = &Session> {
        let sessions = self.clients.get(&client).into_iter().flat_map(|client| &client.sessions);
        sessions.filter_map(|id| self.sessions.get(id))
    }

    /// Room for large replies that this client may still have: a quarter of all is the most.
    fn room_left(&self, client: ClientId) -> u64 {
        let all = self.config.limits.large_reply_bytes;
        let own: u64 = self.sessions_of(client).map(|session| session.slots.large()).sum();
        all.saturating_sub(self.large_replies).min((all / 4).saturating_sub(own))
    }

    /// Changes the slots of a session, and with them the sum of what all keep; whose it is.
    fn change_slots(&mut self, id: SessionId, change: impl FnOnce(&mut SlotTable)) -> Option<ClientId> {
        let session = self.sessions.get_mut(&id)?;
        let before = session.slots.large();
        change(&mut session.slots);
        self.large_replies = self.large_replies - before + session.slots.large();
        Some(session.client)
    }

    /// `sr_status_flags`: revoked delegations, until they are freed; a back channel that cannot be used any more. The path for callbacks is down when none of the connections it was bound to is left.
    fn status_flags(&self, id: SessionId, client: ClientId) -> u32 {
        let down = |id: &SessionId| {
            self.sessions.get(id).is_some_and(|s| s.wants_back_channel && s.back_channels.is_empty())
        };
        let mut flags = 0;
        if self.clients.get(&client).is_some_and(|client| client.revoked > 0) {
            flags |= RECALLABLE_STATE_REVOKED;
        }
        if self.sessions.get(&id).is_some_and(|session| session.back_slots.faulty) {
            flags |= BACKCHANNEL_FAULT;
        }
        if down(&id) {
            flags |= CB_PATH_DOWN_SESSION;
            if self.clients.get(&client).is_some_and(|client| client.sessions.iter().all(down)) {
                flags |= CB_PATH_DOWN;
            }
        }
        flags
    }
}
