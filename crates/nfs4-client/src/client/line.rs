//! Keeps one connection open and bound to the newest session (RFC 8881 §2.10.5, §18.34).

use std::sync::Arc;

use nfs4::{
    BindConnToSessionArgs, BindConnToSessionOk, ChannelDirFromClient, NfsArgOp, NfsResOp, NfsStatus, OpCode,
    Outcome,
};
use onc_rpc::Peer;

use super::live_session::LiveSession;
use super::shared::Shared;
use crate::ClientError;
use crate::wire;

/// Runs until the client stops.
pub(super) async fn keep(shared: Arc<Shared>, index: usize) {
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = keep_open(&shared, index) => {}
    }
    shared.trunk.disconnected(index);
}

async fn keep_open(shared: &Arc<Shared>, index: usize) {
    let trunk = &shared.trunk;
    let mut newest = shared.newest.subscribe();
    let mut back_off = shared.back_off();
    let mut attempt = 0;
    loop {
        let peer = match trunk.peer(index) {
            Some(peer) => peer,
            None => match shared.dial(index, attempt).await {
                Ok(peer) => {
                    trunk.connected(index, peer.clone(), shared.now());
                    peer
                }
                Err(error) => {
                    tracing::debug!(%error, index, "no connection");
                    attempt += 1;
                    trunk.failed(index);
                    back_off.wait().await;
                    continue;
                }
            },
        };
        let session = newest.borrow_and_update().clone();
        if let Some(session) = session
            && trunk.bound(index) != session.generation
            && !session.lost.is_cancelled()
        {
            match bind(shared, index, &peer, &session).await {
                Ok(()) => trunk.bind(index, session.generation),
                Err(ClientError::SessionLost) => shared.lose(&session, false),
                Err(error) => {
                    tracing::debug!(%error, index, "connection not bound");
                    attempt += 1;
                    trunk.disconnected(index);
                    trunk.failed(index);
                    back_off.wait().await;
                    continue;
                }
            }
        }
        tokio::select! {
            () = peer.closed() => {
                // One that did not live for long is not replaced at once, and again and again.
                let lived = shared.now().saturating_sub(trunk.since(index));
                trunk.disconnected(index);
                shared.counters.reconnects.add(1);
                if lived > *shared.options.back_off.end() {
                    back_off.reset();
                } else {
                    back_off.wait().await;
                }
            }
            changed = newest.changed() => if changed.is_err() { return },
            () = trunk.is_to_rebind(index) => {}
        }
    }
}

/// Binds a connection to the session. [`ClientError::SessionLost`]: the server does not know it.
async fn bind(
    shared: &Arc<Shared>,
    index: usize,
    peer: &Peer,
    session: &LiveSession,
) -> Result<(), ClientError> {
    let manner = shared.manner(session.minor_version);
    if shared.addresses.len() > 1 && trunk_is_split(shared, index, peer, session).await? {
        // A server that could take over has to do it for all connections.
        return Err(ClientError::Refused { status: NfsStatus::BadSession });
    }
    let direction = if shared.callbacks.are_wanted() {
        ChannelDirFromClient::ForeOrBoth
    } else {
        ChannelDirFromClient::Fore
    };
    let arguments = BindConnToSessionArgs { session: session.id, direction, use_rdma: false };
    match wire::alone(peer, manner, NfsArgOp::BindConnToSession(arguments)).await {
        Ok(NfsResOp::BindConnToSession(Outcome::Ok(BindConnToSessionOk { .. }))) => Ok(()),
        Ok(_) => Err(ClientError::UnexpectedResult { expected: OpCode::BindConnToSession }),
        Err(error) if error.status().is_some_and(ends_session) => Err(ClientError::SessionLost),
        // Without state protection the first SEQUENCE binds it, too (RFC 8881 §2.10.3.1).
        Err(error) if error.status() == Some(NfsStatus::NotSupp) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether this address leads to another server than the other connections do (RFC 8881 §2.10.5): to one that knows
/// neither the client nor its session, while the others work.
async fn trunk_is_split(
    shared: &Arc<Shared>,
    index: usize,
    peer: &Peer,
    session: &LiveSession,
) -> Result<bool, ClientError> {
    let others = (0..shared.trunk.len()).any(|other| {
        other != index
            && shared.trunk.bound(other) == session.generation
            && shared.trunk.peer(other).is_some()
    });
    if !others {
        return Ok(false);
    }
    let manner = shared.manner(session.minor_version);
    let known = wire::identify(peer, manner, &shared.options.owner, shared.options.verifier).await?;
    Ok(known.client != session.client)
}

/// Whether the server says by this status of SEQUENCE or BIND_CONN_TO_SESSION that it does not know the session.
pub(super) fn ends_session(status: NfsStatus) -> bool {
    matches!(
        status,
        NfsStatus::BadSession | NfsStatus::DeadSession | NfsStatus::StaleClientId | NfsStatus::Expired
    )
}
