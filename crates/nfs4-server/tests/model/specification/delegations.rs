//! Delegations (§10.4). Which are given is for the server to choose; what they promise is not.

use std::collections::BTreeSet;
use std::time::Duration;

use nfs4::bits::share_access;
use nfs4::{ClientId, NfsStatus, OpenDelegation, StateId};

use super::opens::{READ, WRITE};
use super::{File, Other, Specification, Verdict};
use crate::world::LEASE;

#[derive(Debug)]
pub struct Delegation {
    pub client: ClientId,
    pub file: File,
    pub seqid: u32,
    pub for_writing: bool,
    /// Since when it is wanted back.
    pub recalled: Option<Duration>,
    /// Since when the client has sent nothing of what it wrote.
    pub progress: Duration,
    /// Whether the client has been told so.
    pub told: bool,
    /// It was not returned for a whole lease, and counts no more.
    pub revoked: bool,
}

impl Delegation {
    /// Whether it promises that nobody else opens the file like this.
    fn forbids_open(&self, (access, deny): (u32, u32)) -> bool {
        self.for_writing || access & WRITE != 0 || deny & READ != 0
    }
}

impl Specification {
    fn delegations_of_others(
        &self,
        client: ClientId,
        file: File,
    ) -> impl Iterator<Item = (&Other, &Delegation)> {
        self.delegations
            .iter()
            .filter(move |(_, held)| held.file == file && held.client != client && !held.revoked)
    }

