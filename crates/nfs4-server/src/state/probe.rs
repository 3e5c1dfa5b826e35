//! Whether clients can be called back: CB_NULL over each connection that is bound for callbacks (RFC 8881 §20.1).
//!
//! A connection counts until its probe fails. Then it is taken for lost to callbacks: the client is told
//! (`SEQ4_STATUS_CB_PATH_DOWN`) and delegated nothing, before somebody has to wait for it. What it binds after that counts
//! when its probe is answered, and that is sent after a pause: otherwise the two would go on at the pace of the network.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use nfs4::SessionId;
use onc_rpc::{ConnectionId, Credential};

use super::State;

/// Connections to be probed.
#[derive(Debug, Default)]
pub(super) struct ToProbe {
    waiting: VecDeque<(SessionId, ConnectionId)>,
    /// Those that wait or are under way, one of a connection: so there are never more than connections.
    connections: HashSet<ConnectionId>,
}

/// A CB_NULL to be sent now.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub session: SessionId,
    pub connection: ConnectionId,
    pub program: u32,
    pub credential: Credential,
    /// How long to wait first.
    pub pause: Duration,
}

/// Before the probe behind some that failed, and at most; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

pub(super) fn pause(failed: u32) -> Duration {
    match failed.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => LONGEST_PAUSE.min(FIRST_PAUSE * (1 << doublings.min(6))),
    }
}

impl State {
    /// The connection was bound for callbacks of the session.
    pub(super) fn probe(&mut self, session: SessionId, connection: ConnectionId) {
        if self.to_probe.connections.insert(connection) {
            self.to_probe.waiting.push_back((session, connection));
            self.signals.to_call.notify_one();
        }
    }

    /// A probe that can be sent now; [`State::end_probe`] must follow.
    pub fn next_probe(&mut self) -> Option<Probe> {
        while let Some((id, connection)) = self.to_probe.waiting.pop_front() {
            let session = self.sessions.get(&id);
            if let Some(session) = session.filter(|session| session.back_channels.contains(&connection)) {
                return Some(Probe {
                    session: id,
                    connection,
                    program: session.callback_program,
                    credential: session.callback_credential.clone(),
                    pause: pause(session.failed_probes),
                });
            }
            self.to_probe.connections.remove(&connection);
        }
        None
    }

    /// A probe has ended; `answered` if the client took the call.
    pub fn end_probe(&mut self, id: SessionId, connection: ConnectionId, answered: bool) {
        self.to_probe.connections.remove(&connection);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        // It may be gone, or bound for nothing any more.
        if !session.back_channels.contains(&connection) {
            return;
        }
        if !answered {
            session.failed_probes = session.failed_probes.saturating_add(1);
            session.unbind(connection);
            return;
        }
        session.failed_probes = 0;
        session.in_doubt.clear();
        let client = session.client;
        self.call(client);
    }
}
