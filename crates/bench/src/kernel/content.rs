//! Files, opened and read or written.

use std::cell::RefCell;
use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nfs4::bits::share_access;
use nfs4::{
    AttributeValues, CreateHow, FileHandle, NfsArgOp, NfsResOp, OpenHow, Outcome, StableHow, StateId,
};
use nfs4_client::operations::{close, commit, open, put_handle, read, set_attributes, write};

use super::{Kernel, TRANSFER, attributes};

/// What a program reads at once.
const BUFFER: usize = 128 << 10;

/// Requests of one stream on the way at once.
const DEPTH: usize = 8;

/// An open file.
#[derive(Clone)]
pub(super) struct Opened {
    pub handle: FileHandle,
    state_id: StateId,
    pub size: u64,
    change: Option<u64>,
}

/// A file in the page cache.
#[derive(Default)]
pub(super) struct Page {
    /// The `change` that it had; none if this client itself has changed it since.
    change: Option<u64>,
    content: Vec<Bytes>,
}

impl Kernel {
    pub(super) async fn open(&self, path: &str, access: u32, how: OpenHow) -> Result<Opened> {
        let (parent, name) = path.rsplit_once('/').context("a path from the root")?;
        let parent = self.handle(parent).await?;
        let access = access | share_access::WANT_NO_DELEG;
        let request = [
            put_handle(&parent),
            open(name, access, how, self.owner("kernel")),
            NfsArgOp::GetFh,
            attributes(),
        ];
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
        let (file, is_delegated) = match self.delegated(path) {
            Some(file) => (file, true),
            None => {
                let file = self.open(path, share_access::READ, OpenHow::NoCreate).await?;
                self.was_delegated(path, &file, false);
                (file, false)
            }
        };
        let is_good = |page: &&Page| is_delegated || page.change.is_none() || page.change == file.change;
        let cached = self.pages().get(path).filter(is_good).map(|page| page.content.clone());
        if let Some(content) = cached {
            self.close(&file).await?;
            copy_out(&content);
            return Ok(file.size);
        }
        let change = file.change;
        let content = self.content(file).await?;
        let size = content.iter().map(|piece| piece.len() as u64).sum();
        if self.habits.page_cache {
            copy_out(&content);
            self.pages().insert(path.to_owned(), Page { change, content });
        }
        Ok(size)
    }

    /// Opens a file for reading, and closes it.
    pub async fn open_and_close(&self, path: &str) -> Result<()> {
        if self.delegated(path).is_some() {
            return Ok(());
        }
        let file = self.open(path, share_access::READ, OpenHow::NoCreate).await?;
        self.was_delegated(path, &file, false);
        self.close(&file).await
    }

    /// What is in an open file, which is closed then.
    pub(super) async fn content(&self, file: Opened) -> Result<Vec<Bytes>> {
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
        let content = pieces.buffered(DEPTH).try_collect().await?;
        self.close(&file).await?;
        Ok(content)
    }

    /// Makes or replaces a file.
    pub async fn write(&self, path: &str, data: &Bytes) -> Result<()> {
        if let Some(file) = self.delegated_for_writing(path).await? {
            let size = AttributeValues { size: Some(0), ..AttributeValues::default() };
            self.send(&[put_handle(&file.handle), set_attributes(file.state_id, &size), attributes()])
                .await?;
            let data = self.copy_in(path, data, true);
            self.write_at(&file, 0, &data).await?;
            self.was_delegated(path, &Opened { size: data.len() as u64, ..file }, true);
            return Ok(());
        }
        let attributes = AttributeValues { mode: Some(0o644), size: Some(0), ..AttributeValues::default() };
        let how = OpenHow::Create(CreateHow::Unchecked(attributes.to_fattr()));
        let file = self.open(path, share_access::WRITE, how).await?;
        let data = self.copy_in(path, data, true);
        self.write_at(&file, 0, &data).await?;
        self.was_delegated(path, &Opened { size: data.len() as u64, ..file.clone() }, true);
        self.remember(path, file.handle);
        Ok(())
    }

