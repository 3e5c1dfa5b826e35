//! Finds out which state the server has revoked, and frees it (RFC 8881 §8.3, §18.46.3, §18.38, §18.48).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use nfs4::{FreeStateIdArgs, NfsArgOp, NfsResOp, NfsStatus, Outcome, StateId, TestStateIdArgs};

use super::live_session::LiveSession;
use super::shared::Shared;
use crate::ClientError;

/// State ids tested at once.
const BATCH: usize = 128;

/// Begins to test all that the client holds, unless that is being done.
pub(super) fn begin(shared: &Arc<Shared>, session: &Arc<LiveSession>) {
    if shared.is_testing.swap(true, SeqCst) {
        return;
    }
    let (shared, session) = (shared.clone(), session.clone());
    shared.runtime.clone().spawn(async move {
        if let Err(error) = test(&shared, &session).await {
            tracing::debug!(%error, "state ids not tested");
            // The flags are looked at as if they were new ones.
            session.flags.store(0, SeqCst);
        }
        shared.is_testing.store(false, SeqCst);
    });
}

async fn test(shared: &Arc<Shared>, session: &Arc<LiveSession>) -> Result<(), ClientError> {
    let held = shared.holdings.state_ids();
    for batch in held.chunks(BATCH) {
        let state_ids = batch.iter().map(|state_id| state_id.newest()).collect();
        let request = [NfsArgOp::TestStateId(TestStateIdArgs { state_ids })];
        let reply = shared.run_in(session, &shared.credential, &request).await?;
        let Some(NfsResOp::TestStateId(Outcome::Ok(statuses))) = reply.results.first() else {
            return Err(ClientError::UnexpectedResult { expected: nfs4::OpCode::TestStateId });
        };
        for (state_id, status) in batch.iter().zip(statuses) {
            if is_revoked(*status) {
                shared.holdings.lose_state(state_id, *status);
                free(shared, session, *state_id).await?;
            }
        }
    }
    Ok(())
}

/// The server keeps what it has revoked until the client has acknowledged it.
async fn free(
    shared: &Arc<Shared>,
    session: &Arc<LiveSession>,
    state_id: StateId,
) -> Result<(), ClientError> {
    let request = [NfsArgOp::FreeStateId(FreeStateIdArgs { state_id: state_id.newest() })];
    shared.run_in(session, &shared.credential, &request).await.map(drop)
}

/// Whether the status of an operation says that the server no longer knows the state id it was done under.
pub(super) fn is_revoked(status: NfsStatus) -> bool {
    matches!(
        status,
        NfsStatus::BadStateId
            | NfsStatus::Expired
            | NfsStatus::AdminRevoked
            | NfsStatus::DelegRevoked
            | NfsStatus::StaleStateId
    )
}
