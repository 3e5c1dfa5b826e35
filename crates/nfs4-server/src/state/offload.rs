//! Copies that go on after their COPY was answered (RFC 7862 §4.8): what their clients may ask about them, and how they are told.
//!
//! A record is there from before the COPY is answered until the client has taken notice of the end: by its answer to
//! CB_OFFLOAD, by OFFLOAD_CANCEL, or by going away. What copies is a task of [`crate::offloads`].

use std::time::Duration;

use file_system::FileId;
use nfs4::{ClientId, NfsStatus, StateId};
use tokio_util::sync::CancellationToken;

use super::callback::{Notice, RequestId};
use super::open::Share;
use super::{Other, Refusal, State};

/// State ids of copies never change.
const SEQID: u32 = 1;

/// Ends that a client was told of and has not answered; of more the oldest is forgotten.
const KEPT: usize = 64;

/// How often a client may ask to be told later. OFFLOAD_STATUS tells it after that.
const TELLINGS: u32 = 64;

/// One copy.
#[derive(Debug)]
pub(super) struct Offload {
    client: ClientId,
    /// What is copied to.
    file: FileId,
    copied: u64,
    ended: Option<NfsStatus>,
    /// Whether it changes something at this moment.
    in_piece: bool,
    /// The request whose reply tells the client of it.
    pub given_by: RequestId,
    /// How often the client has asked to be told later.
    put_off: u32,
    control: Control,
}

/// How a copy is stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// Ends it.
    pub stop: CancellationToken,
    /// It is over, and changes nothing any more.
    pub over: CancellationToken,
}

/// What a copy is, as far as the state goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffloadRequest {
    pub client: ClientId,
    /// What is copied to.
    pub file: FileId,
    /// The request whose reply tells the client of it.
    pub given_by: RequestId,
}

/// A file that a copy reads or writes, and the state id by which it may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRight {
    pub id: StateId,
    pub file: FileId,
    pub write: bool,
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffloadEnd {
    pub status: NfsStatus,
    pub copied: u64,
    /// Of the volume that was written.
    pub verifier: [u8; 8],
}

impl State {
    /// A copy that is about to go on by itself; [`State::offload_over`] must follow. `None` if there are too many, or no way
    /// to tell the client how it ends: a client may have as many as it leaves free. Until it is over nobody is
    /// delegated the file.
    pub fn begin_offload(&mut self, request: OffloadRequest, control: Control) -> Option<StateId> {
        let OffloadRequest { client, file, given_by } = request;
        let free = self.config.limits.offloads.saturating_sub(self.running_offloads);
        if self.copies_of(client) >= free || !self.can_call_back(client) {
            return None;
        }
        let other = self.new_other();
        let offload =
            Offload { client, file, copied: 0, ended: None, in_piece: false, given_by, put_off: 0, control };
        self.offloads.insert(other, offload);
        self.client_mut(client).ok()?.offloads.insert(other);
        self.running_offloads += 1;
        self.mark_changing(file);
        Some(StateId { seqid: SEQID, other })
    }

    /// The copy changes nothing any more. Unless its end was told it is as if it had never been.
    pub fn offload_over(&mut self, id: &StateId, file: FileId) {
        self.running_offloads -= 1;
        self.end_change(file);
        if self.is_running(&id.other) {
            self.drop_offload(&id.other);
        }
    }

    /// The copy is about to read and write some more: refused when its client is gone or silent for too long, when one of the
    /// state ids is that of a delegation that was revoked, and when somebody has come by a share reservation that is in
    /// the way, after one of them has ended.
    /// [`State::end_piece`] must follow.
    pub fn begin_piece(
        &mut self,
        id: &StateId,
        rights: &[CopyRight; 2],
        now: Duration,
    ) -> Result<(), Refusal> {
        let client = self.offloads.get(&id.other).ok_or(NfsStatus::BadStateId)?.client;
        if self.is_expired(client, now) {
            return Err(NfsStatus::Expired.into());
        }
        for CopyRight { id, file, write } in rights {
            // Whatever its seqid is by now.
            let newest = if id.is_special() { *id } else { StateId { seqid: 0, ..*id } };
            match self.check_io(client, &newest, *file, *write, now) {
                Ok(_) => continue,
                Err(Refusal::Status(NfsStatus::DelegRevoked)) => return Err(NfsStatus::DelegRevoked.into()),
                Err(_) => {}
            }
            let access = if *write { Share::WRITE } else { Share::READ };
            self.check_share(None, *file, Share { access, deny: 0 }, now).map_err(
                |refusal| match refusal {
                    Refusal::Status(_) => NfsStatus::Locked.into(),
                    expired => expired,
                },
            )?;
        }
        if let Some(offload) = self.offloads.get_mut(&id.other) {
            offload.in_piece = true;
        }
        Ok(())
    }

