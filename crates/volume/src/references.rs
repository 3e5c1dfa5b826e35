use std::collections::HashMap;
use std::sync::Arc;

use ids::ObjectId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How often each object is held open.
#[derive(Default)]
pub(crate) struct References {
    counts: Mutex<HashMap<ObjectId, u64>>,
    /// An object may have become an orphan that nobody holds.
    pub released: Notify,
}

impl References {
    pub fn hold(self: &Arc<Self>, object: ObjectId) -> Hold {
        *self.counts.lock().entry(object).or_default() += 1;
        Hold { references: self.clone(), object }
    }

    pub fn is_held(&self, object: ObjectId) -> bool {
        self.counts.lock().contains_key(&object)
    }
}

/// One reference.
pub(crate) struct Hold {
    references: Arc<References>,
    object: ObjectId,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut counts = self.references.counts.lock();
        if let Some(count) = counts.get_mut(&self.object) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.object);
                self.references.released.notify_one();
            }
        }
    }
}
