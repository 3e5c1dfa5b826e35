//! What an operation that was granted changes.

use nfs4::bits::{open_result, share_access};
use nfs4::{ClientId, LockRes, NfsResOp, Outcome, StateId};

use super::opens::BOTH;
use super::{File, Specification};
use crate::step::Op;

/// What came of an operation.
#[derive(Default)]
pub struct Granted {
    /// The current state id, if the operation sets it: [`None`] in it names nothing.
    pub current: Option<Option<StateId>>,
    /// Whether a delegation came with it.
    pub delegated: bool,
}

impl Specification {
    /// The server has granted `op`; says what is wrong with its answer.
    pub fn grant(
        &mut self,
        client: ClientId,
        file: File,
        op: &Op,
        result: &NfsResOp,
    ) -> Result<Granted, String> {
        let mut granted = Granted::default();
        if matches!(op, Op::Open { .. }) {
            self.protect(client);
        }
        match (op, result) {
            (Op::Open { owner, access, deny, .. }, NfsResOp::Open(Outcome::Ok(opened))) => {
                granted.delegated = self.delegated(client, file, *access, &opened.delegation)?;
                if opened.flags & open_result::NO_OPEN_STATE_ID == 0 {
                    self.opened(client, *owner, file, (access & BOTH, *deny), opened.state_id)?;
                    granted.current = Some(Some(opened.state_id));
                } else if access & share_access::WANT_OPEN_XOR_DELEGATION == 0 {
                    return Err("no open, and nobody said that a delegation does as well".to_owned());
                } else {
                    // The delegation stands in for the open (RFC 9754 §4).
                    granted.current = Some(self.delegation_of(client, file));
                    if granted.current == Some(None) {
                        return Err("neither an open nor a delegation".to_owned());
                    }
                }
            }
            (Op::Downgrade { id, access, deny }, NfsResOp::OpenDowngrade(Outcome::Ok(new))) => {
                self.downgraded(id, (*access, *deny), *new)?;
                granted.current = Some(Some(*new));
            }
            (Op::Close(id), NfsResOp::Close(Outcome::Ok(_))) => {
                self.closed(&id.other);
                granted.current = Some(None);
            }
            (Op::Lock { by, exclusive, offset, length, .. }, NfsResOp::Lock(LockRes::Ok(id))) => {
                self.locked(client, by, file, *exclusive, (*offset, *length), *id)?;
                granted.current = Some(Some(*id));
            }
            (Op::Unlock { id, offset, length }, NfsResOp::Unlock(Outcome::Ok(new))) => {
                self.unlocked(id, (*offset, *length), *new)?;
                granted.current = Some(Some(*new));
            }
            (Op::Free(id), NfsResOp::FreeStateId(_)) => {
                self.locks.drop_state(&id.other);
                self.freed(&id.other);
            }
            (Op::Test(ids), NfsResOp::TestStateId(Outcome::Ok(told))) => {
                let right: Vec<_> = ids.iter().map(|id| self.test(client, id)).collect();
                if right != *told {
                    return Err(format!("the state ids are {right:?} and not {told:?}"));
                }
            }
            (Op::Return(id), NfsResOp::DelegReturn(_)) => {
                self.delegations.remove(&id.other);
            }
            (Op::ReclaimComplete, NfsResOp::ReclaimComplete(_)) => self.reclaim_complete(client),
            (Op::TestLock { .. }, NfsResOp::LockTest(_))
            | (Op::Read(_), NfsResOp::Read(_))
            | (Op::Write(_), NfsResOp::Write(_))
            | (Op::SetMode, NfsResOp::SetAttr(_)) => {}
            _ => return Err(format!("{result:?} is the result of something else")),
        }
        Ok(granted)
    }
}
