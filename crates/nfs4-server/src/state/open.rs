//! Opens and share reservations (RFC 8881 §9.7-§9.10).

use std::sync::Arc;
use std::time::Duration;

use file_system::{FileId, OpenReference};
use nfs4::{ClientId, NfsStatus, StateId};

use super::lock::LockState;
use super::range_lock::Held as HeldRange;
use super::state_ids::next_seqid;
use super::undo::Undo;
use super::{Held, LockOwner, Other, Refusal, State, UndoLog};

/// What an open allows itself, and what it forbids to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// [`Share::READ`], [`Share::WRITE`] or both.
    pub access: u32,
    /// The same, or none.
    pub deny: u32,
}

impl Share {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;

    /// From the wire (without the delegation wishes): access must not be empty (RFC 8881 §18.16.3).
    pub fn new(access: u32, deny: u32) -> Result<Share, NfsStatus> {
        if access == 0 || access > 3 || deny > 3 { Err(NfsStatus::Inval) } else { Ok(Share { access, deny }) }
    }

    fn union(self, other: Share) -> Share {
        Share { access: self.access | other.access, deny: self.deny | other.deny }
    }

    fn is_within(self, other: Share) -> bool {
        self.access & !other.access == 0 && self.deny & !other.deny == 0
    }
}

/// The shares that a file was opened with: OPEN_DOWNGRADE may only go back to what some of them add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShareHistory(u16);

impl ShareHistory {
    fn bit(share: Share) -> u16 {
        1 << (share.access * 4 + share.deny)
    }

    fn of(share: Share) -> ShareHistory {
        ShareHistory(Self::bit(share))
    }

    fn with(self, share: Share) -> ShareHistory {
        ShareHistory(self.0 | Self::bit(share))
    }

    fn within(self, limit: Share) -> impl Iterator<Item = Share> {
        (0..16u32)
            .filter(move |number| self.0 & (1 << number) != 0)
            .map(|number| Share { access: number / 4, deny: number % 4 })
            .filter(move |share| share.is_within(limit))
    }

    /// What is left when everything beyond `share` is given back; `None` if nothing adds up to `share`.
    fn downgrade(self, share: Share) -> Option<ShareHistory> {
        let none = Share { access: 0, deny: 0 };
        let union = self.within(share).fold(none, Share::union);
        (union == share)
            .then(|| ShareHistory(self.within(share).map(Self::bit).fold(0, |all, bit| all | bit)))
    }
}

/// What one open-owner has open of one file, all its OPENs together.
pub(super) struct Open {
    pub client: ClientId,
    pub owner: Arc<[u8]>,
    pub file: FileId,
    pub seqid: u32,
    pub share: Share,
    pub history: ShareHistory,
    /// When it was last asked for by a delegation for writing, which was to be returned then.
    pub by_delegation: Option<Duration>,
    /// Lock-owner states that were made with this open.
    pub locks: Vec<Other>,
    #[allow(dead_code)] // held for its Drop alone
    pub reference: OpenReference,
}

/// An open that was taken out, with everything that hung on it.
pub(super) struct RemovedOpen {
    pub other: Other,
    pub open: Open,
    pub locks: Vec<(Other, LockState, Vec<HeldRange<LockOwner>>)>,
}

/// An OPEN of a file that was found or made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRequest<'a> {
    pub client: ClientId,
    pub owner: &'a [u8],
    pub file: FileId,
    pub share: Share,
    /// By CLAIM_PREVIOUS.
    pub reclaim: bool,
}

impl State {
    /// Whether the client may ask for new state, or for old state, at this time (RFC 8881 §8.4.2.1, §18.51.3).
    /// Its record is durable before it gets any.
    pub fn check_claim(&self, id: ClientId, reclaim: bool) -> Result<(), Refusal> {
        let client = self.client(id)?;
        if reclaim {
            // Whose record is removed has had his time.
            let is_known = client.barred || self.records.is_durable(&client.owner);
            let may = !client.reclaim_complete && self.grace.may_reclaim(&client.owner) && is_known;
            if may { Ok(()) } else { Err(NfsStatus::NoGrace.into()) }
        // In 4.0 nobody says when he has reclaimed everything.
        } else if self.grace.is_active() || !(client.reclaim_complete || client.minor0) {
            Err(NfsStatus::Grace.into())
        } else if self.lacks_record(client) {
            Err(Refusal::Unrecorded(id))
        } else {
            Ok(())
        }
    }

