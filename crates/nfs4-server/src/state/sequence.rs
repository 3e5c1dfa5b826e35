//! SEQUENCE (RFC 8881 §18.46): the door every ordinary compound comes through.

use std::time::Duration;

use bytes::Bytes;
use nfs4::{ClientId, NfsStatus, SessionId};
use onc_rpc::ConnectionId;

use super::State;
use super::session::Channel;
use super::slot_table::{Admission, RequestDigest};

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
    /// Run it and call [`State::leave`].
    Run { client: ClientId, channel: Channel, status: SequenceStatus },
    /// Send this.
    Replay(Bytes),
    /// Answer the operation behind SEQUENCE with `NFS4ERR_RETRY_UNCACHED_REP`.
    Uncached { status: SequenceStatus },
}

impl State {
    /// Admits a compound and renews the lease (RFC 8881 §8.3, §18.46.3).
    pub fn enter(&mut self, request: &Sequence, now: Duration) -> Result<Entered, NfsStatus> {
        let has_no_room = self.has_no_room_for_replies_of(request.session);
        let session = self.sessions.get_mut(&request.session).ok_or(NfsStatus::BadSession)?;
        let channel = session.fore;
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
        if request.cache_this && !in_use && !session.slots.keeps_reply(request.slot) && has_no_room {
            return Err(NfsStatus::Delay);
        }
        let kept = session.slots.kept();
        let admission = session.slots.admit(request.slot, request.sequence, request.digest)?;
        self.kept_replies = self.kept_replies - kept + session.slots.kept();
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

    /// The compound is done; `reply` is kept for retries, if the client was promised that or there is room. The session may be gone
    /// meanwhile.
    pub fn leave(
        &mut self,
        session: SessionId,
        slot: u32,
        reply: Option<Bytes>,
        is_promised: bool,
        now: Duration,
    ) {
        let reply = reply.filter(|_| is_promised || !self.has_no_room_for_replies_of(session));
        if let Some(session) = self.sessions.get_mut(&session) {
            let kept = session.slots.kept();
            session.slots.finish(slot, reply);
            self.kept_replies = self.kept_replies - kept + session.slots.kept();
            if let Some(client) = self.clients.get_mut(&session.client) {
                client.renewed = now;
            }
        }
    }

    /// Whether all that may be kept is, and the client of this session has its share of it.
    fn has_no_room_for_replies_of(&self, id: SessionId) -> bool {
        let limits = &self.config.limits;
        if self.kept_replies < limits.reply_cache_bytes {
            return false;
        }
        let client = self.sessions.get(&id).and_then(|session| self.clients.get(&session.client));
        let sessions = client.into_iter().flat_map(|client| &client.sessions);
        let kept: u64 =
            sessions.filter_map(|id| self.sessions.get(id)).map(|session| session.slots.kept()).sum();
        kept >= limits.reply_cache_bytes / limits.clients.max(1) as u64
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
