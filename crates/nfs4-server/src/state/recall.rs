//! Recalls of delegations (RFC 8881 §10.4, §20.2, §20.6), and revocation of what does not come back.
//!
//! Between the moment when a change finds no delegation in its way and the moment when it is visible, none is given:
//! [`State::begin_change`], [`State::end_change`]. An OPEN for writing needs no such mark, as it is one itself.

use std::collections::HashMap;
use std::time::Duration;

use file_system::FileId;
use nfs4::{ClientId, StateId};

use super::callback::Notice;
use super::delegation::Delegation;
use super::open::Share;
use super::{Held, Other, Refusal, State};

/// After a conflict a file is not delegated for so long: it seems to be shared.
const REST: Duration = Duration::from_secs(30);

/// Files whose conflicts are remembered.
const REMEMBERED: usize = 4096;

/// How many leases the holder of a delegation for writing gets to send what it wrote, as long as it goes on sending.
const LEASES_TO_SEND: u32 = 10;

/// Files that were lately wanted by more than one client.
#[derive(Debug, Default)]
pub(super) struct Contended(HashMap<FileId, Conflicts>);

/// When delegations of a file were in the way last.
#[derive(Debug)]
struct Conflicts {
    /// Of anything.
    latest: Duration,
    /// Of a change.
    of_change: Option<Duration>,
}

impl Contended {
    fn note(&mut self, file: FileId, which: InTheWay, now: Duration) {
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, conflicts| now < conflicts.latest + REST);
        }
        let of_change = (which == InTheWay::All).then_some(now);
        if let Some(conflicts) = self.0.get_mut(&file) {
            (conflicts.latest, conflicts.of_change) = (now, of_change.or(conflicts.of_change));
        } else if self.0.len() < REMEMBERED {
            self.0.insert(file, Conflicts { latest: now, of_change });
        }
    }

    /// Whether the file is to rest. What one client wrote and others read may be delegated to the readers.
    pub fn contains(&self, file: FileId, writing: bool, now: Duration) -> bool {
        let Some(conflicts) = self.0.get(&file) else { return false };
        let last = if writing { Some(conflicts.latest) } else { conflicts.of_change };
        last.is_some_and(|last| now < last + REST)
    }
}

/// Which delegations of a file are in the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InTheWay {
    All,
    /// Those for writing.
    Writers,
}

impl State {
    /// Whether an OPEN of `client` with this share is in conflict with delegations of others (RFC 8881 §10.4).
    pub(super) fn recall_for_open(
        &mut self,
        client: ClientId,
        file: FileId,
        share: Share,
        now: Duration,
    ) -> Result<(), Refusal> {
        let reads = share.access & Share::WRITE == 0 && share.deny & Share::READ == 0;
        self.recall(Some(client), file, if reads { InTheWay::Writers } else { InTheWay::All }, now)
    }

    /// `client` (`None`: one without delegations) reads the file, or tests its locks, without having it open.
    pub fn recall_writers(
        &mut self,
        client: Option<ClientId>,
        file: FileId,
        now: Duration,
    ) -> Result<(), Refusal> {
        self.recall(client, file, InTheWay::Writers, now)
    }

    /// Recalls delegations of `file`, but those of `client`: refused until they are returned or revoked.
    fn recall(
        &mut self,
        client: Option<ClientId>,
        file: FileId,
        which: InTheWay,
        now: Duration,
    ) -> Result<(), Refusal> {
        if !self.files.contains_key(&file) {
            return Ok(());
        }
        // Who was recalled a lease ago loses this delegation, not all that he has.
        self.revoke_overdue(now);
        let mut others = Vec::new();
        for (other, held) in self.delegations_of(file) {
            if Some(held.client) == client || which == InTheWay::Writers && held.writing.is_none() {
                continue;
            }
            if self.is_overdue(held, now) {
                return Err(Refusal::Overdue(held.client));
            }
            // Nobody waits for longer than a lease, and who is silent since a recall need not lose all that he has.
            if held.recalled.is_none() && self.is_expired(held.client, now) {
                return Err(Refusal::Expired(held.client));
            }
            others.push(other);
        }
        if others.is_empty() {
            return Ok(());
        }
        self.contended.note(file, which, now);
        others.into_iter().for_each(|other| self.start_recall(other, now));
        Err(Refusal::Recalled(file))
    }

