//! The requests that the Linux client sends for programs that use one file after the other.
//!
//! Counted in the guest (`tests/guest/tests/metadata`, Linux 6.12, NFSv4.2): `open` of a file is OPEN with ACCESS and
//! GETATTR; then READ, or WRITE; CLOSE is sent without waiting for it, or not at all under a delegation, and is left
//! out here in its favour. What was read or written stays in the page cache, and is not read again as long as OPEN says that the
//! file has not changed. Names are looked up once and cached. Large files are read and written with several requests
//! on the way. `readdir` is GETATTR and READDIR with attributes; everything else that changes names is one request. Programs over
//! whole trees are in [`tree`].

mod tree;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::bits::share_access;
use nfs4::{
    Attribute, AttributeValues, CreateHow, FileHandle, FileType, NfsArgOp, NfsResOp, OpenHow, Outcome,
    StableHow, StateId,
};
use nfs4_client::operations::{
    create, get_attributes, lookup, open, owner, put_handle, read, read_directory, remove, rename,
    set_attributes, write,
};
use nfs4_client::{Config, Session};

/// Requests of one stream on the way at once.
const DEPTH: usize = 8;

/// rsize and wsize.
const TRANSFER: u64 = 1 << 20;

/// Attributes that the kernel asks for.
const ATTRIBUTES: &[Attribute] = &[
    Attribute::Type,
    Attribute::Change,
    Attribute::Size,
    Attribute::Fsid,
    Attribute::Fileid,
    Attribute::Mode,
    Attribute::Numlinks,
    Attribute::Owner,
    Attribute::OwnerGroup,
    Attribute::Rawdev,
    Attribute::SpaceUsed,
    Attribute::TimeAccess,
    Attribute::TimeMetadata,
    Attribute::TimeModify,
    Attribute::MountedOnFileid,
];

/// An open file.
struct Opened {
    handle: FileHandle,
    state_id: StateId,
    size: u64,
    change: Option<u64>,
}

pub struct Kernel {
    session: Session,
    root: FileHandle,
    /// Names that were looked up.
    names: Mutex<HashMap<String, FileHandle>>,
    /// Files in the page cache, and the `change` that they had; none if this client itself has changed them since.
    pages: Mutex<HashMap<String, Option<u64>>>,
    trips: AtomicU64,
}

impl Kernel {
    pub async fn connect(server: std::net::SocketAddr) -> Result<Kernel> {
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64;
        let mut config = Config::new(format!("kernel-{stamp}"), stamp.to_be_bytes());
        config.timeout = std::time::Duration::from_secs(120);
        let session = Session::connect(server, config, None).await.context("connecting")?;
        let root = session.lookup(&[]).await?;
        Ok(Kernel {
            session,
            root,
            names: Mutex::default(),
            pages: Mutex::default(),
            trips: AtomicU64::new(0),
        })
    }

