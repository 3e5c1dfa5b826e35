//! Takes back what the client held before the server restarted (RFC 8881 §8.4.2.1, §9.11, §10.2.1).

use std::sync::Arc;

use nfs4::{
    DelegationType, LockArgs, LockRes, Locker, NfsArgOp, NfsResOp, NfsStatus, OpenArgs, OpenClaim,
    OpenDelegation, OpenHow, OpenOk, Outcome, StateId,
};

use super::live_session::LiveSession;
use super::open_state::{LockOwner, LockedRange, OpenState};
use super::shared::Shared;
use crate::ClientError;
use crate::operations::{close, put_handle};

/// Locks of one owner in one compound at the most.
const LOCKS: usize = 64;

/// Bytes of the result of a LOCK that succeeds, and some more.
const RESULT_BYTES: u32 = 40;

/// Reclaims all that is held since an earlier instance. What the server does not give back is lost, which is no
/// error here.
pub(super) async fn reclaim(
    shared: &Arc<Shared>,
    session: &Arc<LiveSession>,
    instance: u64,
) -> Result<(), ClientError> {
    let mut waiting = shared.holdings.to_reclaim(instance);
    // Opens of one caller at a time: a compound has one credential.
    while let Some(first) = waiting.first() {
        let credential = first.credential.clone();
        let (own, others): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|open| open.credential == credential);
        reclaim_opens(shared, session, &own).await?;
        reclaim_locks(shared, session, &own, instance).await?;
        for open in own {
            open.held.lock().instance = instance;
        }
        waiting = others;
    }
    Ok(())
}

async fn reclaim_opens(
    shared: &Arc<Shared>,
    session: &Arc<LiveSession>,
    opens: &[Arc<OpenState>],
) -> Result<(), ClientError> {
    let Some(first) = opens.first() else { return Ok(()) };
    let groups: Vec<_> = opens.iter().map(|open| open_again(open)).collect();
    let outcomes = shared.run_groups(session, &first.credential, &groups).await?;
    for (open, outcome) in opens.iter().zip(outcomes) {
        let mut held = open.held.lock();
        match outcome.map(|results| opened(&results)) {
            Ok(Some(OpenOk { state_id, delegation, .. })) => {
                held.open = held.open.map(|_| state_id);
                held.delegation = delegation;
            }
            Ok(None) => held.lost = Some(NfsStatus::ReclaimBad),
            Err(status) => {
                held.lost = Some(status);
                held.delegation = OpenDelegation::None;
            }
        }
        let is_empty = held.open.is_none() && held.delegation == OpenDelegation::None;
        drop(held);
        if is_empty {
            shared.holdings.remove(open);
        }
        shared.return_if_asked(open);
    }
    Ok(())
}

fn open_again(open: &OpenState) -> Vec<NfsArgOp> {
    let held = open.held.lock();
    let delegation = match &held.delegation {
        OpenDelegation::Read(_) => DelegationType::Read,
        OpenDelegation::Write(_) => DelegationType::Write,
        OpenDelegation::None | OpenDelegation::NoneExt(_) => DelegationType::None,
    };
    let again = NfsArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: held.access,
        share_deny: held.deny,
        owner: open.owner().clone(),
        how: OpenHow::NoCreate,
        claim: OpenClaim::Previous(delegation),
    });
    let mut group = vec![put_handle(open.handle()), again];
    if held.open.is_none() {
        // A delegation outlived its open, and comes back with one only.
        group.push(close(StateId::CURRENT));
    }
    group
}

fn opened(results: &[NfsResOp]) -> Option<OpenOk> {
    results.iter().find_map(|result| match result {
        NfsResOp::Open(Outcome::Ok(opened)) => Some(opened.clone()),
        _ => None,
    })
}

/// Round by round: the first locks of every owner, then the next ones, under the state ids that the first ones got.
async fn reclaim_locks(
    shared: &Arc<Shared>,
    session: &Arc<LiveSession>,
    opens: &[Arc<OpenState>],
    instance: u64,
) -> Result<(), ClientError> {
    for open in opens {
        open.held.lock().begin_reclaiming(instance);
    }
    let limits = shared.limits.get();
    let room = limits.operations.saturating_sub(1).min(limits.cached_response_bytes / RESULT_BYTES) as usize;
    let at_once = LOCKS.min(room).max(1);
    for round in 0.. {
        let mut whose = Vec::new();
        let mut groups = Vec::new();
        for open in opens {
            let held = open.held.lock();
            let Some(state_id) = held.open.filter(|_| held.lost.is_none()) else { continue };
            for (index, locks) in held.locks.iter().enumerate() {
                if let Some(ranges) = locks.ranges.chunks(at_once).nth(round) {
                    whose.push((open, index));
                    let new_owner = (round == 0).then_some(state_id);
                    groups.push(lock_again(open, locks, ranges, new_owner));
                }
            }
        }
        let Some((first, _)) = whose.first() else { break };
        let outcomes = shared.run_groups(session, &first.credential, &groups).await?;
        for ((open, index), outcome) in whose.into_iter().zip(outcomes) {
            let mut held = open.held.lock();
            let last = outcome.map(|results| results.into_iter().next_back());
            match (last, held.locks.get_mut(index)) {
                (Ok(Some(NfsResOp::Lock(LockRes::Ok(state_id)))), Some(locks)) => locks.state_id = state_id,
                (Err(status), _) => held.lost = Some(status),
                _ => held.lost = Some(NfsStatus::ReclaimBad),
            }
        }
    }
    Ok(())
}

/// `new_owner`: the open, if the server does not know the lock-owner yet.
fn lock_again(
    open: &OpenState,
    locks: &LockOwner,
    ranges: &[LockedRange],
    new_owner: Option<StateId>,
) -> Vec<NfsArgOp> {
    let mut group = vec![put_handle(open.handle())];
    for (index, range) in ranges.iter().enumerate() {
        let locker = match (index, new_owner) {
            (0, Some(open_state_id)) => {
                Locker::New { open_seqid: 0, open_state_id, lock_seqid: 0, owner: locks.owner.clone() }
            }
            (0, None) => Locker::Existing { lock_state_id: locks.state_id.newest(), lock_seqid: 0 },
            _ => Locker::Existing { lock_state_id: StateId::CURRENT, lock_seqid: 0 },
        };
        let length = if range.end == u64::MAX { u64::MAX } else { range.end - range.start };
        let (lock_type, offset) = (range.lock_type, range.start);
        group.push(NfsArgOp::Lock(LockArgs { lock_type, reclaim: true, offset, length, locker }));
    }
    group
}
