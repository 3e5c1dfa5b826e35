//! Files that may be believed without asking, because the server has delegated them (RFC 8881 §10.4).
//!
//! As long as a delegation for reading lasts, no other client changes the file. This client may: the server does not ask a client
//! for leave to do what it does itself. So what is known of a file counts until the client changes something that could be it.

mod recall;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use nfs4::{FileHandle, StateId};
use nfs4_client::{EarlyRecalls, OpenState};
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc;

use super::cache::detached;
use super::held::Walk;
use super::open_files::OpenFiles;
use crate::step::Step;
use crate::{AttributeSet, Attributes};

use recall::Back;
pub(super) use recall::{Recalls, Returning};

/// Delegations on their way back at most; the server is asked to come again for more.
const ON_THE_WAY: usize = 256;

/// All that the server has delegated.
pub(super) struct Promises {
    made: RwLock<HashMap<FileHandle, Arc<Promise>>>,
    /// How often this client has changed files of which it knew the name only.
    changes: AtomicU64,
    /// And of which it had a descriptor.
    writes: AtomicU64,
    early: Mutex<EarlyRecalls>,
    back: mpsc::Sender<Back>,
}

/// That nobody else changes a file.
pub(super) struct Promise {
    open: Arc<OpenState>,
    /// The client's [doubts](nfs4_client::Client::doubts) before the file was opened: with one more it is no promise any more.
    doubts: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_over: bool,
    /// How often this client has changed the file.
    changes: u64,
    /// The `change` attribute, and since when it is known.
    change: Option<(u64, Since)>,
    attributes: Option<(AttributeSet, Attributes, Since)>,
}

/// How often the client had changed something when it asked: files by name, and this one.
type Since = (u64, u64);

/// Taken before the server is asked about a file: what it says counts if nothing was changed meanwhile.
#[derive(Clone)]
pub(super) struct Stamp {
    promise: Arc<Promise>,
    since: Since,
}

/// What a step may change the content or the attributes of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// This file.
    File(FileHandle),
    /// Whichever.
    Any,
}

impl Promises {
    /// And what brings back what the server wants back.
    pub fn new() -> (Arc<Promises>, mpsc::Receiver<Back>) {
        let (back, wanted) = mpsc::channel(ON_THE_WAY);
        let (made, early) = (RwLock::default(), Mutex::default());
        let (changes, writes) = Default::default();
        (Arc::new(Promises { made, changes, writes, early, back }), wanted)
    }

    /// The file was opened; perhaps it was delegated as well. `doubts`: from before.
    pub fn opened(&self, open: &Arc<OpenState>, doubts: u64) {
        let Some(id) = open.read_delegation() else { return };
        let mut made = self.made.write();
        if !self.early.lock().contains(&id) {
            let promise = Promise { open: open.clone(), doubts, state: Mutex::default() };
            made.insert(detached(open.handle()), Arc::new(promise));
        }
    }

    /// Whether what is promised of a file rests on this delegation.
    pub fn rest_on(&self, handle: &FileHandle, delegation: &StateId) -> bool {
        self.made.read().get(handle).is_some_and(|promise| promise.has(delegation))
    }

    /// How often this client has changed files of which it knew the name only.
    pub fn changes(&self) -> u64 {
        self.changes.load(SeqCst)
    }

    /// How often this client has changed files by descriptors.
    pub fn writes(&self) -> u64 {
        self.writes.load(SeqCst)
    }

    /// The server has said the `change` of a file in the compound that opened it, which was sent after this.
    pub fn know(&self, open: &OpenState, change: u64, before: Walk) {
        if let Some(promise) = self.made.read().get(open.handle())
            && std::ptr::eq(&*promise.open, open)
        {
            let mut state = promise.state.lock();
            // Before there was a promise, nobody counted what was written of this very file.
            if before.writes == self.writes() && state.changes == 0 {
                state.change = Some((change, (before.changes, 0)));
            }
        }
    }

    /// The file is closed, and its delegation goes back later.
    pub async fn give_back(&self, open: &Arc<OpenState>) {
        // If nobody is there to do it, the client is closed, and nothing is held any more.
        let _ = self.back.send(Back::Known(open.clone())).await;
    }

    /// The delegation goes back with the open.
    pub fn closing(&self, open: &Arc<OpenState>) {
        let mut made = self.made.write();
        let own = open.read_delegation();
        // A server may say again what it has delegated, when the file is opened once more.
        let goes_back = |promise: &Arc<Promise>| {
            Arc::ptr_eq(&promise.open, open) || own.is_some_and(|own| promise.has(&own))
        };
        if made.get(open.handle()).is_some_and(goes_back)
            && let Some(promise) = made.remove(open.handle())
        {
            promise.end();
        }
        if let Some(own) = own {
            self.early.lock().add(&own);
        }
    }

    /// Before the server is asked about a file.
    pub fn stamp(&self, handle: &FileHandle) -> Option<Stamp> {
        let promise = self.of(handle)?;
        let since = (self.changes(), promise.state.lock().changes);
        Some(Stamp { promise, since })
    }

    /// Whether the delegation of this open counts, and is the one that counts.
    pub fn count_under(&self, open: &Arc<OpenState>, doubts: u64) -> bool {
        self.under(open).is_some_and(|promise| promise.counts(&promise.state.lock(), doubts))
    }

    /// The `change` that the file certainly has by the delegation of this open.
    pub fn change_under(&self, open: &Arc<OpenState>, doubts: u64) -> Option<u64> {
        self.certain(self.under(open)?, doubts, |state| state.change)
    }

