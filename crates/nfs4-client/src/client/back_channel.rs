use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use nfs4::{CbRecallArgs, NfsCbArgOp, NfsCbResOp, NfsStatus};
use onc_rpc::{Call, Peer, Reply, Service};
use parking_lot::RwLock;
use tokio::runtime::Handle;

use super::shared::Shared;
use crate::Callback;
use crate::callback::BackChannel;

/// Serves the callbacks of all connections of a client, whichever session they belong to now.
pub(super) struct Callbacks {
    receiver: Arc<Receiver>,
    channel: RwLock<Arc<BackChannel>>,
}

/// Takes what concerns the session, and passes on what concerns files.
struct Receiver {
    user: Option<Arc<dyn Callback>>,
    client: OnceLock<Weak<Shared>>,
}

impl Callbacks {
    pub fn new(user: Option<Arc<dyn Callback>>) -> Callbacks {
        let receiver = Arc::new(Receiver { user, client: OnceLock::new() });
        let channel = RwLock::new(Arc::new(BackChannel::of_next_session(receiver.clone())));
        Callbacks { receiver, channel }
    }

    /// Whether the server may call back.
    pub fn are_wanted(&self) -> bool {
        self.receiver.user.is_some()
    }

    /// Says whose callbacks these are, before the first one.
    pub fn belong_to(&self, client: &Arc<Shared>) {
        self.receiver.client.get_or_init(|| Arc::downgrade(client));
    }

    /// Who gave this delegation has asked for it back in the same breath (RFC 8881 §18.16.3), and will not call for it.
    pub fn recall(&self, runtime: &Handle, recall: CbRecallArgs) {
        if let Some(user) = self.receiver.user.clone() {
            runtime.spawn(async move { drop(user.call(NfsCbArgOp::Recall(recall)).await) });
        }
    }

    /// A session is about to be made: the callbacks of any other one are no longer executed.
    pub fn of_next_session(&self) -> Arc<BackChannel> {
        let channel = Arc::new(BackChannel::of_next_session(self.receiver.clone()));
        *self.channel.write() = channel.clone();
        channel
    }
}

#[async_trait]
impl Service for Callbacks {
    async fn call(&self, call: Call, peer: &Peer) -> Reply {
        let channel = self.channel.read().clone();
        channel.call(call, peer).await
    }
}

#[async_trait]
impl Callback for Receiver {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        match (operation, &self.user) {
            (NfsCbArgOp::RecallSlot(arguments), _) => {
                if let Some(client) = self.client.get().and_then(Weak::upgrade) {
                    client.use_slots_up_to(arguments.target_highest_slot);
                }
                NfsCbResOp::RecallSlot(NfsStatus::Ok)
            }
            (operation, Some(user)) => user.call(operation).await,
            (operation, None) => NfsCbResOp::failure(operation.op_code(), NfsStatus::NotSupp),
        }
    }
}
