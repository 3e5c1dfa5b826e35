//! Opens and share reservations (§9.7-§9.10, §18.16, §18.18).

use nfs4::{ClientId, NfsStatus, StateId};

use super::{File, Named, Other, Specification, Verdict};
use crate::step::Claim;

pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const BOTH: u32 = 3;

#[derive(Debug)]
pub struct Open {
    pub client: ClientId,
    pub owner: u8,
    pub file: File,
    pub seqid: u32,
    pub access: u32,
    pub deny: u32,
    /// Access and deny of every OPEN that is still in effect, each once.
    pub parts: Vec<(u32, u32)>,
}

fn is_share((access, deny): (u32, u32)) -> bool {
    (READ..=BOTH).contains(&access) && deny <= BOTH
}

impl Specification {
    /// Whether what others have open forbids `share` (§9.7); `own` is whose opens do not count.
    pub(super) fn judge_shares(
        &self,
        own: Option<(ClientId, u8)>,
        file: File,
        (access, deny): (u32, u32),
        refusal: NfsStatus,
        verdict: &mut Verdict,
    ) {
        for open in self.opens.values().filter(|open| open.file == file) {
            let is_own = own == Some((open.client, open.owner));
            if !is_own && (access & open.deny != 0 || deny & open.access != 0) {
                if self.is_expired(open.client) {
                    verdict.in_the_way.insert(open.client);
                } else {
                    verdict.refuse(refusal);
                }
            }
        }
    }

    pub(super) fn judge_open(
        &self,
        client: ClientId,
        owner: u8,
        file: File,
        (access, deny): (u32, u32),
        claim: &Claim,
        verdict: &mut Verdict,
    ) {
        let share = (access & BOTH, deny);
        if !is_share(share) {
            verdict.refuse(NfsStatus::Inval);
        }
        let reclaim = matches!(claim, Claim::Previous(_));
        self.judge_claim(client, reclaim, verdict);
        if let Claim::Delegation(id) = claim {
            match self.named(client, id) {
                Err(status) => verdict.refuse(status),
                Ok(Named::Delegation(held)) if held.file == file => {
                    if access & WRITE != 0 && !held.for_writing {
                        verdict.refuse(NfsStatus::Access);
                    }
                }
                Ok(_) => verdict.refuse(NfsStatus::BadStateId),
            }
        }
        let refusal = if reclaim { NfsStatus::ReclaimConflict } else { NfsStatus::ShareDenied };
        self.judge_shares(Some((client, owner)), file, share, refusal, verdict);
        self.judge_delegations_for_open(client, file, share, verdict);
    }

    /// An OPEN was granted: new state, or more of what the owner has (§9.11).
    pub(super) fn opened(
        &mut self,
        client: ClientId,
        owner: u8,
        file: File,
        (access, deny): (u32, u32),
        id: StateId,
    ) -> Result<(), String> {
        let known = |open: &Open| (open.client, open.owner, open.file) == (client, owner, file);
        let known = self.opens.iter().find(|(_, open)| known(open)).map(|(other, _)| *other);
        if let Some(other) = known {
            let open = self.opens.get_mut(&other).expect("just found");
            open.access |= access;
            open.deny |= deny;
            if !open.parts.contains(&(access, deny)) {
                open.parts.push((access, deny));
            }
            open.seqid += 1;
            return same(id, other, open.seqid);
        }
        if !self.is_new(&id.other) || id.is_special() || id.seqid != 1 {
            return Err(format!("{id:?} is no name for a new open"));
        }
        let parts = vec![(access, deny)];
        self.opens.insert(id.other, Open { client, owner, file, seqid: 1, access, deny, parts });
        Ok(())
    }

    /// OPEN_DOWNGRADE (§18.18.3): to what some of the OPENs that are in effect add up to.
    pub(super) fn judge_downgrade(
        &self,
        client: ClientId,
        id: &StateId,
        file: File,
        share: (u32, u32),
        verdict: &mut Verdict,
    ) {
        if !is_share(share) {
            verdict.refuse(NfsStatus::Inval);
        }
        match self.open(client, id, file) {
            Err(status) => verdict.refuse(status),
            Ok(open) if !adds_up(&open.parts, share) => verdict.refuse(NfsStatus::Inval),
            Ok(_) => {}
        }
    }

    pub(super) fn downgraded(&mut self, id: &StateId, share: (u32, u32), new: StateId) -> Result<(), String> {
        let open = self.opens.get_mut(&id.other).expect("it was judged");
        (open.access, open.deny) = share;
        open.parts.retain(|(access, deny)| access & !share.0 == 0 && deny & !share.1 == 0);
        open.seqid += 1;
        same(new, id.other, open.seqid)
    }

    /// CLOSE (§18.2): the locks of the open go with it.
    pub(super) fn closed(&mut self, other: &Other) {
        self.opens.remove(other);
        self.locks.drop_open(other);
    }
}

/// Whether there is a set of `parts` whose union is `share`.
fn adds_up(parts: &[(u32, u32)], share: (u32, u32)) -> bool {
    let mut reached = vec![(0, 0)];
    for (access, deny) in parts {
        let more: Vec<_> = reached.iter().map(|(a, d)| (a | access, d | deny)).collect();
        reached.extend(more);
        reached.sort_unstable();
        reached.dedup();
    }
    reached.contains(&share)
}

/// Whether the server named the state as it had to.
pub(super) fn same(told: StateId, other: Other, seqid: u32) -> Result<(), String> {
    let right = StateId { seqid, other };
    if told == right { Ok(()) } else { Err(format!("the state id is {right:?} and not {told:?}")) }
}