    pub fn round_trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }

    async fn send(&self, operations: &[NfsArgOp]) -> Result<Vec<NfsResOp>> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        Ok(self.session.execute(operations).await?)
    }

    fn name(&self, path: &str) -> Option<FileHandle> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn remember(&self, path: &str, handle: FileHandle) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), handle);
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, HashMap<String, Option<u64>>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file or directory, looked up name by name the first time.
    pub async fn handle(&self, path: &str) -> Result<FileHandle> {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return Ok(self.root.clone());
        }
        if let Some(handle) = self.name(path) {
            return Ok(handle);
        }
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = Box::pin(self.handle(parent)).await?;
        let request = [put_handle(&parent), lookup(name), NfsArgOp::GetFh, attributes()];
        let found = self.send(&request).await?;
        let Some(NfsResOp::GetFh(Outcome::Ok(handle))) = found.into_iter().nth(2) else {
            anyhow::bail!("no handle for {path}");
        };
        self.remember(path, handle.clone());
        Ok(handle)
    }

    async fn open(&self, path: &str, access: u32, how: OpenHow) -> Result<Opened> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        let access = access | share_access::WANT_NO_DELEG;
        let request =
            [put_handle(&parent), open(name, access, how, owner("kernel")), NfsArgOp::GetFh, attributes()];
        let (mut handle, mut state_id, mut size, mut change) = (None, None, 0, None);
        for result in self.send(&request).await? {
            match result {
                NfsResOp::Open(Outcome::Ok(opened)) => state_id = Some(opened.state_id),
                NfsResOp::GetFh(Outcome::Ok(found)) => handle = Some(found),
                NfsResOp::GetAttr(Outcome::Ok(found)) => {
                    let values = found.values()?;
                    (size, change) = (values.size.unwrap_or(0), values.change);
                }
                _ => {}
            }
        }
        let (handle, state_id) = (handle.context("no handle")?, state_id.context("no open")?);
        Ok(Opened { handle, state_id: state_id.newest(), size, change })
    }

    /// Reads a whole file; from the page cache, if it is there and has not changed.
    pub async fn read(&self, path: &str) -> Result<u64> {
        let file = self.open(path, share_access::READ, OpenHow::NoCreate).await?;
        let cached = self.pages().insert(path.to_owned(), file.change);
        if cached.is_some_and(|change| change.is_none() || change == file.change) {
            return Ok(file.size);
        }
        Ok(self.content(&file).await?.iter().map(|piece| piece.len() as u64).sum())
    }

    /// What is in an open file.
    async fn content(&self, file: &Opened) -> Result<Vec<Bytes>> {
        let pieces = stream::iter((0..file.size.div_ceil(TRANSFER)).map(|piece| {
            let read = read(file.state_id, piece * TRANSFER, TRANSFER as u32);
            let request = [put_handle(&file.handle), read];
            async move {
                match self.send(&request).await?.pop() {
                    Some(NfsResOp::Read(Outcome::Ok(got))) => Ok(got.data.into_bytes()),
                    _ => anyhow::bail!("a file cannot be read"),
                }
            }
        }));
        pieces.buffered(DEPTH).try_collect().await
    }

    /// Makes or replaces a file.
    pub async fn write(&self, path: &str, data: &Bytes) -> Result<()> {
        let attributes = AttributeValues { mode: Some(0o644), size: Some(0), ..AttributeValues::default() };
        let how = OpenHow::Create(CreateHow::Unchecked(attributes.to_fattr()));
        let file = self.open(path, share_access::WRITE, how).await?;
        self.write_at(&file, 0, data).await?;
        self.remember(path, file.handle);
        self.pages().insert(path.to_owned(), None);
        Ok(())
    }

    /// Writes at the end of a file.
    pub async fn append(&self, path: &str, data: &Bytes) -> Result<()> {
        let file = self.open(path, share_access::WRITE, OpenHow::NoCreate).await?;
        self.write_at(&file, file.size, data).await?;
        if let Some(change) = self.pages().get_mut(path) {
            *change = None;
        }
        Ok(())
    }

    async fn write_at(&self, file: &Opened, offset: u64, data: &Bytes) -> Result<()> {
        let single = data.len() as u64 <= TRANSFER;
        let stable = if single { StableHow::FileSync } else { StableHow::Unstable };
        let starts = (0..data.len()).step_by(TRANSFER as usize);
        let pieces = stream::iter(starts.map(|start| {
            let end = data.len().min(start + TRANSFER as usize);
            let piece = write(file.state_id, offset + start as u64, stable, data.slice(start..end));
            let request = [put_handle(&file.handle), piece];
            async move { self.send(&request).await.map(drop) }
        }));
        pieces.buffer_unordered(DEPTH).try_collect::<Vec<()>>().await?;
        if !single {
            self.send(&[put_handle(&file.handle), nfs4_client::operations::commit(0, 0)]).await?;
        }
        Ok(())
    }

    pub async fn stat(&self, path: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        let request = [put_handle(&parent), lookup(name), NfsArgOp::GetFh, attributes()];
        self.send(&request).await.map(drop)
    }

    pub async fn make_directory(&self, path: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        let make = create(nfs4::CreateType::Directory, name, 0o755);
        let request = [put_handle(&parent), make, NfsArgOp::GetFh, attributes()];
        let found = self.send(&request).await?;
        if let Some(NfsResOp::GetFh(Outcome::Ok(handle))) = found.into_iter().nth(2) {
            self.remember(path, handle);
        }
        Ok(())
    }

    /// Names in a directory, and whether each is a directory.
    pub async fn list(&self, path: &str) -> Result<Vec<(String, bool)>> {
        let directory = self.handle(path).await?;
        self.send(&[put_handle(&directory), attributes()]).await?;
        let (mut cookie, mut verifier, mut names) = (0, nfs4::Verifier::default(), Vec::new());
        let wanted = Attribute::set(ATTRIBUTES).with(Attribute::Filehandle).with(Attribute::RdattrError);
        loop {
            let page = [put_handle(&directory), read_directory(cookie, verifier, TRANSFER as u32, wanted)];
            let Some(NfsResOp::ReadDir(Outcome::Ok(page))) = self.send(&page).await?.pop() else {
                anyhow::bail!("{path} cannot be listed");
            };
            for entry in &page.entries {
                let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
                let values = entry.attributes.values()?;
                if let Some(handle) = values.filehandle {
                    self.remember(&format!("{path}/{name}"), handle);
                }
                names.push((name, values.r#type == Some(FileType::Directory)));
            }
            cookie = page.entries.last().map_or(cookie, |last| last.cookie);
            verifier = page.cookie_verifier;
            if page.eof {
                return Ok(names);
            }
        }
    }

    pub async fn remove(&self, path: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
        self.pages().remove(path);
        self.send(&[put_handle(&parent), remove(name)]).await.map(drop)
    }

    pub async fn symbolic_link(&self, path: &str, text: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        let text = Bytes::copy_from_slice(text.as_bytes()).into();
        let make = create(nfs4::CreateType::SymbolicLink(text), name, 0o777);
        self.send(&[put_handle(&parent), make, NfsArgOp::GetFh, attributes()]).await.map(drop)
    }

    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, old) = from.rsplit_once('/').context("a path from the root")?;
        let (to, new) = to.rsplit_once('/').context("a path from the root")?;
        let (from, to) = (self.handle(from).await?, self.handle(to).await?);
        let request = [put_handle(&from), NfsArgOp::SaveFh, put_handle(&to), rename(old, new), attributes()];
        self.send(&request).await.map(drop)
    }

    pub async fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        let handle = self.handle(path).await?;
        let mode = AttributeValues { mode: Some(mode), ..AttributeValues::default() };
        self.send(&[put_handle(&handle), set_attributes(StateId::ANONYMOUS, &mode), attributes()])
            .await
            .map(drop)
    }
}

fn attributes() -> NfsArgOp {
    get_attributes(Attribute::set(ATTRIBUTES))
}
