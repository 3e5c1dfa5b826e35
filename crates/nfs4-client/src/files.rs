//! The usual compounds.

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{
    AttributeValues, Bitmap, Component, CreateType, DirEntry, FileHandle, LockRes, LockType, NfsArgOp,
    NfsResOp, OpCode, OpenDelegation, OpenHow, Outcome, ReadOk, StableHow, StateId, StateOwner, Verifier,
    WriteOk,
};

use crate::operations::*;
use crate::{ClientError, Session};

/// Largest READDIR reply asked for, in bytes.
const DIRECTORY_BYTES: u32 = 128 << 10;

/// A file that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// The file.
    pub handle: FileHandle,
    /// The open.
    pub state_id: StateId,
    /// What the server granted beside.
    pub delegation: OpenDelegation,
}

/// The data of the last result, which must be a successful one of this operation.
macro_rules! last {
    ($results:expr, $operation:ident) => {
        match $results.pop() {
            Some(NfsResOp::$operation(Outcome::Ok(value))) => Ok(value),
            _ => Err(ClientError::UnexpectedResult { expected: OpCode::$operation }),
        }
    };
}

impl Session {
    /// Executes operations of which all must succeed, and returns their results.
    pub async fn execute(&self, operations: &[NfsArgOp]) -> Result<Vec<NfsResOp>, ClientError> {
        self.compound(operations).await?.into_results()
    }

    /// The handle at this path from the root of the server; the root itself for an empty one.
    pub async fn lookup(&self, path: &[&str]) -> Result<FileHandle, ClientError> {
        self.walk(NfsArgOp::PutRootFh, path).await
    }

    /// The handle at this path from a directory.
    pub async fn lookup_in(&self, directory: &FileHandle, path: &[&str]) -> Result<FileHandle, ClientError> {
        self.walk(put_handle(directory), path).await
    }

    async fn walk(&self, start: NfsArgOp, path: &[&str]) -> Result<FileHandle, ClientError> {
        let mut request = vec![start];
        request.extend(path.iter().map(|name| lookup(*name)));
        request.push(NfsArgOp::GetFh);
        last!(self.execute(&request).await?, GetFh)
    }

    /// Opens a file by name. `share_access` as in [`nfs4::bits::share_access`].
    pub async fn open(
        &self,
        directory: &FileHandle,
        name: impl Into<Component>,
        share_access: u32,
        how: OpenHow,
        owner: StateOwner,
    ) -> Result<OpenFile, ClientError> {
        let request = [put_handle(directory), open(name, share_access, how, owner), NfsArgOp::GetFh];
        let mut results = self.execute(&request).await?;
        let handle = last!(results, GetFh)?;
        let opened = last!(results, Open)?;
        Ok(OpenFile { handle, state_id: opened.state_id, delegation: opened.delegation })
    }

    /// Opens a file for reading and writing, creating it if need be; without a delegation and under one owner for
    /// the whole client.
    pub async fn create(
        &self,
        directory: &FileHandle,
        name: impl Into<Component>,
        mode: u32,
    ) -> Result<OpenFile, ClientError> {
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        self.open(directory, name, access, unchecked(mode), owner("open")).await
    }

    /// Closes a file.
    pub async fn close(&self, file: &OpenFile) -> Result<(), ClientError> {
        self.execute(&[put_handle(&file.handle), close(file.state_id)]).await.map(drop)
    }

    /// Reads from an open file.
    pub async fn read(&self, file: &OpenFile, offset: u64, count: u32) -> Result<ReadOk, ClientError> {
        let request = [put_handle(&file.handle), read(file.state_id, offset, count)];
        last!(self.execute(&request).await?, Read)
    }

    /// Writes to an open file.
    pub async fn write(
        &self,
        file: &OpenFile,
        offset: u64,
        stable: StableHow,
        data: Bytes,
    ) -> Result<WriteOk, ClientError> {
        let request = [put_handle(&file.handle), write(file.state_id, offset, stable, data)];
        last!(self.execute(&request).await?, Write)
    }

