use std::sync::Arc;

use nfs4::{FileHandle, LockType, NfsStatus, OpenDelegation, OpenOk, StateId, StateOwner};
use onc_rpc::Credential;
use parking_lot::Mutex;

use super::in_flight::Courier;
use crate::ClientError;

/// A file that stays open from one compound to the next, whatever becomes of sessions, connections and the server
/// meanwhile.
///
/// Its state id changes when the server restarts, so it is asked for whenever a compound is made: see
/// [`Client::compound_with`](crate::Client::compound_with). It stays open until
/// [`Client::close_file`](crate::Client::close_file), also if nobody has it any more.
#[derive(Debug)]
pub struct OpenState {
    handle: FileHandle,
    owner: StateOwner,
    pub(super) credential: Arc<Credential>,
    pub(super) held: Mutex<Held>,
}

/// What the server has granted for the file.
#[derive(Debug)]
pub(super) struct Held {
    /// In which instance of the client the state ids are good.
    pub instance: u64,
    /// Whose locks these are: that instance, also before all of them are reclaimed.
    pub locks_instance: u64,
    /// `None`: closed, perhaps with a delegation left.
    pub open: Option<StateId>,
    pub access: u32,
    pub deny: u32,
    pub delegation: OpenDelegation,
    pub locks: Vec<LockOwner>,
    /// Under way.
    pub giving_up: Vec<GivenUp>,
    /// Why the server knows nothing of it any more.
    pub lost: Option<NfsStatus>,
}

/// The locks of one lock-owner on the file.
#[derive(Debug, Clone)]
pub(super) struct LockOwner {
    pub owner: StateOwner,
    pub state_id: StateId,
    pub ranges: Vec<LockedRange>,
}

/// `end` is the first byte behind; `u64::MAX` for all that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockedRange {
    pub lock_type: LockType,
    pub start: u64,
    pub end: u64,
}

/// A request that gives up locks of a lock-owner. As soon as it may have reached the server, they are not reclaimed: others may have had them in
/// between. Dropped before it is [settled](GivingUp::settle), they are given up.
pub(super) struct GivingUp<'a> {
    open: &'a OpenState,
    request: Arc<Courier>,
}

/// What a request gives up: these locks become none, or locks for reading.
#[derive(Debug)]
pub(super) struct GivenUp {
    owner: StateOwner,
    start: u64,
    end: u64,
    to: Option<LockType>,
    request: Arc<Courier>,
}

impl GivingUp<'_> {
    /// The request was executed, or was not.
    pub(super) fn settle(mut self, executed: bool) {
        self.end(executed);
    }

    fn end(&mut self, executed: bool) {
        let mut held = self.open.held.lock();
        let ours = held.giving_up.iter().position(|other| Arc::ptr_eq(&other.request, &self.request));
        let Some(given_up) = ours.map(|at| held.giving_up.swap_remove(at)) else { return };
        if executed {
            held.give_up(&given_up);
        }
    }
}

impl Drop for GivingUp<'_> {
    fn drop(&mut self) {
        self.end(true);
    }
}

impl Held {
    fn give_up(&mut self, given_up: &GivenUp) {
        let Some(locks) = self.locks.iter_mut().find(|locks| locks.owner == given_up.owner) else { return };
        let inside = |range: &LockedRange| (range.start.max(given_up.start), range.end.min(given_up.end));
        let more = locks.ranges.iter().filter(|range| given_up.to.is_none() || range.lock_type.is_write());
        let more: Vec<_> = more.map(inside).filter(|(start, end)| start < end).collect();
        for (start, end) in more {
            locks.set(start, end, given_up.to);
        }
    }

    /// From now on these are the locks of that instance, which reclaims them. What may be given up already is not reclaimed: nobody gets an answer
    /// to that any more.
    pub(super) fn begin_reclaiming(&mut self, instance: u64) {
        self.locks_instance = instance;
        for given_up in std::mem::take(&mut self.giving_up) {
            if given_up.request.is_doubtful() {
                self.give_up(&given_up);
            }
            self.giving_up.push(given_up);
        }
        // A lock-owner without locks is unknown to the server from now on.
        self.locks.retain(|locks| !locks.ranges.is_empty());
    }
}

impl OpenState {
    pub(super) fn new(
        handle: FileHandle,
        owner: StateOwner,
        credential: Arc<Credential>,
        (access, deny): (u32, u32),
        opened: &OpenOk,
        instance: u64,
    ) -> OpenState {
        let without = opened.flags & nfs4::bits::open_result::NO_OPEN_STATE_ID != 0;
        let held = Held {
            instance,
            locks_instance: instance,
            open: (!without).then_some(opened.state_id),
            access: access & nfs4::bits::share_access::BOTH,
            deny,
            delegation: opened.delegation.clone(),
            locks: Vec::new(),
            giving_up: Vec::new(),
            lost: None,
        };
        OpenState { handle, owner, credential, held: Mutex::new(held) }
    }

    /// The file.
    pub fn handle(&self) -> &FileHandle {
        &self.handle
    }

    /// Who has it open.
    pub fn owner(&self) -> &StateOwner {
        &self.owner
    }

    /// `share_access` as it is now ([`nfs4::bits::share_access`], without wishes).
    pub fn access(&self) -> u32 {
        self.held.lock().access
    }

