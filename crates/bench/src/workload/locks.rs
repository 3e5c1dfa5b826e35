//! Locked reads: files of a directory of all clients, each opened, locked, read and unlocked ten times.

use anyhow::{Result, bail, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::bits::share_access;
use nfs4::{FileHandle, FreeStateIdArgs, LockRes, LockType, NfsArgOp, NfsResOp, OpenDelegation, OpenHow};
use nfs4_client::OpenFile;
use nfs4_client::operations::{first_lock, put_handle, remove, unchecked, unlock};

use super::client::{Client, ensure_folder};

/// Files, and how often each is read.
const FILES: u64 = 1000;
const TIMES: u64 = 10;
/// Bytes of each.
const SIZE: u32 = 4096;

/// How many files there are.
pub(super) fn files(shrink: u64) -> u64 {
    (FILES / shrink).max(64)
}

impl Client {
    pub(super) async fn shared(&self) -> Result<FileHandle> {
        ensure_folder(&self.kernel, &format!("{}/shared", self.base)).await
    }

    /// Makes the files. They are new ones each time: a server does not delegate what was opened for writing a moment ago.
    pub(super) async fn make_shared(&self, shrink: u64) -> Result<()> {
        let (folder, content) = (self.shared().await?, self.content(SIZE as usize));
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        let make = |n: u64| {
            let (folder, content) = (&folder, &content);
            async move {
                let name = format!("l{n}");
                // If it is not there, that is an error which does not matter.
                let _ = self.call(&[put_handle(folder), remove(name.as_str())]).await;
                let file = self.open_in(folder, &name, access, unchecked(0o644)).await?;
                self.write_stable(&file, 0, content).await?;
                self.close(&file).await
            }
        };
        stream::iter((0..files(shrink)).map(make)).buffer_unordered(16).try_collect().await
    }

    /// The n-th locked read of this client.
    pub(super) async fn locked_read(&self, n: u64, shrink: u64) -> Result<()> {
        let folder = self.shared().await?;
        let access = share_access::READ | share_access::WANT_NO_DELEG;
        let name = format!("l{}", n / TIMES % files(shrink));
        let file = self.open_in(&folder, &name, access, OpenHow::NoCreate).await?;
        let lock =
            first_lock(file.state_id, self.kernel.owner(format!("lock-{n}")), LockType::Read, 0, u64::MAX);
        let lock = match self.call(&[put_handle(&file.handle), lock]).await?.pop() {
            Some(NfsResOp::Lock(LockRes::Ok(lock))) => lock,
            other => bail!("no lock: {other:?}"),
        };
        // RFC 8881 §8.2.5: by the state of the lock.
        let locked = OpenFile { state_id: lock, ..file.clone() };
        self.read_at(&locked, 0, SIZE).await?;
        let lock = match self.call(&[put_handle(&file.handle), unlock(lock, 0, u64::MAX)]).await?.pop() {
            Some(NfsResOp::Unlock(nfs4::Outcome::Ok(lock))) => lock,
            other => bail!("not unlocked: {other:?}"),
        };
        self.call(&[NfsArgOp::FreeStateId(FreeStateIdArgs { state_id: lock })]).await?;
        self.close(&file).await
    }

    /// The same under a delegation: locks are the client's own business then, and so is what it has read.
    pub(super) async fn delegated_read(&self, n: u64, shrink: u64) -> Result<()> {
        let at = n / TIMES % files(shrink);
        if !self.is_held(at) {
            let file = self.open_delegated(at).await?;
            self.read_at(&file, 0, SIZE).await?;
            self.hold(at);
        }
        Ok(())
    }

    /// Opens the file for reading, with a delegation.
    pub(super) async fn open_delegated(&self, at: u64) -> Result<OpenFile> {
        let folder = self.shared().await?;
        let access = share_access::READ | share_access::WANT_READ_DELEG;
        let file = self.open_in(&folder, &format!("l{at}"), access, OpenHow::NoCreate).await?;
        let is_delegated = matches!(file.delegation, OpenDelegation::Read(_));
        ensure!(is_delegated, "the server does not delegate: {:?}", file.delegation);
        Ok(file)
    }

    fn is_held(&self, at: u64) -> bool {
        self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner).contains(&at)
    }

    fn hold(&self, at: u64) {
        self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(at);
    }
}
