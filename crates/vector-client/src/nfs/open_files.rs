//! Files that are open (V8).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs4::{FileHandle, Verifier};
use nfs4_client::OpenState;
use parking_lot::{Mutex, RwLock};

use super::readahead::Ahead;
use crate::{Descriptor, Error, Target};

/// A file that the server holds open for us.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub open: Arc<OpenState>,
    /// What it was opened by, for messages.
    pub target: Target,
    pub ahead: Mutex<Ahead>,
    unsafe_writes: Mutex<Unsafe>,
}

/// What was written and may be lost until COMMIT (RFC 8881 §18.3.3).
#[derive(Debug, Default)]
struct Unsafe {
    verifier: Option<Verifier>,
    /// The verifier changed in between.
    lost: bool,
}

impl OpenFile {
    pub fn new(open: Arc<OpenState>, target: Target) -> OpenFile {
        OpenFile { open, target, ahead: Mutex::default(), unsafe_writes: Mutex::default() }
    }

    /// Data was written that is not safe yet.
    pub fn wrote_unsafely(&self, verifier: Verifier) {
        self.unsafe_writes.lock().wrote(verifier);
    }

    /// Whether something was written that is not safe yet.
    pub fn needs_commit(&self) -> bool {
        self.unsafe_writes.lock().verifier.is_some()
    }

    /// COMMIT answered with this verifier: whether all that was written is safe. What is lost is said once.
    pub fn committed(&self, verifier: Verifier) -> Result<(), Error> {
        match std::mem::take(&mut *self.unsafe_writes.lock()).is_safe(verifier) {
            true => Ok(()),
            false => Err(Error::DataLost(self.target.clone())),
        }
    }
}

impl Unsafe {
    fn wrote(&mut self, verifier: Verifier) {
        self.lost |= self.verifier.is_some_and(|before| before != verifier);
        self.verifier = Some(verifier);
    }

    /// Whether nothing was lost until COMMIT answered with this verifier.
    fn is_safe(&self, verifier: Verifier) -> bool {
        !self.lost && self.verifier.is_none_or(|before| before == verifier)
    }
}

/// All open files of a client.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    next: AtomicU64,
    files: RwLock<HashMap<Descriptor, Arc<OpenFile>>>,
}

impl OpenFiles {
    /// A number for a file that is about to be opened.
    pub fn reserve(&self) -> Descriptor {
        Descriptor(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub fn insert(&self, descriptor: Descriptor, file: OpenFile) {
        self.files.write().insert(descriptor, Arc::new(file));
    }

    pub fn get(&self, descriptor: Descriptor) -> Result<Arc<OpenFile>, Error> {
        self.files.read().get(&descriptor).cloned().ok_or(Error::NotOpen(descriptor))
    }

    /// Which files are open.
    pub fn handles(&self) -> HashSet<FileHandle> {
        self.files.read().values().map(|file| file.open.handle().clone()).collect()
    }

    pub fn remove(&self, descriptor: Descriptor) -> Option<Arc<OpenFile>> {
        self.files.write().remove(&descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_safe_if_no_verifier_changed_since_it_was_written() {
        let (one, two) = (Verifier([1; 8]), Verifier([2; 8]));
        let mut writes = Unsafe::default();
        assert!(writes.is_safe(one));
        writes.wrote(one);
        assert!(writes.is_safe(one) && !writes.is_safe(two));
        writes.wrote(two);
        assert!(!writes.is_safe(two), "the first write is lost");
    }
}
