//! Who the client is to the server: its client id, and sessions of it (RFC 8881 §2.4, §2.10.8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use nfs4::bits::{create_session, exchange_id};
use nfs4::{
    BindConnToSessionArgs, ChannelDirFromClient, ClientId, CreateSessionArgs, CreateSessionOk,
    DestroySessionArgs, NfsArgOp, NfsResOp, NfsStatus, OpCode, Outcome,
};
use onc_rpc::Peer;
use tokio_util::sync::CancellationToken;

use super::live_session::LiveSession;
use super::shared::Shared;
use super::slots::SlotTable;
use crate::ClientError;
use crate::callback::{CALLBACK_PROGRAM, back_channel_attributes};
use crate::wire;

/// How often a server may put off what makes the client known to it, one time.
const DELAYS: u32 = 16;

/// Most slots used, whatever the server grants.
const MAX_SLOTS: u32 = 4096;

/// What is known between one session and the next.
#[derive(Default)]
pub(super) struct Identity {
    known: Option<Known>,
    /// Counts the times that the server did not know the client's state any more: state held since an earlier one is to
    /// be reclaimed.
    pub instance: u64,
    /// RECLAIM_COMPLETE was said in this instance.
    pub is_complete: bool,
    /// Sessions made so far.
    pub generation: u64,
    /// That the server speaks; found out once.
    minor_version: Option<u32>,
}

#[derive(Clone, Copy)]
struct Known {
    client: ClientId,
    /// Of the next CREATE_SESSION.
    sequence: u32,
    /// CREATE_SESSION or EXCHANGE_ID has said that the server has confirmed it.
    confirmed: bool,
}

impl Identity {
    /// Makes a session over this connection; of the known client id if the server still knows it.
    pub async fn create_session(
        &mut self,
        shared: &Arc<Shared>,
        peer: &Peer,
    ) -> Result<Arc<LiveSession>, ClientError> {
        if let Some(known) = self.known {
            match self.create_session_of(shared, peer, known).await {
                Err(error) if matches!(error.status(), Some(NfsStatus::StaleClientId)) => {}
                // The count is lost; EXCHANGE_ID says it.
                Err(error) if matches!(error.status(), Some(NfsStatus::SeqMisordered)) => {}
                result => return result,
            }
        }
        let result = self.begin_anew(shared, peer).await;
        match result {
            // What an earlier life has sent came late, and took the place of what was made known now.
            Err(error) if matches!(error.status(), Some(NfsStatus::StaleClientId)) => {
                self.begin_anew(shared, peer).await
            }
            result => result,
        }
    }

    async fn begin_anew(
        &mut self,
        shared: &Arc<Shared>,
        peer: &Peer,
    ) -> Result<Arc<LiveSession>, ClientError> {
        let known = self.exchange_id(shared, peer).await?;
        if !known.confirmed || self.known.is_none_or(|before| before.client != known.client) {
            self.instance += 1;
            self.is_complete = false;
        }
        self.known = Some(known);
        self.create_session_of(shared, peer, known).await
    }

    /// That the server speaks, as far as is known.
    pub fn minor_version(&self) -> u32 {
        self.minor_version.unwrap_or_default()
    }

    /// The client's state is gone though the client id is not: it restarted with its sessions kept.
    pub fn restarted(&mut self) {
        self.instance += 1;
        self.is_complete = false;
    }

