//! Delegations (RFC 8881 §10.4): as long as a client holds one for reading, nobody else changes the file; as long as it
//! holds one for writing, nobody else reads it either, and what the holder has not sent yet is the newest there is.
//!
//! A delegation is given by an OPEN or by WANT_DELEGATION, to a client that can be called back. Whoever else is about to
//! do what it promises not to happen has it recalled (`recall`) and is told to wait: by [`Refusal::Recalled`]. It ends by
//! DELEGRETURN, with its client, or by revocation when it was not returned for a whole lease (§10.4.6); what is revoked
//! stays known until its client has taken notice (§10.2.1, §18.38).
//!
//! [`Refusal::Recalled`]: super::Refusal::Recalled

use std::time::Duration;

use file_system::{FileId, OpenReference};
use nfs4::{ClientId, NfsStatus, StateId};

use super::asking::Writing;
use super::callback::RequestId;
use super::open::Share;
use super::undo::Undo;
use super::{FileState, Held, Other, Principal, State, UndoLog};

/// One client's right to be asked before others change, or use, a file.
pub(super) struct Delegation {
    pub client: ClientId,
    pub file: FileId,
    /// Who opened the file: in 4.0 the state id is a right of nobody else.
    pub by: Principal,
    /// For writing: what is known of what the holder writes.
    pub writing: Option<Writing>,
    /// Since when it is wanted back.
    pub recalled: Option<Duration>,
    /// When the holder of one that is wanted back last sent what it wrote, or, at first, when it was recalled.
    pub progress: Duration,
    /// It was not returned in time, and counts no more.
    pub revoked: bool,
    /// The request whose reply tells the client of it.
    pub given_by: Option<RequestId>,
    /// As with an open: the client may have the file open and not say so. `None` when it is revoked.
    pub reference: Option<OpenReference>,
}

impl Delegation {
    /// A delegation never changes, so its state id does not either.
    pub const SEQID: u32 = 1;

    fn new(request: &DelegationRequest, reference: OpenReference) -> Delegation {
        Delegation {
            client: request.client,
            file: request.file,
            by: request.by,
            writing: request.writing.map(Writing::new),
            recalled: None,
            progress: Duration::ZERO,
            revoked: false,
            given_by: request.given_by,
            reference: Some(reference),
        }
    }
}

/// What is to be delegated to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelegationRequest {
    pub client: ClientId,
    pub file: FileId,
    pub by: Principal,
    /// For writing: the `change` attribute that the client finds.
    pub writing: Option<u64>,
    /// The request whose reply tells the client of it.
    pub given_by: Option<RequestId>,
    /// How often the same request has marked the file as changing.
    pub own_changes: usize,
}

/// Why there is no delegation (`why_no_delegation4`, RFC 8881 §18.16.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelegated {
    /// Others use the file, or did so lately.
    Contention,
    /// The client cannot be called back, has it already, or there are too many.
    Resource,
    /// It has one for reading already, and wants one for writing.
    Upgrade,
    /// It has one for writing already, and wants one for reading.
    Downgrade,
}

impl State {
    /// Delegates a file, if nothing speaks against it. Whoever opens it by the same request has it open already;
    /// `reference` keeps it.
    pub fn delegate(
        &mut self,
        request: &DelegationRequest,
        reference: impl FnOnce() -> OpenReference,
        now: Duration,
        undo: &mut UndoLog,
    ) -> Result<StateId, Undelegated> {
        let DelegationRequest { client, file, writing, .. } = *request;
        if !self.config.delegations || !self.can_call_back(client) {
            return Err(Undelegated::Resource);
        }
        // It had a record when it was asked last.
        if self.lacks_record(self.clients.get(&client).ok_or(Undelegated::Resource)?) {
            return Err(Undelegated::Resource);
        }
        self.use_record(client, now);
        if let Some(other) = self.delegation_of(client, file) {
            return Err(match (self.is_for_writing(&other), writing) {
                (false, Some(_)) => Undelegated::Upgrade,
                (true, None) => Undelegated::Downgrade,
                _ => Undelegated::Resource,
            });
        }
        self.ask_for_fewer(client, now);
        if !self.has_room_for_delegation(client) {
            return Err(Undelegated::Resource);
        }
        let changing = self.files.get(&file).map_or(0, |state| state.changing);
        let is_used = match writing {
            Some(_) => self.is_used_by_others(file, client),
            None => self.is_open_against_readers(file, client),
        };
        if changing > request.own_changes || is_used || self.contended.contains(file, writing.is_some(), now)
        {
            return Err(Undelegated::Contention);
        }
        Ok(self.grant_delegation(Delegation::new(request, reference()), undo))
    }