    /// They are recalled, and whoever is about to break what they promise waits: for a client that went silent before, as
    /// long as it has time to return them.
    fn wait_for<'a>(
        &'a self,
        held: impl Iterator<Item = (&'a Other, &'a Delegation)>,
        verdict: &mut Verdict,
    ) {
        for (other, held) in held {
            verdict.wanted.insert(*other);
            if held.recalled.is_none() && self.is_expired(held.client) {
                verdict.in_the_way.insert(held.client);
            } else {
                verdict.refuse(NfsStatus::Delay);
            }
        }
    }

    pub(super) fn judge_delegations_for_open(
        &self,
        client: ClientId,
        file: File,
        share: (u32, u32),
        verdict: &mut Verdict,
    ) {
        let broken = self.delegations_of_others(client, file).filter(|(_, held)| held.forbids_open(share));
        self.wait_for(broken, verdict);
    }

    /// Any other change of the file.
    pub(super) fn judge_change(&self, client: ClientId, file: File, verdict: &mut Verdict) {
        self.wait_for(self.delegations_of_others(client, file), verdict);
    }

    /// Reading it, or looking at its locks.
    pub(super) fn judge_read(&self, client: ClientId, file: File, verdict: &mut Verdict) {
        let writers = self.delegations_of_others(client, file).filter(|(_, held)| held.for_writing);
        self.wait_for(writers, verdict);
    }

    /// Somebody waits: these are wanted back. Says how many were not before.
    pub fn recall(&mut self, wanted: &BTreeSet<Other>) -> usize {
        let now = self.now;
        let held = self.delegations.iter_mut().filter(|(other, _)| wanted.contains(*other));
        held.filter(|(_, held)| held.recalled.is_none())
            .map(|(_, held)| (held.recalled, held.progress) = (Some(now), now))
            .count()
    }

    /// The client has written: as long as it goes on, what is wanted back is not late (§10.4.4), within reason.
    pub fn wrote(&mut self, client: ClientId, file: File) {
        let now = self.now;
        let own = |held: &&mut Delegation| held.client == client && held.file == file;
        for held in self.delegations.values_mut().filter(own) {
            let within_reason = held.recalled.is_some_and(|since| now < since + 10 * LEASE);
            if within_reason && now > held.progress + LEASE / 8 {
                held.progress = now;
            }
        }
    }

    /// What was recalled a lease ago counts no more (§10.4.6). Before a client has taken notice that it may not write any
    /// more, it must not reclaim.
    pub(super) fn revoke(&mut self) -> usize {
        let now = self.now;
        let late = |held: &&mut Delegation| held.recalled.is_some() && now > held.progress + LEASE;
        let mut revoked = 0;
        for held in self.delegations.values_mut().filter(late) {
            (held.recalled, held.revoked) = (None, true);
            revoked += 1;
            let client = self.clients.get_mut(&held.client).expect("it holds something");
            if held.for_writing {
                client.barred = true;
                self.records.remove(&client.owner);
            }
        }
        revoked
    }

    /// The client has taken notice of a revocation (§18.38).
    pub(super) fn freed(&mut self, other: &Other) {
        let Some(held) = self.delegations.remove(other) else { return };
        let is_last = !self.delegations.values().any(|more| more.client == held.client && more.revoked);
        let client = self.clients.get_mut(&held.client).expect("it held something");
        if is_last && client.barred {
            client.barred = false;
            let (complete, owner) = (client.reclaim_complete, client.owner.clone());
            let needs_record =
                if complete { self.holds_something(held.client) } else { self.may_reclaim(&owner) };
            if needs_record {
                self.protect(held.client);
            }
        }
    }

    /// What came with an OPEN. Says whether it is a new delegation.
    pub(super) fn delegated(
        &mut self,
        client: ClientId,
        file: File,
        access: u32,
        delegation: &OpenDelegation,
    ) -> Result<bool, String> {
        let (id, for_writing, recall) = match delegation {
            OpenDelegation::None | OpenDelegation::NoneExt(_) => return Ok(false),
            OpenDelegation::Read(given) => (given.state_id, false, given.recall),
            OpenDelegation::Write(given) => (given.state_id, true, given.recall),
        };
        let want = access & share_access::WANT_DELEG_MASK;
        if !recall && (want == share_access::WANT_NO_DELEG || want == share_access::WANT_CANCEL) {
            return Err("a delegation that was not wanted".to_owned());
        }
        let breaks = |open: &super::Open| for_writing || open.access & WRITE != 0 || open.deny & READ != 0;
        // What is reclaimed to be returned at once may be out of date: what was revoked is not known any more.
        let is_old = recall && !for_writing;
        let mut others = self.opens.values().filter(|open| open.file == file && open.client != client);
        if let Some(open) = others.find(|open| !is_old && breaks(open)) {
            return Err(format!("delegated in spite of {open:?}"));
        }
        if let Some(held) =
            self.delegations_of_others(client, file).find(|(_, held)| held.for_writing || for_writing)
        {
            return Err(format!("delegated in spite of {held:?}"));
        }
        let known = |held: &Delegation| held.client == client && held.file == file && !held.revoked;
        if let Some((other, held)) = self.delegations.iter().find(|(_, held)| known(held)) {
            let is_same = *other == id.other && held.for_writing == for_writing && held.seqid == id.seqid;
            return if is_same { Ok(false) } else { Err(format!("delegated twice: {held:?}")) };
        }
        if !self.is_new(&id.other) || id.is_special() || id.seqid == 0 {
            return Err(format!("{id:?} is no name for a new delegation"));
        }
        let recalled = recall.then_some(self.now);
        let held = Delegation {
            client,
            file,
            seqid: id.seqid,
            for_writing,
            recalled,
            progress: self.now,
            told: recall,
            revoked: false,
        };
        self.delegations.insert(id.other, held);
        Ok(true)
    }

    pub(super) fn delegation_of(&self, client: ClientId, file: File) -> Option<StateId> {
        let own = |held: &Delegation| held.client == client && held.file == file && !held.revoked;
        let found = self.delegations.iter().find(|(_, held)| own(held));
        found.map(|(other, held)| StateId { seqid: held.seqid, other: *other })
    }

    /// Delegations whose clients have to be called back.
    pub fn untold(&self) -> Vec<(ClientId, StateId)> {
        let untold = |held: &Delegation| held.recalled.is_some() && !held.told;
        let untold = self.delegations.iter().filter(|(_, held)| untold(held));
        untold.map(|(other, held)| (held.client, StateId { seqid: held.seqid, other: *other })).collect()
    }

    /// Whether the client knows that it is recalled, or need not know any more.
    pub fn is_told(&self, other: &Other) -> bool {
        self.delegations.get(other).is_none_or(|held| held.told || held.revoked)
    }

    /// The client was called. The server may want a delegation back without having kept anybody waiting in the end, as
    /// when what was asked for is refused for another reason when it is tried again.
    pub fn told(&mut self, other: &Other) {
        let now = self.now;
        if let Some(held) = self.delegations.get_mut(other) {
            if held.recalled.is_none() && !held.revoked {
                (held.recalled, held.progress) = (Some(now), now);
            }
            held.told = true;
        }
    }
}
