//! Delegations for reading (RFC 8881 §10.4): as long as a client holds one, nobody else changes the file.
//!
//! A delegation is given by an OPEN for reading, to a client that can be called back. Whoever else is about to change
//! the file has it recalled and is told to wait: by [`Refusal::Recalled`]. It ends by DELEGRETURN, with its client, or
//! by revocation when it was not returned for a whole lease (§10.4.6); what is revoked stays known until its client
//! has taken notice (§10.2.1, §18.38).
//!
//! Between the moment when a change finds no delegation in its way and the moment when it is visible, none is given:
//! [`State::begin_change`], [`State::end_change`]. An OPEN for writing needs no such mark, as it is one itself.

use std::collections::HashMap;
use std::time::Duration;

use file_system::FileId;
use nfs4::{ClientId, NfsStatus, StateId};

use super::callback::{Notice, RequestId};
use super::open::Share;
use super::undo::Undo;
use super::{FileState, Held, Other, Refusal, State, UndoLog};

/// After a conflict a file is not delegated for so long: it seems to be shared.
const REST: Duration = Duration::from_secs(30);

/// Files whose conflicts are remembered.
const REMEMBERED: usize = 4096;

/// One client's right to be asked before others change a file.
#[derive(Debug)]
pub(super) struct Delegation {
    pub client: ClientId,
    pub file: FileId,
    /// Since when it is wanted back.
    pub recalled: Option<Duration>,
    /// It was not returned in time, and counts no more.
    pub revoked: bool,
    /// The request whose reply tells the client of it.
    pub given_by: Option<RequestId>,
}

impl Delegation {
    /// A delegation never changes, so its state id does not either.
    pub const SEQID: u32 = 1;
}

/// Why there is no delegation (`why_no_delegation4`, RFC 8881 §18.16.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelegated {
    /// Others use the file, or did so lately.
    Contention,
    /// The client cannot be called back, has it already, or there are too many.
    Resource,
}

/// Files that were lately wanted by more than one client.
#[derive(Debug, Default)]
pub(super) struct Contended(HashMap<FileId, Duration>);

impl Contended {
    fn note(&mut self, file: FileId, now: Duration) {
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, since| now < *since + REST);
        }
        if self.0.len() < REMEMBERED {
            self.0.insert(file, now);
        }
    }

    fn contains(&self, file: FileId, now: Duration) -> bool {
        self.0.get(&file).is_some_and(|since| now < *since + REST)
    }
}

impl State {
    /// Delegates an open file for reading, if nothing speaks against it.
    pub fn delegate(
        &mut self,
        client: ClientId,
        file: FileId,
        given_by: Option<RequestId>,
        now: Duration,
        undo: &mut UndoLog,
    ) -> Result<StateId, Undelegated> {
        if !self.config.delegations || !self.can_call_back(client) {
            return Err(Undelegated::Resource);
        }
        let limits = &self.config.limits;
        let own = self.clients.get(&client).map_or(usize::MAX, |client| client.delegations);
        if own >= limits.delegations_per_client
            || self.delegations >= limits.delegations
            || self.held.len() >= limits.states
            || self.delegation_of(client, file).is_some()
        {
            return Err(Undelegated::Resource);
        }
        let is_changing = self.files.get(&file).is_some_and(|state| state.changing > 0);
        if is_changing || self.is_open_against_readers(file, client) || self.contended.contains(file, now) {
            return Err(Undelegated::Contention);
        }
        let other = self.new_other();
        let delegation = Delegation { client, file, recalled: None, revoked: false, given_by };
        self.insert_delegation(other, delegation);
        undo.push(Undo::Delegated(other));
        Ok(StateId { seqid: Delegation::SEQID, other })
    }

    /// Gives back what the client held before the restart (CLAIM_PREVIOUS, RFC 8881 §10.2.1, §18.16.3), to be returned at
    /// once: what was revoked is not remembered over a restart, and the file may have changed since.
    pub fn reclaim_delegation(
        &mut self,
        client: ClientId,
        file: FileId,
        now: Duration,
        undo: &mut UndoLog,
    ) -> Option<StateId> {
        let limits = &self.config.limits;
        let own = self.clients.get(&client).map_or(usize::MAX, |client| client.delegations);
        if own >= limits.delegations_per_client
            || self.delegations >= limits.delegations
            || self.held.len() >= limits.states
        {
            return None;
        }
        if let Some(other) = self.delegation_of(client, file) {
            return Some(StateId { seqid: Delegation::SEQID, other });
        }
        let other = self.new_other();
        let delegation = Delegation { client, file, recalled: Some(now), revoked: false, given_by: None };
        self.insert_delegation(other, delegation);
        undo.push(Undo::Delegated(other));
        Some(StateId { seqid: Delegation::SEQID, other })
    }

    /// Whether somebody has the file open for writing, or another client forbids to read it.
    fn is_open_against_readers(&self, file: FileId, client: ClientId) -> bool {
        self.files.get(&file).is_some_and(|state| {
            state.opens.iter().any(|other| match self.held.get(other) {
                Some(Held::Open(open)) => {
                    open.share.access & Share::WRITE != 0
                        || open.share.deny & Share::READ != 0 && open.client != client
                }
                _ => false,
            })
        })
    }

    fn delegation_of(&self, client: ClientId, file: FileId) -> Option<Other> {
        self.files.get(&file)?.delegations.iter().copied().find(
            |other| matches!(self.held.get(other), Some(Held::Delegation(held)) if held.client == client),
        )
    }

