//! The end of a client (RFC 8881 §18.37, §18.50).

use nfs4::{DestroyClientIdArgs, DestroySessionArgs, NfsArgOp, NfsStatus};

use super::live_session::LiveSession;
use super::shared::Shared;
use crate::{ClientError, wire};

/// How often it is tried again for want of an answer, or as the server puts it off.
const ATTEMPTS: u32 = 8;

/// Destroys the session, on a connection of it, and the client id. Either may be gone already.
pub(super) async fn destroy(shared: &Shared, session: &LiveSession) -> Result<(), ClientError> {
    let destroy = NfsArgOp::DestroySession(DestroySessionArgs { session: session.id });
    let client = NfsArgOp::DestroyClientId(DestroyClientIdArgs { client: session.client });
    insist(shared, session, destroy, NfsStatus::BadSession).await?;
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
        attempts += 1;
        match wire::alone(&peer, manner, operation.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if error.status() == Some(gone) => return Ok(()),
            Err(error)
                if attempts < ATTEMPTS && (error.asks_to_retry() || matches!(error, ClientError::Rpc(_))) =>
            {
                back_off.wait().await;
            }
            Err(error) => return Err(error),
        }
    }
}
