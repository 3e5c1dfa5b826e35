//! Data on its way to the server: gathered, sent, made stable.
//!
//! The vectorized client's `Writer` does this for one program that writes one file from front to back. Here any process writes anywhere, also twice
//! to one place; what is lost is known WRITE by WRITE, memory is that of all files, and the error is for whoever calls fsync. What both have
//! in common is to compare two verifiers.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fuser::Errno;
use nfs4::{AttributeValues, NfsResOp, Outcome, StableHow, Verifier, WriteOk};
use nfs4_client::operations::{commit, get_attributes, put_handle, write};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::answers::run;
use crate::attributes::ATTRIBUTES;
use crate::core::Core;
use crate::errno::{Answer, errno};
use crate::inode::Inode;
use crate::opened::Opened;

/// WRITEs of one file under way at once.
const PARALLEL: usize = 8;

/// How often data that a restarted server has lost is sent again at one fsync.
const RESENDS: usize = 8;

/// How long data waits at most until it is sent without being asked for.
pub(crate) const REST: Duration = Duration::from_secs(1);

/// The data of a file that is not yet stable at the server.
#[derive(Default)]
pub(crate) struct WriteBehind {
    state: Mutex<State>,
    /// A WRITE has come back.
    landed: Notify,
    /// One who makes data stable at a time: who comes second must not find nothing to do before that is done.
    settling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    gathered: Option<Gathered>,
    flying: Vec<Range<u64>>,
    /// In the order written, at the server, but not stable there.
    unstable: Vec<Unstable>,
    /// Written since everything was stable.
    wrote: bool,
    /// The first error that nobody has been told of.
    error: Option<Errno>,
}

/// Pieces that follow each other, not yet sent.
struct Gathered {
    opened: Arc<Opened>,
    offset: u64,
    data: BytesMut,
    permits: Vec<OwnedSemaphorePermit>,
}

