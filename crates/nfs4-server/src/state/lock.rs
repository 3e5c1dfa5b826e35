//! Byte-range locks (RFC 8881 §9.1-§9.5, §18.10-§18.12).

use std::time::Duration;

use file_system::FileId;
use nfs4::{ClientId, NfsStatus, StateId};

use super::open::Share;
use super::range_lock::{ByteRange, Held as HeldRange};
use super::state_ids::next_seqid;
use super::undo::Undo;
use super::waiting::Wanted;
use super::{Held, LockOwner, Other, RangeLocks, Refusal, State, UndoLog};

/// The state of one lock-owner for one open: what a lock state id names.
#[derive(Debug)]
pub(super) struct LockState {
    pub owner: LockOwner,
    pub file: FileId,
    pub open: Other,
    pub seqid: u32,
}

/// On what a LOCK stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Locker<'a> {
    /// The first lock of an owner: on an open.
    New { open: StateId, owner: &'a [u8] },
    /// A further one: on the state id of the first.
    Known(StateId),
}

/// A LOCK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRequest<'a> {
    pub client: ClientId,
    pub file: FileId,
    pub locker: Locker<'a>,
    pub range: ByteRange,
    pub exclusive: bool,
    pub reclaim: bool,
    /// Whether it is asked for again until it is granted.
    pub waits: bool,
}

/// The lock that is in the way.
pub(crate) type LockDenied = HeldRange<LockOwner>;

impl State {
    /// LOCK (RFC 8881 §18.10). The inner error is a conflicting lock.
    pub fn lock(
        &mut self,
        request: &LockRequest,
        now: Duration,
        undo: &mut UndoLog,
    ) -> Result<Result<StateId, LockDenied>, Refusal> {
        let (client, file) = (request.client, request.file);
        let (open, owner) = match request.locker {
            Locker::New { open, owner } => {
                self.open_of(client, &open, file)?;
                (open.other, LockOwner { client, owner: owner.into() })
            }
            Locker::Known(id) => {
                let lock = self.lock_of(client, &id, file)?;
                (lock.open, lock.owner.clone())
            }
        };
        self.check_claim(client, request.reclaim)?;
        if request.reclaim {
            self.grace.goes_on(now);
        }
        let Some(Held::Open(holder)) = self.held.get(&open) else { return Err(NfsStatus::BadStateId.into()) };
        // §18.10.3: a write lock needs an open for writing, a read lock one for reading.
        let needed = if request.exclusive { Share::WRITE } else { Share::READ };
        if holder.share.access & needed == 0 {
            return Err(NfsStatus::OpenMode.into());
        }
        let known = holder
            .locks
            .iter()
            .copied()
            .find(|other| matches!(self.held.get(other), Some(Held::Lock(lock)) if lock.owner == owner));
        let (range, exclusive) = (request.range, request.exclusive);
        let conflict = self.conflicting_lock(file, &owner, range, exclusive, now)?;
        if request.reclaim {
            if conflict.is_some() {
                return Err(NfsStatus::ReclaimConflict.into());
            }
        } else {
            let wanted = Wanted { owner: owner.clone(), open, range, exclusive };
            if let Some(denied) = conflict.or_else(|| self.ahead_of(file, &wanted, now)) {
                self.lock_denied(file, wanted, request.waits, now, undo);
                return Ok(Err(denied));
            }
        }
        // One LOCK can split a range into three.
        if !self.has_room_for_ranges(file, 2) {
            return Err(self.no_room(now));
        }
        let other = match known {
            Some(other) => other,
            None => {
                let (holder, limits) = (self.client(client)?, &self.config.limits);
                if holder.held.len() - holder.opens - holder.delegations >= limits.lock_owners_per_client {
                    return Err(NfsStatus::Delay.into());
                }
                if self.held.len() >= limits.states {
                    return Err(self.no_room(now));
                }
                let other = self.new_other_for(client);
                self.insert_lock_state(other, LockState { owner: owner.clone(), file, open, seqid: 0 });
                undo.push(Undo::LockOwnerMade(other));
                other
            }
        };
        self.waits_no_more(file, &owner, range, undo);
        Ok(Ok(self.change_ranges(other, undo, |ranges, owner| ranges.set(owner, range, exclusive))?))
    }

    /// LOCKU (RFC 8881 §18.12).
    pub fn unlock(
        &mut self,
        client: ClientId,
        id: &StateId,
        file: FileId,
        range: ByteRange,
        undo: &mut UndoLog,
    ) -> Result<StateId, NfsStatus> {
        let owner = self.lock_of(client, id, file)?.owner.clone();
        // One LOCKU can split a range into two.
        let splits = self.files.get(&file).is_some_and(|state| state.ranges.splits(&owner, range));
        if splits && !self.has_room_for_ranges(file, 1) {
            return Err(NfsStatus::Delay);
        }
        self.change_ranges(id.other, undo, |ranges, owner| ranges.clear(owner, range))
    }

    /// LOCKT (RFC 8881 §18.11): the lock that is in the way, if any.
    pub fn test_lock(
        &self,
        client: ClientId,
        owner: &[u8],
        file: FileId,
        range: ByteRange,
        exclusive: bool,
        now: Duration,
    ) -> Result<Option<LockDenied>, Refusal> {
        if self.grace.is_active() {
            return Err(NfsStatus::Grace.into());
        }
        let owner = LockOwner { client, owner: owner.into() };
        self.conflicting_lock(file, &owner, range, exclusive, now)
    }

