//! Opens, locks and delegations that the client keeps (RFC 8881 §9, §10).

use std::borrow::Cow;
use std::sync::Arc;

use nfs4::{
    Component, DelegReturnArgs, FileHandle, LockRes, LockType, NfsArgOp, NfsResOp, OpCode, OpenArgs,
    OpenClaim, OpenDelegation, OpenHow, OpenOk, Outcome, StateOwner,
};

use super::Client;
use super::open_state::{LockOwner, OpenState, delegation_id};
use super::revocation::is_revoked;
use crate::operations::{close, first_lock, further_lock, open, put_handle, unlock};
use crate::{ClientError, Reply};

impl Client {
    /// Opens a file by name, and keeps it open until [`close_file`](Self::close_file). `access` as in
    /// [`nfs4::bits::share_access`]; nothing is denied to others. An owner that opens a file twice has one open.
    pub async fn open_file(
        &self,
        directory: &FileHandle,
        name: impl Into<Component>,
        access: u32,
        how: OpenHow,
        owner: StateOwner,
    ) -> Result<Arc<OpenState>, ClientError> {
        let request = [put_handle(directory), open(name, access, how, owner.clone()), NfsArgOp::GetFh];
        self.open_by(&request, access, owner).await
    }

    /// The same for a file whose handle is known (CLAIM_FH).
    pub async fn open_handle(
        &self,
        handle: &FileHandle,
        access: u32,
        owner: StateOwner,
    ) -> Result<Arc<OpenState>, ClientError> {
        let request = [put_handle(handle), by_handle(access, owner.clone()), NfsArgOp::GetFh];
        self.open_by(&request, access, owner).await
    }

    async fn open_by(
        &self,
        request: &[NfsArgOp],
        access: u32,
        owner: StateOwner,
    ) -> Result<Arc<OpenState>, ClientError> {
        let (reply, instance) = self.call(|| Ok(Cow::Borrowed(request))).await?;
        let mut results = reply.into_results()?;
        let (Some(NfsResOp::GetFh(Outcome::Ok(handle))), Some(NfsResOp::Open(Outcome::Ok(opened)))) =
            (results.pop(), results.pop())
        else {
            return Err(ClientError::UnexpectedResult { expected: OpCode::Open });
        };
        Ok(self.keep(handle, (access, nfs4::bits::share_deny::NONE), owner, &opened, instance))
    }

    /// Keeps a file open that a compound of the caller's has opened: it is reclaimed when need be, until
    /// [`close_file`](Self::close_file). `owner` and `share` (access and deny) are those of the OPEN.
    pub fn adopt(
        &self,
        handle: FileHandle,
        share: (u32, u32),
        owner: StateOwner,
        opened: &OpenOk,
    ) -> Arc<OpenState> {
        let instance = self.shared.newest.borrow().as_ref().map_or(0, |session| session.instance);
        self.keep(handle, share, owner, opened, instance)
    }

    /// A compound of the caller's has closed the file: it is not reclaimed any more.
    pub fn closed(&self, open: &OpenState) {
        let mut held = open.held.lock();
        held.open = None;
        held.locks.clear();
        let is_empty = delegation_id(&held.delegation).is_none();
        drop(held);
        if is_empty {
            self.shared.holdings.remove(open);
        }
    }

    /// A compound of the caller's has given back the file's delegation: it is not reclaimed any more.
    pub fn returned(&self, open: &OpenState) {
        let mut held = open.held.lock();
        held.delegation = OpenDelegation::None;
        let is_empty = held.open.is_none();
        drop(held);
        if is_empty {
            self.shared.holdings.remove(open);
        }
    }

    fn keep(
        &self,
        handle: FileHandle,
        share: (u32, u32),
        owner: StateOwner,
        opened: &OpenOk,
        instance: u64,
    ) -> Arc<OpenState> {
        let open = OpenState::new(handle, owner, self.credential.clone(), share, opened, instance);
        let open = Arc::new(open);
        self.shared.holdings.insert(open.clone());
        self.shared.return_if_asked(&open);
        open
    }

