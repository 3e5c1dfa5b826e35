//! One file at a time, as in POSIX (V23): for programs that move to vectors call by call.
//!
//! The descriptors are those of [`Client::vopen`], and each has a cursor (V8). Every call is one round trip, unless it says
//! otherwise, or what it wants is known; that is what the vectors are for.

mod cursor;

use std::io::SeekFrom;

use bytes::Bytes;
use nfs4::NfsStatus;

use crate::{
    AttributeSet, Attributes, Client, Creation, Data, Descriptor, Entry, Error, Kind, NewAttributes, Open,
    Owner, Read, SetTime, Target, VectorResult, Write,
};

pub(crate) use cursor::Cursors;

/// The result of a vector of one.
fn only<T>(result: VectorResult<T>) -> Result<T, Error> {
    match result {
        Ok(mut done) => done.pop().ok_or(Error::Unsupported("a call without a result")),
        Err(failure) => Err(failure.error),
    }
}

impl Client {
    /// Opens a file; its cursor is at the start.
    pub async fn open(&self, open: Open) -> Result<Descriptor, Error> {
        only(self.vopen(vec![open]).await)
    }

    /// Makes a file, or empties an existing one, for reading and writing (`creat`).
    pub async fn create(&self, target: impl Into<Target>, mode: u32) -> Result<Descriptor, Error> {
        let create = Some(Creation { mode, exclusive: false });
        self.open(Open { create, truncate: true, ..Open::write(target) }).await
    }

    /// Closes a file. Whoever opens it then sees what was written to it.
    pub async fn close_file(&self, descriptor: Descriptor) -> Result<(), Error> {
        only(self.vclose(vec![descriptor]).await)
    }

    /// Reads at the cursor and moves it on; fewer bytes than `length` only at the end of the file.
    pub async fn read(&self, descriptor: Descriptor, length: u64) -> Result<Data, Error> {
        let cursor = self.cursors.of(descriptor);
        let mut cursor = cursor.lock().await;
        let data = self.pread(descriptor, *cursor, length).await?;
        *cursor += data.len();
        Ok(data)
    }

    /// Reads from `offset`; the cursor stays.
    pub async fn pread(&self, descriptor: Descriptor, offset: u64, length: u64) -> Result<Data, Error> {
        only(self.vread(vec![Read::new(descriptor, offset, length)]).await)
    }

    /// Writes at the cursor and moves it on; bytes written, which are all. Safe after
    /// [`fsync`](Self::fsync).
    pub async fn write(&self, descriptor: Descriptor, data: impl Into<Bytes>) -> Result<u64, Error> {
        let cursor = self.cursors.of(descriptor);
        let mut cursor = cursor.lock().await;
        let written = self.pwrite(descriptor, *cursor, data).await?;
        *cursor += written;
        Ok(written)
    }

    /// Writes from `offset` on; the cursor stays.
    pub async fn pwrite(
        &self,
        descriptor: Descriptor,
        offset: u64,
        data: impl Into<Bytes>,
    ) -> Result<u64, Error> {
        only(self.vwrite(vec![Write::new(descriptor, offset, data)]).await)
    }

    /// Writes at the end of the file, wherever that is when the data is written (`O_APPEND`); the cursor stays.
    pub async fn append(&self, descriptor: Descriptor, data: impl Into<Bytes>) -> Result<u64, Error> {
        only(self.vwrite(vec![Write::append(descriptor, data)]).await)
    }