    /// Writes at the end of a file.
    pub async fn append(&self, path: &str, data: &Bytes) -> Result<()> {
        let file = match self.delegated_for_writing(path).await? {
            Some(file) => file,
            None => self.open(path, share_access::WRITE, OpenHow::NoCreate).await?,
        };
        let data = self.copy_in(path, data, false);
        self.write_at(&file, file.size, &data).await?;
        let size = file.size + data.len() as u64;
        self.was_delegated(path, &Opened { size, ..file }, true);
        Ok(())
    }

    /// What a program writes is copied into the page cache, and sent from there. `replaces`: nothing else is in the file then.
    fn copy_in(&self, path: &str, data: &Bytes, replaces: bool) -> Bytes {
        if !self.habits.page_cache {
            return data.clone();
        }
        let own = Bytes::copy_from_slice(data);
        let mut pages = self.pages();
        if replaces {
            pages.insert(path.to_owned(), Page::default());
        }
        // A file of which it has nothing it does not read for that.
        if let Some(page) = pages.get_mut(path) {
            page.change = None;
            page.content.push(own.clone());
        }
        own
    }

    /// `close`, after which nothing is to be sent.
    async fn close(&self, file: &Opened) -> Result<()> {
        match self.habits.delegated {
            true => Ok(()),
            false => self.close_now(file).await,
        }
    }

    /// CLOSE.
    pub(super) async fn close_now(&self, file: &Opened) -> Result<()> {
        self.send(&[put_handle(&file.handle), close(file.state_id)]).await.map(drop)
    }

    /// Writes, and closes the file.
    async fn write_at(&self, file: &Opened, offset: u64, data: &Bytes) -> Result<()> {
        if data.len() as u64 <= TRANSFER {
            self.write_stable(&file.handle, file.state_id, offset, data.clone()).await?;
            return self.close(file).await;
        }
        let starts = (0..data.len()).step_by(TRANSFER as usize);
        let pieces = stream::iter(starts.map(|start| {
            let end = data.len().min(start + TRANSFER as usize);
            let data = data.slice(start..end);
            let piece = write(file.state_id, offset + start as u64, StableHow::Unstable, data);
            let request = [put_handle(&file.handle), piece];
            async move { self.send(&request).await.map(drop) }
        }));
        pieces.buffer_unordered(DEPTH).try_collect::<Vec<()>>().await?;
        self.send(&[put_handle(&file.handle), commit(0, 0)]).await?;
        self.close(file).await
    }

    /// One WRITE whose data is on stable storage when this returns. A server that commits less than it is asked to, against RFC 8881
    /// §18.32.3, is sent COMMIT, as the Linux client does.
    pub async fn write_stable(
        &self,
        handle: &FileHandle,
        state_id: StateId,
        offset: u64,
        data: Bytes,
    ) -> Result<()> {
        let length = data.len();
        let request = [put_handle(handle), write(state_id, offset, StableHow::FileSync, data)];
        let results = self.send(&request).await?;
        let Some(NfsResOp::Write(Outcome::Ok(done))) = results.last() else {
            anyhow::bail!("unexpected results {results:?}");
        };
        ensure!(done.count as usize == length, "short write of {}", done.count);
        if done.committed < StableHow::FileSync || self.commits {
            self.send(&[put_handle(handle), commit(0, 0)]).await?;
        }
        Ok(())
    }
}

/// What is in the page cache is copied into the program's buffer.
fn copy_out(content: &[Bytes]) {
    thread_local! {
        static PROGRAM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    PROGRAM.with_borrow_mut(|buffer| {
        buffer.resize(BUFFER, 0);
        for part in content.iter().flat_map(|piece| piece.chunks(BUFFER)) {
            buffer[..part.len()].copy_from_slice(black_box(part));
            black_box(&mut *buffer);
        }
    });
}
