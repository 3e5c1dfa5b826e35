//! Sessions and the connections they are bound to (RFC 8881 §2.10).

use nfs4::{ClientId, NfsStatus, SessionId};
use onc_rpc::{ConnectionId, Credential};

use super::callback::BackSlots;
use super::slot_table::SlotTable;
use super::{Principal, State};

/// Limits of one direction of a session (`channel_attrs4`, RFC 8881 §18.36.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub max_request: u32,
    pub max_response: u32,
    pub max_response_cached: u32,
    pub operations: u32,
    pub slots: u32,
}

#[derive(Debug)]
pub(super) struct Session {
    pub client: ClientId,
    /// Who made it, which need not be who made the client id (§18.36.4).
    pub principal: Principal,
    pub fore: Channel,
    pub slots: SlotTable,
    /// Connections that requests came on (§2.10.3.1).
    pub connections: Vec<ConnectionId>,
    /// Whether the client asked for a back channel when it made the session.
    pub wants_back_channel: bool,
    /// Connections that callbacks may use, oldest first, but those in doubt before all others.
    pub back_channels: Vec<ConnectionId>,
    /// Those of them that count when their probe is answered, as one before them failed.
    pub in_doubt: Vec<ConnectionId>,
    /// Probes that failed since one was answered.
    pub failed_probes: u32,
    pub callback_program: u32,
    /// How callbacks present themselves.
    pub callback_credential: Credential,
    /// Of the request that made the session: callbacks carry the same.
    pub minor_version: u32,
    pub back_slots: BackSlots,
}

/// Connections kept per session, for callbacks and in all; later ones replace the oldest.
const MAX_CONNECTIONS: usize = 64;

impl Session {
    /// A request came on this connection: without state protection that makes it one of the session (§2.10.3.1).
    pub fn came_on(&mut self, connection: ConnectionId) {
        if !self.connections.contains(&connection) {
            keep(&mut self.connections, connection);
        }
    }

    /// No callback is sent on this connection any more.
    pub fn unbind(&mut self, connection: ConnectionId) {
        self.back_channels.retain(|bound| *bound != connection);
        self.in_doubt.retain(|bound| *bound != connection);
    }

    /// Whether requests are being run in it, but for the one that asks if it is `within`.
    fn has_under_way(&self, within: bool) -> bool {
        self.slots.busy() > usize::from(within)
    }

    /// Whether a callback can be sent.
    pub fn can_call(&self) -> bool {
        self.back_channels.iter().any(|bound| !self.in_doubt.contains(bound)) && !self.back_slots.faulty
    }
}

fn keep(connections: &mut Vec<ConnectionId>, connection: ConnectionId) {
    if connections.len() == MAX_CONNECTIONS {
        connections.remove(0);
    }
    connections.push(connection);
}

impl State {
    /// BIND_CONN_TO_SESSION (RFC 8881 §18.34); `back` asks for callbacks on this connection. Without state
    /// protection the fore channel needs no binding (§2.10.3.1).
    pub fn bind_connection(
        &mut self,
        id: SessionId,
        connection: ConnectionId,
        back: bool,
    ) -> Result<(), NfsStatus> {
        let session = self.sessions.get_mut(&id).ok_or(NfsStatus::BadSession)?;
        session.came_on(connection);
        session.unbind(connection);
        if back {
            keep(&mut session.back_channels, connection);
            if session.failed_probes > 0 {
                session.back_channels.rotate_right(1);
                session.in_doubt.push(connection);
            }
            session.wants_back_channel = true;
            let client = session.client;
            self.call(client);
            self.probe(id, connection);
        }
        Ok(())
    }

    /// BACKCHANNEL_CTL (RFC 8881 §18.33).
    pub fn set_callback(
        &mut self,
        id: SessionId,
        program: u32,
        credential: Credential,
    ) -> Result<(), NfsStatus> {
        let session = self.sessions.get_mut(&id).ok_or(NfsStatus::BadSession)?;
        (session.callback_program, session.callback_credential) = (program, credential);
        Ok(())
    }

    /// A connection is gone; no callback will be sent on it.
    pub fn connection_lost(&mut self, connection: ConnectionId) {
        for session in self.sessions.values_mut() {
            session.connections.retain(|bound| *bound != connection);
            session.unbind(connection);
        }
        self.line_lost(connection);
    }

    /// DESTROY_SESSION (RFC 8881 §18.37): by the principal that made it, on a connection of it. Put off while requests in it are being run,
    /// but for this one if it is in a session, `within`: once a client has destroyed a session nothing that was sent in it happens any
    /// more.
    pub fn destroy_session(
        &mut self,
        id: SessionId,
        principal: Principal,
        connection: ConnectionId,
        within: Option<SessionId>,
    ) -> Result<(), NfsStatus> {
        let session = self.sessions.get(&id).ok_or(NfsStatus::BadSession)?;
        if session.principal != principal {
            return Err(NfsStatus::WrongCred);
        }
        if !session.connections.contains(&connection) {
            return Err(NfsStatus::ConnNotBoundToSession);
        }
        if session.has_under_way(within == Some(id)) {
            return Err(NfsStatus::Delay);
        }
        self.drop_session(id);
        Ok(())
    }

    /// Whether requests of this client are being run, but for the one that asks if it is in a session, `within`.
    pub(super) fn has_under_way(&self, client: ClientId, within: Option<SessionId>) -> bool {
        let sessions = self.clients.get(&client).into_iter().flat_map(|client| &client.sessions);
        let mut known = sessions.filter_map(|id| Some((id, self.sessions.get(id)?)));
        known.any(|(id, session)| session.has_under_way(within == Some(*id)))
    }

    pub(super) fn drop_session(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.remove(&id) {
            self.reply_cache_bytes -= session.fore.cache_bytes();
            self.large_replies -= session.slots.large();
            if let Some(client) = self.clients.get_mut(&session.client) {
                client.sessions.retain(|other| *other != id);
            }
            self.give_back_notices(session.client, session.back_slots);
        }
    }
}