    /// Makes written data safe; `count` 0 means up to the end. To be compared with the verifiers of the writes.
    pub async fn commit(
        &self,
        handle: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<Verifier, ClientError> {
        last!(self.execute(&[put_handle(handle), commit(offset, count)]).await?, Commit)
    }

    /// The attributes asked for, as far as the server has them.
    pub async fn attributes(
        &self,
        handle: &FileHandle,
        request: Bitmap,
    ) -> Result<AttributeValues, ClientError> {
        let attributes = last!(self.execute(&[put_handle(handle), get_attributes(request)]).await?, GetAttr)?;
        Ok(attributes.values()?)
    }

    /// Sets attributes. To change the size, `state_id` is an open for writing or [`StateId::ANONYMOUS`].
    pub async fn set_attributes(
        &self,
        handle: &FileHandle,
        state_id: StateId,
        attributes: &AttributeValues,
    ) -> Result<(), ClientError> {
        self.execute(&[put_handle(handle), set_attributes(state_id, attributes)]).await.map(drop)
    }

    /// All entries of a directory, with the attributes asked for.
    pub async fn read_directory(
        &self,
        directory: &FileHandle,
        request: Bitmap,
    ) -> Result<Vec<DirEntry>, ClientError> {
        let max_count = DIRECTORY_BYTES.min(self.payload_bytes());
        let (mut cookie, mut verifier) = (0, Verifier::default());
        let mut entries = Vec::new();
        loop {
            let page = [put_handle(directory), read_directory(cookie, verifier, max_count, request)];
            let page = last!(self.execute(&page).await?, ReadDir)?;
            verifier = page.cookie_verifier;
            let before = cookie;
            cookie = page.entries.last().map_or(before, |last| last.cookie);
            entries.extend(page.entries);
            if page.eof {
                return Ok(entries);
            }
            if cookie == before {
                // Neither an entry nor the end: asking again would never stop.
                return Err(ClientError::UnexpectedResult { expected: OpCode::ReadDir });
            }
        }
    }

    /// Creates a directory.
    pub async fn make_directory(
        &self,
        directory: &FileHandle,
        name: impl Into<Component>,
        mode: u32,
    ) -> Result<FileHandle, ClientError> {
        let request = [put_handle(directory), create(CreateType::Directory, name, mode), NfsArgOp::GetFh];
        last!(self.execute(&request).await?, GetFh)
    }

    /// Removes a file or an empty directory.
    pub async fn remove(
        &self,
        directory: &FileHandle,
        name: impl Into<Component>,
    ) -> Result<(), ClientError> {
        self.execute(&[put_handle(directory), remove(name)]).await.map(drop)
    }

    /// Renames, replacing what has the new name.
    pub async fn rename(
        &self,
        from: &FileHandle,
        old_name: impl Into<Component>,
        to: &FileHandle,
        new_name: impl Into<Component>,
    ) -> Result<(), ClientError> {
        let request = [put_handle(from), NfsArgOp::SaveFh, put_handle(to), rename(old_name, new_name)];
        self.execute(&request).await.map(drop)
    }

    /// Locks a range of an open file for a lock-owner that has no lock on it yet; `length` all ones means up to
    /// the end. A lock in the way is [`ClientError::Operation`] with `NFS4ERR_DENIED`.
    pub async fn lock(
        &self,
        file: &OpenFile,
        owner: StateOwner,
        lock_type: LockType,
        offset: u64,
        length: u64,
    ) -> Result<StateId, ClientError> {
        let request = [put_handle(&file.handle), first_lock(file.state_id, owner, lock_type, offset, length)];
        match self.execute(&request).await?.pop() {
            Some(NfsResOp::Lock(LockRes::Ok(state_id))) => Ok(state_id),
            _ => Err(ClientError::UnexpectedResult { expected: OpCode::Lock }),
        }
    }

    /// Unlocks a range.
    pub async fn unlock(
        &self,
        handle: &FileHandle,
        lock: StateId,
        offset: u64,
        length: u64,
    ) -> Result<StateId, ClientError> {
        last!(self.execute(&[put_handle(handle), unlock(lock, offset, length)]).await?, Unlock)
    }
}
