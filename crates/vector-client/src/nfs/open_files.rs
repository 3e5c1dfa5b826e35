//! Files that are open (V8).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs4::{FileHandle, StableHow, Verifier};
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
    /// Operations that wrote, whether or not that is safe.
    writes: u64,
    verifier: Option<Verifier>,
    /// The verifier changed in between.
    lost: bool,
}

impl OpenFile {
    pub fn new(open: Arc<OpenState>, target: Target) -> OpenFile {
        OpenFile { open, target, ahead: Mutex::default(), unsafe_writes: Mutex::default() }
    }

    /// An operation has written, and this is how safe it is.
    pub fn wrote(&self, committed: StableHow, verifier: Verifier) {
        self.unsafe_writes.lock().wrote(committed, verifier);
    }

    /// How many operations have written so far.
    pub fn writes(&self) -> u64 {
        self.unsafe_writes.lock().writes
    }

    /// Whether something was written that is not safe yet.
    pub fn needs_commit(&self) -> bool {
        self.unsafe_writes.lock().verifier.is_some()
    }

    /// COMMIT, sent after so many operations that wrote, answered with this verifier: whether all that they wrote is safe. What is
    /// lost is said once.
    pub fn committed(&self, verifier: Verifier, writes: u64) -> Result<(), Error> {
        match self.unsafe_writes.lock().committed(verifier, writes) {
            true => Ok(()),
            false => Err(Error::DataLost(self.target.clone())),
        }
    }
}

impl Unsafe {
    fn wrote(&mut self, committed: StableHow, verifier: Verifier) {
        self.writes += 1;
        if committed == StableHow::Unstable {
            self.lost |= self.verifier.is_some_and(|before| before != verifier);
            self.verifier = Some(verifier);
        }
    }

    /// Whether nothing was lost until COMMIT answered with this verifier. What was written meanwhile waits for the next.
    fn committed(&mut self, verifier: Verifier, writes: u64) -> bool {
        let is_safe =
            !std::mem::take(&mut self.lost) && self.verifier.is_none_or(|before| before == verifier);
        if self.writes == writes {
            self.verifier = None;
        }
        is_safe
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

    const ONE: Verifier = Verifier([1; 8]);
    const TWO: Verifier = Verifier([2; 8]);

    #[test]
    fn data_is_safe_if_no_verifier_changed_since_it_was_written() {
        let mut writes = Unsafe::default();
        assert!(writes.committed(ONE, 0));
        writes.wrote(StableHow::Unstable, ONE);
        assert!(writes.committed(ONE, 1) && writes.committed(TWO, 1), "it is safe since the first");
        writes.wrote(StableHow::Unstable, ONE);
        assert!(!writes.committed(TWO, 2) && writes.committed(TWO, 2), "said once");
        writes.wrote(StableHow::Unstable, ONE);
        writes.wrote(StableHow::Unstable, TWO);
        assert!(!writes.committed(TWO, 4), "the first write is lost");
    }

    #[test]
    fn what_is_written_while_commit_is_under_way_is_not_safe_yet() {
        let mut writes = Unsafe::default();
        writes.wrote(StableHow::Unstable, ONE);
        // COMMIT is sent now, and answered after this.
        writes.wrote(StableHow::Unstable, ONE);
        assert!(writes.committed(ONE, 1));
        assert!(!writes.committed(TWO, 2), "the second write is lost");
        writes.wrote(StableHow::FileSync, TWO);
        assert!(writes.committed(ONE, 3), "nothing waits for it");
    }
}
