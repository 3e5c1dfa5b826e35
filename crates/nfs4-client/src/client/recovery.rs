//! From no session to one in which everything is as it was (RFC 8881 §8.4.2, §2.10.13).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nfs4::{Attribute, NfsArgOp, NfsResOp, NfsStatus, Outcome, ReclaimCompleteArgs};
use onc_rpc::Credential;

use super::exchange::{Exchanged, Request, exchange};
use super::identity::destroy_left_behind;
use super::live_session::LiveSession;
use super::reclaim;
use super::shared::{Phase, Shared};
use crate::operations::get_attributes;
use crate::{ClientError, Reply, wire};

/// Makes a new session, again and again until there is one or the client stops. A task of its own; boxed, as it may
/// begin another one in the end.
pub(super) fn recover(shared: Arc<Shared>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(run(shared))
}

async fn run(shared: Arc<Shared>) {
    let mut back_off = shared.back_off();
    let attempts = async {
        loop {
            match establish(&shared).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(%error, "not back yet");
                    shared.phase.send_if_modified(|phase| {
                        let is_down = matches!(phase, Phase::Down(_));
                        if is_down {
                            *phase = Phase::Down(Some(Arc::new(error)));
                        }
                        is_down
                    });
                    back_off.wait().await;
                }
            }
        }
    };
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = attempts => shared.counters.recoveries.add(1),
    }
}

/// One attempt: a session, all state of the client in it, and only then compounds.
pub(super) async fn establish(shared: &Arc<Shared>) -> Result<(), ClientError> {
    let mut identity = shared.identity.lock().await;
    let (line, peer) = shared.trunk.any().await;
    if shared.restarted.swap(false, Relaxed) {
        identity.restarted();
    }
    let session = match identity.create_session(shared, &peer).await {
        Ok(session) => session,
        Err(error) => {
            if matches!(error, ClientError::Rpc(_)) {
                peer.close();
            }
            if error.status() == Some(NfsStatus::NoSpc) {
                // As many as a client may have are those that it has given up.
                destroy_left_behind(shared, &peer, identity.minor_version()).await;
            }
            return Err(error);
        }
    };
    // CREATE_SESSION binds its connection; the others follow.
    shared.trunk.bind_this(line, &peer, session.generation);
    let before = shared.newest.send_replace(Some(session.clone()));
    if before.is_some_and(|before| before.instance != session.instance) {
        // What was granted before is given back at best, and others may have had it in between (RFC 8881 §8.4.2, §8.6.3).
        shared.standing.doubt();
    }
    destroy_left_behind(shared, &peer, session.minor_version).await;
    if !identity.is_complete {
        learn_lease(shared, &session).await?;
    }
    reclaim::reclaim(shared, &session, identity.instance).await?;
    if !identity.is_complete {
        say_complete(shared, &session).await?;
        identity.is_complete = true;
    }
    // Whoever finds the session lost from here on begins another recovery.
    let is_up = shared.phase.send_if_modified(|phase| {
        let goes_up = !matches!(phase, Phase::Closed) && !session.lost.is_cancelled();
        if goes_up {
            *phase = Phase::Up(session.clone());
        }
        goes_up
    });
    if is_up { Ok(()) } else { Err(ClientError::SessionLost) }
}

/// Nothing is left to reclaim (RFC 8881 §18.51).
async fn say_complete(shared: &Arc<Shared>, session: &Arc<LiveSession>) -> Result<(), ClientError> {
    let complete = NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    let reply = shared.run_in(session, &shared.credential, &[complete]).await?;
    match reply.status {
        NfsStatus::Ok | NfsStatus::CompleteAlready => Ok(()),
        _ => reply.into_results().map(drop),
    }
}

/// Asks for the lease time. A server that does not let this client see its root keeps it to itself.
async fn learn_lease(shared: &Arc<Shared>, session: &Arc<LiveSession>) -> Result<(), ClientError> {
    let request = [NfsArgOp::PutRootFh, get_attributes(Attribute::set(&[Attribute::LeaseTime]))];
    let reply = shared.run_in(session, &shared.credential, &request).await?;
    if let Some(NfsResOp::GetAttr(Outcome::Ok(attributes))) = reply.results.last()
        && let Some(seconds) = attributes.values()?.lease_time
    {
        shared.set_lease(seconds);
    }
    Ok(())
}

impl Shared {
    /// Executes a compound in this session, whether or not it is there for everybody yet.
    pub async fn run_in(
        self: &Arc<Shared>,
        session: &Arc<LiveSession>,
        credential: &Arc<Credential>,
        operations: &[NfsArgOp],
    ) -> Result<Reply, ClientError> {
        let slot = tokio::select! {
            biased;
            () = session.lost.cancelled() => return Err(ClientError::SessionLost),
            slot = session.slots.take() => slot,
        };
        let request = Request {
            credential: credential.clone(),
            body: wire::encode(session.minor_version, Some(slot.arguments(true)), operations),
            operations: operations.len(),
            is_atomic: false,
            counters: [Some(self.counters.clone()), None],
        };
        match exchange(self.clone(), session.clone(), slot, request, Arc::default()).await {
            Exchanged::Answer(reply) => Ok(reply),
            Exchanged::Failed(error) => Err(error),
            Exchanged::Lost { .. } | Exchanged::NoSlot | Exchanged::Abandoned => {
                Err(ClientError::SessionLost)
            }
            Exchanged::Forgotten => Err(ClientError::Unknown),
        }
    }
}