    /// Whether an OPEN of `client` with this share is in conflict with delegations of others (RFC 8881 §10.4).
    pub(super) fn recall_for_open(
        &mut self,
        client: ClientId,
        file: FileId,
        share: Share,
        now: Duration,
    ) -> Result<(), Refusal> {
        if share.access & Share::WRITE == 0 && share.deny & Share::READ == 0 {
            return Ok(());
        }
        self.recall(Some(client), file, now)
    }

    /// Recalls every delegation of `file` but those of `client`: refused until they are returned or revoked.
    fn recall(&mut self, client: Option<ClientId>, file: FileId, now: Duration) -> Result<(), Refusal> {
        // Who was recalled a lease ago loses this delegation, not all that he has.
        self.revoke_overdue(now);
        let Some(state) = self.files.get(&file) else { return Ok(()) };
        let mut others = Vec::new();
        for other in &state.delegations {
            match self.held.get(other) {
                Some(Held::Delegation(held)) if Some(held.client) != client => {
                    if self.is_expired(held.client, now) {
                        return Err(Refusal::Expired(held.client));
                    }
                    others.push(*other);
                }
                _ => {}
            }
        }
        if others.is_empty() {
            return Ok(());
        }
        self.contended.note(file, now);
        others.into_iter().for_each(|other| self.start_recall(other, now));
        Err(Refusal::Recalled(file))
    }

    fn start_recall(&mut self, other: Other, now: Duration) {
        if let Some(Held::Delegation(held)) = self.held.get_mut(&other)
            && held.recalled.is_none()
        {
            held.recalled = Some(now);
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
        self.recall(client, file, now)?;
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
        self.files.get(&file).is_some_and(|state| {
            state.delegations.iter().any(|other| {
                matches!(self.held.get(other), Some(Held::Delegation(held)) if held.recalled.is_some())
            })
        })
    }

    /// Whether the client may open the file by its delegation (CLAIM_DELEGATE_CUR, RFC 8881 §18.16.3).
    pub fn check_delegation(
        &self,
        client: ClientId,
        id: &StateId,
        file: FileId,
        share: Share,
    ) -> Result<(), NfsStatus> {
        let held = self.delegation(client, id)?;
        if held.file != file {
            Err(NfsStatus::BadStateId)
        } else if share.access & Share::WRITE != 0 {
            Err(NfsStatus::Access)
        } else {
            Ok(())
        }
    }

    /// DELEGRETURN (RFC 8881 §18.6). It is not taken back: others may have what was waited for at once.
    pub fn return_delegation(
        &mut self,
        client: ClientId,
        id: &StateId,
        file: FileId,
    ) -> Result<(), NfsStatus> {
        let held = self.delegation(client, id)?;
        if held.file != file {
            return Err(NfsStatus::BadStateId);
        }
        self.counts.recalls_returned += u64::from(held.recalled.is_some());
        self.drop_delegation(&id.other);
        Ok(())
    }

    /// Revokes what was recalled a lease ago (RFC 8881 §10.4.6); says how many that were.
    pub fn revoke_overdue(&mut self, now: Duration) -> usize {
        let mut revoked = 0;
        while let Some((since, other)) = self.recalled.first().copied()
            && now > since + self.config.lease
        {
            self.recalled.remove(&(since, other));
            if let Some(Held::Delegation(held)) = self.held.get_mut(&other) {
                (held.revoked, held.recalled) = (true, None);
                let (client, file) = (held.client, held.file);
                if let Some(client) = self.clients.get_mut(&client) {
                    client.revoked += 1;
                }
                self.leave_file(&other, file);
                revoked += 1;
            }
        }
        self.counts.delegations_revoked += revoked as u64;
        revoked
    }

    pub(super) fn insert_delegation(&mut self, other: Other, delegation: Delegation) {
        if let Some(client) = self.clients.get_mut(&delegation.client) {
            client.held.insert(other);
            client.delegations += 1;
            client.revoked += usize::from(delegation.revoked);
        }
        self.recalled.extend(delegation.recalled.map(|since| (since, other)));
        if !delegation.revoked {
            self.files.entry(delegation.file).or_default().delegations.push(other);
        }
        self.delegations += 1;
        self.held.insert(other, Held::Delegation(delegation));
    }

    /// Takes a delegation out, revoked or not.
    pub(super) fn drop_delegation(&mut self, other: &Other) -> Option<Delegation> {
        let delegation = match self.held.remove(other)? {
            Held::Delegation(delegation) => delegation,
            held => {
                self.held.insert(*other, held);
                return None;
            }
        };
        if let Some(client) = self.clients.get_mut(&delegation.client) {
            client.held.remove(other);
            client.delegations -= 1;
            client.revoked -= usize::from(delegation.revoked);
        }
        self.delegations -= 1;
        if let Some(since) = delegation.recalled {
            self.recalled.remove(&(since, *other));
        }
        self.leave_file(other, delegation.file);
        Some(delegation)
    }

    /// The delegation counts no more: whoever waits for it goes on.
    fn leave_file(&mut self, other: &Other, file: FileId) {
        if let Some(state) = self.files.get_mut(&file) {
            state.delegations.retain(|held| held != other);
        }
        self.tidy_file(file);
        self.signals.returned.notify_waiters();
    }
}

impl FileState {
    /// Whether nothing is known of the file.
    pub(super) fn is_empty(&self) -> bool {
        self.opens.is_empty() && self.ranges.is_empty() && self.delegations.is_empty() && self.changing == 0
    }
}
