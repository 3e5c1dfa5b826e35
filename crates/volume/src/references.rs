use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ids::ObjectId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Which objects are held open, and which have no name any more.
#[derive(Default)]
pub(crate) struct References {
    state: Mutex<State>,
    /// There may be an orphan that nobody holds.
    pub released: Notify,
}

#[derive(Default)]
struct State {
    counts: HashMap<ObjectId, u64>,
    /// Objects without a name. One that nobody holds is on its way out and cannot be held again.
    orphans: HashSet<ObjectId>,
    /// Orphans of the last life, while those who had them open may come back for them: they can be held although
    /// nobody holds them.
    claimable: HashSet<ObjectId>,
}

impl State {
    fn is_lost(&self, object: ObjectId) -> bool {
        self.orphans.contains(&object)
            && !self.counts.contains_key(&object)
            && !self.claimable.contains(&object)
    }
}

impl References {
    pub fn hold(self: &Arc<Self>, object: ObjectId) -> Hold {
        let mut state = self.state.lock();
        let lost = state.is_lost(object);
        if !lost {
            *state.counts.entry(object).or_default() += 1;
        }
        Hold { references: self.clone(), object: (!lost).then_some(object) }
    }

    /// Whether somebody holds the object, or may still claim what he held before a restart.
    pub fn is_held(&self, object: ObjectId) -> bool {
        let state = self.state.lock();
        state.counts.contains_key(&object) || state.claimable.contains(&object)
    }

    /// Orphans found at the start that somebody held.
    pub fn inherited(&self, objects: impl IntoIterator<Item = ObjectId>) {
        let mut state = self.state.lock();
        let State { orphans, claimable, .. } = &mut *state;
        claimable.extend(objects);
        orphans.extend(claimable.iter());
    }

    /// Nobody comes back any more.
    pub fn end_of_claims(&self) {
        let claimable = std::mem::take(&mut self.state.lock().claimable);
        if !claimable.is_empty() {
            self.released.notify_one();
        }
    }

    /// Objects have lost their last name: their commit is visible.
    pub fn orphaned(&self, objects: impl IntoIterator<Item = ObjectId>) {
        self.state.lock().orphans.extend(objects);
        self.released.notify_one();
    }

    /// Whether an orphan may be taken apart: nobody holds it, and from now on nobody can.
    pub fn is_lost(&self, object: ObjectId) -> bool {
        self.state.lock().is_lost(object)
    }

    /// The orphan does not exist any more.
    pub fn forget(&self, object: ObjectId) {
        self.state.lock().orphans.remove(&object);
    }
}

/// One reference.
pub(crate) struct Hold {
    references: Arc<References>,
    object: Option<ObjectId>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(object) = self.object else { return };
        let mut state = self.references.state.lock();
        if let Some(count) = state.counts.get_mut(&object) {
            *count -= 1;
            if *count == 0 {
                state.counts.remove(&object);
                if state.orphans.contains(&object) {
                    self.references.released.notify_one();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ids::{GatewayId, ObjectNumber};

    use super::*;

    #[test]
    fn an_orphan_that_was_let_go_cannot_be_held_again() {
        let references = Arc::new(References::default());
        let object = ObjectId { creator: GatewayId(1), number: ObjectNumber(1) };
        let first = references.hold(object);
        references.orphaned([object]);
        let second = references.hold(object);
        drop(first);
        assert!(references.is_held(object) && !references.is_lost(object));
        drop(second);
        let late = references.hold(object);
        assert!(!references.is_held(object) && references.is_lost(object));
        drop(late);
        references.forget(object);
        assert!(!references.is_lost(object));
    }

    #[test]
    fn an_orphan_of_the_last_life_can_be_held_until_the_claims_end() {
        let references = Arc::new(References::default());
        let objects = [1, 2].map(|n| ObjectId { creator: GatewayId(1), number: ObjectNumber(n) });
        references.inherited(objects);
        let held = references.hold(objects[0]);
        drop(references.hold(objects[1]));
        assert!(objects.iter().all(|object| references.is_held(*object) && !references.is_lost(*object)));
        references.end_of_claims();
        assert!(references.is_held(objects[0]) && !references.is_held(objects[1]));
        assert!(references.is_lost(objects[1]));
        drop(held);
        assert!(references.is_lost(objects[0]));
    }
}
