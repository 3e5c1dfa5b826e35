//! One client of a server, as the load generator has them.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{FileHandle, NfsArgOp, NfsResOp, OpenHow, Outcome, StateId};
use nfs4_client::OpenFile;
use nfs4_client::operations::{close, open, put_handle, read};

use super::recall::Returns;
use crate::kernel::{Habits, Kernel, Totals, Version};
use crate::latency::Recorder;

/// A connection with a session of its own, if the server has sessions, and a folder of its own.
pub struct Client {
    pub(super) kernel: Kernel,
    pub(super) number: usize,
    /// The export, the folder of all clients of a row, and its own.
    pub(super) root: String,
    pub(super) base: String,
    pub(super) path: String,
    pub(super) folder: FileHandle,
    /// What several lanes read or write, while it is open.
    pub(super) big: Mutex<Option<OpenFile>>,
    /// Files whose delegations it holds or held.
    pub(super) held: Mutex<HashSet<u64>>,
    /// Held by whoever appends to the log, as a Linux client holds the inode's lock.
    pub(super) log: tokio::sync::Mutex<()>,
    pub(super) recorder: Recorder,
    address: SocketAddr,
    /// By which it works on many files at once, if it does.
    vectors: tokio::sync::OnceCell<vector_client::Client>,
    returns: Returns,
}

/// Connects `count` clients to a server that speaks `version` and gives each a folder under `base`.
pub async fn connect(
    address: SocketAddr,
    version: Version,
    export: &[&str],
    base: &str,
    count: usize,
) -> Result<Vec<Arc<Client>>> {
    let root: String = export.iter().map(|name| format!("/{name}")).collect();
    let base = format!("{root}/{base}");
    let mut clients = Vec::new();
    for number in 0..count {
        let (returns, callback) = Returns::new();
        let habits = Habits { delegated: false, page_cache: false };
        let kernel = match version {
            Version::V3 { commits } => Kernel::connect_version3(address, commits, habits).await?,
            Version::V41 => {
                Kernel::connect(address, &format!("bench-{number}"), 1, habits, Some(callback)).await?
            }
        };
        let path = format!("{base}/client-{number}");
        ensure_folder(&kernel, &base).await?;
        let folder = ensure_folder(&kernel, &path).await?;
        let client = Client {
            kernel,
            number,
            root: root.clone(),
            base: base.clone(),
            path,
            folder,
            big: Mutex::default(),
            held: Mutex::default(),
            log: tokio::sync::Mutex::default(),
            recorder: Recorder::default(),
            address,
            vectors: tokio::sync::OnceCell::new(),
            returns,
        };
        if let Some(session) = client.kernel.session() {
            client.returns.begin(session.clone());
        }
        clients.push(Arc::new(client));
    }
    Ok(clients)
}

/// A folder, made if it is not there.
pub(super) async fn ensure_folder(kernel: &Kernel, path: &str) -> Result<FileHandle> {
    if let Ok(found) = kernel.handle(path).await {
        return Ok(found);
    }
    kernel.make_directory(path).await?;
    kernel.handle(path).await
}

impl Client {
    pub(super) async fn call(&self, operations: &[NfsArgOp]) -> Result<Vec<NfsResOp>> {
        self.kernel.send(operations).await
    }

    /// Opens a file of its folder without a delegation.
    pub(super) async fn open(&self, name: &str, how: OpenHow) -> Result<OpenFile> {
        self.open_in(&self.folder, name, share_access::BOTH | share_access::WANT_NO_DELEG, how).await
    }

    pub(super) async fn open_in(
        &self,
        folder: &FileHandle,
        name: &str,
        access: u32,
        how: OpenHow,
    ) -> Result<OpenFile> {
        let request =
            [put_handle(folder), open(name, access, how, self.kernel.owner("bench")), NfsArgOp::GetFh];
        let mut results = self.call(&request).await?;
        match (results.pop(), results.pop()) {
            (Some(NfsResOp::GetFh(Outcome::Ok(handle))), Some(NfsResOp::Open(Outcome::Ok(opened)))) => {
                Ok(OpenFile { handle, state_id: opened.state_id, delegation: opened.delegation })
            }
            other => anyhow::bail!("unexpected results {other:?}"),
        }
    }

    pub(super) async fn close(&self, file: &OpenFile) -> Result<()> {
        self.call(&[put_handle(&file.handle), close(file.state_id)]).await.map(drop)
    }

    /// The vectorized client, connected when it is first asked for.
    pub(super) async fn vectors(&self) -> Result<&vector_client::Client> {
        let connect = || vector_client::Client::connect(self.address, vector_client::Options::default());
        Ok(self.vectors.get_or_try_init(connect).await?)
    }

    /// What it has sent.
    pub(super) fn traffic(&self) -> Totals {
        let vectors = self.vectors.get().map_or(0, |vectors| vectors.statistics().round_trips);
        self.kernel.traffic.totals() + Totals { rpcs: vectors, ..Totals::default() }
    }

    /// The file that is open for all lanes.
    pub(super) fn big(&self) -> Result<OpenFile> {
        let big = self.big.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        big.clone().context("no file is open")
    }

    pub(super) fn content(&self, length: usize) -> Bytes {
        super::content(self.number as u64, length)
    }

    /// Delegations that were recalled so far.
    pub fn recalls(&self) -> u64 {
        self.returns.count()
    }

    /// Writes `count` small files, stable; returns the content that each has.
    pub async fn write_for_check(&self, count: u64) -> Result<()> {
        let content = self.content(4096);
        for at in 0..count {
            self.write_small(at, &content).await?;
        }
        Ok(())
    }

    /// Makes `count` empty files, one after the other, and removes them.
    pub async fn name_for_check(&self, count: u64) -> Result<()> {
        for at in 0..count {
            self.create(at).await?;
        }
        for at in 0..count {
            self.unlink(at).await?;
        }
        Ok(())
    }

    /// Whether those files are all there and right.
    pub async fn check(&self, count: u64) -> Result<()> {
        let expected = self.content(4096);
        for at in 0..count {
            let handle = self.kernel.handle(&format!("{}/s{at}", self.path)).await?;
            let results = self.call(&[put_handle(&handle), read(StateId::ANONYMOUS, 0, 8192)]).await?;
            let Some(NfsResOp::Read(Outcome::Ok(done))) = results.into_iter().last() else {
                anyhow::bail!("no data")
            };
            ensure!(done.data.into_bytes() == expected, "file {at} of client {} is wrong", self.number);
        }
        Ok(())
    }
}
