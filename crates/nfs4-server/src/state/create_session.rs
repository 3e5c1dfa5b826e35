//! CREATE_SESSION (RFC 8881 §18.36).

use std::time::Duration;

use environment::mutant::{Mutant, is_broken};
use nfs4::{ClientId, NfsStatus, SessionId};
use onc_rpc::{ConnectionId, Credential};

use super::callback::BackSlots;
use super::session::{Channel, Session};
use super::slot_table::{SMALL_REPLY, SlotTable};
use super::{Principal, Refusal, State};

/// A compound of SEQUENCE, PUTFH and one small operation must fit; on the back channel CB_SEQUENCE and CB_RECALL.
const SMALLEST_MESSAGE: u32 = 256;

/// Bytes that every slot may keep, however little the client asks for: a SEQUENCE and an error.
const SMALLEST_CACHED: u32 = 256;

/// The arguments that matter for state.
#[derive(Clone, Debug)]
pub(crate) struct CreateSession {
    /// The id of the session, if one is made: random.
    pub session: SessionId,
    pub client: ClientId,
    pub sequence: u32,
    pub principal: Principal,
    /// The connection that this came on, which becomes one of the session's (§18.36.3).
    pub connection: ConnectionId,
    pub fore: Channel,
    pub back: Channel,
    /// Whether to call back on that connection (`CREATE_SESSION4_FLAG_CONN_BACK_CHAN`).
    pub back_channel: bool,
    /// RPC program for callbacks.
    pub callback_program: u32,
    /// How callbacks present themselves.
    pub callback_credential: Credential,
    pub minor_version: u32,
    /// The session that the request itself is run in, if it is in one.
    pub within: Option<SessionId>,
}

/// The result that state determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionGrant {
    pub session: SessionId,
    pub sequence: u32,
    pub fore: Channel,
    pub back: Channel,
    /// Whether the connection became the back channel.
    pub back_channel: bool,
}

impl State {
    /// The four phases of RFC 8881 §18.36.4.
    pub fn create_session(
        &mut self,
        request: &CreateSession,
        now: Duration,
    ) -> Result<SessionGrant, Refusal> {
        // Phase 1: the client's record.
        let client = self.session_client(request.client)?;

        // Phase 2: the sequence. A refusal made nothing, so its number may be used again; clients do not agree on
        // whether it has to be.
        let is_next = request.sequence == client.create_sequence.wrapping_add(1);
        match client.create_result {
            // Whoever repeats it (§18.36.4): to take a session away it needs its maker all the same.
            Some(Ok(grant)) if request.sequence == client.create_sequence => return Ok(grant),
            Some(Err(_)) if request.sequence == client.create_sequence => {}
            _ if is_next => {}
            _ => return Err(NfsStatus::SeqMisordered.into()),
        }

        // Phase 3: confirmation.
        let (owner, confirmed) = (client.owner.clone(), client.confirmed);
        if !confirmed && client.principal != request.principal {
            return Err(NfsStatus::ClidInUse.into());
        }
        let former = if confirmed { None } else { self.incarnations(&owner).0 };
        if let Some(former) = former {
            // What its former life has sent must not happen after the next one has looked at what there is.
            self.stop_offloads(former);
            let is_alive = self.has_under_way(former, request.within) || self.is_in_piece(former);
            if is_alive && !is_broken(Mutant::FormerLife) {
                let client = self.client_mut(request.client)?;
                client.create_sequence = request.sequence;
                client.create_result = Some(Err(NfsStatus::Delay));
                return Err(NfsStatus::Delay.into());
            }
        }
        self.make_room_for_session(request, now)?;
        if let Some(former) = former {
            // The client restarted: what its former incarnation held is released (§18.35.4, case 5).
            self.drop_client(former);
        }

        // Phase 4: the session.
        let result = self.grant_session(request);
        let client = self.client_mut(request.client)?;
        client.create_sequence = request.sequence;
        client.create_result = Some(result);
        if result.is_ok() {
            client.confirmed = true;
            client.renewed = now;
        }
        result.map_err(Refusal::Status)
    }

    /// When most of the memory for reply caches is given away, silent clients make room before a session gets less
    /// than it asks for.
    fn make_room_for_session(&self, request: &CreateSession, now: Duration) -> Result<(), Refusal> {
        let limits = &self.config.limits;
        let slots = |left| negotiate_fore(&request.fore, left, 0, limits).map_or(0, |channel| channel.slots);
        let left = self.reply_cache_left();
        if left < limits.reply_cache_bytes / 2
            && slots(left) < slots(limits.reply_cache_bytes)
            && let Some(silent) =
                self.longest_expired(now, |other| other.id != request.client && !other.sessions.is_empty())
        {
            return Err(Refusal::Expired(silent));
        }
        Ok(())
    }

