//! The end of a client (RFC 8881 §18.37, §18.50).

use std::sync::Arc;

use nfs4::{DelegReturnArgs, DestroyClientIdArgs, DestroySessionArgs, NfsArgOp, NfsStatus, OpenDelegation};

use super::identity::destroy_left_behind;
use super::live_session::LiveSession;
use super::open_state::delegation_id;
use super::shared::Shared;
use crate::operations::{close, put_handle};
use crate::{ClientError, wire};

/// How often it is tried again for want of an answer, or as there are sessions left.
const ATTEMPTS: u32 = 8;

/// Closes all files and gives back all delegations, many in one compound; what fails goes with the client. The session in
/// which that was done.
pub(super) async fn close_all(shared: &Arc<Shared>) -> Result<Arc<LiveSession>, ClientError> {
    let mut attempts = 0;
    loop {
        let session = shared.session().await?;
        attempts += 1;
        match close_all_in(shared, &session).await {
            Ok(()) => return Ok(session),
            // Perhaps all of it is reclaimed in the next one.
            Err(ClientError::SessionLost) if attempts < ATTEMPTS => shared.lose(&session, false),
            Err(error) => return Err(error),
        }
    }
}

async fn close_all_in(shared: &Arc<Shared>, session: &Arc<LiveSession>) -> Result<(), ClientError> {
    let mut waiting = shared.holdings.all();
    while let Some(first) = waiting.first() {
        let credential = first.credential.clone();
        let (own, others): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|open| open.credential == credential);
        let mut groups = Vec::new();
        for open in &own {
            let held = open.held.lock();
            if let Some(state_id) = delegation_id(&held.delegation) {
                let back = NfsArgOp::DelegReturn(DelegReturnArgs { state_id: state_id.newest() });
                groups.push(vec![put_handle(open.handle()), back]);
            }
            if let Some(state_id) = held.open.filter(|_| held.lost.is_none()) {
                groups.push(vec![put_handle(open.handle()), close(state_id.newest())]);
            }
        }
        shared.run_groups(session, &credential, &groups).await?;
        for open in own {
            let mut held = open.held.lock();
            (held.open, held.delegation) = (None, OpenDelegation::None);
            drop(held);
            shared.holdings.remove(&open);
        }
        waiting = others;
    }
    Ok(())
}

/// Destroys the session, on a connection of it, and the client id. Either may be gone already.
pub(super) async fn destroy(shared: &Shared, session: &LiveSession) -> Result<(), ClientError> {
    let destroy = NfsArgOp::DestroySession(DestroySessionArgs { session: session.id });
    let client = NfsArgOp::DestroyClientId(DestroyClientIdArgs { client: session.client });
    insist(shared, session, destroy, NfsStatus::BadSession).await?;
    let (_, peer) = shared.trunk.any().await;
    destroy_left_behind(shared, &peer, session.minor_version).await;
    insist(shared, session, client, NfsStatus::StaleClientId).await
}

/// `gone`: how the server says that there is nothing to destroy.
async fn insist(
    shared: &Shared,
    session: &LiveSession,
    operation: NfsArgOp,
    gone: NfsStatus,
) -> Result<(), ClientError> {
    let manner = shared.manner(session.minor_version);
    let mut back_off = shared.back_off();
    let mut attempts = 0;
    loop {
        // A connection that comes back finds out first whether the session is lost.
        let peer = tokio::select! {
            biased;
            line = shared.trunk.least_loaded(session.generation) => line.peer.clone(),
            (_, peer) = async { session.lost.cancelled().await; shared.trunk.any().await } => peer,
        };
        let error = match wire::alone(&peer, manner, operation.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if error.status() == Some(gone) => return Ok(()),
            Err(error) => error,
        };
        // Compounds that are under way end some time; others wait for this no longer than for an answer.
        if !error.asks_to_retry() {
            attempts += 1;
            let is_busy = error.status() == Some(NfsStatus::ClientIdBusy);
            if attempts == ATTEMPTS || !(is_busy || matches!(error, ClientError::Rpc(_))) {
                return Err(error);
            }
        }
        back_off.wait().await;
    }
}