    /// Gives back what the client held before the restart (CLAIM_PREVIOUS, RFC 8881 §10.2.1, §18.16.3), to be returned at
    /// once: that another one of it was revoked is not remembered over a restart, and the file may have changed since.
    /// Nothing if another client has reclaimed what cannot have been beside it.
    pub fn reclaim_delegation(
        &mut self,
        request: &DelegationRequest,
        reference: impl FnOnce() -> OpenReference,
        now: Duration,
        undo: &mut UndoLog,
    ) -> Option<StateId> {
        let DelegationRequest { client, file, writing, .. } = *request;
        if let Some(other) = self.delegation_of(client, file) {
            let same = self.is_for_writing(&other) == writing.is_some();
            return same.then_some(StateId { seqid: Delegation::SEQID, other });
        }
        let is_used = match writing {
            Some(_) => self.is_used_by_others(file, client),
            None => self.writer_of(file, None).is_some(),
        };
        if is_used || !self.has_room_for_delegation(client) {
            return None;
        }
        let delegation =
            Delegation { recalled: Some(now), progress: now, ..Delegation::new(request, reference()) };
        Some(self.grant_delegation(delegation, undo))
    }

    fn grant_delegation(&mut self, delegation: Delegation, undo: &mut UndoLog) -> StateId {
        let other = self.new_other_for(delegation.client);
        self.insert_delegation(other, delegation);
        undo.push(Undo::Delegated(other));
        StateId { seqid: Delegation::SEQID, other }
    }

    fn has_room_for_delegation(&self, client: ClientId) -> bool {
        let limits = &self.config.limits;
        let own = self.clients.get(&client).map_or(usize::MAX, |client| client.delegations);
        own < limits.delegations_per_client
            && self.delegations < limits.delegations
            && self.held.len() < limits.states
    }

    /// Whether somebody has the file open for writing, another client forbids to read it, or may write it without
    /// having it open.
    fn is_open_against_readers(&self, file: FileId, client: ClientId) -> bool {
        let by_open = self.opens_of(file).any(|open| {
            open.share.access & Share::WRITE != 0
                || open.share.deny & Share::READ != 0 && open.client != client
        });
        by_open || self.writer_of(file, Some(client)).is_some()
    }

    /// Whether another client has the file open, or delegated.
    fn is_used_by_others(&self, file: FileId, client: ClientId) -> bool {
        self.opens_of(file).any(|open| open.client != client)
            || self.delegations_of(file).any(|(_, held)| held.client != client)
    }

    fn opens_of(&self, file: FileId) -> impl Iterator<Item = &super::open::Open> {
        let opens = self.files.get(&file).map_or(&[][..], |state| &state.opens);
        opens.iter().filter_map(|other| match self.held.get(other) {
            Some(Held::Open(open)) => Some(open),
            _ => None,
        })
    }

    /// The delegations of a file that count.
    pub(super) fn delegations_of(&self, file: FileId) -> impl Iterator<Item = (Other, &Delegation)> {
        let delegations = self.files.get(&file).map_or(&[][..], |state| &state.delegations);
        delegations.iter().filter_map(|other| match self.held.get(other) {
            Some(Held::Delegation(held)) => Some((*other, held)),
            _ => None,
        })
    }

    fn delegation_of(&self, client: ClientId, file: FileId) -> Option<Other> {
        self.delegations_of(file).find(|(_, held)| held.client == client).map(|(other, _)| other)
    }

    /// Who, but `client`, has the file delegated for writing.
    pub(super) fn writer_of(&self, file: FileId, client: Option<ClientId>) -> Option<(Other, ClientId)> {
        self.delegations_of(file)
            .find(|(_, held)| held.writing.is_some() && Some(held.client) != client)
            .map(|(other, held)| (other, held.client))
    }

    pub(super) fn is_for_writing(&self, other: &Other) -> bool {
        matches!(self.held.get(other), Some(Held::Delegation(held)) if held.writing.is_some())
    }

    /// Whether the client may open the file by its delegation (CLAIM_DELEGATE_CUR, RFC 8881 §18.16.3); who was given that.
    pub fn check_delegation(
        &self,
        client: ClientId,
        id: &StateId,
        file: FileId,
        share: Share,
    ) -> Result<Principal, NfsStatus> {
        let held = self.delegation(client, id)?;
        if held.file != file {
            Err(NfsStatus::BadStateId)
        } else if share.access & Share::WRITE != 0 && held.writing.is_none() {
            Err(NfsStatus::Access)
        } else {
            Ok(held.by)
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

    pub(super) fn insert_delegation(&mut self, other: Other, delegation: Delegation) {
        if let Some(client) = self.clients.get_mut(&delegation.client) {
            client.held.insert(other);
            client.delegations += 1;
            client.revoked += usize::from(delegation.revoked);
        }
        if delegation.recalled.is_some() {
            self.recalled.insert((delegation.progress, other));
        }
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
        self.recalled.remove(&(delegation.progress, *other));
        self.leave_file(other, delegation.file);
        Some(delegation)
    }

    /// The delegation counts no more: whoever waits for it goes on.
    pub(super) fn leave_file(&mut self, other: &Other, file: FileId) {
        if let Some(state) = self.files.get_mut(&file) {
            state.delegations.retain(|held| held != other);
        }
        self.tidy_file(file);
        self.sizes_said.remove(&file);
        self.signals.returned.notify_waiters();
    }
}

impl FileState {
    /// Whether nothing is known of the file.
    pub(super) fn is_empty(&self) -> bool {
        self.opens.is_empty() && self.ranges.is_empty() && self.delegations.is_empty() && self.changing == 0
    }
}
