//! State ids: from what a client sends to what it holds (RFC 8881 §8.2).

use std::cmp::Ordering;
use std::time::Duration;

use file_system::FileId;
use nfs4::{ClientId, NfsStatus, StateId};

use super::delegation::Delegation;
use super::lock::LockState;
use super::open::{Open, Share};
use super::{Held, Other, Refusal, State};

/// What entitles to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoGrant {
    /// Nothing but that no share reservation forbids it: mode bits decide.
    Anonymous,
    /// The file is open for this; permission was checked then.
    Opened,
}

/// What a state id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKind {
    Open,
    Lock,
    Delegation,
}

/// The seqid of changed state: counts up, and never becomes 0 (RFC 8881 §8.2.2).
pub(super) fn next_seqid(seqid: u32) -> u32 {
    seqid.wrapping_add(1).max(1)
}

/// RFC 8881 §8.2.2: 0 is whatever is newest, an older one is old, one that was not given out yet is bad.
fn check_seqid(given: u32, newest: u32) -> Result<(), NfsStatus> {
    if given == 0 {
        return Ok(());
    }
    // Compared with wrap-around.
    match (given.wrapping_sub(newest) as i32).cmp(&0) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(NfsStatus::OldStateId),
        Ordering::Greater => Err(NfsStatus::BadStateId),
    }
}

impl State {
    /// A name for new state.
    pub(super) fn new_other(&mut self) -> Other {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.config.instance.to_be_bytes());
        other[4..].copy_from_slice(&self.issue().to_be_bytes());
        other
    }

    fn held(&self, client: ClientId, id: &StateId) -> Result<&Held, NfsStatus> {
        if id.is_special() {
            return Err(NfsStatus::BadStateId);
        }
        let held = self.held.get(&id.other).ok_or(NfsStatus::BadStateId)?;
        let (owner, seqid) = match held {
            Held::Open(open) => (open.client, open.seqid),
            Held::Lock(lock) => (lock.owner.client, lock.seqid),
            Held::Delegation(held) => (held.client, Delegation::SEQID),
        };
        if owner != client {
            return Err(NfsStatus::BadStateId);
        }
        check_seqid(id.seqid, seqid)?;
        if matches!(held, Held::Delegation(held) if held.revoked) {
            return Err(NfsStatus::DelegRevoked);
        }
        Ok(held)
    }

    /// The open of `file` that `id` names.
    pub(super) fn open_of(&self, client: ClientId, id: &StateId, file: FileId) -> Result<&Open, NfsStatus> {
        match self.held(client, id)? {
            Held::Open(open) if open.file == file => Ok(open),
            _ => Err(NfsStatus::BadStateId),
        }
    }

    /// The lock-owner's state for `file` that `id` names.
    pub(super) fn lock_of(
        &self,
        client: ClientId,
        id: &StateId,
        file: FileId,
    ) -> Result<&LockState, NfsStatus> {
        match self.held(client, id)? {
            Held::Lock(lock) if lock.file == file => Ok(lock),
            _ => Err(NfsStatus::BadStateId),
        }
    }

    /// The delegation that `id` names; `NFS4ERR_DELEG_REVOKED` if it counts no more.
    pub(super) fn delegation(&self, client: ClientId, id: &StateId) -> Result<&Delegation, NfsStatus> {
        match self.held(client, id)? {
            Held::Delegation(held) => Ok(held),
            _ => Err(NfsStatus::BadStateId),
        }
    }

    /// What `id` entitles to when reading, writing or cutting `file` (RFC 8881 §8.2.3, §9.1.2, §18.22.3,
    /// §18.30.3, §18.32.3). `id` is no longer the current state id.
    pub fn check_io(
        &self,
        client: ClientId,
        id: &StateId,
        file: FileId,
        write: bool,
        now: Duration,
    ) -> Result<IoGrant, Refusal> {
        if *id == StateId::ANONYMOUS || *id == StateId::READ_BYPASS {
            // A reservation that forbids it may yet be reclaimed (§8.4.2).
            if self.grace.is_active() {
                return Err(NfsStatus::Grace.into());
            }
            let bypass = *id == StateId::READ_BYPASS && !write;
            if !bypass {
                let wanted = Share { access: if write { Share::WRITE } else { Share::READ }, deny: 0 };
                self.check_share(None, file, wanted, now).map_err(|refusal| match refusal {
                    Refusal::Status(_) => Refusal::Status(NfsStatus::Locked),
                    expired => expired,
                })?;
            }
            return Ok(IoGrant::Anonymous);
        }
        let open = match self.held(client, id)? {
            Held::Open(open) => open,
            Held::Lock(lock) => match self.held.get(&lock.open) {
                Some(Held::Open(open)) => open,
                _ => return Err(NfsStatus::BadStateId.into()),
            },
            // The client has opened the file by it, or will; permission was checked when it was given.
            Held::Delegation(held) => {
                return match (held.file == file, write) {
                    (false, _) => Err(NfsStatus::BadStateId.into()),
                    (true, true) if held.writing.is_none() => Err(NfsStatus::OpenMode.into()),
                    (true, _) => Ok(IoGrant::Opened),
                };
            }
        };
        if open.file != file {
            return Err(NfsStatus::BadStateId.into());
        }
        let wanted = if write { Share::WRITE } else { Share::READ };
        if open.share.access & wanted != 0 {
            Ok(IoGrant::Opened)
        } else if write {
            Err(NfsStatus::OpenMode.into())
        } else {
            // A client that writes parts of pages has to read them (§18.22.3); mode bits decide.
            Ok(IoGrant::Anonymous)
        }
    }

    /// TEST_STATEID of one id (RFC 8881 §18.48).
    pub fn test_state_id(&self, client: ClientId, id: &StateId) -> NfsStatus {
        if self.offload(client, id).is_ok() {
            return NfsStatus::Ok;
        }
        self.held(client, id).map_or_else(|status| status, |_| NfsStatus::Ok)
    }

    /// What `id` names, whatever file it is for.
    pub fn kind_of(&self, client: ClientId, id: &StateId) -> Result<StateKind, NfsStatus> {
        Ok(match self.held(client, id)? {
            Held::Open(_) => StateKind::Open,
            Held::Lock(_) => StateKind::Lock,
            Held::Delegation(_) => StateKind::Delegation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seqids_are_compared_with_wrap_around() {
        assert_eq!(check_seqid(0, 7), Ok(()));
        assert_eq!(check_seqid(7, 7), Ok(()));
        assert_eq!(check_seqid(6, 7), Err(NfsStatus::OldStateId));
        assert_eq!(check_seqid(8, 7), Err(NfsStatus::BadStateId));
        assert_eq!(check_seqid(u32::MAX, 1), Err(NfsStatus::OldStateId));
        assert_eq!(next_seqid(u32::MAX), 1);
    }
}