    /// The state id for I/O on the file now: that of the open, or of the delegation if that is all there is.
    /// [`ClientError::OpenLost`] if the file must be opened again.
    pub fn state_id(&self) -> Result<StateId, ClientError> {
        let held = self.held.lock();
        match (held.lost, held.open.or_else(|| delegation_id(&held.delegation))) {
            (Some(status), _) => Err(ClientError::OpenLost { status }),
            (None, Some(state_id)) => Ok(state_id.newest()),
            (None, None) => Err(ClientError::OpenLost { status: NfsStatus::BadStateId }),
        }
    }

    /// The state id for I/O under the locks of this lock-owner; that of the open if it has none.
    pub fn lock_state_id(&self, owner: &StateOwner) -> Result<StateId, ClientError> {
        let state_id = self.state_id()?;
        Ok(self.locks_of(owner).unwrap_or(state_id))
    }

    /// Whether this lock-owner has any part of the file locked under this open.
    pub fn has_locks(&self, owner: &StateOwner) -> bool {
        self.held.lock().locks.iter().any(|locks| locks.owner == *owner && !locks.ranges.is_empty())
    }

    /// The state id of the locks of this lock-owner, if the server knows it.
    pub(super) fn locks_of(&self, owner: &StateOwner) -> Option<StateId> {
        let held = self.held.lock();
        held.locks.iter().find(|lock| lock.owner == *owner).map(|lock| lock.state_id.newest())
    }

    /// This request makes what this lock-owner has in this range no lock, or one for reading.
    pub(super) fn giving_up(
        &self,
        owner: &StateOwner,
        (start, end): (u64, u64),
        to: Option<LockType>,
        request: &Arc<Courier>,
    ) -> GivingUp<'_> {
        let given_up = GivenUp { owner: owner.clone(), start, end, to, request: request.clone() };
        self.held.lock().giving_up.push(given_up);
        GivingUp { open: self, request: request.clone() }
    }

    /// What the locks of this lock-owner are called in that instance of the client.
    pub(super) fn set_locks_id(&self, owner: &StateOwner, state_id: StateId, instance: u64) {
        let mut held = self.held.lock();
        if held.locks_instance == instance
            && let Some(locks) = held.locks.iter_mut().find(|locks| locks.owner == *owner)
        {
            locks.state_id = state_id;
        }
    }

    /// What the server has delegated now. A delegation that could not be reclaimed, or is revoked, is gone: what was
    /// cached under it must be looked at again.
    pub fn delegation(&self) -> OpenDelegation {
        self.held.lock().delegation.clone()
    }

    /// Whether the server no longer knows the open, and why.
    pub fn lost(&self) -> Option<NfsStatus> {
        self.held.lock().lost
    }
}

pub(super) fn delegation_id(delegation: &OpenDelegation) -> Option<StateId> {
    match delegation {
        OpenDelegation::Read(read) => Some(read.state_id),
        OpenDelegation::Write(write) => Some(write.state_id),
        OpenDelegation::None | OpenDelegation::NoneExt(_) => None,
    }
}

impl LockOwner {
    /// Replaces what is held of this range: by a lock of another type, or by none.
    pub fn set(&mut self, start: u64, end: u64, lock_type: Option<LockType>) {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 2);
        for range in self.ranges.drain(..) {
            if range.start < start.min(range.end) {
                ranges.push(LockedRange { end: range.end.min(start), ..range });
            }
            if range.end > end.max(range.start) {
                ranges.push(LockedRange { start: range.start.max(end), ..range });
            }
        }
        if let Some(lock_type) = lock_type {
            ranges.push(LockedRange { lock_type, start, end });
        }
        self.ranges = ranges;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::client::testing::{delegated, state_id, unconnected};
    use crate::operations::owner;

    #[tokio::test]
    async fn an_answer_of_an_earlier_instance_says_nothing_of_locks_that_are_being_reclaimed() {
        let (client, handle) = (unconnected(), FileHandle::new("f").unwrap());
        let open = delegated(&client, handle, 1, 2);
        let ranges = vec![LockedRange { lock_type: LockType::Write, start: 0, end: 1 }];
        let locks = LockOwner { owner: owner("x"), state_id: state_id(3), ranges };
        let before = {
            let mut held = open.held.lock();
            held.locks.push(locks);
            let before = held.locks_instance;
            held.begin_reclaiming(before + 1);
            before
        };
        open.set_locks_id(&owner("x"), state_id(4), before);
        assert_eq!(open.locks_of(&owner("x")), Some(state_id(3).newest()));
        open.set_locks_id(&owner("x"), state_id(5), before + 1);
        assert_eq!(open.locks_of(&owner("x")), Some(state_id(5).newest()));
    }

    proptest! {
        /// Held against a list of single bytes.
        #[test]
        fn ranges_are_what_was_locked_last(steps in vec((0u64..30, 1u64..10, 0u8..3), 0..30)) {
            let mut locks = LockOwner {
                owner: owner("x"),
                state_id: StateId::ANONYMOUS,
                ranges: Vec::new(),
            };
            let mut bytes = [None; 40];
            for (start, length, kind) in steps {
                let lock_type = [None, Some(LockType::Read), Some(LockType::Write)][kind as usize];
                locks.set(start, start + length, lock_type);
                bytes[start as usize..(start + length) as usize].fill(lock_type);
                for (at, byte) in bytes.iter().enumerate() {
                    let at = at as u64;
                    let mut here = locks.ranges.iter().filter(|range| range.start <= at && at < range.end);
                    prop_assert_eq!(here.next().map(|range| range.lock_type), *byte);
                    prop_assert!(here.next().is_none());
                }
                prop_assert!(locks.ranges.iter().all(|range| range.start < range.end));
            }
        }
    }
}
