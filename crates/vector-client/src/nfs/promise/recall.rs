//! Delegations on their way back.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use environment::Clock;
use nfs4::{CbRecallArgs, DelegReturnArgs, FileHandle, NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsStatus, StateId};
use nfs4_client::operations::put_handle;
use nfs4_client::{Callback, ClientError, OpenState};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::{EARLY, ON_THE_WAY, Promises, delegated};
use crate::nfs::cache::detached;

/// How often a return is tried.
const TRIES: u32 = 10;

/// The first pause before it is tried again; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

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
    pub fn begin(
        client: nfs4_client::Client,
        mut wanted: mpsc::Receiver<Back>,
        clock: Arc<dyn Clock>,
    ) -> Returning {
        Returning(tokio::spawn(async move {
            let mut returns = JoinSet::new();
            loop {
                tokio::select! {
                    Some(back) = wanted.recv(), if returns.len() < ON_THE_WAY => {
                        let (client, clock) = (client.clone(), clock.clone());
                        returns.spawn(async move { insist(&*clock, || give_back(&client, &back)).await });
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

async fn give_back(client: &nfs4_client::Client, back: &Back) -> Result<(), ClientError> {
    match back {
        Back::Known(open) => client.return_delegation(open).await,
        Back::Early(handle, state_id) => {
            let back = NfsArgOp::DelegReturn(DelegReturnArgs { state_id: state_id.newest() });
            client.compound(&[put_handle(handle), back]).await?.into_results().map(drop)
        }
    }
}

/// Tries it until it is done, or refused for good. Giving a delegation back twice does no harm; if nothing helps, the server revokes it.
async fn insist<F: Future<Output = Result<(), ClientError>>>(clock: &dyn Clock, attempt: impl Fn() -> F) {
    let mut pause = PAUSE;
    for _ in 0..TRIES {
        match attempt().await {
            Err(ClientError::Unknown | ClientError::Unreachable { .. } | ClientError::SessionLost) => {}
            Err(error) if error.asks_to_retry() => {}
            _ => return,
        }
        clock.sleep(pause).await;
        pause *= 2;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use ids::Timestamp;

    use super::*;

    /// Every pause is over at once.
    struct Hasty;

    #[async_trait]
    impl Clock for Hasty {
        fn wall(&self) -> Timestamp {
            Timestamp::default()
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }

        async fn sleep(&self, _: Duration) {}
    }

    /// How often it is tried if the attempts have these results, and succeed then.
    async fn tries(results: impl Fn(u32) -> Option<ClientError>) -> u32 {
        let count = AtomicU32::new(0);
        let attempt = || std::future::ready(results(count.fetch_add(1, SeqCst)).map_or(Ok(()), Err));
        insist(&Hasty, attempt).await;
        count.into_inner()
    }

    #[tokio::test]
    async fn a_delegation_goes_back_though_the_server_cannot_be_reached_or_has_no_time_at_first() {
        let later = |number| match number {
            0 => Some(ClientError::Unreachable { last: None }),
            1 => Some(ClientError::Unknown),
            2 => Some(ClientError::Refused { status: NfsStatus::Delay }),
            3 => Some(ClientError::SessionLost),
            _ => None,
        };
        assert_eq!(tries(later).await, 5);
        assert_eq!(tries(|_| Some(ClientError::Refused { status: NfsStatus::BadHandle })).await, 1);
        assert_eq!(tries(|_| Some(ClientError::Unknown)).await, TRIES, "not for ever");
    }
}
