//! NFS clients of the gateway.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::bits::share_access;
use nfs4::{NfsArgOp, NfsResOp, Outcome, StableHow};
use nfs4_client::operations::{owner, put_handle, read, unchecked, write};
use nfs4_client::{Config, OpenFile, Session};

/// Requests on the way of one client.
const DEPTH: usize = 16;

/// A client with one open file.
#[derive(Clone)]
pub struct Client {
    session: Arc<Session>,
    file: Arc<OpenFile>,
}

impl Client {
    /// With the file `name` of the volume, which is made if need be.
    pub async fn connect(server: SocketAddr, name: &str) -> Result<Client> {
        let mut config = Config::new(format!("bench-{name}"), *b"verifier");
        config.minor_version = 1;
        config.timeout = Duration::from_secs(120);
        let session = Session::connect(server, config, None).await.context("connecting")?;
        let home = session.lookup(&["home"]).await?;
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        let file = session.open(&home, name.to_owned(), access, unchecked(0o644), owner("bench")).await?;
        Ok(Client { session: Arc::new(session), file: Arc::new(file) })
    }

    /// One operation on the file, again as long as the server asks to come again.
    async fn run(&self, operation: NfsArgOp) -> Result<Vec<NfsResOp>> {
        let request = [put_handle(&self.file.handle), operation];
        loop {
            match self.session.execute(&request).await {
                Err(error) if error.asks_to_retry() => tokio::time::sleep(Duration::from_millis(20)).await,
                other => return Ok(other?),
            }
        }
    }

    /// Stable.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<()> {
        let length = data.len();
        let results = self.run(write(self.file.state_id, offset, StableHow::FileSync, data)).await?;
        match results.last() {
            Some(NfsResOp::Write(Outcome::Ok(done))) => {
                ensure!(done.count as usize == length, "short write of {}", done.count);
                Ok(())
            }
            other => bail!("unexpected result {other:?}"),
        }
    }

    /// Reads what must be `expected`.
    pub async fn read(&self, offset: u64, expected: &Bytes) -> Result<()> {
        let results = self.run(read(self.file.state_id, offset, expected.len() as u32)).await?;
        match results.into_iter().next_back() {
            Some(NfsResOp::Read(Outcome::Ok(done))) => {
                ensure!(done.data.into_bytes() == *expected, "other bytes than were written");
                Ok(())
            }
            other => bail!("unexpected result {other:?}"),
        }
    }

    /// Writes `count` pieces of `piece`, many at a time.
    pub async fn fill(&self, count: u64, piece: &Bytes) -> Result<()> {
        let writes = (0..count).map(|at| self.write(at * piece.len() as u64, piece.clone()));
        stream::iter(writes).buffer_unordered(DEPTH).try_collect().await
    }

    /// Reads them all again, many at a time: how long that took.
    pub async fn read_all(&self, count: u64, piece: &Bytes) -> Result<Duration> {
        let begun = Instant::now();
        let reads = (0..count).map(|at| self.read(at * piece.len() as u64, piece));
        stream::iter(reads).buffer_unordered(DEPTH).try_collect::<()>().await?;
        Ok(begun.elapsed())
    }
}
