//! Calling clients of 4.0 back, over the connections that are made to them ([`crate::minor0::Path`]).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use nfs4::{ClientId, NfsStatus};
use onc_rpc::{ConnectionId, Credential};

use super::callback::{CallbackEnd, OutgoingCallback, Way};
use super::probe::pause;
use super::{Held, State};
use crate::minor0::{Callback, Loss, Path};

/// What is to be done to connections.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Paths that wait to be dialled: each once, so never more than clients and paths that were replaced meanwhile.
    to_dial: VecDeque<(ClientId, u64)>,
    to_close: Vec<ConnectionId>,
    /// Paths so far.
    paths: u64,
}

/// A connection to be made now, and to be probed by CB_NULL.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub client: ClientId,
    pub path: u64,
    pub address: SocketAddr,
    pub program: u32,
    pub credential: Credential,
}

impl State {
    /// From now on the client is called back there, or nowhere. It is tried at once.
    pub fn replace_path(&mut self, client: ClientId, callback: Option<Callback>) {
        self.end_path(client);
        let Some(callback) = callback.filter(|_| self.config.delegations) else { return };
        self.lines.paths += 1;
        let number = self.lines.paths;
        self.minor0.set_path(client, Path::new(callback, number));
        self.dial(client, number);
    }

    /// The client is not called back any more.
    pub(super) fn end_path(&mut self, client: ClientId) {
        if let Some(connection) = self.minor0.take_path(client).and_then(|path| path.connection()) {
            self.hang_up(connection);
        }
    }

    fn dial(&mut self, client: ClientId, path: u64) {
        self.lines.to_dial.push_back((client, path));
        self.signals.to_call.notify_one();
    }

    fn hang_up(&mut self, connection: ConnectionId) {
        self.lines.to_close.push(connection);
        self.signals.to_call.notify_one();
    }

    /// A connection that can be made now; [`State::end_dial`] must follow.
    pub fn next_dial(&mut self) -> Option<Dial> {
        while let Some((client, number)) = self.lines.to_dial.pop_front() {
            let path = self.minor0.path(client);
            if let Some(path) = path.filter(|path| path.number == number && path.is_dialling()) {
                let (address, program, credential) =
                    (path.address(), path.program(), path.credential().clone());
                return Some(Dial { client, path: number, address, program, credential });
            }
        }
        None
    }

    /// A connection was made, and the client has answered CB_NULL; or not. Says whether it is wanted.
    pub fn end_dial(&mut self, client: ClientId, path: u64, connection: Option<ConnectionId>) -> bool {
        let known = self.minor0.path_mut(client).filter(|known| known.number == path);
        let is_wanted = known.is_some_and(|known| known.dialled(connection));
        if is_wanted {
            self.call(client);
        }
        is_wanted
    }

    /// A connection that is of no use any more.
    pub fn next_hang_up(&mut self) -> Option<ConnectionId> {
        self.lines.to_close.pop()
    }

    /// Tries paths again that are down, as long as their clients are there, and closes idle connections. To be called every
    /// few seconds.
    pub fn look_after_paths(&mut self, now: Duration) {
        for client in self.minor0.with_paths() {
            let expired = self.is_expired(client, now);
            let Some(path) = self.minor0.path_mut(client) else { continue };
            let number = path.number;
            if !expired && path.is_due(now, pause) {
                self.dial(client, number);
            } else if let Some(connection) = path.hang_up_if_idle(now) {
                self.hang_up(connection);
            }
        }
    }

    /// Whether the client holds delegations and cannot be called back (RFC 7530 §16.29.4).
    pub fn is_path_down(&self, client: ClientId) -> bool {
        let holds = self.clients.get(&client).is_some_and(|client| client.delegations > 0);
        holds && self.minor0.path(client).is_none_or(Path::is_down)
    }

    pub(super) fn has_path(&self, client: ClientId) -> bool {
        self.minor0.path(client).is_some_and(Path::is_proved)
    }

    /// A connection has ended.
    pub(super) fn line_lost(&mut self, connection: ConnectionId) {
        let client = self.minor0.client_on(connection);
        if let Some(path) = client.and_then(|client| self.minor0.path_mut(client)) {
            path.lose(connection);
        }
    }

    /// The next callback to a client of 4.0 that can be sent now. If there is something to tell and no connection, one is
    /// asked for.
    pub(super) fn next_callback_on_path(&mut self, client: ClientId) -> Option<OutgoingCallback> {
        if self.clients.get(&client)?.notices.is_empty() {
            return None;
        }
        let path = self.minor0.path_mut(client)?;
        if path.wants_line() {
            let number = path.number;
            self.dial(client, number);
            return None;
        }
        if !path.may_call() {
            return None;
        }
        let notice = self.next_notice(client)?;
        let path = self.minor0.path_mut(client)?;
        Some(OutgoingCallback {
            connection: path.begin_call()?,
            minor_version: 0,
            program: path.program(),
            credential: path.credential().clone(),
            attempts: path.attempts,
            way: Way::Path { client, ident: path.ident() },
            notice,
        })
    }

    /// A callback to a client of 4.0 has ended.
    pub(super) fn end_callback_on_path(
        &mut self,
        client: ClientId,
        callback: &OutgoingCallback,
        end: CallbackEnd,
    ) {
        let connection = callback.connection;
        let mut again = true;
        if let Some(path) = self.minor0.path_mut(client) {
            match end {
                CallbackEnd::Answered(status) => {
                    path.answered(connection, status.is_ok());
                    again = !status.is_ok() && callback.notice.is_insistent();
                }
                CallbackEnd::Refused(NfsStatus::Delay) => path.answered(connection, false),
                // It talks nonsense, or not at all.
                CallbackEnd::Refused(_) | CallbackEnd::Lost => {
                    if path.lose(connection) != Loss::Other {
                        self.hang_up(connection);
                    }
                }
            }
        }
        if let Some(known) = self.clients.get_mut(&client)
            && again
            && !known.notices.contains(&callback.notice)
        {
            known.notices.push_front(callback.notice.clone());
        }
        self.call(client);
    }

    /// Recalls the oldest delegations of a client of 4.0, but `keep`: it cannot be asked to choose.
    pub(super) fn recall_some(&mut self, client: ClientId, keep: usize, now: Duration) {
        let held = self.clients.get(&client).map(|known| &known.held);
        let mut delegations: Vec<_> = held
            .into_iter()
            .flatten()
            .filter(|other| matches!(self.held.get(*other), Some(Held::Delegation(_))))
            .copied()
            .collect();
        // Their names are counted up.
        delegations.sort_unstable();
        delegations.truncate(delegations.len().saturating_sub(keep));
        delegations.iter().for_each(|other| self.start_recall(*other, now));
    }
}
