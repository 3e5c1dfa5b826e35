//! What may become of an operation.

use std::collections::BTreeSet;

use nfs4::{ClientId, NfsStatus, StateId};

use super::{File, Named, Specification};
use crate::step::{By, Op};

/// Why an operation may be refused: for any of the reasons, if there are any, as the RFC does not say what is looked at
/// first; without one it has to be granted.
#[derive(Debug, Default)]
pub struct Verdict {
    refusals: Vec<NfsStatus>,
    /// Reasons that the server may have, and need not.
    choices: Vec<NfsStatus>,
    /// Clients whose leases are over: they keep nobody from anything, and may be forgotten.
    pub in_the_way: BTreeSet<ClientId>,
    /// Delegations that are wanted back if it is refused for them.
    pub wanted: BTreeSet<super::Other>,
}

impl Verdict {
    pub fn refused(status: NfsStatus) -> Verdict {
        Verdict { refusals: vec![status], ..Verdict::default() }
    }

    pub fn refuse(&mut self, status: NfsStatus) {
        self.refusals.push(status);
    }

    pub fn may_refuse(&mut self, status: NfsStatus) {
        self.choices.push(status);
    }

    pub fn refuse_unless(&mut self, result: Result<(), NfsStatus>) {
        self.refusals.extend(result.err());
    }

    pub fn allows(&self, status: NfsStatus) -> bool {
        self.choices.contains(&status)
            || match self.refusals[..] {
                [] => status == NfsStatus::Ok,
                _ => self.refusals.contains(&status),
            }
    }

    pub fn reasons(&self) -> &[NfsStatus] {
        &self.refusals
    }
}

impl Specification {
    /// What `client` may be told. State ids are not the current one any more.
    pub fn judge(&self, client: ClientId, file: File, op: &Op) -> Verdict {
        let mut verdict = Verdict::default();
        match op {
            Op::Open { owner, access, deny, claim } => {
                self.judge_open(client, *owner, file, (*access, *deny), claim, &mut verdict);
            }
            Op::Downgrade { id, access, deny } => {
                self.judge_downgrade(client, id, file, (*access, *deny), &mut verdict);
            }
            Op::Close(id) => verdict.refuse_unless(self.open(client, id, file).map(drop)),
            Op::Lock { by, exclusive, reclaim, offset, length, .. } => {
                self.judge_claim(client, *reclaim, &mut verdict);
                self.judge_lock(client, by, file, *exclusive, *reclaim, (*offset, *length), &mut verdict);
            }
            Op::TestLock { owner, exclusive, offset, length } => {
                if self.grace.is_some() {
                    verdict.refuse(NfsStatus::Grace);
                }
                self.judge_read(client, file, &mut verdict);
                let owner = (client, *owner);
                self.judge_conflict(owner, file, *exclusive, (*offset, *length), &mut verdict);
            }
            Op::Unlock { id, offset, length } => {
                verdict.refuse_unless(self.lock(client, id, file).map(drop));
                verdict.refuse_unless(super::locks::cells(*offset, *length).map(drop));
            }
            Op::Free(id) => verdict.refuse_unless(self.judge_free(client, id)),
            Op::Test(_) => {}
            Op::Read(id) => self.judge_io(client, id, file, false, &mut verdict),
            Op::Write(id) => self.judge_io(client, id, file, true, &mut verdict),
            Op::SetMode => self.judge_change(client, file, &mut verdict),
            Op::Return(id) => match self.named(client, id) {
                Ok(Named::Delegation(held)) if held.file == file => {}
                Err(status) => verdict.refuse(status),
                Ok(_) => verdict.refuse(NfsStatus::BadStateId),
            },
            Op::ReclaimComplete => return self.judge_reclaim_complete(client),
        }
        verdict
    }

    /// The open of `file` that `id` names.
    pub(super) fn open(&self, client: ClientId, id: &StateId, file: File) -> Result<&super::Open, NfsStatus> {
        match self.named(client, id)? {
            Named::Open(open) if open.file == file => Ok(open),
            _ => Err(NfsStatus::BadStateId),
        }
    }

    pub(super) fn lock(
        &self,
        client: ClientId,
        id: &StateId,
        file: File,
    ) -> Result<&super::LockState, NfsStatus> {
        match self.named(client, id)? {
            Named::Lock(lock) if lock.file == file => Ok(lock),
            _ => Err(NfsStatus::BadStateId),
        }
    }

    /// Both what a lock stands on and who asks for it.
    pub(super) fn locker(
        &self,
        client: ClientId,
        by: &By,
        file: File,
    ) -> Result<(&super::Open, super::Other, u8), NfsStatus> {
        match by {
            By::Open(id, owner) => Ok((self.open(client, id, file)?, id.other, *owner)),
            By::Lock(id) => {
                let lock = self.lock(client, id, file)?;
                Ok((&self.opens[&lock.open], lock.open, lock.owner))
            }
        }
    }

    /// FREE_STATEID (§18.38): what is in use is not freed.
    fn judge_free(&self, client: ClientId, id: &StateId) -> Result<(), NfsStatus> {
        match self.named(client, id) {
            Err(NfsStatus::DelegRevoked) => Ok(()),
            Err(status) => Err(status),
            Ok(Named::Lock(lock)) if !self.locks.holds(lock) => Ok(()),
            Ok(_) => Err(NfsStatus::LocksHeld),
        }
    }

    /// TEST_STATEID (§18.48).
    pub fn test(&self, client: ClientId, id: &StateId) -> NfsStatus {
        self.named(client, id).map_or_else(|status| status, |_| NfsStatus::Ok)
    }

    /// READ and WRITE (§8.2.3, §9.1.2).
    fn judge_io(&self, client: ClientId, id: &StateId, file: File, write: bool, verdict: &mut Verdict) {
        let bypass = *id == StateId::READ_BYPASS && !write;
        if *id == StateId::ANONYMOUS || *id == StateId::READ_BYPASS {
            if self.grace.is_some() {
                verdict.refuse(NfsStatus::Grace);
            }
            if !bypass {
                let access = if write { super::opens::WRITE } else { super::opens::READ };
                self.judge_shares(None, file, (access, 0), NfsStatus::Locked, verdict);
            }
            if write {
                self.judge_change(client, file, verdict);
            } else {
                self.judge_read(client, file, verdict);
            }
            return;
        }
        let open = match self.named(client, id) {
            Err(status) => return verdict.refuse(status),
            Ok(Named::Open(open)) => open,
            Ok(Named::Lock(lock)) => &self.opens[&lock.open],
            Ok(Named::Delegation(held)) => {
                if held.file != file {
                    verdict.refuse(NfsStatus::BadStateId);
                } else if write && !held.for_writing {
                    verdict.refuse(NfsStatus::OpenMode);
                }
                return;
            }
        };
        if open.file != file {
            verdict.refuse(NfsStatus::BadStateId);
        }
        // Who writes parts of pages has to read them: reading is always allowed (§18.22.3).
        if write && open.access & super::opens::WRITE == 0 {
            verdict.refuse(NfsStatus::OpenMode);
        }
    }
}
