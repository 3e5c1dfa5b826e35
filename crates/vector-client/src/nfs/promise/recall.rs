//! Delegations on their way back.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use nfs4::{CbRecallArgs, DelegReturnArgs, FileHandle, NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsStatus, StateId};
use nfs4_client::operations::put_handle;
use nfs4_client::{Callback, ClientError, OpenState};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::{EARLY, Promises, delegated};
use crate::nfs::cache::detached;

/// How often a return is tried.
const TRIES: u32 = 3;

/// A delegation to be given back.
#[derive(Debug)]
pub(in crate::nfs) enum Back {
    /// Of this file.
    Known(Arc<OpenState>),
    /// Of a file whose OPEN is not answered yet, or was not waited for.
    Early(FileHandle, StateId),
}

/// What the server calls.
pub(in crate::nfs) struct Recalls(pub Weak<Promises>);

#[async_trait]
impl Callback for Recalls {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        let promises = self.0.upgrade();
        match (operation, promises) {
            (NfsCbArgOp::Recall(recall), Some(promises)) => NfsCbResOp::Recall(promises.recall(recall)),
            (NfsCbArgOp::RecallAny(any), Some(promises)) => {
                promises.keep_only(any.objects_to_keep as usize);
                NfsCbResOp::RecallAny(NfsStatus::Ok)
            }
            (operation, _) => NfsCbResOp::failure(operation.op_code(), NfsStatus::NotSupp),
        }
    }
}

impl Promises {
    fn recall(&self, recall: CbRecallArgs) -> NfsStatus {
        // From here on nothing is believed, whenever it is given back.
        let mut made = self.made.write();
        let known = made
            .get(&recall.file_handle)
            .filter(|promise| delegated(&promise.open).is_some_and(|id| id.other == recall.state_id.other));
        let back = match known {
            Some(promise) => {
                promise.end();
                Back::Known(promise.open.clone())
            }
            None => {
                let mut early = self.early.lock();
                if early.len() == EARLY {
                    early.pop_front();
                }
                early.push_back(recall.state_id.other);
                Back::Early(detached(&recall.file_handle), recall.state_id)
            }
        };
        match self.back.try_send(back) {
            Ok(()) => {
                made.remove(&recall.file_handle);
                NfsStatus::Ok
            }
            Err(_) => NfsStatus::Delay,
        }
    }

    /// Gives back all but so many.
    fn keep_only(&self, most: usize) {
        let mut made = self.made.write();
        let more = made.len().saturating_sub(most);
        let handles: Vec<FileHandle> = made.keys().take(more).cloned().collect();
        for handle in handles {
            let Some(promise) = made.get(&handle) else { continue };
            if self.back.try_send(Back::Known(promise.open.clone())).is_err() {
                break;
            }
            promise.end();
            made.remove(&handle);
        }
    }
}

/// The task that gives back; ends with this.
pub(in crate::nfs) struct Returning(JoinHandle<()>);

impl Returning {
    pub fn begin(client: nfs4_client::Client, mut wanted: mpsc::Receiver<Back>) -> Returning {
        Returning(tokio::spawn(async move {
            let mut returns = JoinSet::new();
            loop {
                tokio::select! {
                    Some(back) = wanted.recv() => {
                        let client = client.clone();
                        returns.spawn(async move { give_back(&client, back).await });
                    }
                    Some(_) = returns.join_next() => {}
                    else => break,
                }
            }
        }))
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn give_back(client: &nfs4_client::Client, back: Back) {
    for _ in 0..TRIES {
        let result = match &back {
            Back::Known(open) => client.return_delegation(open).await,
            Back::Early(handle, state_id) => {
                let back = NfsArgOp::DelegReturn(DelegReturnArgs { state_id: state_id.newest() });
                client.compound(&[put_handle(handle), back]).await.map(drop)
            }
        };
        // Giving it back twice does no harm. If nothing helps, the server revokes it.
        if !matches!(result, Err(ClientError::Unknown)) {
            return;
        }
    }
}
