//! Many small requests in few compounds, each of which may fail without harm to the others.

use std::sync::Arc;

use nfs4::{NfsArgOp, NfsResOp, NfsStatus};
use onc_rpc::Credential;

use super::exchange::DELAYS;
use super::live_session::LiveSession;
use super::shared::Shared;
use crate::ClientError;

/// Operations of the recovery in one compound at the most.
const BATCH: usize = 128;

impl Shared {
    /// Executes groups of operations, each of which begins with PUTFH, as many in one compound as fit. The results of
    /// each group that succeeded, or the status of the operation that failed.
    pub async fn run_groups(
        self: &Arc<Shared>,
        session: &Arc<LiveSession>,
        credential: &Arc<Credential>,
        groups: &[Vec<NfsArgOp>],
    ) -> Result<Vec<Result<Vec<NfsResOp>, NfsStatus>>, ClientError> {
        let most = BATCH.min(self.limits.get().operations as usize);
        let mut outcomes = Vec::with_capacity(groups.len());
        let mut back_off = self.back_off();
        let mut delays = 0;
        while let Some(first) = groups.get(outcomes.len()) {
            let mut request = first.clone();
            for group in &groups[outcomes.len() + 1..] {
                if request.len() + group.len() > most {
                    break;
                }
                request.extend(group.iter().cloned());
            }
            let reply = self.run_in(session, credential, &request).await?;
            let mut results = reply.results.into_iter();
            let before = outcomes.len();
            while let Some(group) = groups.get(outcomes.len())
                && results.len() > 0
            {
                let done: Vec<_> = results.by_ref().take(group.len()).collect();
                match done.last().map_or(NfsStatus::Ok, NfsResOp::status) {
                    NfsStatus::Ok if done.len() == group.len() => outcomes.push(Ok(done)),
                    NfsStatus::Ok => break,
                    status => outcomes.push(Err(status)),
                }
            }
            let is_put_off =
                |outcome: &Result<_, NfsStatus>| matches!(outcome, Err(NfsStatus::Delay | NfsStatus::Grace));
            if outcomes.len() == before {
                return Err(ClientError::UnexpectedResult { expected: first[0].op_code() });
            }
            // Again from this one on.
            if delays < DELAYS && outcomes.pop_if(|last| is_put_off(last)).is_some() {
                delays += 1;
                back_off.wait().await;
            }
        }
        Ok(outcomes)
    }
}
