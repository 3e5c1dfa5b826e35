//! The requests that the Linux client sends for programs that use one file after the other.
//!
//! Counted in the guest (`tests/guest/tests/metadata`, Linux 6.12, NFSv4.2): `open` of a file is OPEN with ACCESS and
//! GETATTR; then READ, or WRITE; then CLOSE, which `close` waits for, but not under a delegation: no CLOSE is sent then. What was read or written stays in the page cache, and is not read again as long as OPEN says that the
//! file has not changed. Names are looked up once and cached. Large files are read and written with several requests
//! on the way. `readdir` is GETATTR and READDIR with attributes; everything else that changes names is one request. Programs over
//! whole trees are in [`tree`].

mod content;
mod names;
mod tree;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use nfs4::{Attribute, FileHandle, NfsArgOp, NfsResOp, Outcome};
use nfs4_client::operations::{get_attributes, lookup, put_handle};
use nfs4_client::{Config, Session};

use super::delay::Line;

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
    /// Whether files are closed at the server.
    closes: bool,
    /// Names that were looked up.
    names: Mutex<HashMap<String, FileHandle>>,
    /// Files in the page cache, and the `change` that they had; none if this client itself has changed them since.
    pages: Mutex<HashMap<String, Option<u64>>>,
    trips: AtomicU64,
}

impl Kernel {
    pub async fn connect(line: &Line) -> Result<Kernel> {
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64;
        let mut config = Config::new(format!("kernel-{stamp}"), stamp.to_be_bytes());
        config.timeout = std::time::Duration::from_secs(120);
        let session = Session::connect(line.address, config, None).await.context("connecting")?;
        let root = session.lookup(&[]).await?;
        Ok(Kernel {
            session,
            root,
            closes: !line.delegates,
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
}

fn attributes() -> NfsArgOp {
    get_attributes(Attribute::set(ATTRIBUTES))
}
