//! Data on its way to the server: gathered, sent, made stable.
//!
//! The vectorized client's `Writer` does this for one program that writes one file from front to back. Here any process writes anywhere, also twice
//! to one place; what is lost is known WRITE by WRITE, memory is that of all files, and the error is for whoever calls fsync. What both have
//! in common is to compare two verifiers.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use crate::write_errors::WriteErrors;

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
    /// Written since everything was stable. Changes only while the state is locked, and is read without: a lock that the list of all
    /// dirty files takes, while whoever holds it puts his file on that list, is a deadlock.
    wrote: AtomicBool,
    /// A WRITE has come back.
    landed: Notify,
    /// One who makes data stable at a time: who comes second must not find nothing to do before that is done.
    settling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    gathered: Option<Gathered>,
    /// What is no longer gathered and not yet at the server, in the order written.
    flying: Vec<Flying>,
    /// The number of the last of them.
    flights: u64,
    /// In the order written, at the server, but not stable there.
    unstable: Vec<Unstable>,
    errors: WriteErrors,
}

struct Flying {
    number: u64,
    bytes: Range<u64>,
    is_sent: bool,
}

/// Ends the flight of a piece when it is dropped; one of which nobody knows how it went has failed.
struct Flight {
    inode: Arc<Inode>,
    number: u64,
    is_done: bool,
}

impl Flight {
    fn new(inode: &Arc<Inode>, number: u64) -> Flight {
        Flight { inode: inode.clone(), number, is_done: false }
    }
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

impl State {
    fn fail(&mut self, inode: &Inode, error: Errno) {
        if self.errors.add(error) {
            let why = std::io::Error::from_raw_os_error(error.code());
            tracing::warn!(inode = inode.number, %why, "what was written to a file cannot be stored");
        }
    }

    /// From now on these bytes are on their way.
    fn fly(&mut self, bytes: Range<u64>) -> u64 {
        self.flights += 1;
        self.flying.push(Flying { number: self.flights, bytes, is_sent: false });
        self.flights
    }

    /// Nothing is sent from now on, wherever it belongs.
    fn bar(&mut self) -> u64 {
        self.flying.insert(0, Flying { number: 0, bytes: 0..u64::MAX, is_sent: false });
        0
    }

    fn land(&mut self, number: u64) {
        self.flying.retain(|it| it.number != number);
    }

    /// What was gathered, on its way.
    fn fly_gathered(&mut self, inode: &Arc<Inode>) -> Option<(Gathered, Flight)> {
        let gathered = self.gathered.take()?;
        let number = self.fly(gathered.range());
        Some((gathered, Flight::new(inode, number)))
    }

    /// Sends it if there is room, for the older ones that wait as well, and none of these is for the same bytes.
    fn may_send(&mut self, number: u64) -> bool {
        let Some(place) = self.flying.iter().position(|it| it.number == number) else { return true };
        let (older, bytes) = (&self.flying[..place], &self.flying[place].bytes);
        let newer_sent = self.flying[place..].iter().filter(|it| it.is_sent).count();
        let may = older.len() + newer_sent < PARALLEL && !older.iter().any(|it| overlap(&it.bytes, bytes));
        self.flying[place].is_sent |= may;
        may
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let writer = &self.inode.writer;
        let mut state = writer.state.lock();
        state.land(self.number);
        if !self.is_done {
            state.fail(&self.inode, Errno::EIO);
        }
        drop(state);
        writer.landed.notify_waiters();
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
        self.wrote.load(Ordering::Acquire)
    }

    /// The number of the last error that does not concern who opens the file now.
    pub fn errors_known(&self) -> u64 {
        self.state.lock().errors.known_to_new()
    }

    /// Whether something was not stored, and no write or fsync has said so.
    pub fn has_lost_silently(&self) -> bool {
        self.state.lock().errors.is_untold()
    }

    fn concerns(&self, wanted: &Range<u64>) -> bool {
        let state = self.state.lock();
        let gathered = state.gathered.as_ref().is_some_and(|gathered| overlap(&gathered.range(), wanted));
        gathered || state.flying.iter().any(|flying| overlap(&flying.bytes, wanted))
    }