    /// Some more was copied, or nothing.
    pub fn end_piece(&mut self, id: &StateId, copied: u64) {
        if let Some(offload) = self.offloads.get_mut(&id.other) {
            offload.in_piece = false;
            offload.copied += copied;
        }
    }

    /// The copy has ended; its client is told (CB_OFFLOAD, RFC 7862 §16.1).
    pub fn end_offload(&mut self, id: StateId, status: NfsStatus, verifier: [u8; 8]) {
        let counter = match status {
            NfsStatus::Ok => &mut self.counts.offloads_done,
            _ => &mut self.counts.offloads_failed,
        };
        *counter += 1;
        let Some(offload) = self.offloads.get_mut(&id.other) else { return };
        offload.ended = Some(status);
        let (client, file, copied) = (offload.client, offload.file, offload.copied);
        let ended: Vec<Other> = self.clients.get(&client).map_or(Vec::new(), |client| {
            client.offloads.iter().copied().filter(|other| !self.is_running(other)).collect()
        });
        // In the order in which they were given out.
        ended.iter().take(ended.len().saturating_sub(KEPT)).for_each(|other| self.drop_offload(other));
        let end = OffloadEnd { status, copied, verifier };
        self.notify(client, Notice::Offload { id, file, end });
    }

    /// OFFLOAD_STATUS (RFC 7862 §15.9): bytes copied, and how it ended if it has.
    pub fn offload_status(
        &self,
        client: ClientId,
        id: &StateId,
        file: FileId,
    ) -> Result<(u64, Option<NfsStatus>), NfsStatus> {
        let offload = self.offload(client, id)?;
        if offload.file != file {
            return Err(NfsStatus::BadStateId);
        }
        Ok((offload.copied, offload.ended))
    }

    /// OFFLOAD_CANCEL (RFC 7862 §15.8) of a copy that [`State::offload_status`] knows: how it is stopped.
    /// [`State::drop_offload`] comes when it is over.
    pub fn control_of(&self, id: &StateId) -> Option<Control> {
        self.offloads.get(&id.other).map(|offload| offload.control.clone())
    }

    /// The copy that `id` names. A seqid of zero names none (RFC 7862 §4.8).
    pub(super) fn offload(&self, client: ClientId, id: &StateId) -> Result<&Offload, NfsStatus> {
        let offload = self.offloads.get(&id.other).filter(|offload| offload.client == client);
        offload.filter(|_| id.seqid == SEQID).ok_or(NfsStatus::BadStateId)
    }

    /// How many copies of the client go on.
    pub(super) fn copies_of(&self, client: ClientId) -> usize {
        self.offloads_of(client).iter().filter(|other| self.is_running(other)).count()
    }

    /// Whether a copy of the client changes something at this moment.
    pub(super) fn is_in_piece(&self, client: ClientId) -> bool {
        let known = self.clients.get(&client);
        known.is_some_and(|known| {
            known
                .offloads
                .iter()
                .any(|other| self.offloads.get(other).is_some_and(|offload| offload.in_piece))
        })
    }

    /// Whether the client still has to be told how it ended.
    pub(super) fn is_to_be_told(&self, other: &Other) -> bool {
        self.offloads.get(other).is_some_and(|offload| offload.ended.is_some())
    }

    /// The client has answered CB_OFFLOAD; says whether it has to be told again.
    pub(super) fn offload_told(&mut self, other: &Other, status: NfsStatus) -> bool {
        if status.is_ok() {
            self.drop_offload(other);
        }
        let Some(offload) = self.offloads.get_mut(other) else { return false };
        offload.put_off += 1;
        status == NfsStatus::Delay && offload.put_off < TELLINGS
    }

    /// Forgets a copy; one that goes on is stopped.
    pub fn drop_offload(&mut self, other: &Other) {
        let Some(offload) = self.offloads.remove(other) else { return };
        offload.control.stop.cancel();
        if let Some(client) = self.clients.get_mut(&offload.client) {
            client.offloads.remove(other);
            let is_it = |notice: &Notice| matches!(notice, Notice::Offload { id, .. } if id.other == *other);
            client.notices.retain(|notice| !is_it(notice));
        }
    }

    /// Copies of a client end after the piece that they are in. They are known until then.
    pub(super) fn stop_offloads(&self, client: ClientId) {
        let offloads = self.offloads_of(client);
        let known = offloads.iter().filter_map(|other| self.offloads.get(other));
        known.for_each(|offload| offload.control.stop.cancel());
    }

    /// Forgets all copies of a client.
    pub(super) fn drop_offloads(&mut self, client: ClientId) {
        self.offloads_of(client).iter().for_each(|other| self.drop_offload(other));
    }

    fn offloads_of(&self, client: ClientId) -> Vec<Other> {
        self.clients.get(&client).map_or(Vec::new(), |client| client.offloads.iter().copied().collect())
    }

    fn is_running(&self, other: &Other) -> bool {
        self.offloads.get(other).is_some_and(|offload| offload.ended.is_none())
    }
}
