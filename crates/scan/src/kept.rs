use std::collections::{HashMap, HashSet};

use cache::{Cache, FileKey, Scope};
use parking_lot::Mutex;

/// Quarantined files whose dirty data stays in the journal, with how much that was; in bounds.
pub(crate) struct Kept {
    room: u64,
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    bytes: HashMap<FileKey, u64>,
    total: u64,
    /// Those for which there was no room: none of them is kept in part.
    sent: HashSet<FileKey>,
}

/// So many of these are remembered before it is looked which of them have arrived.
const SENT: usize = 1024;

impl Kept {
    pub fn new(room: u64) -> Kept {
        Kept { room, files: Mutex::default() }
    }

    /// Whether the dirty data of a quarantined file stays, for which there must be room.
    pub fn keeps(&self, file: FileKey, cache: &Cache) -> bool {
        let mut files = self.files.lock();
        if files.bytes.contains_key(&file) {
            return true;
        }
        if files.sent.contains(&file) {
            return false;
        }
        let bytes = cache.dirty_bytes(Scope::File(file));
        if files.total.saturating_add(bytes) > self.room {
            // Some may have been removed.
            files.bytes.retain(|file, _| cache.dirty_bytes(Scope::File(*file)) > 0);
            files.total = files.bytes.values().sum();
        }
        let is_room = files.total.saturating_add(bytes) <= self.room;
        if is_room {
            files.bytes.insert(file, bytes);
            files.total += bytes;
        } else {
            if files.sent.len() >= SENT {
                files.sent.retain(|file| cache.dirty_bytes(Scope::File(*file)) > 0);
            }
            files.sent.insert(file);
        }
        is_room
    }

    /// The file is not quarantined any more.
    pub fn forget(&self, file: FileKey) {
        let mut files = self.files.lock();
        files.sent.remove(&file);
        if let Some(bytes) = files.bytes.remove(&file) {
            files.total -= bytes;
        }
    }
}
