use std::collections::HashMap;
use std::sync::Arc;

use futures::lock::Mutex as Turn;
use parking_lot::Mutex;

use crate::Descriptor;

/// Where the next byte of each open file is; at the start if it was never moved.
///
/// Whoever reads or writes there holds the lock meanwhile, so that two calls at once never get the same bytes.
#[derive(Default)]
pub(crate) struct Cursors {
    places: Mutex<HashMap<Descriptor, Arc<Turn<u64>>>>,
}

impl Cursors {
    pub fn of(&self, descriptor: Descriptor) -> Arc<Turn<u64>> {
        Arc::clone(self.places.lock().entry(descriptor).or_default())
    }

    /// These are closed.
    pub fn forget(&self, descriptors: &[Descriptor]) {
        let mut places = self.places.lock();
        for descriptor in descriptors {
            places.remove(descriptor);
        }
    }
}
