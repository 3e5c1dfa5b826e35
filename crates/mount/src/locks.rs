//! Locks: those of fcntl and of flock, which are the same to the server. What the kernel calls an owner is a lock-owner there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fuser::Errno;
use nfs4::bits::share_access;
use nfs4::{LockDenied, LockTestArgs, LockTestRes, LockType, NfsArgOp, NfsStatus, StateOwner};
use nfs4_client::{ClientError, operations};

use crate::answers::run;
use crate::attributes::ATTRIBUTES;
use crate::core::Core;
use crate::errno::{Answer, errno};
use crate::inode::{Inode, LockHolder};
use crate::killable::is_interrupted;
use crate::opened::Opened;

/// `l_type` of fcntl.
pub(crate) const READ: i32 = 0;
const WRITE: i32 = 1;
pub(crate) const UNLOCK: i32 = 2;

/// How often a lock is asked for that the server does not call back about, at first and at last.
const FIRST_WAIT: Duration = Duration::from_millis(5);
const LAST_WAIT: Duration = Duration::from_millis(200);

/// Bytes as the kernel says them: the last one included, the largest offset for the end of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bytewise {
    pub start: u64,
    pub end: u64,
}

impl Bytewise {
    const LAST: u64 = i64::MAX as u64;

    const ALL: Bytewise = Bytewise { start: 0, end: Bytewise::LAST };

    fn length(self) -> u64 {
        match self.end {
            Bytewise::LAST.. => u64::MAX,
            end => end.saturating_sub(self.start) + 1,
        }
    }

    fn of(denied: &LockDenied) -> Bytewise {
        let end = denied.offset.saturating_add(denied.length.saturating_sub(1));
        Bytewise { start: denied.offset, end: end.min(Bytewise::LAST) }
    }
}

/// Who locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locker {
    pub owner: u64,
    pub process: u32,
    /// Who waits for it.
    pub thread: u32,
}

/// A lock in the way: bytes, type, process or 0 if it is of another machine.
pub(crate) type Conflict = (Bytewise, i32, u32);

/// The name of a lock-owner at the server; no name of an open is like it.
pub(crate) fn server_owner(owner: u64) -> StateOwner {
    operations::owner(Bytes::from([b"lock".as_slice(), &owner.to_be_bytes()].concat()))
}

fn kernel_owner(owner: &StateOwner) -> Option<u64> {
    let name = owner.owner.strip_prefix(b"lock".as_slice())?;
    Some(u64::from_be_bytes(name.try_into().ok()?))
}

impl Core {
    /// A lock that is in the way of this one.
    pub async fn test_lock(
        self: &Arc<Core>,
        opened: Arc<Opened>,
        owner: u64,
        bytes: Bytewise,
        kind: i32,
    ) -> Answer<Option<Conflict>> {
        let lock_type = if kind == WRITE { LockType::Write } else { LockType::Read };
        let test = NfsArgOp::LockTest(LockTestArgs {
            lock_type,
            offset: bytes.start,
            length: bytes.length(),
            owner: server_owner(owner),
        });
        let reply = opened.client.compound(&[operations::put_handle(&opened.inode.handle), test]).await;
        let reply = reply.map_err(|error| errno(&error))?;
        if let Some(nfs4::NfsResOp::LockTest(LockTestRes::Denied(denied))) = reply.results.last() {
            let kind = if denied.lock_type.is_write() { WRITE } else { READ };
            let process = match kernel_owner(&denied.owner) {
                Some(owner) => opened.inode.locks.lock().await.get(&owner).map_or(0, |holder| holder.process),
                None => 0,
            };
            return Ok(Some((Bytewise::of(denied), kind, process)));
        }
        reply.into_results().map_err(|error| errno(&error))?;
        Ok(None)
    }

    /// Locks; waits if it may until the lock is free.
    pub async fn lock(
        self: &Arc<Core>,
        opened: Arc<Opened>,
        locker: Locker,
        bytes: Bytewise,
        kind: i32,
        waits: bool,
    ) -> Answer<()> {
        let lock_type = match (kind, waits) {
            (READ, false) => LockType::Read,
            (READ, true) => LockType::ReadWait,
            (WRITE, false) => LockType::Write,
            (WRITE, true) => LockType::WriteWait,
            _ => return Err(Errno::EINVAL),
        };
        // Whoever locks wants to see what the last holder wrote, and the next one what is written here.
        self.settle_quietly(&opened.inode).await;
        let mut wait = FIRST_WAIT;
        loop {
            let freed = self.lock_freed.notified();
            let mut freed = std::pin::pin!(freed);
            freed.as_mut().enable();
            match self.try_lock(&opened, locker, bytes, lock_type).await {
                Err(ClientError::Operation { status: NfsStatus::Denied, .. }) if waits => {}
                Err(error) => return Err(errno(&error)),
                Ok(()) => break,
            }
            let _ = tokio::time::timeout(wait, freed).await;
            wait = LAST_WAIT.min(wait * 2);
            if is_interrupted(locker.thread) {
                return Err(Errno::EINTR);
            }
        }
        // Pages from before the lock may be old.
        let request = [operations::put_handle(&opened.inode.handle), operations::get_attributes(ATTRIBUTES)];
        let values = run(&opened.client, &request).await.and_then(|mut answers| answers.attributes());
        if let Ok(values) = values {
            let is_old = opened.inode.known.lock().cached != values.change;
            if is_old {
                opened.inode.known.lock().cached = None;
                self.forget_pages_now(&opened.inode, values.change).await;
                self.forget_attributes(&opened.inode);
            }
        }
        Ok(())
    }

