//! Many small requests in few compounds, each of which may fail without harm to the others.

use std::sync::Arc;

use nfs4::{NfsArgOp, NfsResOp, NfsStatus};
use onc_rpc::Credential;

use super::exchange::DELAYS;
use super::limits::is_about_size;
use super::live_session::LiveSession;
use super::shared::Shared;
use crate::ClientError;

/// Operations in one compound at the most.
const BATCH: usize = 128;

/// Bytes of their results, one with the other, at the most: the server has to keep them. OPEN with a delegation has about
/// 300, PUTFH before it 8.
const RESULT_BYTES: u32 = 200;

impl Shared {
    /// Executes groups of operations, each of which begins with PUTFH, as many in one compound as fit. The results of
    /// each group that succeeded, or the status of the operation that failed.
    pub async fn run_groups(
        self: &Arc<Shared>,
        session: &Arc<LiveSession>,
        credential: &Arc<Credential>,
        groups: &[Vec<NfsArgOp>],
    ) -> Result<Vec<Result<Vec<NfsResOp>, NfsStatus>>, ClientError> {
        let limits = self.limits.get();
        let most = BATCH.min(limits.operations.min(limits.cached_response_bytes / RESULT_BYTES) as usize);
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
            if outcomes.len() == before {
                return Err(ClientError::UnexpectedResult { expected: first[0].op_code() });
            }
            let is_only = outcomes.len() == before + 1;
            match outcomes.last() {
                // Again from this one on.
                Some(Err(NfsStatus::Delay | NfsStatus::Grace)) if delays < DELAYS => {
                    outcomes.pop();
                    delays += 1;
                    back_off.wait().await;
                }
                // There was no room for it behind the others.
                Some(Err(status)) if !is_only && is_about_size(*status) => drop(outcomes.pop()),
                _ => {}
            }
        }
        Ok(outcomes)
    }
}
