//! Writes of one descriptor by one call after the other, sent later and together.
//!
//! What is sent later is sent to be stable at once: it is forgotten here only when the server can lose it no more, so it is
//! never lost with a server that restarts. What could not be sent stays, and is sent again by whoever waits for it.

mod barrier;
mod unsent;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use futures::{StreamExt, stream};
use nfs4::NfsStatus;
use nfs4::bits::share_access;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::Nfs;
use super::open_files::OpenFile;
use crate::step::{APPEND, Done, Step, Write};
use crate::{Descriptor, Error};

use unsent::Unsent;

/// Compounds of one file under way at once.
const PARALLEL: usize = 16;

/// How often something is sent of which nobody knows whether it was written.
const TRIES: u32 = 4;

/// WRITEs of one compound.
const WRITES: usize = 64;

/// All that is not sent yet, of all files.
pub(super) struct Behind {
    room: Semaphore,
    most: usize,
    files: Mutex<HashMap<Descriptor, Arc<OpenFile>>>,
    /// How many those are.
    count: AtomicUsize,
}

/// What is not sent yet of one descriptor.
#[derive(Debug, Default)]
pub(super) struct Tail(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    unsent: Unsent,
    /// Room that it takes.
    room: usize,
    /// It is being closed, and takes no more.
    is_closing: bool,
    /// Tells when what is on its way has ended.
    sending: Option<watch::Receiver<()>>,
    /// Why something was not sent, until somebody is told.
    failed: Option<Error>,
    failures: u64,
    /// Something could not be sent, and since then the client has changed files by a path that may be this one: what is left is
    /// older than that, and must not be written over it.
    overtaken: Option<NfsStatus>,
}

impl Behind {
    pub fn new(bytes: u64) -> Behind {
        let most =
            usize::try_from(bytes).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        let (files, count) = (Mutex::default(), AtomicUsize::new(0));
        Behind { room: Semaphore::new(most), most, files, count }
    }

    /// Whether everything is sent.
    pub fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    /// Something has come for this one, whose state is locked.
    fn insert(&self, descriptor: Descriptor, file: &Arc<OpenFile>) {
        let mut files = self.files.lock();
        files.insert(descriptor, file.clone());
        self.count.store(files.len(), SeqCst);
    }

    /// Nothing is left of this one, unless something has come meanwhile.
    fn remove(&self, descriptor: Descriptor, file: &OpenFile) {
        let state = file.tail.0.lock();
        if state.unsent.is_empty() && state.sending.is_none() {
            let mut files = self.files.lock();
            files.remove(&descriptor);
            self.count.store(files.len(), SeqCst);
        }
    }

    fn all(&self) -> Vec<(Descriptor, Arc<OpenFile>)> {
        self.files.lock().iter().map(|(descriptor, file)| (*descriptor, file.clone())).collect()
    }
}

impl Nfs {
    /// Takes what is to be written, to send it later; if there is no room, or it is nothing to be kept, it is written at once.
    pub(super) async fn write_later(&self, write: Write) -> Result<u64, Error> {
        if !self.take_over(&write).await? {
            return match self.all_done(vec![Step::Write(write)]).await {
                Ok(done) => {
                    Ok(done.iter().map(|done| if let Done::Written(it) = done { *it } else { 0 }).sum())
                }
                Err(failure) => Err(failure.error),
            };
        }
        Ok(write.data.len() as u64)
    }

    async fn take_over(&self, write: &Write) -> Result<bool, Error> {
        let length = write.data.len();
        let is_odd =
            write.offset == APPEND || i64::try_from(write.offset.saturating_add(length as u64)).is_err();
        let Some(descriptor) = write.target.descriptor().filter(|_| !is_odd && length > 0) else {
            return Ok(false);
        };
        let file = self.files.get(descriptor)?;
        if length > self.behind.most || file.open.access() & share_access::WRITE == 0 {
            return Ok(false);
        }
        file.open.state_id()?;
        let handle = file.open.handle();
        for (other, same) in self.behind.all() {
            // What was written by another descriptor of the file was written before.
            if other != descriptor && same.open.handle() == handle {
                self.flush(other, &same).await?;
            }
        }
        let mut room = self.behind.room.try_acquire_many(length as u32);
        if room.is_err() {
            self.flush(descriptor, &file).await?;
            room = self.behind.room.try_acquire_many(length as u32);
        }
        let Ok(room) = room else { return Ok(false) };
        {
            let mut state = file.tail.0.lock();
            if state.is_closing {
                return Err(Error::NotOpen(descriptor));
            }
            if let Some(status) = state.overtaken {
                return Err(Error::Refused { target: descriptor.into(), status });
            }
            room.forget();
            state.unsent.write(write.offset, write.data.clone());
            state.room += length;
            self.behind.insert(descriptor, &file);
        }
        self.send_more(descriptor, &file, false);
        Ok(true)
    }

