use std::collections::HashMap;
use std::sync::Arc;

use nfs4::{NfsStatus, OpenDelegation, StateId};
use parking_lot::Mutex;

use super::open_state::{OpenState, delegation_id};

/// All that the client has open, locked or delegated, in order to reclaim it. As many as the program opened.
#[derive(Default)]
pub(super) struct Holdings {
    /// By where they are.
    opens: Mutex<HashMap<usize, Arc<OpenState>>>,
}

impl Holdings {
    pub fn insert(&self, open: Arc<OpenState>) {
        self.opens.lock().insert(Arc::as_ptr(&open).addr(), open);
    }

    pub fn remove(&self, open: &OpenState) {
        self.opens.lock().remove(&std::ptr::from_ref(open).addr());
    }

    pub fn all(&self) -> Vec<Arc<OpenState>> {
        self.opens.lock().values().cloned().collect()
    }

    /// Those that the server lost, and that can be reclaimed in this instance.
    pub fn to_reclaim(&self, instance: u64) -> Vec<Arc<OpenState>> {
        let mut opens = self.all();
        opens.retain(|open| {
            let held = open.held.lock();
            held.instance != instance && held.lost.is_none()
        });
        opens
    }

    /// Every state id held.
    pub fn state_ids(&self) -> Vec<StateId> {
        let mut state_ids = Vec::new();
        for open in self.all() {
            let held = open.held.lock();
            if held.lost.is_none() {
                // Locks first: an open cannot be freed before them.
                state_ids.extend(held.locks.iter().map(|lock| lock.state_id));
                state_ids.extend(held.open);
            }
            state_ids.extend(delegation_id(&held.delegation));
        }
        state_ids
    }

    /// The server does not know this state id any more. Nothing happens if nobody holds it, perhaps as it was reclaimed
    /// under another one.
    pub fn lose_state(&self, state_id: &StateId, status: NfsStatus) {
        for open in self.all() {
            let mut held = open.held.lock();
            let is_it = |id: &StateId| id.other == state_id.other;
            if held.open.as_ref().is_some_and(is_it) || held.locks.iter().any(|lock| is_it(&lock.state_id)) {
                held.lost.get_or_insert(status);
            }
            if delegation_id(&held.delegation).as_ref().is_some_and(is_it) {
                held.delegation = OpenDelegation::None;
            }
        }
    }
}