    fn reply_cache_left(&self) -> u64 {
        self.config.limits.reply_cache_bytes.saturating_sub(self.reply_cache_bytes)
    }

    fn grant_session(&mut self, request: &CreateSession) -> Result<SessionGrant, NfsStatus> {
        let limits = self.config.limits;
        let sessions = self.client(request.client)?.sessions.len();
        if sessions >= limits.sessions_per_client {
            return Err(NfsStatus::NoSpc);
        }
        // Those who came first may have taken everything, with sessions that are well and busy.
        let share = if sessions == 0 { limits.reply_cache_bytes / limits.clients.max(1) as u64 } else { 0 };
        let fore = negotiate_fore(&request.fore, self.reply_cache_left(), share, &limits)?;
        let back = negotiate_back(&request.back)?;
        let session = request.session;
        if self.sessions.contains_key(&session) {
            return Err(NfsStatus::ServerFault);
        }

        self.reply_cache_bytes += fore.cache_bytes();
        self.sessions.insert(
            session,
            Session {
                client: request.client,
                principal: request.principal,
                slots: SlotTable::new(fore.slots),
                fore,
                connections: vec![request.connection],
                wants_back_channel: request.back_channel,
                back_channels: request.back_channel.then_some(request.connection).into_iter().collect(),
                in_doubt: Vec::new(),
                failed_probes: 0,
                callback_program: request.callback_program,
                callback_credential: request.callback_credential.clone(),
                minor_version: request.minor_version,
                back_slots: BackSlots::new(back.slots),
            },
        );
        self.client_mut(request.client)?.sessions.push(session);
        self.call(request.client);
        if request.back_channel {
            self.probe(session, request.connection);
        }
        Ok(SessionGrant {
            session,
            sequence: request.sequence,
            fore,
            back,
            back_channel: request.back_channel,
        })
    }
}

/// What one slot may keep in any case.
fn slot_bytes(cached: u32) -> u64 {
    u64::from(cached.clamp(SMALLEST_CACHED, SMALL_REPLY))
}

/// At most what is asked for and what the limits allow (RFC 8881 §18.36.3). Replies may be kept in a quarter of what is
/// left for that, and in `share` if that is more.
fn negotiate_fore(
    asked: &Channel,
    cache_left: u64,
    share: u64,
    limits: &crate::Limits,
) -> Result<Channel, NfsStatus> {
    if asked.max_request < SMALLEST_MESSAGE || asked.max_response < SMALLEST_MESSAGE {
        return Err(NfsStatus::TooSmall);
    }
    if asked.slots == 0 || asked.operations == 0 {
        return Err(NfsStatus::Inval);
    }
    let max_response = asked.max_response.min(limits.message_bytes);
    let mut cached = asked.max_response_cached.min(limits.cached_reply_bytes).min(max_response);
    if cache_left < slot_bytes(cached) {
        // One slot at least, for replies as large as the share.
        cached = cached.min(u32::try_from(share).unwrap_or(u32::MAX));
        if share < slot_bytes(cached) {
            return Err(NfsStatus::NoSpc);
        }
    }
    let affordable = ((cache_left / 4).max(share) / slot_bytes(cached)).max(1);
    let slots = u64::from(asked.slots.min(limits.slots)).min(affordable);
    Ok(Channel {
        max_request: asked.max_request.min(limits.message_bytes),
        max_response,
        max_response_cached: cached,
        operations: asked.operations.min(limits.operations),
        slots: slots as u32,
    })
}

/// The client's limits hold on the back channel; we need little.
fn negotiate_back(asked: &Channel) -> Result<Channel, NfsStatus> {
    if asked.max_request < SMALLEST_MESSAGE || asked.max_response < SMALLEST_MESSAGE || asked.operations < 2 {
        return Err(NfsStatus::TooSmall);
    }
    Ok(Channel {
        max_request: asked.max_request.min(64 << 10),
        max_response: asked.max_response.min(64 << 10),
        max_response_cached: asked.max_response_cached.min(64 << 10),
        operations: asked.operations.min(16),
        slots: asked.slots.min(16),
    })
}

impl Channel {
    /// What the slots may keep in any case, all together.
    pub(super) fn cache_bytes(&self) -> u64 {
        u64::from(self.slots) * slot_bytes(self.max_response_cached)
    }
}