    /// FREE_STATEID (RFC 8881 §18.38): an open, and a lock-owner that holds something, is in use.
    pub fn free_state_id(
        &mut self,
        client: ClientId,
        id: &StateId,
        undo: &mut UndoLog,
    ) -> Result<(), NfsStatus> {
        let kind = match self.kind_of(client, id) {
            // It has taken notice (§10.2.1).
            Err(NfsStatus::DelegRevoked) => {
                if let Some(revoked) = self.drop_delegation(&id.other) {
                    undo.push(Undo::RevokedFreed(id.other, revoked));
                }
                return Ok(());
            }
            kind => kind?,
        };
        match kind {
            super::StateKind::Open | super::StateKind::Delegation => Err(NfsStatus::LocksHeld),
            super::StateKind::Lock => {
                let Some(Held::Lock(lock)) = self.held.get(&id.other) else {
                    return Err(NfsStatus::BadStateId);
                };
                if self.files.get(&lock.file).is_some_and(|file| file.ranges.holds(&lock.owner)) {
                    return Err(NfsStatus::LocksHeld);
                }
                if let Some((other, lock, _)) = self.remove_lock_state(&id.other) {
                    undo.push(Undo::LockOwnerFreed(other, lock));
                }
                Ok(())
            }
        }
    }

    fn conflicting_lock(
        &self,
        file: FileId,
        owner: &LockOwner,
        range: ByteRange,
        exclusive: bool,
        now: Duration,
    ) -> Result<Option<LockDenied>, Refusal> {
        match self.files.get(&file).and_then(|state| state.ranges.conflict(owner, range, exclusive)) {
            Some(held) if self.is_expired(held.owner.client, now) => Err(Refusal::Expired(held.owner.client)),
            held => Ok(held.cloned()),
        }
    }

    /// Whether `more` further ranges may be locked in `file`.
    fn has_room_for_ranges(&self, file: FileId, more: usize) -> bool {
        let in_file = self.files.get(&file).map_or(0, |state| state.ranges.len());
        let limits = &self.config.limits;
        in_file + more <= limits.locks_per_file && self.locked_ranges + more <= limits.locks
    }

    /// Gives a lock-owner back what it held of a file ([`RangeLocks::restore`]).
    pub(super) fn restore_ranges(
        &mut self,
        file: FileId,
        owner: &LockOwner,
        before: Vec<HeldRange<LockOwner>>,
    ) {
        let ranges = &mut self.files.entry(file).or_default().ranges;
        let count = ranges.len();
        ranges.restore(owner, before);
        self.locked_ranges = self.locked_ranges + ranges.len() - count;
        self.locks_changed(file);
        self.tidy_file(file);
    }

    /// Changes what the lock-owner state `other` holds; returns its new state id.
    fn change_ranges(
        &mut self,
        other: Other,
        undo: &mut UndoLog,
        change: impl FnOnce(&mut RangeLocks<LockOwner>, &LockOwner),
    ) -> Result<StateId, NfsStatus> {
        let Some(Held::Lock(lock)) = self.held.get_mut(&other) else { return Err(NfsStatus::BadStateId) };
        let file = lock.file;
        let ranges = &mut self.files.entry(file).or_default().ranges;
        let (before, count) = (ranges.of(&lock.owner), ranges.len());
        change(ranges, &lock.owner);
        self.locked_ranges = self.locked_ranges + ranges.len() - count;
        let seqid_before = lock.seqid;
        lock.seqid = next_seqid(lock.seqid);
        let id = StateId { seqid: lock.seqid, other };
        undo.push(Undo::Ranges { other, before, seqid_before, seqid: lock.seqid });
        self.locks_changed(file);
        Ok(id)
    }

    pub(super) fn insert_lock_state(&mut self, other: Other, lock: LockState) {
        if let Some(client) = self.clients.get_mut(&lock.owner.client) {
            client.held.insert(other);
        }
        if let Some(Held::Open(open)) = self.held.get_mut(&lock.open) {
            open.locks.push(other);
        }
        self.held.insert(other, Held::Lock(lock));
    }

    /// Takes a lock-owner's state out, with what it holds unless it has another state for the same file.
    pub(super) fn remove_lock_state(
        &mut self,
        other: &Other,
    ) -> Option<(Other, LockState, Vec<HeldRange<LockOwner>>)> {
        let lock = match self.held.remove(other)? {
            Held::Lock(lock) => lock,
            open => {
                self.held.insert(*other, open);
                return None;
            }
        };
        if let Some(client) = self.clients.get_mut(&lock.owner.client) {
            client.held.remove(other);
        }
        if let Some(Held::Open(open)) = self.held.get_mut(&lock.open) {
            open.locks.retain(|held| held != other);
        }
        let mut ranges = Vec::new();
        let elsewhere = self.files.get(&lock.file).is_some_and(|file| {
            file.opens.iter().filter(|open| **open != lock.open).any(|open| {
                match self.held.get(open) {
                Some(Held::Open(open)) => open.locks.iter().any(|held| {
                    matches!(self.held.get(held), Some(Held::Lock(state)) if state.owner == lock.owner)
                }),
                _ => false,
            }
            })
        });
        if let (false, Some(file)) = (elsewhere, self.files.get_mut(&lock.file)) {
            ranges = file.ranges.of(&lock.owner);
            file.ranges.clear_all(&lock.owner);
            self.locked_ranges -= ranges.len();
        }
        self.locks_changed(lock.file);
        self.tidy_file(lock.file);
        Some((*other, lock, ranges))
    }
}