    /// Whether `share` is compatible with what others have open. `owner` is whose own open does not count.
    pub fn check_share(
        &self,
        owner: Option<(ClientId, &[u8])>,
        file: FileId,
        share: Share,
        now: Duration,
    ) -> Result<(), Refusal> {
        for other in self.files.get(&file).map_or(&[][..], |state| &state.opens) {
            let Some(Held::Open(open)) = self.held.get(other) else { continue };
            let own = owner.is_some_and(|(client, name)| {
                // In 4.0 it does (RFC 7530 §9.9, §16.16.5).
                open.client == client && *open.owner == *name && !self.is_of_minor0(client)
            });
            let conflict = share.access & open.share.deny != 0 || share.deny & open.share.access != 0;
            if conflict && !own {
                return Err(if self.is_expired(open.client, now) {
                    Refusal::Expired(open.client)
                } else {
                    NfsStatus::ShareDenied.into()
                });
            }
        }
        Ok(())
    }

    /// Whether an OPEN of `owner` would find nothing in its way; changes nothing, so it can be asked before a file is
    /// made or cut. `file` is `None` if the file does not exist yet.
    pub fn check_open(
        &self,
        (client, owner): (ClientId, &[u8]),
        file: Option<FileId>,
        share: Share,
        now: Duration,
    ) -> Result<(), Refusal> {
        if let Some(file) = file {
            self.check_share(Some((client, owner)), file, share, now)?;
            if self.find_open(client, owner, file).is_some() {
                return Ok(());
            }
        }
        self.check_room(client, now)
    }

    /// Whether the client may have one more open.
    fn check_room(&self, client: ClientId, now: Duration) -> Result<(), Refusal> {
        let limits = &self.config.limits;
        if self.client(client)?.opens >= limits.opens_per_client {
            return Err(NfsStatus::Delay.into());
        }
        if self.held.len() >= limits.states { Err(self.no_room(now)) } else { Ok(()) }
    }

    /// Grants an OPEN: new state, or more of what the open-owner has already (RFC 8881 §9.11). The file must
    /// exist; `reference` keeps it.
    pub fn open(
        &mut self,
        request: &OpenRequest,
        reference: impl FnOnce() -> OpenReference,
        now: Duration,
        undo: &mut UndoLog,
    ) -> Result<StateId, Refusal> {
        self.check_claim(request.client, request.reclaim)?;
        self.use_record(request.client, now);
        if request.reclaim {
            self.grace.goes_on(now);
        }
        let owner = Some((request.client, request.owner));
        self.check_share(owner, request.file, request.share, now).map_err(|refusal| match refusal {
            Refusal::Status(_) if request.reclaim => NfsStatus::ReclaimConflict.into(),
            refusal => refusal,
        })?;
        self.recall_for_open(request.client, request.file, request.share, now)?;
        if let Some(other) = self.find_open(request.client, request.owner, request.file)
            && let Some(Held::Open(open)) = self.held.get_mut(&other)
        {
            let before = (open.share, open.history, open.seqid);
            open.share = open.share.union(request.share);
            open.history = open.history.with(request.share);
            open.seqid = next_seqid(open.seqid);
            undo.push(Undo::Reshared { other, before, seqid: open.seqid });
            return Ok(StateId { seqid: open.seqid, other });
        }
        self.check_room(request.client, now)?;
        let other = self.new_other_for(request.client);
        self.insert_open(
            other,
            Open {
                client: request.client,
                owner: request.owner.into(),
                file: request.file,
                seqid: 1,
                share: request.share,
                history: ShareHistory::of(request.share),
                by_delegation: None,
                locks: Vec::new(),
                reference: reference(),
            },
        );
        undo.push(Undo::Opened(other));
        Ok(StateId { seqid: 1, other })
    }

    /// The open that `id` names stands for what its client has written under a delegation.
    pub fn opened_by_delegation(&mut self, id: &StateId, now: Duration) {
        if let Some(Held::Open(open)) = self.held.get_mut(&id.other) {
            open.by_delegation = Some(now);
        }
    }