    /// Recalls delegations whose holders lose what they stand for, as their exports allow less than before: of all files of
    /// which `is_lost` says so, told whether it is for writing. Says how many that are.
    pub fn recall_lost(&mut self, is_lost: impl Fn(FileId, bool) -> bool, now: Duration) -> usize {
        let lost = self.held.iter().filter(|(_, held)| match held {
            Held::Delegation(held) => {
                !held.revoked && held.recalled.is_none() && is_lost(held.file, held.writing.is_some())
            }
            _ => false,
        });
        let lost: Vec<Other> = lost.map(|(other, _)| *other).collect();
        lost.iter().for_each(|other| self.start_recall(*other, now));
        lost.len()
    }

    /// Whether `client` may end what it began to write to `file` before that became read-only: as long as the delegation for
    /// writing is neither returned nor revoked, and for a lease by an open that it was turned into.
    pub fn may_finish(&self, client: ClientId, id: &StateId, file: FileId, now: Duration) -> bool {
        if self.delegations_of(file).any(|(_, held)| held.client == client && held.writing.is_some()) {
            return true;
        }
        let open = match self.held.get(&id.other) {
            Some(Held::Lock(lock)) => self.held.get(&lock.open),
            held => held,
        };
        matches!(open, Some(Held::Open(open)) if open.client == client
            && open.file == file
            && open.by_delegation.is_some_and(|since| now < since + self.config.lease))
    }

    pub(super) fn start_recall(&mut self, other: Other, now: Duration) {
        if let Some(Held::Delegation(held)) = self.held.get_mut(&other)
            && held.recalled.is_none()
        {
            (held.recalled, held.progress) = (Some(now), now);
            self.recalled.insert((now, other));
            let (client, file) = (held.client, held.file);
            let id = StateId { seqid: Delegation::SEQID, other };
            self.notify(client, Notice::Recall { id, file });
        }
    }

    /// `client` (`None`: one without delegations) is about to change `file`, other than by an open for writing. Every
    /// success needs an [`State::end_change`].
    pub fn begin_change(
        &mut self,
        client: Option<ClientId>,
        file: FileId,
        now: Duration,
    ) -> Result<(), Refusal> {
        self.recall(client, file, InTheWay::All, now)?;
        self.mark_changing(file);
        Ok(())
    }

    /// The same without looking for delegations: what changes the file was begun by an open for writing, which is about
    /// to be closed.
    pub fn mark_changing(&mut self, file: FileId) {
        self.files.entry(file).or_default().changing += 1;
    }

    /// The change is visible, or was given up.
    pub fn end_change(&mut self, file: FileId) {
        if let Some(state) = self.files.get_mut(&file) {
            state.changing = state.changing.saturating_sub(1);
        }
        self.tidy_file(file);
    }

    /// Whether somebody waits for a delegation of `file`.
    pub fn is_being_recalled(&self, file: FileId) -> bool {
        self.delegations_of(file).any(|(_, held)| held.recalled.is_some())
    }

    /// `client` sends what it wrote to `file`: if that is wanted back, it is not late as long as it goes on, within
    /// reason (RFC 8881 §10.4.4: modified data has to be flushed first).
    pub fn sends(&mut self, client: ClientId, file: FileId, now: Duration) {
        let lease = self.config.lease;
        // Once in a while is often enough.
        let late = self.delegations_of(file).find(|(_, held)| {
            held.client == client
                && held.recalled.is_some_and(|since| now < since + LEASES_TO_SEND * lease)
                && now > held.progress + lease / 8
        });
        let Some((other, _)) = late else { return };
        if let Some(Held::Delegation(held)) = self.held.get_mut(&other) {
            self.recalled.remove(&(held.progress, other));
            held.progress = now;
            self.recalled.insert((now, other));
        }
    }

    fn is_overdue(&self, held: &Delegation, now: Duration) -> bool {
        held.recalled.is_some() && now > held.progress + self.config.lease
    }

