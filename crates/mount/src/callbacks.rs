use std::sync::Arc;

use async_trait::async_trait;
use nfs4::{NfsCbArgOp, NfsCbResOp, NfsStatus};
use nfs4_client::Callback;
use tokio::sync::Notify;

/// What the server calls back for: a lock that somebody waits for may be free now.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub lock_freed: Arc<Notify>,
}

#[async_trait]
impl Callback for Callbacks {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        match operation {
            NfsCbArgOp::NotifyLock(_) => {
                self.lock_freed.notify_waiters();
                NfsCbResOp::NotifyLock(NfsStatus::Ok)
            }
            // No delegations are asked for, so there is nothing to be had back.
            NfsCbArgOp::Recall(_) => NfsCbResOp::Recall(NfsStatus::BadStateId),
            NfsCbArgOp::RecallAny(_) => NfsCbResOp::RecallAny(NfsStatus::Ok),
            operation => NfsCbResOp::failure(operation.op_code(), NfsStatus::NotSupp),
        }
    }
}
