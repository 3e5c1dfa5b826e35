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
        match test(&shared, &session).await {
            // More may have been revoked meanwhile: if the flags are still there, it is tested once more.
            Ok(freed) if freed > 0 => session.flags.store(0, SeqCst),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "state ids not tested");
                // With the next reply that has the flags it is tried again, unless that is in vain.
                if !matches!(error, ClientError::UnexpectedResult { .. }) {
                    session.flags.store(0, SeqCst);
                }
            }
        }
        shared.is_testing.store(false, SeqCst);
    });
}

/// How many were revoked.
async fn test(shared: &Arc<Shared>, session: &Arc<LiveSession>) -> Result<usize, ClientError> {
    let mut freed = 0;
    let held = shared.holdings.state_ids();
    for batch in held.chunks(BATCH) {
        let state_ids = batch.iter().map(|state_id| state_id.newest()).collect();
        let request = [NfsArgOp::TestStateId(TestStateIdArgs { state_ids })];
        let reply = shared.run_in(session, &shared.credential, &request).await?;
        let results = reply.into_results()?;
        let Some(NfsResOp::TestStateId(Outcome::Ok(statuses))) = results.first() else {
            return Err(ClientError::UnexpectedResult { expected: nfs4::OpCode::TestStateId });
        };
        for (state_id, status) in batch.iter().zip(statuses) {
            if is_revoked(*status) {
                shared.holdings.lose_state(state_id, *status);
                free(shared, session, *state_id).await?;
                freed += 1;
            }
        }
    }
    Ok(freed)
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
