use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use nfs4::FileHandle;
use parking_lot::Mutex;

use crate::locks::server_owner;
use crate::opened::Opened;
use crate::write_behind::WriteBehind;

/// A file of the server's that the kernel knows by a number.
pub(crate) struct Inode {
    pub number: u64,
    pub handle: FileHandle,
    /// How often the kernel was told of it and has not forgotten that; changes under the lock of the table.
    pub lookups: AtomicU64,
    pub known: Mutex<Known>,
    /// When it was last changed from here, by the clock of the file system.
    pub touched: AtomicU64,
    /// Opens of it by the kernel.
    pub opens: AtomicUsize,
    pub writer: WriteBehind,
    /// Where the file ends, as long as data written here is on its way and it is known.
    pub end: tokio::sync::Mutex<Option<u64>>,
    /// Locks by their owner as the kernel names him.
    pub locks: tokio::sync::Mutex<HashMap<u64, LockHolder>>,
}

/// Which version of the file the kernel has: change attributes.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Of the attributes it was told last.
    pub told: Option<u64>,
    /// Of the pages that it may have.
    pub cached: Option<u64>,
}

/// Somebody with locks on a file.
pub(crate) struct LockHolder {
    /// The open that they were taken under.
    pub opened: Arc<Opened>,
    pub process: u32,
}

impl Inode {
    /// Whether anybody has a part of it locked, as far as is known here.
    pub async fn is_locked(&self) -> bool {
        let locks = self.locks.lock().await;
        locks.iter().any(|(owner, holder)| holder.opened.state().has_locks(&server_owner(*owner)))
    }

    pub fn new(number: u64, handle: FileHandle) -> Inode {
        Inode {
            number,
            handle,
            lookups: AtomicU64::new(0),
            known: Mutex::default(),
            touched: AtomicU64::new(0),
            opens: AtomicUsize::new(0),
            writer: WriteBehind::default(),
            end: tokio::sync::Mutex::default(),
            locks: tokio::sync::Mutex::default(),
        }
    }
}
