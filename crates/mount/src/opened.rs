use std::sync::Arc;

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{NfsArgOp, NfsStatus, StateId, StateOwner};
use nfs4_client::{Client, ClientError, OpenState, operations};
use parking_lot::Mutex;
use rustix::fs::OFlags;

use crate::answers::Answers;
use crate::inode::Inode;

/// How often an operation is repeated that the server has lost, or whose open it has lost.
const REPEATS: u32 = 8;

/// A file that the kernel has open, and that is open at the server.
pub(crate) struct Opened {
    pub inode: Arc<Inode>,
    pub client: Client,
    state: Mutex<Arc<OpenState>>,
}

/// An owner of opens that nobody else is: each open of the kernel's is one of its own at the server, so that closing one does not
/// close another.
pub(crate) fn new_owner(number: u64) -> StateOwner {
    operations::owner(Bytes::copy_from_slice(&number.to_be_bytes()))
}

/// `share_access` for these flags of open.
pub(crate) fn access(flags: i32) -> u32 {
    match OFlags::from_bits_retain(flags as u32) & OFlags::RWMODE {
        OFlags::WRONLY => share_access::WRITE,
        OFlags::RDWR => share_access::BOTH,
        _ => share_access::READ,
    }
}

impl Opened {
    pub fn new(inode: Arc<Inode>, client: Client, state: Arc<OpenState>) -> Opened {
        Opened { inode, client, state: Mutex::new(state) }
    }

    pub fn state(&self) -> Arc<OpenState> {
        self.state.lock().clone()
    }

    pub fn writes(&self) -> bool {
        self.state.lock().access() & share_access::WRITE != 0
    }

    /// Executes operations on the open file, which become the compound behind PUTFH. What the server has lost and not given
    /// back is opened again, unless locks went with it.
    pub async fn run(
        &self,
        build: impl Fn(StateId) -> Vec<NfsArgOp> + Send + Sync,
    ) -> Result<Answers, ClientError> {
        let mut tries = 0;
        loop {
            let state = self.state();
            let compound = || {
                let mut operations = vec![operations::put_handle(&self.inode.handle)];
                operations.extend(build(state.state_id()?));
                Ok(operations)
            };
            let reply = self.client.compound_with(compound).await;
            let error = match reply.and_then(|reply| reply.into_results()) {
                Ok(results) => return Ok(Answers::of(results)),
                Err(error) => error,
            };
            tries += 1;
            // Everything that is done with an open file may be done twice.
            if matches!(error, ClientError::Unknown) && tries <= REPEATS {
                continue;
            }
            if !is_lost(&error) || tries > REPEATS || !self.inode.locks.lock().await.is_empty() {
                return Err(error);
            }
            self.open_again(&state).await?;
        }
    }

    async fn open_again(&self, lost: &Arc<OpenState>) -> Result<(), ClientError> {
        let access = lost.access() | share_access::WANT_NO_DELEG;
        let again = self.client.open_handle(&self.inode.handle, access, lost.owner().clone()).await?;
        // Nothing is left of it at the server; here it is forgotten.
        self.client.closed(lost);
        *self.state.lock() = again;
        Ok(())
    }

    /// Closes it at the server.
    pub async fn close(&self) -> Result<(), ClientError> {
        let state = self.state();
        self.client.close_file(&state).await
    }
}

fn is_lost(error: &ClientError) -> bool {
    match error {
        ClientError::OpenLost { .. } => true,
        error => matches!(
            error.status(),
            Some(
                NfsStatus::BadStateId
                    | NfsStatus::StaleStateId
                    | NfsStatus::Expired
                    | NfsStatus::AdminRevoked
                    | NfsStatus::DelegRevoked
            )
        ),
    }
}