    /// OPEN_DOWNGRADE (RFC 8881 §18.18).
    pub fn downgrade(
        &mut self,
        client: ClientId,
        id: &StateId,
        file: FileId,
        share: Share,
        undo: &mut UndoLog,
    ) -> Result<StateId, NfsStatus> {
        let open = self.open_of(client, id, file)?;
        let before = (open.share, open.history, open.seqid);
        let history = open.history.downgrade(share).ok_or(NfsStatus::Inval)?;
        let seqid = next_seqid(open.seqid);
        if let Some(Held::Open(open)) = self.held.get_mut(&id.other) {
            (open.share, open.history, open.seqid) = (share, history, seqid);
        }
        undo.push(Undo::Reshared { other: id.other, before, seqid });
        Ok(StateId { seqid, other: id.other })
    }

    /// Whether this is an open, and one for writing.
    pub fn is_open_for_writing(&self, id: &StateId) -> bool {
        matches!(self.held.get(&id.other), Some(Held::Open(open)) if open.share.access & Share::WRITE != 0)
    }

    /// Whether the client may CLOSE this now; names the open as it is now.
    pub fn check_close(&self, client: ClientId, id: &StateId, file: FileId) -> Result<StateId, NfsStatus> {
        let open = self.open_of(client, id, file)?;
        Ok(StateId { seqid: open.seqid, other: id.other })
    }

    /// CLOSE (RFC 8881 §18.2). Locks that are still held go with the open.
    pub fn close(
        &mut self,
        client: ClientId,
        id: &StateId,
        file: FileId,
        undo: &mut UndoLog,
    ) -> Result<(), NfsStatus> {
        self.open_of(client, id, file)?;
        if let Some(removed) = self.remove_open(&id.other) {
            undo.push(Undo::Closed(Box::new(removed)));
        }
        Ok(())
    }

    /// The client has a delegation and wants no open beside it (RFC 9754 §4): takes the open back, if it is a new one that
    /// nothing else stands on.
    pub fn close_new(&mut self, client: ClientId, id: &StateId, undo: &mut UndoLog) -> bool {
        let is_new = matches!(self.held.get(&id.other), Some(Held::Open(open)) if open.client == client && open.seqid == 1);
        if is_new && let Some(removed) = self.remove_open(&id.other) {
            undo.push(Undo::Closed(Box::new(removed)));
        }
        is_new
    }

    fn find_open(&self, client: ClientId, owner: &[u8], file: FileId) -> Option<Other> {
        self.files.get(&file)?.opens.iter().copied().find(|other| {
            matches!(self.held.get(other), Some(Held::Open(open)) if open.client == client && *open.owner == *owner)
        })
    }

    pub(super) fn insert_open(&mut self, other: Other, open: Open) {
        self.files.entry(open.file).or_default().opens.push(other);
        if let Some(client) = self.clients.get_mut(&open.client) {
            client.held.insert(other);
            client.opens += 1;
        }
        self.held.insert(other, Held::Open(open));
    }

    /// Takes an open out, with its locks.
    pub(super) fn remove_open(&mut self, other: &Other) -> Option<RemovedOpen> {
        let open = match self.held.remove(other)? {
            Held::Open(open) => open,
            held => {
                self.held.insert(*other, held);
                return None;
            }
        };
        if let Some(client) = self.clients.get_mut(&open.client) {
            client.held.remove(other);
            client.opens -= 1;
        }
        let locks = open.locks.iter().filter_map(|lock| self.remove_lock_state(lock)).collect();
        self.waits_no_more_by(open.file, other);
        if let Some(file) = self.files.get_mut(&open.file) {
            file.opens.retain(|held| held != other);
        }
        self.tidy_file(open.file);
        Some(RemovedOpen { other: *other, open, locks })
    }

    pub(super) fn drop_open(&mut self, other: &Other) {
        drop(self.remove_open(other));
    }

    pub(super) fn tidy_file(&mut self, file: FileId) {
        if self.files.get(&file).is_some_and(|state| state.is_empty()) {
            self.files.remove(&file);
        }
    }
}
