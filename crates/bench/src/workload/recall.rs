//! Delegations that are recalled: clients that hold them, and one that opens the files for writing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::bits::share_access;
use nfs4::{CbRecallArgs, DelegReturnArgs, NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsStatus, OpenHow};
use nfs4_client::operations::put_handle;
use nfs4_client::{Callback, Session};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::Client;
use super::locks::files;

/// Gives delegations back as soon as they are recalled.
pub struct Returns {
    recalled: Mutex<Option<mpsc::UnboundedReceiver<CbRecallArgs>>>,
    count: Arc<AtomicU64>,
    /// Ends with the client, as it holds the session, which holds the other end of the channel.
    task: Mutex<JoinSet<()>>,
}

struct Recalls {
    recalled: mpsc::UnboundedSender<CbRecallArgs>,
    count: Arc<AtomicU64>,
}

#[async_trait]
impl Callback for Recalls {
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
        match operation {
            NfsCbArgOp::Recall(recall) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                let _ = self.recalled.send(recall); // nobody listens: the client is gone
                NfsCbResOp::Recall(NfsStatus::Ok)
            }
            other => NfsCbResOp::failure(other.op_code(), NfsStatus::NotSupp),
        }
    }
}

impl Returns {
    pub fn new() -> (Returns, Arc<dyn Callback>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let count = Arc::<AtomicU64>::default();
        let returns =
            Returns { recalled: Mutex::new(Some(receiver)), count: count.clone(), task: Mutex::default() };
        (returns, Arc::new(Recalls { recalled: sender, count }))
    }

    /// Begins to answer recalls on this session.
    pub fn begin(&self, session: Session) {
        let receiver = self.recalled.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut recalled) = receiver else { return };
        self.task.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move {
            while let Some(recall) = recalled.recv().await {
                let back = NfsArgOp::DelegReturn(DelegReturnArgs { state_id: recall.state_id });
                if let Err(error) = session.execute(&[put_handle(&recall.file_handle), back]).await {
                    eprintln!("a delegation could not be given back: {error}");
                }
            }
        });
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Client {
    /// Opens all files for reading, and closes them; with delegations, those stay.
    pub(super) async fn hold_all(&self, shrink: u64, delegated: bool) -> Result<()> {
        let folder = self.shared().await?;
        let hold = |at: u64| {
            let folder = &folder;
            async move {
                let file = match delegated {
                    true => self.open_delegated(at).await?,
                    false => {
                        let access = share_access::READ | share_access::WANT_NO_DELEG;
                        self.open_in(folder, &format!("l{at}"), access, OpenHow::NoCreate).await?
                    }
                };
                self.close(&file).await
            }
        };
        stream::iter((0..files(shrink)).map(hold)).buffer_unordered(16).try_collect().await
    }

    /// Opens the n-th file for reading and writing.
    pub(super) async fn open_for_writing(&self, n: u64, shrink: u64) -> Result<()> {
        let folder = self.shared().await?;
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        let name = format!("l{}", n % files(shrink));
        let file = self.open_in(&folder, &name, access, OpenHow::NoCreate).await?;
        self.close(&file).await
    }
}
