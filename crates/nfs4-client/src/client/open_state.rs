use std::sync::Arc;

use nfs4::{FileHandle, LockType, NfsStatus, OpenDelegation, OpenOk, StateId, StateOwner};
use onc_rpc::Credential;
use parking_lot::Mutex;

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
    /// `None`: closed, perhaps with a delegation left.
    pub open: Option<StateId>,
    pub access: u32,
    pub deny: u32,
    pub delegation: OpenDelegation,
    pub locks: Vec<LockOwner>,
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
            open: (!without).then_some(opened.state_id),
            access: access & nfs4::bits::share_access::BOTH,
            deny,
            delegation: opened.delegation.clone(),
            locks: Vec::new(),
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

    /// The state id of the locks of this lock-owner, if the server knows it.
    pub(super) fn locks_of(&self, owner: &StateOwner) -> Option<StateId> {
        let held = self.held.lock();
        held.locks.iter().find(|lock| lock.owner == *owner).map(|lock| lock.state_id.newest())
    }

    /// What this lock-owner has in this range becomes no lock, or one for reading; what was more than that before.
    pub(super) fn give_up(
        &self,
        owner: &StateOwner,
        (start, end): (u64, u64),
        to: Option<LockType>,
    ) -> Vec<LockedRange> {
        let mut held = self.held.lock();
        let Some(locks) = held.locks.iter_mut().find(|locks| locks.owner == *owner) else {
            return Vec::new();
        };
        let inside = |range: &LockedRange| LockedRange {
            start: range.start.max(start),
            end: range.end.min(end),
            ..*range
        };
        let is_more =
            |range: &LockedRange| range.start < range.end && (to.is_none() || range.lock_type.is_write());
        let given_up: Vec<_> = locks.ranges.iter().map(inside).filter(is_more).collect();
        for range in &given_up {
            locks.set(range.start, range.end, to);
        }
        given_up
    }

    /// This lock-owner has these ranges, too, and its state id may be another.
    pub(super) fn set_locks(&self, owner: &StateOwner, state_id: Option<StateId>, ranges: &[LockedRange]) {
        let mut held = self.held.lock();
        if let Some(locks) = held.locks.iter_mut().find(|locks| locks.owner == *owner) {
            locks.state_id = state_id.unwrap_or(locks.state_id);
            for range in ranges {
                locks.set(range.start, range.end, Some(range.lock_type));
            }
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

    proptest! {
        /// Held against a list of single bytes.
        #[test]
        fn ranges_are_what_was_locked_last(steps in vec((0u64..30, 1u64..10, 0u8..3), 0..30)) {
            let mut locks = LockOwner {
                owner: crate::operations::owner("x"),
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
