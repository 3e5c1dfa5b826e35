//! Files that are open (V8).

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::step::Done;
use crate::{Descriptor, Error, VectorResult};

/// A regular file that is open.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub fd: OwnedFd,
    /// Whether for reading.
    pub read: bool,
    /// Whether for writing.
    pub write: bool,
}

/// All open files of a client. A file is closed when it is taken out and no vector works on it any more.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    next: AtomicU64,
    files: RwLock<HashMap<Descriptor, Arc<OpenFile>>>,
}

impl OpenFiles {
    pub fn insert(&self, file: OpenFile) -> Descriptor {
        let descriptor = Descriptor(self.next.fetch_add(1, Ordering::Relaxed));
        self.files.write().insert(descriptor, Arc::new(file));
        descriptor
    }

    pub fn get(&self, descriptor: Descriptor) -> Result<Arc<OpenFile>, Error> {
        self.files.read().get(&descriptor).cloned().ok_or(Error::NotOpen(descriptor))
    }

    pub fn close(&self, descriptor: Descriptor) -> Result<(), Error> {
        let file = self.files.write().remove(&descriptor);
        file.map(drop).ok_or(Error::NotOpen(descriptor))
    }

    /// Closes what a vector opened of which nobody wants to know any more.
    pub fn close_opened(&self, result: &VectorResult<Done>) {
        let done = match result {
            Ok(done) => done,
            Err(failure) => &failure.done,
        };
        for done in done {
            if let Done::Opened(descriptor) = done {
                // A later step may have closed it already.
                let _ = self.close(*descriptor);
            }
        }
    }

    pub fn clear(&self) {
        let files = std::mem::take(&mut *self.files.write());
        drop(files);
    }
}
