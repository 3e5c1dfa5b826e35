use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use nfs4::{NfsCbArgOp, NfsCbResOp, NfsStatus};
use nfs4_client::Callback;
use tokio::sync::Notify;

use crate::core::Core;

/// What the server calls back for: a lock that somebody waits for may be free now, and delegations that it wants back.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub lock_freed: Arc<Notify>,
    /// Set before the first file is opened.
    pub core: OnceLock<Weak<Core>>,
}

#[async_trait]
impl Callback for Callbacks {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        let core = self.core.get().and_then(Weak::upgrade);
        match (operation, core) {
            (NfsCbArgOp::NotifyLock(_), _) => {
                self.lock_freed.notify_waiters();
                NfsCbResOp::NotifyLock(NfsStatus::Ok)
            }
            (NfsCbArgOp::Recall(recall), Some(core)) => NfsCbResOp::Recall(core.recall(recall)),
            (NfsCbArgOp::Recall(_), None) => NfsCbResOp::Recall(NfsStatus::BadStateId),
            (NfsCbArgOp::RecallAny(any), core) => {
                if let Some(core) = core {
                    core.keep_delegations(any.objects_to_keep as usize);
                }
                NfsCbResOp::RecallAny(NfsStatus::Ok)
            }
            (operation, _) => NfsCbResOp::failure(operation.op_code(), NfsStatus::NotSupp),
        }
    }
}