    /// Revokes what was recalled a lease ago (RFC 8881 §10.4.6), delegations for writing excepted; says how many that
    /// were.
    pub fn revoke_overdue(&mut self, now: Duration) -> usize {
        let overdue = self.recalled.iter().take_while(|(since, _)| now > *since + self.config.lease);
        let overdue = overdue.map(|(_, other)| *other).filter(|other| !self.is_for_writing(other));
        let overdue: Vec<Other> = overdue.collect();
        overdue.iter().for_each(|other| self.revoke(other));
        overdue.len()
    }

    /// Clients that did not return a delegation for writing in time. See [`State::revoke_writer`].
    pub fn overdue_writers(&self, now: Duration) -> Vec<ClientId> {
        let overdue = self.recalled.iter().take_while(|(since, _)| now > *since + self.config.lease);
        let clients = overdue.filter_map(|(_, other)| match self.held.get(other) {
            Some(Held::Delegation(held)) if held.writing.is_some() => Some(held.client),
            _ => None,
        });
        let mut clients: Vec<ClientId> = clients.collect();
        clients.sort_unstable();
        clients.dedup();
        clients
    }

    /// Revokes the delegations for writing that `client` did not return in time; says how many that were. Only after its
    /// durable record is gone: after a restart it must not reclaim them, and then write over what others have written
    /// since (RFC 8881 §8.4.3).
    pub fn revoke_writer(&mut self, client: ClientId, now: Duration) -> usize {
        let held = self.clients.get(&client).map(|client| &client.held);
        let overdue = held.into_iter().flatten().filter(|other| match self.held.get(*other) {
            Some(Held::Delegation(held)) => held.writing.is_some() && self.is_overdue(held, now),
            _ => false,
        });
        let overdue: Vec<Other> = overdue.copied().collect();
        overdue.iter().for_each(|other| self.revoke(other));
        if let (false, Some(client)) = (overdue.is_empty(), self.clients.get_mut(&client)) {
            client.barred = true;
        }
        overdue.len()
    }

    fn revoke(&mut self, other: &Other) {
        let Some(Held::Delegation(held)) = self.held.get(other) else { return };
        self.counts.delegations_revoked += 1;
        if self.is_of_minor0(held.client) {
            // There is no FREE_STATEID: it is forgotten at once.
            self.drop_delegation(other);
            self.signals.answered.notify_waiters();
            return;
        }
        let Some(Held::Delegation(held)) = self.held.get_mut(other) else { return };
        self.recalled.remove(&(held.progress, *other));
        (held.revoked, held.recalled, held.reference) = (true, None, None);
        let (client, file) = (held.client, held.file);
        if let Some(client) = self.clients.get_mut(&client) {
            client.revoked += 1;
        }
        self.leave_file(other, file);
        self.signals.answered.notify_waiters();
    }

    /// When seven eighths of what a client, or all together, may be delegated are given out, asks for half of it back
    /// (CB_RECALL_ANY, RFC 8881 §20.6): the client, or the one that has most. Once in a lease: to choose is the
    /// client's, and takes time.
    pub(super) fn ask_for_fewer(&mut self, client: ClientId, now: Duration) {
        let limits = &self.config.limits;
        let many = |limit: usize| limit - limit / 8;
        let own = self.clients.get(&client).map_or(0, |client| client.delegations);
        if own >= many(limits.delegations_per_client) {
            self.recall_any(client, limits.delegations_per_client / 2, now);
        } else if self.delegations >= many(limits.delegations)
            && self.crowded.is_none_or(|since| now >= since + self.config.lease)
        {
            self.crowded = Some(now);
            let most = self.clients.values().max_by_key(|client| (client.delegations, client.id));
            if let Some((most, count)) = most.map(|client| (client.id, client.delegations)) {
                self.recall_any(most, count / 2, now);
            }
        }
    }

    fn recall_any(&mut self, client: ClientId, keep: usize, now: Duration) {
        let lease = self.config.lease;
        let Some(known) = self.clients.get_mut(&client) else { return };
        if known.asked_for_fewer.is_none_or(|since| now >= since + lease) {
            known.asked_for_fewer = Some(now);
            if known.minor0 {
                return self.recall_some(client, keep, now);
            }
            self.notify(client, Notice::RecallAny { keep: u32::try_from(keep).unwrap_or(u32::MAX) });
        }
    }
}
