use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use journal::Lsn;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::engine::{View, Write};

/// What has been committed and is not yet in the engine's view, on top of that view.
///
/// A reader takes both under one read lock, so that it misses nothing while the applier moves writes from one to
/// the other: the applier first replaces the view by one that has the writes, then takes them out here.
pub(crate) struct Overlay {
    lock: RwLock<Layers>,
}

pub(crate) struct Layers {
    entries: BTreeMap<Bytes, (Lsn, Option<Bytes>)>,
    pub view: Arc<dyn View>,
    /// The last transaction that the view includes.
    pub viewed: Lsn,
    /// The last transaction that is visible.
    pub published: Lsn,
}

/// Entries that are removed under one lock, so that nobody waits long.
const REMOVED_AT_ONCE: usize = 256;

impl Overlay {
    pub(crate) fn new(view: Arc<dyn View>, published: Lsn) -> Overlay {
        Overlay { lock: RwLock::new(Layers { entries: BTreeMap::new(), view, viewed: published, published }) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Layers> {
        self.lock.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Layers> {
        self.lock.write()
    }

    /// The engine's view now has all writes up to `applied`, among them `writes`.
    pub(crate) fn applied<'a>(
        &self,
        view: Arc<dyn View>,
        applied: Lsn,
        writes: impl Iterator<Item = &'a Write>,
    ) {
        let old = {
            let mut layers = self.lock.write();
            layers.viewed = applied;
            std::mem::replace(&mut layers.view, view)
        };
        drop(old); // frees pages; not under the lock
        let mut writes = writes.peekable();
        while writes.peek().is_some() {
            let mut layers = self.lock.write();
            for (key, _) in writes.by_ref().take(REMOVED_AT_ONCE) {
                if let Entry::Occupied(entry) = layers.entries.entry(key.clone())
                    && entry.get().0 <= applied
                {
                    entry.remove();
                }
            }
        }
    }
}

impl Layers {
    /// `None`: ask the view. `Some(None)`: the key was removed.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.entries.get(key).map(|(_, value)| value.clone())
    }

    pub(crate) fn insert(&mut self, lsn: Lsn, (key, value): &Write) {
        self.entries.insert(key.clone(), (lsn, value.clone()));
    }

    /// Entries of a range, ascending.
    pub(crate) fn range(&self, start: &[u8], end: &[u8]) -> impl Iterator<Item = (&Bytes, &Option<Bytes>)> {
        self.entries
            .range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
            .map(|(key, (_, value))| (key, value))
    }
}
