//! Open-owners and lock-owners: who counts its operations (RFC 7530 §9.1.9).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs4::NfsStatus;

use crate::file_handle::Handle;
use crate::state::{Other, Principal};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    Open,
    Lock,
}

/// Owners of one kind of a client, by name.
pub(crate) type Owners = HashMap<Arc<[u8]>, Owner>;

/// Fewer owners than this are not looked through for those that nobody would miss.
const SWEEP_FROM: usize = 64;

/// Makes room for one more before the table would grow: those that `keep` does not choose go. Whatever is found, the
/// next search is so far away that all searches together cost little.
pub(super) fn make_room(owners: &mut Owners, mut keep: impl FnMut(&Owner) -> bool) {
    if is_due(owners) {
        owners.retain(|_, owner| keep(owner));
        owners.reserve(owners.len());
    }
}

/// Whether the table would grow with one more.
fn is_due<K, V>(table: &HashMap<K, V>) -> bool {
    table.len() >= SWEEP_FROM && table.len() == table.capacity()
}

/// The answer to an operation, for when the operation comes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: NfsStatus,
    /// The encoded result, number of the operation included.
    pub result: Bytes,
    /// What the operation made the current filehandle.
    pub handle: Option<Handle>,
}

/// What an operation is to its owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Next,
    Again(Answer),
}

/// One open-owner or lock-owner.
#[derive(Debug)]
pub(crate) struct Owner {
    /// By OPEN_CONFIRM, or by a reclaim; a lock-owner is from its first lock on.
    pub confirmed: bool,
    /// Of its newest operation.
    seqid: u32,
    /// The newest operation, and its answer.
    newest: Option<(u64, Answer)>,
    /// The operation that is being run.
    running: bool,
    /// What it has open, and who opened it; or what it holds locks by, of which some may be gone since.
    pub states: HashMap<Other, Principal>,
    /// What its newest operation closed.
    pub closed: Option<Other>,
    /// When it was last heard of.
    pub used: Duration,
}

impl Owner {
    /// One whose first operation comes with `seqid`, whatever that is.
    pub fn before(seqid: u32, now: Duration) -> Owner {
        Owner {
            confirmed: false,
            seqid: seqid.wrapping_sub(1),
            newest: None,
            running: false,
            states: HashMap::new(),
            closed: None,
            used: now,
        }
    }

    /// What an operation with this number is. An old number, one that was left out, and another operation under the
    /// number of the newest are `NFS4ERR_BAD_SEQID`; so is whatever comes while an operation is being run, but for
    /// that operation itself: `NFS4ERR_RESOURCE`, which does not count either.
    pub fn order(&self, seqid: u32, digest: u64) -> Result<Order, NfsStatus> {
        let is_next = seqid == self.seqid.wrapping_add(1);
        match &self.newest {
            _ if self.running && is_next => Err(NfsStatus::Resource),
            _ if is_next => Ok(Order::Next),
            Some((newest, answer)) if seqid == self.seqid && *newest == digest => {
                Ok(Order::Again(answer.clone()))
            }
            _ => Err(NfsStatus::BadSeqId),
        }
    }

    /// The next operation begins.
    pub fn begin(&mut self, now: Duration) {
        self.running = true;
        self.used = now;
    }

    /// The operation is not run, or does not count.
    pub fn give_back(&mut self) {
        self.running = false;
    }

    /// The operation with this number is done.
    pub fn count(&mut self, seqid: u32, newest: Option<(u64, Answer)>) {
        self.running = false;
        self.seqid = seqid;
        self.newest = newest;
    }

    /// Forgets what is gone when there is much, and says whether anything is left.
    pub fn still_has(&mut self, exists: impl Fn(&Other) -> bool) -> bool {
        if is_due(&self.states) {
            self.states.retain(|state, _| exists(state));
            self.states.reserve(self.states.len());
        }
        self.states.keys().any(exists)
    }

    /// Whether nobody would miss it: it has nothing, and has been silent for so long that nothing of it can be
    /// under way any more (RFC 7530 §9.1.10).
    pub fn is_idle(&self, now: Duration, lease: Duration) -> bool {
        self.states.is_empty() && !self.running && now > self.used + lease
    }

    /// Whether it never did anything.
    pub fn is_blank(&self) -> bool {
        self.newest.is_none() && self.states.is_empty() && !self.running && !self.confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &'static [u8]) -> Answer {
        Answer { status: NfsStatus::Ok, result: Bytes::from_static(text), handle: None }
    }

    #[test]
    fn operations_come_in_order_and_the_newest_may_come_again() {
        let mut owner = Owner::before(0, Duration::ZERO);
        assert_eq!(owner.order(1, 7), Err(NfsStatus::BadSeqId));
        assert_eq!(owner.order(u32::MAX, 7), Err(NfsStatus::BadSeqId), "nothing came before");
        assert_eq!(owner.order(0, 7), Ok(Order::Next));
        owner.begin(Duration::ZERO);
        assert_eq!(owner.order(0, 7), Err(NfsStatus::Resource), "it is being run");
        assert_eq!(owner.order(1, 7), Err(NfsStatus::BadSeqId));
        owner.count(0, Some((7, answer(b"one"))));
        assert_eq!(owner.order(0, 7), Ok(Order::Again(answer(b"one"))));
        assert_eq!(owner.order(0, 8), Err(NfsStatus::BadSeqId), "another operation");
        assert_eq!(owner.order(1, 8), Ok(Order::Next));
        owner.begin(Duration::ZERO);
        owner.give_back();
        assert_eq!(owner.order(1, 9), Ok(Order::Next), "it did not count");
        assert_eq!(owner.order(2, 9), Err(NfsStatus::BadSeqId));
    }

    #[test]
    fn numbers_wrap_around() {
        let mut owner = Owner::before(u32::MAX, Duration::ZERO);
        assert_eq!(owner.order(u32::MAX, 1), Ok(Order::Next));
        owner.count(u32::MAX, None);
        assert_eq!(owner.order(0, 1), Ok(Order::Next));
    }
}
