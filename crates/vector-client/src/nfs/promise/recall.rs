//! Delegations on their way back.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use environment::Clock;
use nfs4::{CbRecallArgs, FileHandle, NfsCbArgOp, NfsCbResOp, NfsStatus, StateId};
use nfs4_client::{Callback, OpenState};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::{ON_THE_WAY, Promises};
use crate::nfs::Nfs;
use crate::nfs::cache::detached;
use crate::nfs::held::SWEEP;

/// A delegation to be given back.
#[derive(Debug)]
pub(in crate::nfs) enum Back {
    /// Of this file.
    Known(Arc<OpenState>),
    /// Of a file whose OPEN is not answered yet, or was not waited for.
    Early(FileHandle, StateId),
}

impl Back {
    fn file(&self) -> &FileHandle {
        match self {
            Back::Known(open) => open.handle(),
            Back::Early(handle, _) => handle,
        }
    }
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
        let known = made.get(&recall.file_handle).filter(|promise| promise.has(&recall.state_id));
        // Also of a known one, if the server says it once more in an answer that is on its way.
        self.early.lock().add(&recall.state_id);
        let back = match known {
            Some(promise) => {
                promise.end();
                Back::Known(promise.open.clone())
            }
            None => Back::Early(detached(&recall.file_handle), recall.state_id),
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
    /// `sweeps`: whether files may be [held](crate::nfs::held) that nobody reads any more.
    pub fn begin(
        client: nfs4_client::Client,
        nfs: Weak<Nfs>,
        mut wanted: mpsc::Receiver<Back>,
        clock: &Arc<dyn Clock>,
        sweeps: bool,
    ) -> Returning {
        let clock = clock.clone();
        Returning(tokio::spawn(async move {
            let (mut returns, mut sweep) = (JoinSet::new(), clock.sleep(SWEEP));
            loop {
                tokio::select! {
                    Some(back) = wanted.recv(), if returns.len() < ON_THE_WAY => {
                        let (client, nfs) = (client.clone(), nfs.clone());
                        returns.spawn(async move {
                            if let Some(nfs) = nfs.upgrade() {
                                nfs.let_go_of_file(back.file()).await;
                            }
                            match back {
                                Back::Known(open) => client.bring_back(&open).await,
                                Back::Early(handle, state_id) => client.bring_back_early(&handle, state_id).await,
                            }
                        });
                    }
                    Some(_) = returns.join_next() => {}
                    () = &mut sweep, if sweeps => {
                        sweep = clock.sleep(SWEEP);
                        if let Some(nfs) = nfs.upgrade() {
                            nfs.let_go_of_idle();
                        }
                    }
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
