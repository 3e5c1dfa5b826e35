//! Requests about open files and their data.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use bytes::Bytes;
use fuser::{Errno, FopenFlags};
use nfs4::bits::share_access;
use nfs4::{
    Attribute, AttributeValues, Bitmap, NfsArgOp, NfsResOp, OpenArgs, OpenClaim, OpenHow, Outcome,
    SetAttrArgs, StateId,
};
use nfs4_client::Client;
use nfs4_client::operations::{get_attributes, put_handle, read};
use rustix::fs::OFlags;

use crate::answers::{Answers, run};
use crate::attributes::{ATTRIBUTES, to_kernel};
use crate::core::{Changed, Core};
use crate::delegations::Seen;
use crate::errno::{Answer, errno};
use crate::inode::Inode;
use crate::opened::{Opened, access, new_owner};

const SIZE: Bitmap = Attribute::set(&[Attribute::Size]);

/// Who writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Program,
    /// At the end of the file.
    Appending,
    /// The kernel, what it has in its pages.
    Pages,
}

impl Core {
    /// Opens a file. The kernel keeps its pages only if they are of the version that the server has now.
    pub async fn open(
        self: &Arc<Core>,
        client: Client,
        inode: Arc<Inode>,
        flags: i32,
    ) -> Answer<(u64, FopenFlags)> {
        let truncates = OFlags::from_bits_retain(flags as u32).contains(OFlags::TRUNC);
        let access = match truncates {
            true => access(flags) | share_access::WRITE,
            false => access(flags),
        };
        let only_reads = access == share_access::READ;
        if only_reads && let Some((delegated, seen)) = self.share_open(&client, &inode) {
            let owner = new_owner(self.owners.fetch_add(1, Relaxed));
            let opened = Arc::new(Opened::sharing(inode, client, delegated, owner));
            return self.opened(opened, Some(seen.change), seen.attributes.nlink, false).await;
        }
        // What is appended meanwhile would go to where the file ended before.
        let mut end = match truncates {
            true => Some(inode.end.lock().await),
            false => None,
        };
        if let Some(end) = &mut end {
            self.settle_quietly(&inode).await;
            **end = None;
        }
        let _changing = truncates.then(|| self.changing(Changed::File(&inode)));
        let want = match only_reads && self.delegations.may_ask(&inode.handle) {
            true => share_access::WANT_READ_DELEG,
            false => share_access::WANT_NO_DELEG,
        };
        let before = self.before(&client);
        let owner = new_owner(self.owners.fetch_add(1, Relaxed));
        let open = NfsArgOp::Open(OpenArgs {
            seqid: 0,
            share_access: access | want,
            share_deny: nfs4::bits::share_deny::NONE,
            owner: owner.clone(),
            how: OpenHow::NoCreate,
            claim: OpenClaim::FileHandle,
        });
        let mut request = vec![put_handle(&inode.handle), open];
        if truncates {
            let empty = AttributeValues { size: Some(0), ..AttributeValues::default() };
            let set = SetAttrArgs { state_id: StateId::CURRENT, attributes: empty.to_fattr() };
            request.push(NfsArgOp::SetAttr(set));
        }
        request.push(get_attributes(ATTRIBUTES));
        let answers = run(&client, &request).await;
        drop(end);
        let mut answers = answers?;
        let result = answers.find(|result| match result {
            NfsResOp::Open(Outcome::Ok(opened)) => Some(opened),
            _ => None,
        })?;
        let values = answers.attributes()?;
        let state =
            client.adopt(inode.handle.clone(), (access, nfs4::bits::share_deny::NONE), owner, &result);
        let attributes = to_kernel(inode.number, &values);
        let seen = values.change.map(|change| Seen { change, attributes, since: before.tick });
        if let (true, Some(seen)) = (only_reads, seen) {
            self.saw_open(&client, &inode, seen);
        }
        let opened = match self.accept(&client, &inode, &state, before, seen) {
            Some(delegated) => {
                let owner = new_owner(self.owners.fetch_add(1, Relaxed));
                Opened::sharing(inode.clone(), client, delegated, owner)
            }
            None => Opened::new(inode.clone(), client, state),
        };
        self.opened(Arc::new(opened), values.change, attributes.nlink, truncates).await
    }

    /// The kernel has this file open from now on, of which there is this version.
    async fn opened(
        self: &Arc<Core>,
        opened: Arc<Opened>,
        change: Option<u64>,
        links: u32,
        truncates: bool,
    ) -> Answer<(u64, FopenFlags)> {
        let inode = opened.inode.clone();
        if links == 0 && inode.opens.load(SeqCst) == 0 {
            // The name that the kernel remembers is gone, or of another file. It asks again when it hears this.
            let _ = opened.close().await;
            return Err(Errno::ESTALE);
        }
        let mut keep = FopenFlags::empty();
        let mut known = inode.known.lock();
        let is_news = known.told != change;
        if truncates {
            known.cached = change;
        } else if known.cached.is_some() && known.cached == change || inode.writer.is_busy() {
            keep = FopenFlags::FOPEN_KEEP_CACHE;
        } else {
            known.cached = change;
        }
        drop(known);
        if truncates {
            self.touch(&inode);
        }
        if is_news || truncates {
            self.forget_attributes(&inode);
        }
        inode.opens.fetch_add(1, SeqCst);
        Ok((self.files.insert(opened), keep))
    }