    /// Waits until it is so; asks whenever a WRITE has come back.
    async fn wait_until(&self, is_so: impl Fn(&mut State) -> bool) {
        loop {
            let landed = self.landed.notified();
            let mut landed = std::pin::pin!(landed);
            landed.as_mut().enable();
            if is_so(&mut self.state.lock()) {
                return;
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
        let permit = self.room_for(data.len()).await?;
        let (inode, transfer) = (&opened.inode, self.transfer as usize);
        // Nothing leaves the state without being on its way: who makes data stable must not find neither.
        let (is_first, before, own) = {
            let mut state = writer.state.lock();
            let is_first = !writer.wrote.swap(true, Ordering::AcqRel);
            let fits = |gathered: &Gathered| {
                gathered.range().end == offset
                    && gathered.data.len() + data.len() <= transfer
                    && Arc::ptr_eq(&gathered.opened, opened)
            };
            match state.gathered.as_mut().filter(|gathered| fits(gathered)) {
                Some(gathered) => {
                    gathered.data.extend_from_slice(&data);
                    gathered.permits.push(permit);
                    let is_full = gathered.data.len() == transfer;
                    let full = if is_full { state.fly_gathered(inode) } else { None };
                    (is_first, full, None)
                }
                None => {
                    let before = state.fly_gathered(inode);
                    let permits = vec![permit];
                    let own = if data.len() >= transfer / 2 {
                        let number = state.fly(range(offset, data.len()));
                        Some((data, permits, Flight::new(inode, number)))
                    } else {
                        let data = BytesMut::from(&data[..]);
                        state.gathered = Some(Gathered { opened: opened.clone(), offset, data, permits });
                        None
                    };
                    (is_first, before, own)
                }
            }
        };
        if is_first {
            self.dirty.add(inode);
        }
        if let Some((before, flight)) = before {
            self.send(before.opened, before.offset, before.data.freeze(), before.permits, flight).await;
        }
        if let Some((data, permits, flight)) = own {
            self.send(opened.clone(), offset, data, permits, flight).await;
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

    /// Sends a WRITE, as soon as there is room for one and no older one is under way for the same bytes.
    async fn send(
        self: &Arc<Core>,
        opened: Arc<Opened>,
        offset: u64,
        data: Bytes,
        permits: Vec<OwnedSemaphorePermit>,
        mut flight: Flight,
    ) {
        opened.inode.writer.wait_until(|state| state.may_send(flight.number)).await;
        let task = async move {
            let sent = write_all(&opened, offset, &data, StableHow::Unstable).await;
            let writer = &opened.inode.writer;
            let mut state = writer.state.lock();
            match sent {
                Ok(None) => {}
                Ok(Some(verifier)) => {
                    let opened = opened.clone();
                    state.unstable.push(Unstable { opened, offset, data, verifier, _permits: permits });
                }
                Err(error) => state.fail(&opened.inode, error),
            }
            drop(state);
            flight.is_done = true;
            drop(flight);
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
        let (gathered, last) = {
            let mut state = inode.writer.state.lock();
            (state.fly_gathered(inode), state.flights)
        };
        if let Some((Gathered { opened, offset, data, permits }, flight)) = gathered {
            self.send(opened, offset, data.freeze(), permits, flight).await;
        }
        // Others may write on and on.
        inode.writer.wait_until(|state| state.flying.iter().all(|it| it.number > last)).await;
    }

    /// The same if any of it concerns the range.
    pub async fn flush_range(self: &Arc<Core>, inode: &Arc<Inode>, offset: u64, length: u64) {
        if inode.writer.concerns(&(offset..offset.saturating_add(length))) {
            self.flush(inode).await;
        }
    }

    /// Returns when all that was written is stable, or with the error of what is not, once for each who has the file open.
    pub async fn settle(self: &Arc<Core>, opened: &Opened) -> Answer<()> {
        self.make_stable(&opened.inode).await;
        opened.inode.writer.state.lock().errors.tell(&opened.told)
    }

    /// What a program has to be told before it writes on.
    pub fn tell_before_write(&self, opened: &Opened) -> Answer<()> {
        opened.inode.writer.state.lock().errors.tell(&opened.told)
    }

    /// As [`settle`](Self::settle) when a descriptor is closed: of a program that ends by it nobody hears the answer, so the error stays.
    pub async fn settle_at_close(self: &Arc<Core>, opened: &Opened) -> Answer<()> {
        self.make_stable(&opened.inode).await;
        if !opened.writes() {
            return Ok(());
        }
        opened.inode.writer.state.lock().errors.after(&opened.told)
    }

    /// The same; errors stay for whoever asks. May be dropped.
    pub async fn make_stable(self: &Arc<Core>, inode: &Arc<Inode>) {
        if inode.writer.is_busy() {
            let (core, inode) = (self.clone(), inode.clone());
            let whole = inode.clone();
            let done = self.runtime.spawn(async move { core.make_whole_stable(&whole).await }).await;
            if done.is_err() {
                inode.writer.state.lock().fail(&inode, Errno::EIO);
            }
        }
    }

    async fn make_whole_stable(self: &Arc<Core>, inode: &Arc<Inode>) {
        let _one = inode.writer.settling.lock().await;
        let mut was_lost = false;
        let attributes = match self.alone(inode) {
            Some((gathered, flight)) => self.write_through(gathered, flight).await,
            None => {
                self.flush_whole(inode).await;
                self.commit(inode, &mut was_lost).await
            }
        };
        // Before anybody believes that nothing is on its way, or that all went well.
        self.touch(inode);
        let error = attributes.as_ref().err().copied();
        if error.is_some() {
            inode.known.lock().cached = None;
        }
        let mut state = inode.writer.state.lock();
        if let Some(error) = error {
            state.fail(inode, error);
        }
        // What was written meanwhile is for the next time.
        let is_left = state.gathered.is_some() || !state.flying.is_empty() || !state.unstable.is_empty();
        inode.writer.wrote.store(is_left, Ordering::Release);
        drop(state);
        if is_left {
            self.dirty.add(inode);
        }
        if let Ok(values) = attributes {
            inode.known.lock().cached = values.and_then(|values| values.change).filter(|_| !was_lost);
        }
        self.touch(inode);
        if was_lost {
            // The kernel may have read the file as it was without what was sent again.
            self.forget_attributes(inode);
            self.forget_pages(inode.clone(), None);
        }
    }

    /// What is gathered if there is nothing else, on its way.
    fn alone(&self, inode: &Arc<Inode>) -> Option<(Gathered, Flight)> {
        let mut state = inode.writer.state.lock();
        let alone = state.flying.is_empty() && state.unstable.is_empty();
        alone.then(|| state.fly_gathered(inode)).flatten()
    }

    /// Small files in one round trip.
    async fn write_through(&self, gathered: Gathered, mut flight: Flight) -> Answer<Option<AttributeValues>> {
        let Gathered { opened, offset, data, permits: _permits } = gathered;
        let outcome = write_and_look(&opened, offset, &data.freeze()).await;
        flight.is_done = true;
        outcome
    }

    /// COMMIT, and again what the server has lost by a restart (RFC 8881 §18.3.3); whether anything `was_lost`.
    async fn commit(&self, inode: &Arc<Inode>, was_lost: &mut bool) -> Answer<Option<AttributeValues>> {
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
            let Some(lost) = unstable.iter().position(|written| written.verifier != stable) else {
                return answers.attributes().map(Some);
            };
            tracing::info!(inode = inode.number, "the server restarted; data is sent again");
            *was_lost = true;
            send_again(inode, unstable.into_iter().skip(lost)).await?;
        }
        Err(Errno::EIO)
    }
}

/// Sends what the server has lost, and whatever was written since, in its order: newer bytes must not be overtaken. Nothing else is
/// sent to the file meanwhile.
async fn send_again(inode: &Arc<Inode>, lost: impl Iterator<Item = Unstable>) -> Answer<()> {
    let mut bar = Flight::new(inode, inode.writer.state.lock().bar());
    inode.writer.wait_until(|state| !state.flying.iter().any(|it| it.is_sent)).await;
    let since = std::mem::take(&mut inode.writer.state.lock().unstable);
    let mut outcome = Ok(());
    for written in lost.chain(since) {
        let sent = write_all(&written.opened, written.offset, &written.data, StableHow::FileSync).await;
        outcome = outcome.and(sent.map(drop));
    }
    bar.is_done = true;
    outcome
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_goes_first_where_both_write_the_same_bytes() {
        let mut state = State::default();
        let [one, two, apart, three] = [0..10, 5..15, 20..30, 9..25].map(|bytes| state.fly(bytes));
        assert!(!state.may_send(two) && !state.may_send(three));
        assert!(state.may_send(one) && state.may_send(apart) && !state.may_send(two));
        state.land(one);
        assert!(state.may_send(two) && !state.may_send(three));
        state.land(apart);
        assert!(!state.may_send(three));
        state.land(two);
        assert!(state.may_send(three));
        state.land(three);
        assert!(state.flying.is_empty());
    }

    #[test]
    fn nothing_passes_a_bar() {
        let mut state = State::default();
        let before = state.fly(0..10);
        assert!(state.may_send(before));
        let bar = state.bar();
        let [waiting, after] = [20..30, 0..10].map(|bytes| state.fly(bytes));
        assert!(!state.may_send(waiting) && !state.may_send(after));
        // Whoever waits for what was there waits for the bar, too.
        assert!(state.flying.iter().any(|it| it.number <= before && it.number == bar));
        state.land(before);
        assert!(!state.may_send(waiting) && !state.may_send(after));
        state.land(bar);
        assert!(state.may_send(waiting) && state.may_send(after));
    }

    #[test]
    fn no_more_than_some_are_sent_at_once_the_oldest_first() {
        let mut state = State::default();
        let flights: Vec<u64> = (0..2 * PARALLEL as u64).map(|at| state.fly(at * 10..at * 10 + 10)).collect();
        let (first, rest) = flights.split_at(PARALLEL);
        assert!(!rest.iter().any(|number| state.may_send(*number)));
        assert!(first.iter().rev().all(|number| state.may_send(*number)));
        state.land(first[3]);
        assert!(!state.may_send(rest[1]) && state.may_send(rest[0]) && !state.may_send(rest[1]));
    }
}