    async fn try_lock(
        &self,
        opened: &Arc<Opened>,
        Locker { owner, process, .. }: Locker,
        bytes: Bytewise,
        lock_type: LockType,
    ) -> Result<(), ClientError> {
        let mut locks = opened.inode.locks.lock().await;
        // All locks of one owner are of one open.
        let under = locks.get(&owner).map_or(opened, |holder| &holder.opened).clone();
        let name = server_owner(owner);
        under.stop_sharing().await?;
        let (client, state) = (&under.client, under.state());
        let mut result = client.lock(&state, &name, lock_type, bytes.start, bytes.length()).await;
        if matches!(result, Err(ClientError::Unknown)) {
            // The same lock again is the same lock.
            result = client.lock(&state, &name, lock_type, bytes.start, bytes.length()).await;
        }
        if let Err(ClientError::Operation { status: NfsStatus::OpenMode, .. }) = &result {
            // flock asks for no access. The server does.
            client.upgrade(&state, share_access::BOTH | share_access::WANT_NO_DELEG).await?;
            result = client.lock(&state, &name, lock_type, bytes.start, bytes.length()).await;
        }
        result?;
        locks.entry(owner).or_insert(LockHolder { opened: under, process });
        Ok(())
    }

    pub async fn unlock(self: &Arc<Core>, inode: &Arc<Inode>, owner: u64, bytes: Bytewise) -> Answer<()> {
        if !inode.locks.lock().await.contains_key(&owner) {
            return Ok(());
        }
        // What was written under the lock is there for the next holder.
        self.settle_quietly(inode).await;
        // Until it is done, so that what the same owner locks meanwhile is locked after it for the client, too.
        let locks = inode.locks.lock().await;
        let Some(LockHolder { opened, .. }) = locks.get(&owner) else { return Ok(()) };
        let (state, name) = (opened.state(), server_owner(owner));
        let unlocked = opened.client.unlock(&state, &name, bytes.start, bytes.length()).await;
        unlocked.map_err(|error| errno(&error))
    }

    /// Unlocks what somebody got who does not live any more.
    pub fn unlock_later(self: &Arc<Core>, number: u64, owner: u64, bytes: Bytewise) {
        let Ok(opened) = self.files.get(number) else { return };
        let core = self.clone();
        let unlock = async move {
            let _ = core.unlock(&opened.inode, owner, bytes).await;
        };
        self.tasks.spawn_on(unlock, &self.runtime);
    }

    /// All locks of an owner on the file.
    pub async fn unlock_all(self: &Arc<Core>, inode: &Arc<Inode>, owner: u64) {
        if inode.locks.lock().await.contains_key(&owner) {
            if self.unlock(inode, owner, Bytewise::ALL).await.is_err() {
                tracing::debug!(inode = inode.number, "locks cannot be given back; closing the file does");
            }
            inode.locks.lock().await.remove(&owner);
        }
    }

    /// All locks under an open that is about to be closed.
    pub async fn unlock_all_of(self: &Arc<Core>, opened: &Arc<Opened>) {
        let inode = &opened.inode;
        let locks = inode.locks.lock().await;
        let owners: Vec<u64> = locks
            .iter()
            .filter(|(_, holder)| Arc::ptr_eq(&holder.opened, opened))
            .map(|(owner, _)| *owner)
            .collect();
        drop(locks);
        for owner in owners {
            self.unlock_all(inode, owner).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_file_is_all_ones_to_the_server() {
        assert_eq!(Bytewise::ALL.length(), u64::MAX);
        assert_eq!(Bytewise { start: 5, end: 5 }.length(), 1);
        assert_eq!(Bytewise { start: 5, end: Bytewise::LAST }.length(), u64::MAX);
    }

    #[test]
    fn owners_come_back_as_the_kernel_named_them() {
        for owner in [0, 7, u64::MAX] {
            assert_eq!(kernel_owner(&server_owner(owner)), Some(owner));
        }
        assert_eq!(kernel_owner(&operations::owner("lock")), None);
        assert_eq!(kernel_owner(&crate::opened::new_owner(3)), None);
    }
}
