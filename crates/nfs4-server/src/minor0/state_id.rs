//! State ids of 4.0: they say whose they are (RFC 7530 §9.1.4).

use std::time::Duration;

use file_system::{Authority, FileId};
use nfs4::{ClientId, NfsStatus, StateId};

use super::owner::OwnerKind;
use crate::compound::Compound;
use crate::failure::Failure;
use crate::state::{Holder, HolderKind, IoGrant, Principal, Refusal, State};

impl State {
    /// Who holds what `id` names; that renews his lease (RFC 7530 §9.5). Given out before the last restart:
    /// `NFS4ERR_STALE_STATEID`. Of a client whose lease expired since: `NFS4ERR_EXPIRED`.
    pub fn whose(&mut self, id: &StateId, now: Duration) -> Result<Holder, NfsStatus> {
        if id.is_special() {
            return Err(NfsStatus::BadStateId);
        }
        match self.holder(&id.other) {
            Some(holder) if self.minor0.by_id.contains_key(&holder.client) => {
                self.renew_lease(holder.client, now);
                Ok(holder)
            }
            Some(_) => Err(NfsStatus::BadStateId),
            None if !self.is_of_this_instance(&id.other) => Err(NfsStatus::StaleStateId),
            None => match self.client_of(&id.other) {
                Some(client) if self.minor0.by_id.contains_key(&client) => Err(NfsStatus::BadStateId),
                Some(_) => Err(NfsStatus::Expired),
                None => Err(NfsStatus::BadStateId),
            },
        }
    }

    /// What `id` entitles `who` to when reading, writing or cutting `file` (RFC 7530 §9.1.4.3, §16.23.4, §16.32.4,
    /// §16.36.4). To others than who opened the file it gives no right that they do not have without it: state ids can
    /// be guessed.
    pub fn check_io_of_minor0(
        &mut self,
        id: &StateId,
        who: Principal,
        file: FileId,
        write: bool,
        now: Duration,
    ) -> Result<IoGrant, Refusal> {
        const NOBODY: ClientId = ClientId(0);
        if *id == StateId::ANONYMOUS || *id == StateId::READ_BYPASS {
            return self.check_io(NOBODY, id, file, write, now);
        }
        let holder = self.whose(id, now)?;
        self.check_newest(id)?;
        let grant = self.check_io(holder.client, id, file, write, now)?;
        let client = self.minor0.by_id.get(&holder.client).ok_or(NfsStatus::Expired)?;
        let owner = match &holder.by {
            HolderKind::Owner(OwnerKind::Open, owner) => client.open_owners.get(owner),
            HolderKind::Owner(OwnerKind::Lock, owner) => client.lock_owners.get(owner),
            HolderKind::Delegated(by) if *by == who => return Ok(grant),
            HolderKind::Delegated(_) => return Ok(IoGrant::Anonymous),
        };
        match owner {
            Some(owner) if owner.states.get(&id.other) == Some(&who) && owner.confirmed => Ok(grant),
            Some(owner) if owner.confirmed => Ok(IoGrant::Anonymous),
            // Nothing goes by an open that is not confirmed (RFC 7530 §16.18.5).
            _ => Err(NfsStatus::BadStateId.into()),
        }
    }

    /// Whether an open-owner needs no OPEN_CONFIRM.
    pub fn is_confirmed(&self, client: ClientId, open_owner: &[u8]) -> bool {
        let client = self.minor0.by_id.get(&client);
        client.and_then(|client| client.open_owners.get(open_owner)).is_some_and(|owner| owner.confirmed)
    }
}

/// [`Compound::authority`] in 4.0.
pub(crate) fn authority(
    cx: &Compound<'_>,
    id: StateId,
    file: FileId,
    write: bool,
) -> Result<Authority, Failure> {
    let who = cx.requester.principal;
    let client = cx.client();
    let grant = cx.server.with_state(|state, now| {
        let grant = state.check_io_of_minor0(&id, who, file, write, now)?;
        if let (true, Ok(client)) = (write, client) {
            state.sends(client, file, now);
        }
        Ok(grant)
    })?;
    Ok(match grant {
        IoGrant::Anonymous => Authority::Checked,
        IoGrant::Opened => Authority::Opened,
    })
}
