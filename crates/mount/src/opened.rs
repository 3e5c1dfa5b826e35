use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{NfsArgOp, NfsStatus, StateId, StateOwner};
use nfs4_client::{Client, ClientError, OpenState, operations};
use parking_lot::Mutex;
use rustix::fs::OFlags;

use crate::answers::Answers;
use crate::delegations::Delegated;
use crate::inode::Inode;

/// How often an operation is repeated that the server has lost, or whose open it has lost.
const REPEATS: u32 = 8;

/// A file that the kernel has open, and that is open at the server.
pub(crate) struct Opened {
    pub inode: Arc<Inode>,
    pub client: Client,
    /// Of the open at the server that it gets for itself if it shares one and that is lost or not enough.
    owner: StateOwner,
    under: Mutex<Under>,
    /// The number of the last error of writing that does not concern it, or that it was told of.
    pub told: AtomicU64,
}

/// The open at the server.
struct Under {
    state: Arc<OpenState>,
    /// With whom it is shared.
    delegated: Option<Arc<Delegated>>,
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
        let owner = state.owner().clone();
        Opened::under(inode, client, owner, Under { state, delegated: None })
    }

    /// One that shares the open of a delegated file.
    pub fn sharing(
        inode: Arc<Inode>,
        client: Client,
        delegated: Arc<Delegated>,
        owner: StateOwner,
    ) -> Opened {
        let under = Under { state: delegated.state.clone(), delegated: Some(delegated) };
        Opened::under(inode, client, owner, under)
    }

    fn under(inode: Arc<Inode>, client: Client, owner: StateOwner, under: Under) -> Opened {
        let told = AtomicU64::new(inode.writer.errors_known());
        Opened { inode, client, owner, under: Mutex::new(under), told }
    }

    pub fn state(&self) -> Arc<OpenState> {
        self.under.lock().state.clone()
    }

    pub fn writes(&self) -> bool {
        self.state().access() & share_access::WRITE != 0
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
            if !is_lost(&error) || tries > REPEATS || self.inode.is_locked().await {
                return Err(error);
            }
            self.open_again(&state).await?;
        }
    }

    async fn open_again(&self, lost: &Arc<OpenState>) -> Result<(), ClientError> {
        if !Arc::ptr_eq(&self.state(), lost) {
            return Ok(());
        }
        let access = lost.access() | share_access::WANT_NO_DELEG;
        let again = self.client.open_handle(&self.inode.handle, access, self.owner.clone()).await?;
        let shared = {
            let mut under = self.under.lock();
            under.state = again;
            under.delegated.take()
        };
        match shared {
            Some(delegated) => {
                if let Err(error) = delegated.release().await {
                    tracing::debug!(%error, "a file that is not shared any more cannot be closed at the server");
                }
            }
            // Nothing is left of it at the server; here it is forgotten.
            None => self.client.closed(lost),
        }
        Ok(())
    }

    /// Gets an open at the server for itself, if it shares one: whoever locks must be able to upgrade it. Not twice at once.
    pub async fn stop_sharing(&self) -> Result<(), ClientError> {
        let shared = self.under.lock().delegated.is_some();
        if shared { self.open_again(&self.state()).await } else { Ok(()) }
    }

    /// Closes it at the server, if nobody shares it.
    pub async fn close(&self) -> Result<(), ClientError> {
        let (state, shared) = {
            let mut under = self.under.lock();
            (under.state.clone(), under.delegated.take())
        };
        match shared {
            Some(delegated) => delegated.release().await,
            None => self.client.close_file(&state).await,
        }
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