    /// Opens the same file for more, under the same owner.
    pub async fn upgrade(&self, open: &OpenState, access: u32) -> Result<(), ClientError> {
        let build = || {
            open.state_id()?;
            Ok(Cow::Owned(vec![put_handle(open.handle()), by_handle(access, open.owner().clone())]))
        };
        let (reply, _) = self.call(build).await?;
        let Some(NfsResOp::Open(Outcome::Ok(opened))) = reply.into_results()?.pop() else {
            return Err(ClientError::UnexpectedResult { expected: OpCode::Open });
        };
        let mut held = open.held.lock();
        held.access |= access & nfs4::bits::share_access::BOTH;
        held.open = Some(opened.state_id);
        if delegation_id(&opened.delegation).is_some() {
            held.delegation = opened.delegation;
        }
        Ok(())
    }

    /// Closes the file. Its delegation, if there is one, stays.
    pub async fn close_file(&self, open: &OpenState) -> Result<(), ClientError> {
        // From here on it is not reclaimed.
        let Some(state_id) = open.held.lock().open.take() else { return Ok(()) };
        let request = [put_handle(open.handle()), close(state_id.newest())];
        let mut outcome = self.call(|| Ok(Cow::Borrowed(&request))).await;
        if let Err(ClientError::Unknown) = outcome {
            // Closing it twice does no harm: the second time it is not open any more.
            outcome = self.call(|| Ok(Cow::Borrowed(&request))).await;
        }
        let error = match outcome {
            Ok((Reply { status, .. }, _)) if status.is_ok() || is_revoked(status) => None,
            Ok((reply, _)) => reply.into_results().err(),
            Err(error) => Some(error),
        };
        let mut held = open.held.lock();
        if let Some(error) = error {
            held.open.get_or_insert(state_id);
            return Err(error);
        }
        held.locks.clear();
        let is_empty = delegation_id(&held.delegation).is_none();
        drop(held);
        if is_empty {
            self.shared.holdings.remove(open);
        }
        Ok(())
    }

    /// Gives the file's delegation back, if it has one: after [`CB_RECALL`](nfs4::NfsCbArgOp::Recall), or when it is not
    /// needed any more.
    pub async fn return_delegation(&self, open: &OpenState) -> Result<(), ClientError> {
        let Some(state_id) = delegation_id(&open.delegation()) else { return Ok(()) };
        let back = NfsArgOp::DelegReturn(DelegReturnArgs { state_id: state_id.newest() });
        let request = [put_handle(open.handle()), back];
        let (reply, _) = self.call(|| Ok(Cow::Borrowed(&request))).await?;
        if !is_revoked(reply.status) {
            reply.into_results()?;
        }
        let mut held = open.held.lock();
        if delegation_id(&held.delegation) == Some(state_id) {
            held.delegation = OpenDelegation::None;
        }
        let is_empty = held.open.is_none();
        drop(held);
        if is_empty {
            self.shared.holdings.remove(open);
        }
        Ok(())
    }

