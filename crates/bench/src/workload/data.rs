//! Streams, random access, and small files.

use std::ops::Range;

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::{NfsResOp, OpenHow, Outcome, StableHow};
use nfs4_client::OpenFile;
use nfs4_client::operations::{commit, put_handle, read, unchecked, write};
use vector_client::Write;

use super::client::Client;
use super::{MIB, STREAM_DEPTH};

/// The size of the file that random access goes to, in MiB.
pub const RANDOM_FILE: u64 = 16;
/// Of each request of random access, in bytes.
pub const RANDOM: u64 = 4096;

impl Client {
    /// Opens the file that is written or read in pieces.
    pub(super) async fn open_big(&self, how: OpenHow) -> Result<()> {
        let file = self.open("big", how).await?;
        *self.big.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(file);
        Ok(())
    }

    pub(super) async fn close_big(&self) -> Result<()> {
        let file = self.big()?;
        self.close(&file).await
    }

    /// COMMIT of all that was written to it.
    pub(super) async fn commit_big(&self) -> Result<()> {
        self.call(&[put_handle(&self.big()?.handle), commit(0, 0)]).await.map(drop)
    }

    /// Makes sure that a file of `mib` MiB is there, warm.
    pub(super) async fn fill(&self, mib: u64) -> Result<()> {
        self.open_big(unchecked(0o644)).await?;
        let (file, block) = (self.big()?, self.content(MIB as usize));
        let pieces = stream::iter((0..mib).map(|at| self.write_piece(&file, at, &block)));
        pieces.buffer_unordered(STREAM_DEPTH).try_collect::<()>().await?;
        self.commit_big().await?;
        let pieces = stream::iter((0..mib).map(|at| self.read_piece(&file, at)));
        pieces.buffer_unordered(STREAM_DEPTH).try_collect::<()>().await?;
        self.close_big().await
    }

    pub(super) async fn write_piece(&self, file: &OpenFile, at: u64, block: &Bytes) -> Result<()> {
        let write = write(file.state_id, at * MIB, StableHow::Unstable, block.clone());
        match self.call(&[put_handle(&file.handle), write]).await?.last() {
            Some(NfsResOp::Write(Outcome::Ok(done))) => {
                ensure!(u64::from(done.count) == MIB, "short write of {}", done.count);
                Ok(())
            }
            other => anyhow::bail!("unexpected result {other:?}"),
        }
    }

    pub(super) async fn read_piece(&self, file: &OpenFile, at: u64) -> Result<()> {
        self.read_at(file, at * MIB, MIB as u32).await
    }

    pub(super) async fn read_at(&self, file: &OpenFile, offset: u64, count: u32) -> Result<()> {
        let results = self.call(&[put_handle(&file.handle), read(file.state_id, offset, count)]).await?;
        match results.last() {
            Some(NfsResOp::Read(Outcome::Ok(done))) => {
                ensure!(done.data.len() == count as usize, "short read of {}", done.data.len());
                Ok(())
            }
            other => anyhow::bail!("unexpected result {other:?}"),
        }
    }

    pub(super) async fn write_stable(&self, file: &OpenFile, offset: u64, data: &Bytes) -> Result<()> {
        self.kernel.write_stable(&file.handle, file.state_id, offset, data.clone()).await
    }

    /// Random access to the n-th of the blocks of the file.
    pub(super) async fn random_read(&self, file: &OpenFile, n: u64) -> Result<()> {
        self.read_at(file, n % (RANDOM_FILE * MIB / RANDOM) * RANDOM, RANDOM as u32).await
    }

    pub(super) async fn random_write(&self, file: &OpenFile, n: u64, data: &Bytes) -> Result<()> {
        self.write_stable(file, n % (RANDOM_FILE * MIB / RANDOM) * RANDOM, &data.slice(..RANDOM as usize))
            .await
    }

    pub(super) async fn write_small(&self, at: u64, content: &Bytes) -> Result<()> {
        let file = self.open(&format!("s{at}"), unchecked(0o644)).await?;
        self.write_stable(&file, 0, content).await?;
        self.close(&file).await
    }

    /// Many files by one call.
    pub(super) async fn write_vector(&self, files: Range<u64>, content: &Bytes) -> Result<()> {
        let write = |at| {
            let path = format!("{}/v{at}", self.path);
            Write { stable: true, ..Write::whole(path, 0o644, content.clone()) }
        };
        self.vectors().await?.vwrite(files.map(write).collect()).await?;
        Ok(())
    }

    pub(super) async fn read_small(&self, at: u64, size: u32) -> Result<()> {
        let file = self.open(&format!("s{at}"), OpenHow::NoCreate).await?;
        self.read_at(&file, 0, size).await?;
        self.close(&file).await
    }
}
