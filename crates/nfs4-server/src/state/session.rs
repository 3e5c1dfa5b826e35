//! Sessions and the connections they are bound to (RFC 8881 §2.10).

use nfs4::{ClientId, NfsStatus, SessionId};
use onc_rpc::ConnectionId;

use super::State;
use super::slot_table::SlotTable;

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
    pub fore: Channel,
    #[allow(dead_code)] // read by the first feature that calls back
    pub back: Channel,
    pub slots: SlotTable,
    /// Whether the client asked for a back channel when it made the session.
    pub wants_back_channel: bool,
    /// Connections that callbacks may use, oldest first.
    pub back_channels: Vec<ConnectionId>,
    pub callback_program: u32,
}

/// Connections kept per session; later ones replace the oldest.
const MAX_BACK_CHANNELS: usize = 64;

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
        session.back_channels.retain(|bound| *bound != connection);
        if back {
            if session.back_channels.len() == MAX_BACK_CHANNELS {
                session.back_channels.remove(0);
            }
            session.back_channels.push(connection);
            session.wants_back_channel = true;
        }
        Ok(())
    }

    /// BACKCHANNEL_CTL (RFC 8881 §18.33).
    pub fn set_callback_program(&mut self, id: SessionId, program: u32) -> Result<(), NfsStatus> {
        self.sessions.get_mut(&id).ok_or(NfsStatus::BadSession)?.callback_program = program;
        Ok(())
    }

    /// A connection is gone; no callback will be sent on it.
    pub fn connection_lost(&mut self, connection: ConnectionId) {
        for session in self.sessions.values_mut() {
            session.back_channels.retain(|bound| *bound != connection);
        }
    }

    /// DESTROY_SESSION (RFC 8881 §18.37). `within` is the session of the compound's own SEQUENCE. Requests of
    /// other slots run to their end; their replies are no longer kept.
    pub fn destroy_session(&mut self, id: SessionId) -> Result<(), NfsStatus> {
        if !self.sessions.contains_key(&id) {
            return Err(NfsStatus::BadSession);
        }
        self.drop_session(id);
        Ok(())
    }

    pub(super) fn drop_session(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.remove(&id) {
            self.reply_cache_bytes -= session.fore.cache_bytes();
            if let Some(client) = self.clients.get_mut(&session.client) {
                client.sessions.retain(|other| *other != id);
            }
        }
    }
}