struct Unstable {
    opened: Arc<Opened>,
    offset: u64,
    data: Bytes,
    verifier: Verifier,
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Gathered {
    fn range(&self) -> Range<u64> {
        range(self.offset, self.data.len())
    }
}

fn range(offset: u64, length: usize) -> Range<u64> {
    offset..offset.saturating_add(length as u64)
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl WriteBehind {
    /// Whether something was written that is not known to be stable.
    pub fn is_busy(&self) -> bool {
        self.state.lock().wrote
    }

    fn concerns(&self, wanted: &Range<u64>) -> bool {
        let state = self.state.lock();
        let gathered = state.gathered.as_ref().is_some_and(|gathered| overlap(&gathered.range(), wanted));
        gathered || state.flying.iter().any(|flying| overlap(flying, wanted))
    }

    /// Waits until at most so many WRITEs are under way, and none of them concerns the range.
    async fn wait_for_room(&self, most: usize, wanted: &Range<u64>) {
        loop {
            let landed = self.landed.notified();
            let mut landed = std::pin::pin!(landed);
            landed.as_mut().enable();
            {
                let state = self.state.lock();
                if state.flying.len() <= most && !state.flying.iter().any(|flying| overlap(flying, wanted)) {
                    return;
                }
            }
            landed.await;
        }
    }
}

/// Files with data that is not yet stable.
#[derive(Default)]
pub(crate) struct Dirty(Mutex<Vec<Arc<Inode>>>);

impl Dirty {
    fn add(&self, inode: &Arc<Inode>) {
        self.0.lock().push(inode.clone());
    }

    /// Those that still have some.
    pub fn all(&self) -> Vec<Arc<Inode>> {
        let mut inodes = self.0.lock();
        let mut seen = HashSet::new();
        inodes.retain(|inode| inode.writer.is_busy() && seen.insert(Arc::as_ptr(inode)));
        inodes.clone()
    }
}

impl Core {
    /// Takes data that was written. It is on its way afterwards. Not to be dropped: it moves what was taken before.
    pub async fn write_behind(
        self: &Arc<Core>,
        opened: &Arc<Opened>,
        offset: u64,
        data: Bytes,
    ) -> Answer<()> {
        let writer = &opened.inode.writer;
        if let Some(error) = writer.state.lock().error {
            return Err(error);
        }
        let permit = self.room_for(data.len()).await?;
        let transfer = self.transfer as usize;
        let due = {
            let mut state = writer.state.lock();
            if !state.wrote {
                state.wrote = true;
                self.dirty.add(&opened.inode);
            }
            let fits = state.gathered.as_ref().is_some_and(|gathered| {
                gathered.range().end == offset
                    && gathered.data.len() + data.len() <= transfer
                    && Arc::ptr_eq(&gathered.opened, opened)
            });
            match &mut state.gathered {
                Some(gathered) if fits => {
                    gathered.data.extend_from_slice(&data);
                    gathered.permits.push(permit);
                    match gathered.data.len() == transfer {
                        true => state.gathered.take().map(|gathered| (Some(gathered), None)),
                        false => None,
                    }
                }
                _ => Some((state.gathered.take(), Some((data, permit)))),
            }
        };
        let Some((before, rest)) = due else { return Ok(()) };
        if let Some(before) = before {
            self.send(before.opened, before.offset, before.data.freeze(), before.permits).await;
        }
        let Some((data, permit)) = rest else { return Ok(()) };
        if data.len() >= transfer / 2 {
            self.send(opened.clone(), offset, data, vec![permit]).await;
            return Ok(());
        }
        let mut gathered = Gathered {
            opened: opened.clone(),
            offset,
            data: BytesMut::with_capacity(data.len()),
            permits: vec![permit],
        };
        gathered.data.extend_from_slice(&data);
        // Another writer of the same file may have gathered something meanwhile.
        let other = writer.state.lock().gathered.replace(gathered);
        if let Some(other) = other {
            self.send(other.opened, other.offset, other.data.freeze(), other.permits).await;
        }
        Ok(())
    }

    /// Memory for so many bytes, once other data is stable if need be.
    async fn room_for(self: &Arc<Core>, bytes: usize) -> Answer<OwnedSemaphorePermit> {
        let wanted = (bytes as u32).clamp(1, self.options.dirty);
        let room = self.room.clone();
        if let Ok(permit) = room.clone().try_acquire_many_owned(wanted) {
            return Ok(permit);
        }
        let core = self.clone();
        self.tasks.spawn_on(async move { core.settle_all().await }, &self.runtime);
        room.acquire_many_owned(wanted).await.map_err(|_| Errno::EIO)
    }

    /// Makes everything stable, file by file. Errors stay with the file until somebody asks.
    pub async fn settle_all(self: &Arc<Core>) {
        let _one = self.settling.lock().await;
        let mut tasks = tokio::task::JoinSet::new();
        for inode in self.dirty.all() {
            if tasks.len() >= PARALLEL {
                tasks.join_next().await;
            }
            let core = self.clone();
            tasks.spawn_on(async move { core.make_stable(&inode).await }, &self.runtime);
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Sends a WRITE, as soon as there is room for one and no other is under way for the same bytes.
    async fn send(
        self: &Arc<Core>,
        opened: Arc<Opened>,
        offset: u64,
        data: Bytes,
        permits: Vec<OwnedSemaphorePermit>,
    ) {
        let bytes = range(offset, data.len());
        opened.inode.writer.wait_for_room(PARALLEL - 1, &bytes).await;
        opened.inode.writer.state.lock().flying.push(bytes.clone());
        let task = async move {
            let sent = write_all(&opened, offset, &data, StableHow::Unstable).await;
            let writer = &opened.inode.writer;
            let mut state = writer.state.lock();
            if let Some(place) = state.flying.iter().position(|flying| *flying == bytes) {
                state.flying.swap_remove(place);
            }
            match sent {
                Ok(None) => {}
                Ok(Some(verifier)) => {
                    let opened = opened.clone();
                    state.unstable.push(Unstable { opened, offset, data, verifier, _permits: permits });
                }
                Err(error) => {
                    state.error.get_or_insert(error);
                }
            }
            drop(state);
            writer.landed.notify_waiters();
        };
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Returns when all that was written is at the server, where it may not be stable. May be dropped.
    pub async fn flush(self: &Arc<Core>, inode: &Arc<Inode>) {
        if inode.writer.is_busy() {
            let (core, inode) = (self.clone(), inode.clone());
            let _ = self.runtime.spawn(async move { core.flush_whole(&inode).await }).await;
        }
    }

    async fn flush_whole(self: &Arc<Core>, inode: &Arc<Inode>) {
        let gathered = inode.writer.state.lock().gathered.take();
        if let Some(Gathered { opened, offset, data, permits }) = gathered {
            self.send(opened, offset, data.freeze(), permits).await;
        }
        inode.writer.wait_for_room(0, &(0..0)).await;
    }

    /// The same if any of it concerns the range.
    pub async fn flush_range(self: &Arc<Core>, inode: &Arc<Inode>, offset: u64, length: u64) {
        if inode.writer.concerns(&(offset..offset.saturating_add(length))) {
            self.flush(inode).await;
        }
    }

    /// Returns when all that was written is stable, or with the error of what is not, once.
    pub async fn settle(self: &Arc<Core>, inode: &Arc<Inode>) -> Answer<()> {
        self.make_stable(inode).await;
        inode.writer.state.lock().error.take().map_or(Ok(()), Err)
    }

    /// The same; the error stays for whoever asks. May be dropped.
    pub async fn make_stable(self: &Arc<Core>, inode: &Arc<Inode>) {
        if inode.writer.is_busy() {
            let (core, inode) = (self.clone(), inode.clone());
            let _ = self.runtime.spawn(async move { core.make_whole_stable(&inode).await }).await;
        }
    }

    async fn make_whole_stable(self: &Arc<Core>, inode: &Arc<Inode>) {
        let _one = inode.writer.settling.lock().await;
        let attributes = match self.alone(inode) {
            Some(gathered) => self.write_through(inode, gathered).await,
            None => {
                self.flush_whole(inode).await;
                self.commit(inode).await
            }
        };
        // Before anybody believes that nothing is on its way.
        self.touch(inode);
        let mut state = inode.writer.state.lock();
        // What was written meanwhile is for the next time.
        state.wrote = state.gathered.is_some() || !state.flying.is_empty() || !state.unstable.is_empty();
        if state.wrote {
            self.dirty.add(inode);
        }
        drop(state);
        match attributes {
            Ok(values) => inode.known.lock().cached = values.and_then(|values| values.change),
            Err(error) => {
                inode.known.lock().cached = None;
                inode.writer.state.lock().error.get_or_insert(error);
            }
        }
        self.touch(inode);
    }

    /// What is gathered if there is nothing else.
    fn alone(&self, inode: &Inode) -> Option<Gathered> {
        let mut state = inode.writer.state.lock();
        let alone = state.flying.is_empty() && state.unstable.is_empty();
        if !alone {
            return None;
        }
        let gathered = state.gathered.take()?;
        state.flying.push(gathered.range());
        Some(gathered)
    }

    /// Small files in one round trip.
    async fn write_through(&self, inode: &Inode, gathered: Gathered) -> Answer<Option<AttributeValues>> {
        let Gathered { opened, offset, data, permits: _permits } = gathered;
        let data = data.freeze();
        let outcome = write_and_look(&opened, offset, &data).await;
        let bytes = range(offset, data.len());
        inode.writer.state.lock().flying.retain(|flying| *flying != bytes);
        inode.writer.landed.notify_waiters();
        outcome
    }

    /// COMMIT, and again what the server has lost by a restart (RFC 8881 §18.3.3).
    async fn commit(&self, inode: &Inode) -> Answer<Option<AttributeValues>> {
        for _ in 0..RESENDS {
            let unstable = std::mem::take(&mut inode.writer.state.lock().unstable);
            let client = match unstable.first() {
                Some(first) => first.opened.client.clone(),
                None => self.callers.mounter().clone(),
            };
            let mut operations = vec![put_handle(&inode.handle)];
            if !unstable.is_empty() {
                operations.push(commit(0, 0));
            }
            operations.push(get_attributes(ATTRIBUTES));
            let answers = run(&client, &operations).await;
            if unstable.is_empty() {
                // The attributes are a convenience here.
                return Ok(answers.and_then(|mut answers| answers.attributes()).ok());
            }
            let mut answers = answers?;
            let stable = answers.find(|result| match result {
                NfsResOp::Commit(Outcome::Ok(verifier)) => Some(verifier),
                _ => None,
            })?;
            let lost: Vec<_> = unstable.into_iter().filter(|written| written.verifier != stable).collect();
            if lost.is_empty() {
                return answers.attributes().map(Some);
            }
            tracing::info!(
                inode = inode.number,
                pieces = lost.len(),
                "the server restarted; data is sent again"
            );
            for written in lost {
                write_all(&written.opened, written.offset, &written.data, StableHow::FileSync).await?;
            }
        }
        Err(Errno::EIO)
    }
}

/// Writes all of it so that it is stable, and asks for the attributes on the way.
async fn write_and_look(opened: &Opened, offset: u64, data: &Bytes) -> Answer<Option<AttributeValues>> {
    let build = |state_id| {
        vec![write(state_id, offset, StableHow::FileSync, data.clone()), get_attributes(ATTRIBUTES)]
    };
    let mut answers = opened.run(build).await.map_err(|error| errno(&error))?;
    let written = answers.find(written)?;
    if written.count as usize >= data.len() && written.committed != StableHow::Unstable {
        return answers.attributes().map(Some);
    }
    write_all(opened, offset, data, StableHow::FileSync).await?;
    Ok(None)
}

fn written(result: NfsResOp) -> Option<WriteOk> {
    match result {
        NfsResOp::Write(Outcome::Ok(written)) => Some(written),
        _ => None,
    }
}

/// Writes all of it; under which verifier if it is not stable. A server may take less at a time.
async fn write_all(
    opened: &Opened,
    offset: u64,
    data: &Bytes,
    stable: StableHow,
) -> Answer<Option<Verifier>> {
    let (mut done, mut verifier) = (0, None);
    while done < data.len() {
        let piece = data.slice(done..);
        let at = offset + done as u64;
        let answers = opened.run(|state_id| vec![write(state_id, at, stable, piece.clone())]).await;
        let WriteOk { count, committed, verifier: of_this } =
            answers.map_err(|error| errno(&error))?.find(written)?;
        if count == 0 {
            return Err(Errno::EIO);
        }
        done += count as usize;
        if committed == StableHow::Unstable {
            // Parts under different verifiers: with the first one, all of it is sent again.
            verifier.get_or_insert(of_this);
        }
    }
    Ok(verifier)
}
