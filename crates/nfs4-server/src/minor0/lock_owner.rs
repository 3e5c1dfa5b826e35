//! The end of lock-owners (RFC 7530 §9.1.11, §16.37).

use std::time::Duration;

use nfs4::{ClientId, NfsStatus, StateId};

use super::owner::make_room;
use crate::state::{Other, State, UndoLog};

impl State {
    /// RELEASE_LOCKOWNER: `NFS4ERR_LOCKS_HELD` if it holds a lock, and then it stays.
    pub fn release_lock_owner(
        &mut self,
        client: ClientId,
        name: &[u8],
        now: Duration,
    ) -> Result<(), NfsStatus> {
        self.renew_client(client, now)?;
        let mut undo = UndoLog::default();
        for other in self.locks_of(client, name) {
            let id = StateId { seqid: 0, other };
            if let Err(status) = self.free_state_id(client, &id, &mut undo) {
                self.roll_back(&mut undo);
                return Err(status);
            }
        }
        undo.keep();
        self.sweep_lock_owners(client, name);
        Ok(())
    }

    /// Forgets a lock-owner that has nothing left, as after the CLOSE of the opens that it locked by: it begins anew
    /// with its next LOCK. Now and then forgets all others like it as well.
    pub(super) fn sweep_lock_owners(&mut self, id: ClientId, name: &[u8]) {
        let Some(client) = self.minor0.by_id.get_mut(&id) else { return };
        let mut owners = std::mem::take(&mut client.lock_owners);
        let exists = |lock: &Other| self.holder(lock).is_some();
        if owners.get_mut(name).is_some_and(|owner| !owner.still_has(exists)) {
            owners.remove(name);
        }
        make_room(&mut owners, |owner| owner.states.keys().any(exists));
        if let Some(client) = self.minor0.by_id.get_mut(&id) {
            client.lock_owners = owners;
        }
    }

    /// What a lock-owner still has.
    fn locks_of(&self, client: ClientId, name: &[u8]) -> Vec<Other> {
        let owner = self.minor0.by_id.get(&client).and_then(|client| client.lock_owners.get(name));
        let states =
            owner.map(|owner| owner.states.keys().copied().filter(|other| self.holder(other).is_some()));
        states.into_iter().flatten().collect()
    }
}