    pub async fn read(self: &Arc<Core>, opened: Arc<Opened>, offset: u64, size: u32) -> Answer<Bytes> {
        self.flush_range(&opened.inode, offset, u64::from(size)).await;
        let (mut first, is_all) = self.read_once(&opened, offset, size).await?;
        if is_all || first.len() >= size as usize {
            return Ok(first);
        }
        // A server may give less at a time.
        let mut data = bytes::BytesMut::with_capacity(size as usize);
        loop {
            data.extend_from_slice(&first);
            let rest = size - data.len() as u32;
            let (next, is_all) = self.read_once(&opened, offset + data.len() as u64, rest).await?;
            if is_all || next.is_empty() || next.len() >= rest as usize {
                data.extend_from_slice(&next);
                return Ok(data.freeze());
            }
            first = next;
        }
    }

    async fn read_once(&self, opened: &Opened, offset: u64, size: u32) -> Answer<(Bytes, bool)> {
        let answers = opened.run(|state_id| vec![read(state_id, offset, size)]).await;
        let found = answers.map_err(|error| errno(&error))?.find(|result| match result {
            NfsResOp::Read(Outcome::Ok(read)) => Some(read),
            _ => None,
        })?;
        let mut data = found.data.into_bytes();
        data.truncate(size as usize);
        Ok((data, found.eof))
    }

    /// Takes data that a program has written, or the kernel from its pages, where nobody hears of an error. What is appended goes to where the file ends at the server, if nobody here knows
    /// better: the kernel may remember an end of before others appended. May be dropped.
    pub async fn write(
        self: &Arc<Core>,
        opened: Arc<Opened>,
        offset: u64,
        data: Bytes,
        from: Writer,
    ) -> Answer<()> {
        if from != Writer::Pages {
            self.tell_before_write(&opened)?;
        }
        let (core, appends) = (self.clone(), from == Writer::Appending);
        let writing =
            self.runtime.spawn(async move { core.write_whole(opened, offset, data, appends).await });
        writing.await.unwrap_or(Err(Errno::EIO))
    }

    async fn write_whole(
        self: &Arc<Core>,
        opened: Arc<Opened>,
        offset: u64,
        data: Bytes,
        appends: bool,
    ) -> Answer<()> {
        let inode = &opened.inode;
        let length = data.len() as u64;
        let mut end = inode.end.lock().await;
        if !inode.writer.is_busy() {
            *end = None;
        }
        let at = match (appends, *end) {
            (false, _) => offset,
            (true, Some(end)) => end,
            (true, None) => {
                self.flush(inode).await;
                let request = [put_handle(&inode.handle), get_attributes(SIZE)];
                let size = run(&opened.client, &request).await?.attributes()?.size;
                *end = size;
                size.unwrap_or(offset)
            }
        };
        *end = end.map(|end| end.max(at + length));
        self.write_behind(&opened, at, data).await?;
        drop(end);
        if at != offset {
            inode.known.lock().cached = None;
            self.forget_attributes(inode);
            let (core, inode) = (self.clone(), inode.clone());
            self.runtime.spawn(async move { core.forget_pages_now(&inode, None).await });
        }
        Ok(())
    }

    /// One of the process's descriptors is closed: what it wrote is stable, its locks of the POSIX kind are gone. What others
    /// wrote is nothing to those who only read.
    pub async fn flush_file(self: &Arc<Core>, opened: Arc<Opened>, lock_owner: u64) -> Answer<()> {
        let settled = self.settle_at_close(&opened).await;
        self.unlock_all(&opened.inode, lock_owner).await;
        settled
    }

    /// The last descriptor is closed.
    pub fn release_later(self: &Arc<Core>, number: u64) {
        let Some(opened) = self.files.remove(number) else { return };
        let core = self.clone();
        self.tasks.spawn_on(async move { core.close_file(&opened).await }, &self.runtime);
    }

    /// Brings what was written to the server, and closes the file there.
    pub async fn close_file(self: &Arc<Core>, opened: &Arc<Opened>) {
        // Pages of a mapping may come after the last flush.
        self.settle_quietly(&opened.inode).await;
        self.unlock_all_of(opened).await;
        opened.inode.opens.fetch_sub(1, SeqCst);
        if let Err(error) = opened.close().await {
            tracing::debug!(%error, inode = opened.inode.number, "a file cannot be closed at the server");
        }
    }

    /// Executes operations between two files of which what was written has to be at the server before.
    pub async fn between(
        self: &Arc<Core>,
        (source, destination): (&Arc<Opened>, &Arc<Opened>),
        operation: impl Fn(StateId, StateId) -> NfsArgOp + Send + Sync,
    ) -> Result<Answers, nfs4_client::ClientError> {
        let from = source.state();
        let build = |state_id| {
            // A source that is lost is found out by the server, too.
            let source_id = from.state_id().unwrap_or(StateId::ANONYMOUS);
            vec![
                put_handle(&source.inode.handle),
                NfsArgOp::SaveFh,
                put_handle(&destination.inode.handle),
                operation(source_id, state_id),
                get_attributes(ATTRIBUTES),
            ]
        };
        destination.run(build).await
    }
}