    /// EXCHANGE_ID in the best minor version that the server speaks (RFC 8881 §2.7).
    async fn exchange_id(&mut self, shared: &Arc<Shared>, peer: &Peer) -> Result<Known, ClientError> {
        let candidates = match self.minor_version {
            Some(version) => vec![version],
            None => shared.options.minor_versions.clone(),
        };
        let mut refused = ClientError::Refused { status: NfsStatus::MinorVersMismatch };
        for minor_version in candidates {
            let (owner, verifier) = (&shared.options.owner, shared.options.verifier);
            let identify = || wire::identify(peer, shared.manner(minor_version), owner, verifier);
            match patiently(shared, identify).await {
                Ok(known) => {
                    self.minor_version = Some(minor_version);
                    return Ok(Known {
                        client: known.client,
                        sequence: known.sequence_id,
                        confirmed: known.flags & exchange_id::CONFIRMED_R != 0,
                    });
                }
                Err(error) if error.status() == Some(NfsStatus::MinorVersMismatch) => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    async fn create_session_of(
        &mut self,
        shared: &Arc<Shared>,
        peer: &Peer,
        known: Known,
    ) -> Result<Arc<LiveSession>, ClientError> {
        // If the answer is lost, the same request is sent again and gets the same session (§18.36.4).
        let arguments = CreateSessionArgs {
            client: known.client,
            sequence_id: known.sequence,
            flags: if shared.callbacks.are_wanted() { create_session::CONN_BACK_CHAN } else { 0 },
            fore_channel: shared.options.fore_channel(),
            back_channel: back_channel_attributes(),
            callback_program: CALLBACK_PROGRAM,
            callback_security: vec![wire::callback_security(&shared.credential)],
        };
        let back_channel = shared.callbacks.of_next_session();
        let minor_version = self.minor_version();
        let create = || {
            let operation = NfsArgOp::CreateSession(arguments.clone());
            wire::alone(peer, shared.manner(minor_version), operation)
        };
        let sent = shared.now();
        let created = match patiently(shared, create).await? {
            NfsResOp::CreateSession(Outcome::Ok(created)) => created,
            _ => return Err(ClientError::UnexpectedResult { expected: OpCode::CreateSession }),
        };
        let CreateSessionOk { session, fore_channel, .. } = created;
        back_channel.begin(session);
        shared.renewed_at(sent);
        self.known = Some(Known { sequence: known.sequence.wrapping_add(1), confirmed: true, ..known });
        self.generation += 1;
        let most = shared.options.slots.clamp(1, MAX_SLOTS);
        let slots = fore_channel.max_requests.clamp(1, most);
        shared.limits.grant(&fore_channel, slots);
        Ok(Arc::new(LiveSession {
            generation: self.generation,
            instance: self.instance,
            client: known.client,
            id: session,
            minor_version,
            slots: Arc::new(SlotTable::new(session, slots)),
            lost: CancellationToken::new(),
            is_over: AtomicBool::new(false),
            flags: AtomicU32::new(0),
        }))
    }
}

/// Destroys the sessions that were given up, as far as the server still knows them. Those that it still runs requests of are left for another
/// time, and all from the first on that there is no answer to.
pub(super) async fn destroy_left_behind(shared: &Shared, peer: &Peer, minor_version: u32) {
    let mut left_behind = std::mem::take(&mut *shared.left_behind.lock());
    while let Some(session) = left_behind.pop() {
        // On a connection of the session only (§18.37.3), and its own have often ended before it.
        let bind = BindConnToSessionArgs { session, direction: ChannelDirFromClient::Fore, use_rdma: false };
        let bind = NfsArgOp::BindConnToSession(bind);
        let bound = wire::alone(peer, shared.manner(minor_version), bind).await;
        if matches!(bound, Err(ClientError::Rpc(_))) {
            shared.left_behind.lock().push(session);
            break;
        }
        let destroy = NfsArgOp::DestroySession(DestroySessionArgs { session });
        if let Err(error) = wire::alone(peer, shared.manner(minor_version), destroy).await {
            tracing::debug!(%error, "a former session is left to the server");
            let is_unanswered = matches!(error, ClientError::Rpc(_));
            if is_unanswered || error.asks_to_retry() {
                shared.left_behind.lock().push(session);
            }
            if is_unanswered {
                break;
            }
        }
    }
    shared.left_behind.lock().append(&mut left_behind);
}

/// Does something outside of a session, again after a pause for as long as the server puts it off.
async fn patiently<T, F: Future<Output = Result<T, ClientError>>>(
    shared: &Shared,
    attempt: impl Fn() -> F,
) -> Result<T, ClientError> {
    let mut back_off = shared.back_off();
    for _ in 0..DELAYS {
        match attempt().await {
            Err(error) if error.asks_to_retry() => {
                shared.put_off(error);
                back_off.wait().await;
            }
            result => return result,
        }
    }
    attempt().await
}
