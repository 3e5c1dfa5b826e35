use std::collections::BTreeSet;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::engine::Write;

/// Memory that a key takes beside its bytes.
const KEY: usize = 96;

/// Which rows have changed since the last backup that is safe. Noted when the engine takes the writes over, so no commit
/// waits for it.
pub(crate) struct Changes {
    state: Mutex<State>,
    /// Memory for keys.
    most: usize,
}

struct State {
    /// Since the last [`Changes::take`].
    fresh: Keys,
    /// Before that, and not stored anywhere.
    taken: Keys,
    /// Before that, stored somewhere, and not safe.
    stored: Keys,
}

/// A set of keys, or all that there are.
#[derive(Default)]
struct Keys {
    keys: BTreeSet<Bytes>,
    bytes: usize,
    /// Nobody knows which.
    any: bool,
}

impl Keys {
    fn any() -> Keys {
        Keys { any: true, ..Keys::default() }
    }

    fn insert(&mut self, key: &Bytes, most: usize) {
        if self.any || self.keys.contains(key) {
            return;
        }
        self.bytes += key.len() + KEY;
        match self.bytes > most {
            true => *self = Keys::any(),
            false => drop(self.keys.insert(key.clone())),
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        self.any || self.keys.contains(key)
    }
}

impl Changes {
    /// What an opening finds may all have changed. Without memory that stays so.
    pub fn new(most: usize) -> Changes {
        let fresh = if most == 0 { Keys::any() } else { Keys::default() };
        Changes { state: Mutex::new(State { fresh, taken: Keys::any(), stored: Keys::default() }), most }
    }

    /// The engine is about to show these.
    pub fn note<'a>(&self, writes: impl Iterator<Item = &'a Write>) {
        let mut state = self.state.lock();
        if !state.fresh.any {
            writes.for_each(|(key, _)| state.fresh.insert(key, self.most));
        }
    }

    /// All keys that have changed and are not stored, ascending; `None` when nobody knows which they are.
    pub fn take(&self) -> Option<Vec<Bytes>> {
        let mut state = self.state.lock();
        let fresh = std::mem::take(&mut state.fresh);
        match fresh.any {
            true => state.taken = Keys::any(),
            false => fresh.keys.iter().for_each(|key| state.taken.insert(key, self.most)),
        }
        if self.most == 0 {
            state.fresh = Keys::any();
        }
        (!state.taken.any).then(|| state.taken.keys.iter().cloned().collect())
    }

    /// What was taken is stored: it is not taken again.
    pub fn stored(&self) {
        let mut state = self.state.lock();
        let taken = std::mem::take(&mut state.taken);
        match taken.any {
            true => state.stored = Keys::any(),
            false => taken.keys.iter().for_each(|key| state.stored.insert(key, self.most)),
        }
    }

    /// What is stored is safe.
    pub fn saved(&self) {
        self.state.lock().stored = Keys::default();
    }

    /// Whether a row that the engine shows may have changed since what is safe.
    pub fn has(&self, key: &[u8]) -> bool {
        let state = self.state.lock();
        [&state.fresh, &state.taken, &state.stored].iter().any(|keys| keys.has(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(key: &'static str) -> Write {
        (Bytes::from_static(key.as_bytes()), None)
    }

    #[test]
    fn what_is_not_stored_is_taken_again_and_what_is_not_safe_has_changed() {
        let changes = Changes::new(1 << 20);
        assert!(changes.has(b"any") && changes.take().is_none());
        changes.saved();
        assert!(changes.has(b"any") && changes.take().is_none(), "nothing was stored");
        changes.stored();
        assert!(changes.has(b"any") && changes.take().is_some(), "stored and not safe");
        changes.saved();
        assert!(!changes.has(b"a"));
        changes.note([write("a")].iter());
        assert_eq!(changes.take(), Some(vec![Bytes::from_static(b"a")]));
        changes.note([write("b")].iter());
        assert!(changes.has(b"a") && changes.has(b"b") && !changes.has(b"c"));
        assert_eq!(changes.take().map(|keys| keys.len()), Some(2));
        changes.stored();
        changes.note([write("c")].iter());
        assert!(changes.has(b"a"));
        changes.saved();
        assert!(changes.has(b"c") && !changes.has(b"b"));
    }

    #[test]
    fn beyond_its_memory_everything_may_have_changed() {
        let changes = Changes::new(2 * (KEY + 1));
        changes.take();
        changes.stored();
        changes.saved();
        changes.note([write("a"), write("b"), write("a")].iter());
        assert!(!changes.has(b"c"));
        changes.note([write("c")].iter());
        assert!(changes.has(b"d") && changes.take().is_none());
        changes.stored();
        changes.saved();
        assert!(!changes.has(b"d"), "what was taken whole is safe");
    }
}
