//! The requests that the Linux client sends for programs that use one file after the other.
//!
//! Counted in the guest (`tests/guest/tests/metadata`, Linux 6.12, NFSv4.2): `open` of a file is OPEN with ACCESS and
//! GETATTR; then READ, or WRITE; CLOSE is sent without waiting for it, or not at all under a delegation, and is left
//! out here in its favour. Names are looked up once and cached. Large files are read and written with several requests
//! on the way. `readdir` is GETATTR and READDIR with attributes; `rm -r` is READDIR for each directory and REMOVE for
//! each name; copying is reading and writing, and one SETATTR.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::bits::share_access;
use nfs4::{
    Attribute, AttributeValues, CreateHow, FileHandle, FileType, NfsArgOp, NfsResOp, OpenHow, Outcome,
    StableHow, StateId,
};
use nfs4_client::operations::{
    create, get_attributes, lookup, open, owner, put_handle, read, read_directory, remove, set_attributes,
    write,
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

pub struct Kernel {
    session: Session,
    root: FileHandle,
    /// Names that were looked up.
    names: HashMap<String, FileHandle>,
    trips: AtomicU64,
}

impl Kernel {
    pub async fn connect(server: std::net::SocketAddr) -> Result<Kernel> {
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64;
        let mut config = Config::new(format!("kernel-{stamp}"), stamp.to_be_bytes());
        config.timeout = std::time::Duration::from_secs(120);
        let session = Session::connect(server, config, None).await.context("connecting")?;
        let root = session.lookup(&[]).await?;
        Ok(Kernel { session, root, names: HashMap::new(), trips: AtomicU64::new(0) })
    }

    pub fn round_trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }

    async fn send(&self, operations: &[NfsArgOp]) -> Result<Vec<NfsResOp>> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        Ok(self.session.execute(operations).await?)
    }

    /// A directory, looked up name by name the first time.
    async fn directory(&mut self, path: &str) -> Result<FileHandle> {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return Ok(self.root.clone());
        }
        if let Some(handle) = self.names.get(path) {
            return Ok(handle.clone());
        }
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = Box::pin(self.directory(parent)).await?;
        let request = [put_handle(&parent), lookup(name), NfsArgOp::GetFh, attributes()];
        let found = self.send(&request).await?;
        let Some(NfsResOp::GetFh(Outcome::Ok(handle))) = found.into_iter().nth(2) else {
            anyhow::bail!("no handle for {path}");
        };
        self.names.insert(path.to_owned(), handle.clone());
        Ok(handle)
    }

    async fn open(&mut self, path: &str, access: u32, how: OpenHow) -> Result<(FileHandle, StateId, u64)> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.directory(parent).await?;
        let access = access | share_access::WANT_NO_DELEG;
        let request =
            [put_handle(&parent), open(name, access, how, owner("kernel")), NfsArgOp::GetFh, attributes()];
        let (mut handle, mut state_id, mut size) = (None, None, 0);
        for result in self.send(&request).await? {
            match result {
                NfsResOp::Open(Outcome::Ok(opened)) => state_id = Some(opened.state_id),
                NfsResOp::GetFh(Outcome::Ok(found)) => handle = Some(found),
                NfsResOp::GetAttr(Outcome::Ok(found)) => size = found.values()?.size.unwrap_or(0),
                _ => {}
            }
        }
        Ok((handle.context("no handle")?, state_id.context("no open")?, size))
    }

    pub async fn read(&mut self, path: &str) -> Result<u64> {
        let (handle, state_id, size) = self.open(path, share_access::READ, OpenHow::NoCreate).await?;
        let this = &*self;
        let pieces = stream::iter((0..size.div_ceil(TRANSFER)).map(|piece| {
            let request = [put_handle(&handle), read(state_id.newest(), piece * TRANSFER, TRANSFER as u32)];
            async move { this.send(&request).await }
        }));
        let replies: Vec<_> = pieces.buffer_unordered(DEPTH).try_collect().await?;
        let bytes = replies.iter().flatten().map(|result| match result {
            NfsResOp::Read(Outcome::Ok(got)) => got.data.len() as u64,
            _ => 0,
        });
        Ok(bytes.sum())
    }

    pub async fn write(&mut self, path: &str, data: &Bytes) -> Result<()> {
        let attributes = AttributeValues { mode: Some(0o644), size: Some(0), ..AttributeValues::default() };
        let how = OpenHow::Create(CreateHow::Unchecked(attributes.to_fattr()));
        let (handle, state_id, _) = self.open(path, share_access::WRITE, how).await?;
        let this = &*self;
        let single = data.len() as u64 <= TRANSFER;
        let stable = if single { StableHow::FileSync } else { StableHow::Unstable };
        let starts = (0..data.len()).step_by(TRANSFER as usize);
        let pieces = stream::iter(starts.map(|start| {
            let end = data.len().min(start + TRANSFER as usize);
            let piece = write(state_id.newest(), start as u64, stable, data.slice(start..end));
            let request = [put_handle(&handle), piece];
            async move { this.send(&request).await.map(drop) }
        }));
        pieces.buffer_unordered(DEPTH).try_collect::<Vec<()>>().await?;
        if !single {
            self.send(&[put_handle(&handle), nfs4_client::operations::commit(0, 0)]).await?;
        }
        Ok(())
    }

    pub async fn stat(&mut self, path: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.directory(parent).await?;
        let request = [put_handle(&parent), lookup(name), NfsArgOp::GetFh, attributes()];
        self.send(&request).await.map(drop)
    }

    pub async fn make_directory(&mut self, path: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.directory(parent).await?;
        let make = create(nfs4::CreateType::Directory, name, 0o755);
        let request = [put_handle(&parent), make, NfsArgOp::GetFh, attributes()];
        let found = self.send(&request).await?;
        if let Some(NfsResOp::GetFh(Outcome::Ok(handle))) = found.into_iter().nth(2) {
            self.names.insert(path.to_owned(), handle);
        }
        Ok(())
    }

    /// Names in a directory, and whether each is a directory.
    pub async fn list(&mut self, path: &str) -> Result<Vec<(String, bool)>> {
        let directory = self.directory(path).await?;
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
                    self.names.insert(format!("{path}/{name}"), handle);
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

    /// `ls -lR`: how many names.
    pub async fn list_tree(&mut self, path: &str) -> Result<u64> {
        let (mut waiting, mut count) = (vec![path.to_owned()], 0);
        while let Some(path) = waiting.pop() {
            for (name, is_directory) in self.list(&path).await? {
                count += 1;
                if is_directory {
                    waiting.push(format!("{path}/{name}"));
                }
            }
        }
        Ok(count)
    }

    /// `cp -r`.
    pub async fn copy_tree(&mut self, from: &str, to: &str) -> Result<()> {
        self.make_directory(to).await?;
        for (name, is_directory) in self.list(from).await? {
            let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
            if is_directory {
                Box::pin(self.copy_tree(&from, &to)).await?;
                continue;
            }
            let (handle, state_id, size) = self.open(&from, share_access::READ, OpenHow::NoCreate).await?;
            let request = [put_handle(&handle), read(state_id.newest(), 0, size.min(TRANSFER) as u32)];
            let Some(NfsResOp::Read(Outcome::Ok(got))) = self.send(&request).await?.pop() else {
                anyhow::bail!("{from} cannot be read");
            };
            self.write(&to, &got.data.into_bytes()).await?;
            if let Some(handle) = self.names.get(&to).cloned() {
                let mode = AttributeValues { mode: Some(0o644), ..AttributeValues::default() };
                self.send(&[put_handle(&handle), set_attributes(StateId::ANONYMOUS, &mode)]).await?;
            }
        }
        Ok(())
    }

    /// `rm -rf`.
    pub async fn remove_tree(&mut self, path: &str) -> Result<()> {
        for (name, is_directory) in self.list(path).await? {
            let child = format!("{path}/{name}");
            if is_directory {
                Box::pin(self.remove_tree(&child)).await?;
            } else {
                self.remove(&child).await?;
            }
        }
        self.remove(path).await
    }

    async fn remove(&mut self, path: &str) -> Result<()> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.directory(parent).await?;
        self.names.remove(path);
        self.send(&[put_handle(&parent), remove(name)]).await.map(drop)
    }
}

fn attributes() -> NfsArgOp {
    get_attributes(Attribute::set(ATTRIBUTES))
}