    /// The `change` that the file certainly has, if the client is in good standing, after so many doubts.
    pub fn change_of(&self, handle: &FileHandle, doubts: u64) -> Option<u64> {
        self.certain(self.of(handle)?, doubts, |state| state.change)
    }

    /// Attributes that the file certainly has, if all of these are known.
    pub fn attributes_of(
        &self,
        handle: &FileHandle,
        wanted: AttributeSet,
        doubts: u64,
    ) -> Option<Attributes> {
        self.certain(self.of(handle)?, doubts, |state| {
            let (known, attributes, since) = state.attributes.as_ref()?;
            known.contains(wanted).then(|| (attributes.only(wanted), *since))
        })
    }

    fn of(&self, handle: &FileHandle) -> Option<Arc<Promise>> {
        self.made.read().get(handle).cloned()
    }

    fn under(&self, open: &Arc<OpenState>) -> Option<Arc<Promise>> {
        self.of(open.handle()).filter(|promise| Arc::ptr_eq(&promise.open, open))
    }

    fn certain<T>(
        &self,
        promise: Arc<Promise>,
        doubts: u64,
        known: impl FnOnce(&State) -> Option<(T, Since)>,
    ) -> Option<T> {
        let state = promise.state.lock();
        let (value, since) = known(&state)?;
        let is_so_still = since == (self.changes(), state.changes);
        (is_so_still && promise.counts(&state, doubts)).then_some(value)
    }

    /// Before something is changed; ends when it is done, or when nobody knows whether it is.
    pub fn changing<'a>(&'a self, touched: &'a [Touched]) -> Changing<'a> {
        Changing { promises: self, touched, is_answered: touched.is_empty() }
    }

    fn changed(&self, touched: &Touched) {
        match touched {
            Touched::Any => drop(self.changes.fetch_add(1, SeqCst)),
            Touched::File(handle) => {
                self.writes.fetch_add(1, SeqCst);
                if let Some(promise) = self.made.read().get(handle) {
                    promise.state.lock().changes += 1;
                }
            }
        }
    }

    fn end_all(&self) {
        for (_, promise) in self.made.write().drain() {
            promise.end();
        }
    }
}

impl Promise {
    /// Whether it rests on this delegation.
    fn has(&self, delegation: &StateId) -> bool {
        self.open.read_delegation().is_some_and(|own| own.other == delegation.other)
    }

    /// After so many doubts.
    fn counts(&self, state: &State, doubts: u64) -> bool {
        self.doubts == doubts && !state.is_over && self.open.read_delegation().is_some()
    }

    fn end(&self) {
        self.state.lock().is_over = true;
    }
}

impl Stamp {
    /// The server has said that this file has this `change`.
    pub fn know_change(&self, handle: &FileHandle, change: u64) {
        // A path may lead to another one now.
        if handle == self.promise.open.handle() {
            self.promise.state.lock().change = Some((change, self.since));
        }
    }

    /// The server has said that these are the file's attributes.
    pub fn know_attributes(&self, wanted: AttributeSet, mut attributes: Attributes) {
        attributes.handle = attributes.handle.as_ref().map(detached);
        // Reading moves it, and is no change.
        if !wanted.contains(AttributeSet::ACCESSED) {
            self.promise.state.lock().attributes = Some((wanted, attributes, self.since));
        }
    }
}

/// A change under way.
pub(super) struct Changing<'a> {
    promises: &'a Promises,
    touched: &'a [Touched],
    is_answered: bool,
}

impl Changing<'_> {
    pub fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.touched.iter().for_each(|touched| self.promises.changed(touched));
        if !self.is_answered {
            // It may be done at any time from now on.
            self.promises.end_all();
        }
    }
}

/// What a step may change, as far as is known before it is done.
pub(super) fn touched(step: &Step, files: &OpenFiles) -> Option<Touched> {
    let target = match step {
        Step::Close(_) | Step::Commit(_) | Step::Read(_) | Step::GetAttributes { .. } | Step::ReadLink(_) => {
            return None;
        }
        Step::Open(open) if open.create.is_none() && !open.truncate => return None,
        Step::MakeDirectory { .. } | Step::MakeSymbolicLink { .. } => return None,
        Step::Open(_) | Step::HardLink { .. } | Step::Remove(_) | Step::Rename { .. } => {
            return Some(Touched::Any);
        }
        // Who may walk a directory, if it is one.
        Step::SetAttributes { attributes: new, .. }
            if new.mode.is_some() || new.owner.is_some() || new.group.is_some() =>
        {
            return Some(Touched::Any);
        }
        Step::Write(_) | Step::SetAttributes { .. } | Step::Copy(_) => step.target(),
    };
    let file = target.descriptor().and_then(|descriptor| files.get(descriptor).ok());
    Some(file.map_or(Touched::Any, |file| Touched::File(file.open.handle().clone())))
}

#[cfg(test)]
mod tests {
    use nfs4_client::testing::{delegated, unconnected};

    use super::*;

    #[tokio::test]
    async fn what_is_delegated_once_and_said_twice_ends_with_whichever_open_is_closed_first() {
        let client = unconnected();
        for first in [0, 1] {
            let (promises, _back) = Promises::new();
            let opens = [1, 2].map(|open| delegated(&client, FileHandle::new("f").unwrap(), open, 7));
            opens.iter().for_each(|open| promises.opened(open, 0));
            let handle = opens[0].handle();
            promises.stamp(handle).unwrap().know_change(handle, 5);
            assert_eq!(promises.change_of(handle, 0), Some(5));
            promises.closing(&opens[first]);
            assert_eq!(promises.change_of(handle, 0), None, "the delegation goes back with it");
        }
    }
}
