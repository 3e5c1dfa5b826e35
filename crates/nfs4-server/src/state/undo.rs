//! Taking back what a compound did to the state (decision D1).

use file_system::FileId;

use super::delegation::Delegation;
use super::lock::LockState;
use super::open::{RemovedOpen, Share, ShareHistory};
use super::range_lock::Held as HeldRange;
use super::waiting::{Place, Wanted};
use super::{Held, LockOwner, Other, State};

/// One change, with what it takes to reverse it.
pub(super) enum Undo {
    /// A new open.
    Opened(Other),
    /// Another share for an open; `seqid` is the one it got.
    Reshared { other: Other, before: (Share, ShareHistory, u32), seqid: u32 },
    /// An open was closed, with its locks.
    Closed(Box<RemovedOpen>),
    /// A new lock-owner state.
    LockOwnerMade(Other),
    /// A lock-owner state without locks was freed.
    LockOwnerFreed(Other, LockState),
    /// A new delegation.
    Delegated(Other),
    /// A revoked delegation was freed.
    RevokedFreed(Other, Delegation),
    /// Locked ranges changed; `seqid` is the one the state got.
    Ranges { other: Other, before: Vec<HeldRange<LockOwner>>, seqid_before: u32, seqid: u32 },
    /// Somebody waits for a lock; `before` is the place that it had already.
    Waits { file: FileId, wanted: Wanted, before: Option<Place> },
    /// Somebody has left the queue of a file.
    WaitsNoMore { file: FileId, places: Vec<(usize, Place)> },
}

/// What a compound changed, in order.
#[derive(Default)]
pub(crate) struct UndoLog(Vec<Undo>);

impl UndoLog {
    pub(super) fn push(&mut self, entry: Undo) {
        self.0.push(entry);
    }

    /// The changes stand.
    pub fn keep(&mut self) {
        self.0.clear();
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl State {
    /// Reverses the changes, newest first. What another compound changed since is left alone, and a lock that
    /// was given up is not taken back from somebody who got it meanwhile.
    pub fn roll_back(&mut self, log: &mut UndoLog) {
        while let Some(entry) = log.0.pop() {
            match entry {
                Undo::Opened(other) => {
                    // A higher seqid: another OPEN of the same owner stands on it.
                    if matches!(self.held.get(&other), Some(Held::Open(open)) if open.seqid == 1) {
                        self.drop_open(&other);
                    }
                }
                Undo::Reshared { other, before, seqid } => {
                    if let Some(Held::Open(open)) = self.held.get_mut(&other)
                        && open.seqid == seqid
                    {
                        (open.share, open.history, open.seqid) = before;
                    }
                }
                Undo::Closed(removed) => self.reopen(*removed),
                Undo::LockOwnerMade(other) => {
                    if matches!(self.held.get(&other), Some(Held::Lock(lock)) if lock.seqid == 0) {
                        drop(self.remove_lock_state(&other));
                    }
                }
                Undo::LockOwnerFreed(other, lock) => {
                    // Without its open, which a client that is gone has not, nothing would ever end it.
                    if matches!(self.held.get(&lock.open), Some(Held::Open(_))) {
                        self.insert_lock_state(other, lock);
                    }
                }
                Undo::Waits { file, wanted, before } => self.restore_place(file, &wanted, before),
                Undo::WaitsNoMore { file, places } => self.restore_places(file, places),
                Undo::Delegated(other) => drop(self.drop_delegation(&other)),
                Undo::RevokedFreed(other, delegation) => {
                    if self.clients.contains_key(&delegation.client) {
                        self.insert_delegation(other, delegation);
                    }
                }
                Undo::Ranges { other, before, seqid_before, seqid } => {
                    if let Some(Held::Lock(lock)) = self.held.get_mut(&other)
                        && lock.seqid == seqid
                    {
                        lock.seqid = seqid_before;
                        let (file, owner) = (lock.file, lock.owner.clone());
                        self.restore_ranges(file, &owner, before);
                    }
                }
            }
        }
    }

    fn reopen(&mut self, removed: RemovedOpen) {
        let RemovedOpen { other, mut open, locks } = removed;
        // A client that is gone meanwhile gets nothing back.
        if !self.clients.contains_key(&open.client) {
            return;
        }
        open.locks.clear();
        self.insert_open(other, open);
        for (other, lock, ranges) in locks {
            let (file, owner) = (lock.file, lock.owner.clone());
            self.insert_lock_state(other, lock);
            if !ranges.is_empty() {
                self.restore_ranges(file, &owner, ranges);
            }
        }
    }
}