    /// Locks a range of an open file for a lock-owner; `length` all ones means up to the end. A lock in the way is
    /// [`ClientError::Operation`] with `NFS4ERR_DENIED`. After [`ClientError::Unknown`] what was locked before still is, but a lock for
    /// writing may have become one for reading, if that was asked for.
    ///
    /// Of two calls of one lock-owner at the same time, [`Client::unlock`] included, nobody knows which was done last: where their ranges
    /// overlap, one has to wait for the other.
    pub async fn lock(
        &self,
        open: &OpenState,
        owner: &StateOwner,
        lock_type: LockType,
        offset: u64,
        length: u64,
    ) -> Result<(), ClientError> {
        let build = || {
            let state_id = open.state_id()?;
            let held = open.held.lock();
            let locks = held.locks.iter().find(|lock| lock.owner == *owner);
            let lock = match locks {
                Some(lock) => further_lock(lock.state_id.newest(), lock_type, offset, length),
                None => first_lock(state_id, owner.clone(), lock_type, offset, length),
            };
            Ok(Cow::Owned(vec![put_handle(open.handle()), lock]))
        };
        let range = (offset, offset.saturating_add(length));
        let request = Arc::default();
        // Where it has locked for writing and now locks for reading, others may do that, too.
        let giving_up =
            (!lock_type.is_write()).then(|| open.giving_up(owner, range, Some(lock_type), &request));
        let locked = self.call_by(&request, build).await;
        let locked = locked.and_then(|(reply, instance)| match reply.into_results()?.pop() {
            Some(NfsResOp::Lock(LockRes::Ok(state_id))) => Ok((state_id, instance)),
            _ => Err(ClientError::UnexpectedResult { expected: OpCode::Lock }),
        });
        if let Some(giving_up) = giving_up {
            giving_up.settle(may_be_done(&locked));
        }
        let (state_id, instance) = locked?;
        let mut held = open.held.lock();
        if held.locks_instance != instance {
            // The server has restarted since, and nobody has reclaimed it.
            return Err(ClientError::Unknown);
        }
        let index = match held.locks.iter().position(|lock| lock.owner == *owner) {
            Some(index) => index,
            None => {
                held.locks.push(LockOwner { owner: owner.clone(), state_id, ranges: Vec::new() });
                held.locks.len() - 1
            }
        };
        let locks = &mut held.locks[index];
        locks.state_id = state_id;
        locks.set(range.0, range.1, Some(lock_type));
        Ok(())
    }

    /// Unlocks a range that this lock-owner has locked, or part of it. What is not locked stays so, which is no error.
    pub async fn unlock(
        &self,
        open: &OpenState,
        owner: &StateOwner,
        offset: u64,
        length: u64,
    ) -> Result<(), ClientError> {
        let mut unlocked = self.try_unlock(open, owner, offset, length).await;
        if let Err(ClientError::Unknown) = unlocked {
            // Unlocking it twice does no harm.
            unlocked = self.try_unlock(open, owner, offset, length).await;
        }
        unlocked
    }

    async fn try_unlock(
        &self,
        open: &OpenState,
        owner: &StateOwner,
        offset: u64,
        length: u64,
    ) -> Result<(), ClientError> {
        let build = || {
            open.state_id()?;
            let locks = open.locks_of(owner).map(|locks| unlock(locks, offset, length));
            Ok(Cow::Owned([put_handle(open.handle())].into_iter().chain(locks).collect()))
        };
        let request = Arc::default();
        let giving_up = open.giving_up(owner, (offset, offset.saturating_add(length)), None, &request);
        let unlocked = self.call_by(&request, build).await;
        let unlocked = unlocked.and_then(|(reply, instance)| match reply.into_results()?.pop() {
            Some(NfsResOp::Unlock(Outcome::Ok(state_id))) => {
                open.set_locks_id(owner, state_id, instance);
                Ok(())
            }
            // The server knows of no locks of this owner since it restarted.
            Some(NfsResOp::PutFh(_)) => Ok(()),
            _ => Err(ClientError::UnexpectedResult { expected: OpCode::Unlock }),
        });
        giving_up.settle(may_be_done(&unlocked));
        unlocked
    }
}

/// Whether it was done, or nobody knows.
fn may_be_done<T>(result: &Result<T, ClientError>) -> bool {
    matches!(
        result,
        Ok(_) | Err(ClientError::Unknown | ClientError::Malformed(_) | ClientError::UnexpectedResult { .. })
    )
}

fn by_handle(access: u32, owner: StateOwner) -> NfsArgOp {
    NfsArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: access,
        share_deny: nfs4::bits::share_deny::NONE,
        owner,
        how: OpenHow::NoCreate,
        claim: OpenClaim::FileHandle,
    })
}