    /// Moves the cursor; where it is then. Only from the end this asks the server.
    pub async fn lseek(&self, descriptor: Descriptor, to: SeekFrom) -> Result<u64, Error> {
        let cursor = self.cursors.of(descriptor);
        let mut cursor = cursor.lock().await;
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::Current(by) => cursor.checked_add_signed(by),
            SeekFrom::End(by) => {
                let size = self.vlgetattrs(vec![descriptor.into()], AttributeSet::SIZE).await;
                only(size)?.size.unwrap_or(0).checked_add_signed(by)
            }
        };
        *cursor = place.filter(|place| i64::try_from(*place).is_ok()).ok_or(Error::Invalid {
            target: descriptor.into(),
            what: "a place before the start of a file, or beyond what a file can be",
        })?;
        Ok(*cursor)
    }

    /// Makes safe what was written.
    pub async fn fsync(&self, descriptor: Descriptor) -> Result<(), Error> {
        only(self.vcommit(vec![descriptor]).await)
    }

    /// Attributes; of what a symbolic link leads to.
    pub async fn stat(&self, target: impl Into<Target>) -> Result<Attributes, Error> {
        only(self.vgetattrs(vec![target.into()], AttributeSet::STAT).await)
    }

    /// Attributes; those of a symbolic link itself.
    pub async fn lstat(&self, target: impl Into<Target>) -> Result<Attributes, Error> {
        only(self.vlgetattrs(vec![target.into()], AttributeSet::STAT).await)
    }

    /// Attributes of an open file.
    pub async fn fstat(&self, descriptor: Descriptor) -> Result<Attributes, Error> {
        self.lstat(descriptor).await
    }

    /// Whether there is something of this name; a symbolic link that leads nowhere is nothing.
    pub async fn exists(&self, target: impl Into<Target>) -> Result<bool, Error> {
        match only(self.vgetattrs(vec![target.into()], AttributeSet::KIND).await) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a directory.
    pub async fn mkdir(&self, target: impl Into<Target>, mode: u32) -> Result<(), Error> {
        only(self.vmkdir(vec![(target.into(), mode)]).await)
    }

    /// Removes a name that is no directory. Two round trips, as NFS has one operation for everything: if somebody puts an
    /// empty directory in its place between them, that goes.
    pub async fn unlink(&self, target: impl Into<Target>) -> Result<(), Error> {
        self.remove_if(target.into(), |kind| kind != Some(Kind::Directory), NfsStatus::IsDir).await
    }

    /// Removes an empty directory. Two round trips, as [`unlink`](Self::unlink).
    pub async fn rmdir(&self, target: impl Into<Target>) -> Result<(), Error> {
        self.remove_if(target.into(), |kind| kind == Some(Kind::Directory), NfsStatus::NotDir).await
    }

    async fn remove_if(
        &self,
        target: Target,
        suits: impl Fn(Option<Kind>) -> bool,
        status: NfsStatus,
    ) -> Result<(), Error> {
        let attributes = only(self.vlgetattrs(vec![target.clone()], AttributeSet::KIND).await)?;
        if !suits(attributes.kind) {
            return Err(Error::Refused { target, status });
        }
        only(self.vremove(vec![target]).await)
    }

    /// Gives an object another name, replacing what has it.
    pub async fn rename(&self, from: impl Into<Target>, to: impl Into<Target>) -> Result<(), Error> {
        only(self.vrename(vec![(from.into(), to.into())]).await)
    }

    /// Gives a file a further name.
    pub async fn link(&self, existing: impl Into<Target>, new: impl Into<Target>) -> Result<(), Error> {
        only(self.vhardlink(vec![(existing.into(), new.into())]).await)
    }

    /// Makes a symbolic link that leads to `text`.
    pub async fn symlink(&self, text: impl Into<Bytes>, new: impl Into<Target>) -> Result<(), Error> {
        only(self.vsymlink(vec![(new.into(), text.into())]).await)
    }

    /// Where a symbolic link leads.
    pub async fn readlink(&self, target: impl Into<Target>) -> Result<Bytes, Error> {
        only(self.vreadlink(vec![target.into()]).await)
    }

    /// Makes a file this long: cuts off, or adds a hole.
    pub async fn truncate(&self, target: impl Into<Target>, size: u64) -> Result<(), Error> {
        self.set(target, NewAttributes::size(size)).await
    }

    /// Makes an open file this long.
    pub async fn ftruncate(&self, descriptor: Descriptor, size: u64) -> Result<(), Error> {
        self.set(descriptor, NewAttributes::size(size)).await
    }

    /// Sets permission bits: the lower twelve of a Unix mode.
    pub async fn chmod(&self, target: impl Into<Target>, mode: u32) -> Result<(), Error> {
        self.set(target, NewAttributes::mode(mode)).await
    }

    /// Sets owner and group, each if given.
    pub async fn chown(
        &self,
        target: impl Into<Target>,
        owner: Option<Owner>,
        group: Option<Owner>,
    ) -> Result<(), Error> {
        self.set(target, NewAttributes { owner, group, ..NewAttributes::default() }).await
    }

    /// Sets owner and group, each if given; those of a symbolic link itself.
    pub async fn lchown(
        &self,
        target: impl Into<Target>,
        owner: Option<Owner>,
        group: Option<Owner>,
    ) -> Result<(), Error> {
        let new = NewAttributes { owner, group, ..NewAttributes::default() };
        only(self.vlsetattrs(vec![(target.into(), new)]).await)
    }

    /// Sets when it was last read and modified, each if given.
    pub async fn utimens(
        &self,
        target: impl Into<Target>,
        accessed: Option<SetTime>,
        modified: Option<SetTime>,
    ) -> Result<(), Error> {
        self.set(target, NewAttributes { accessed, modified, ..NewAttributes::default() }).await
    }

    async fn set(&self, target: impl Into<Target>, new: NewAttributes) -> Result<(), Error> {
        only(self.vsetattrs(vec![(target.into(), new)]).await)
    }

    /// What is in a directory, all at once; [`walk`](Self::walk) is for those that may be long.
    pub async fn list(
        &self,
        directory: impl Into<Target>,
        wanted: AttributeSet,
    ) -> Result<Vec<Entry>, Error> {
        let mut walk = self.walk(vec![directory.into()], wanted, false);
        let mut entries = Vec::new();
        while let Some(found) = walk.next().await {
            entries.append(&mut found.entries?);
        }
        Ok(entries)
    }
}