    /// Begins to send what there is, unless that is under way, or failed the last time and nobody insists.
    fn send_more(&self, descriptor: Descriptor, file: &Arc<OpenFile>, insists: bool) {
        let Some(nfs) = self.me.upgrade() else { return };
        let mut state = file.tail.0.lock();
        let failed = state.failed.is_some() && !insists;
        if state.sending.is_some() || state.unsent.is_empty() || state.overtaken.is_some() || failed {
            return;
        }
        state.failed = None;
        let (ended, waiting) = watch::channel(());
        state.sending = Some(waiting);
        let (unsent, room) = (state.unsent.take(), std::mem::take(&mut state.room));
        drop(state);
        let file = file.clone();
        // Whoever waits may give up; what is being sent is sent.
        tokio::spawn(async move {
            let left = nfs.send_all(descriptor, unsent).await;
            let is_sent = left.is_ok();
            {
                let mut state = file.tail.0.lock();
                state.sending = None;
                match left {
                    Ok(()) => nfs.behind.room.add_permits(room),
                    Err((left, error)) => {
                        state.unsent.put_back(left);
                        state.room += room;
                        state.failed = Some(error);
                        state.failures += 1;
                    }
                }
            }
            nfs.behind.remove(descriptor, &file);
            drop(ended);
            if is_sent {
                nfs.send_more(descriptor, &file, false);
            }
        });
    }

    /// Sends it all; what was not sent, and why.
    async fn send_all(
        &self,
        descriptor: Descriptor,
        unsent: Vec<(u64, Bytes)>,
    ) -> Result<(), (Vec<(u64, Bytes)>, Error)> {
        let transfer = self.transfer();
        let pieces = unsent.into_iter().flat_map(|(offset, data)| {
            let starts = (0..data.len()).step_by(transfer);
            let cut = move |start: usize| {
                (offset + start as u64, data.slice(start..data.len().min(start + transfer)))
            };
            starts.map(cut).collect::<Vec<_>>()
        });
        let mut batches: Vec<Vec<(u64, Bytes)>> = Vec::new();
        let mut bytes = 0;
        for piece in pieces {
            bytes += piece.1.len();
            match batches.last_mut() {
                Some(batch) if bytes <= transfer && batch.len() < WRITES => batch.push(piece),
                _ => {
                    bytes = piece.1.len();
                    batches.push(vec![piece]);
                }
            }
        }
        let sends = batches.into_iter().map(|batch| async move {
            let step = |(offset, data): &(u64, Bytes)| {
                Step::Write(Write { stable: true, ..Write::new(descriptor, *offset, data.clone()) })
            };
            let wanted: u64 = batch.iter().map(|(_, data)| data.len() as u64).sum();
            let written = |done: &Done| if let Done::Written(bytes) = done { *bytes } else { 0 };
            let mut tries = TRIES;
            let error = loop {
                tries -= 1;
                match Box::pin(self.do_all(batch.iter().map(step).collect())).await {
                    Ok(done) if done.iter().map(written).sum::<u64>() == wanted => break None,
                    Ok(_) => break Some(Error::Refused { target: descriptor.into(), status: NfsStatus::Io }),
                    // It is the same data, at the same place: written twice it is as if it was written once.
                    Err(failure) if failure.unknown > 0 && tries > 0 => {}
                    Err(failure) => break Some(failure.error),
                }
            };
            error.map(|error| (batch, error))
        });
        let failed: Vec<_> =
            stream::iter(sends).buffer_unordered(PARALLEL).filter_map(|it| async { it }).collect().await;
        let (batches, errors): (Vec<_>, Vec<_>) = failed.into_iter().unzip();
        match errors.into_iter().next() {
            Some(error) => Err((batches.concat(), error)),
            None => Ok(()),
        }
    }

    /// Waits until all is sent that was written before.
    async fn flush(&self, descriptor: Descriptor, file: &Arc<OpenFile>) -> Result<(), Error> {
        // What is on its way, and once more what has come since.
        let mut batches = 1 + usize::from(file.tail.0.lock().sending.is_some());
        while batches > 0 {
            if let Some(status) = file.tail.0.lock().overtaken {
                return Err(Error::Refused { target: descriptor.into(), status });
            }
            let failures = file.tail.0.lock().failures;
            self.send_more(descriptor, file, true);
            let waiting = file.tail.0.lock().sending.clone();
            if let Some(mut waiting) = waiting {
                let _ = waiting.changed().await;
            }
            let mut state = file.tail.0.lock();
            if state.failures == failures || batches > 1 {
                // What failed was begun before, and is tried again with what has come since.
                batches -= 1;
            } else if let Some(error) = state.failed.take() {
                return Err(error);
            }
            // Somebody else was told, and here it is tried again.
        }
        Ok(())
    }

    fn tell_later(&self, descriptor: Descriptor, error: Error) {
        if let Ok(file) = self.files.get(descriptor) {
            file.tail.0.lock().failed.get_or_insert(error);
        }
    }

    /// Sends everything; what could not be sent is said later.
    pub(super) async fn flush_silently(&self) {
        for (descriptor, file) in self.behind.all() {
            if let Err(error) = self.flush(descriptor, &file).await {
                self.tell_later(descriptor, error);
            }
        }
    }

    /// Sends everything; the first reason why not.
    pub(super) async fn flush_all(&self) -> Result<(), Error> {
        let mut result = Ok(());
        for (descriptor, file) in self.behind.all() {
            result = result.and(self.flush(descriptor, &file).await);
        }
        result
    }
}
