//! The requests that the Linux client sends for programs that use one file after the other.
//!
//! Counted in the guest (`tests/guest/tests/metadata`, `reopening` and `trees-counted`, Linux 6.12, NFSv4.2): `open` of a file is OPEN with ACCESS and
//! GETATTR; then READ, or WRITE; then CLOSE, which `close` waits for. What was read or written stays in the page cache, and is not read
//! again as long as OPEN says that the file has not changed. Where the server delegates files ([`Habits::delegated`]) there is no CLOSE, and
//! what was opened once is not opened again ([`delegated`]). Names are looked up once and cached. Large files are read and written with several requests
//! on the way. `readdir` is GETATTR and READDIR with attributes; everything else that changes names is one request. Programs over
//! whole trees are in [`tree`], servers that speak NFSv3 in [`version3`].

mod act;
mod content;
mod delegated;
mod names;
mod traffic;
mod tree;
mod version3;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use nfs4::{Attribute, ClientId, FileHandle, NfsArgOp, NfsResOp, NfsStatus, Outcome, StateOwner};
use nfs4_client::operations::{get_attributes, lookup, owner, put_handle};
use nfs4_client::{Callback, Config, Reply, Session};

use content::Page;
use delegated::Delegated;
pub use traffic::{Totals, Traffic};
use version3::{Failure, Version3};

/// The first pause before a request that the server puts off (`NFS4ERR_DELAY`) is sent again; each is twice as long as the one before,
/// up to the last (kurma.md §2.6: a client that begins with 100 ms waits for nothing else).
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));
/// How long a request may be put off.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// What a server speaks.
#[derive(Clone, Copy, PartialEq)]
pub enum Version {
    /// With `commits` COMMIT is sent after each write that was to be stable, whatever the server says that it is.
    V3 {
        commits: bool,
    },
    V41,
}

/// How much of that client this one is.
#[derive(Clone, Copy)]
pub struct Habits {
    /// The server delegates files, for reading and for writing, to whoever opens them.
    pub delegated: bool,
    /// What is read or written goes through memory, and stays there.
    pub page_cache: bool,
}

pub struct Kernel {
    line: Line,
    root: FileHandle,
    habits: Habits,
    /// A server that says that a write is stable is not believed.
    commits: bool,
    /// Names that were looked up.
    names: Mutex<HashMap<String, FileHandle>>,
    pages: Mutex<HashMap<String, Page>>,
    delegations: Mutex<HashMap<String, Delegated>>,
    pub traffic: Traffic,
}

/// What requests go over.
enum Line {
    Session(Session),
    Version3(Version3),
}

impl Kernel {
    /// A client with a session of its own, whose name begins with `name`.
    pub async fn connect(
        address: SocketAddr,
        name: &str,
        minor_version: u32,
        habits: Habits,
        callback: Option<Arc<dyn Callback>>,
    ) -> Result<Kernel> {
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64;
        let mut config = Config::new(name.to_owned(), stamp.to_be_bytes());
        config.minor_version = minor_version;
        config.timeout = Duration::from_secs(120);
        let session = Session::connect(address, config, callback).await.context("connecting")?;
        let root = session.lookup(&[]).await?;
        Ok(Kernel::over(Line::Session(session), root, habits))
    }

    /// A client of a server that speaks NFSv3.
    pub async fn connect_version3(address: SocketAddr, commits: bool, habits: Habits) -> Result<Kernel> {
        let line = Version3::connect(address).await?;
        let root = line.root.clone();
        Ok(Kernel { commits, ..Kernel::over(Line::Version3(line), root, habits) })
    }

    fn over(line: Line, root: FileHandle, habits: Habits) -> Kernel {
        let traffic = Traffic::default();
        Kernel {
            line,
            root,
            habits,
            commits: false,
            names: Mutex::default(),
            pages: Mutex::default(),
            delegations: Mutex::default(),
            traffic,
        }
    }

    /// Its session, which a client of NFSv3 has not.
    pub fn session(&self) -> Option<&Session> {
        match &self.line {
            Line::Session(session) => Some(session),
            Line::Version3(_) => None,
        }
    }

    pub fn round_trips(&self) -> u64 {
        self.traffic.totals().rpcs
    }

    /// A compound of which all must succeed, as often as the server puts it off.
    pub async fn send(&self, operations: &[NfsArgOp]) -> Result<Vec<NfsResOp>> {
        let (begin, mut pause) = (Instant::now(), PAUSES.0);
        loop {
            let reply = match &self.line {
                Line::Session(session) => self.send_in(session, operations).await?,
                Line::Version3(line) => {
                    let told = |answered| self.traffic.add(Duration::ZERO, answered);
                    match line.compound(operations, &told).await {
                        Err(Failure::Refused(NfsStatus::Delay)) => None,
                        Err(Failure::Refused(status)) => return Err(status.into()),
                        Err(Failure::Broken(error)) => return Err(error),
                        Ok(results) => Some(results),
                    }
                }
            };
            match reply {
                Some(results) => return Ok(results),
                None => ensure!(begin.elapsed() < PATIENCE, "put off again and again, for {PATIENCE:?}"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// The results of one compound; none if the server puts it off.
    async fn send_in(&self, session: &Session, operations: &[NfsArgOp]) -> Result<Option<Vec<NfsResOp>>> {
        let asked = Instant::now();
        let slot = session.slot().await?;
        let sent = Instant::now();
        let reply = session.compound_in(slot, operations).await.and_then(Reply::into_results);
        self.traffic.add(sent - asked, sent.elapsed());
        match reply {
            Err(error) if error.asks_to_retry() => Ok(None),
            reply => Ok(Some(reply?)),
        }
    }

    /// An owner of opens or locks, with the client's id, as the Linux client sends it. Servers of NFSv4.1 are to ignore that; DittoFS takes
    /// owners without one for the same, whosoever they are.
    pub fn owner(&self, name: impl Into<Bytes>) -> StateOwner {
        let client = self.session().map_or(ClientId(0), Session::client_id);
        StateOwner { client, ..owner(name) }
    }

    fn name(&self, path: &str) -> Option<FileHandle> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn remember(&self, path: &str, handle: FileHandle) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), handle);
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, HashMap<String, Page>> {
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
