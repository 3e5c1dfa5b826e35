//! The volumes of a server and the directory above them.

use std::sync::Arc;

use file_system::attribute_rules::next_change;
use file_system::{Caller, FileSystem, Name};
use ids::{Timestamp, VolumeId};
use parking_lot::RwLock;

use crate::ServerError;

/// Whose requests are taken for somebody else's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Nobody's.
    #[default]
    None,
    /// Those of user 0: they become [`NOBODY`]'s.
    Root,
    /// Everybody's.
    All,
}

/// User and group of requests without a user.
pub(crate) const NOBODY: u32 = 65534;

/// A volume and how it is offered.
#[derive(Clone)]
pub struct Export {
    /// Its name in the pseudo root: `home` is mounted as `SERVER:/home`.
    pub name: String,
    /// The volume.
    pub file_system: Arc<dyn FileSystem>,
    /// Whose requests are taken for somebody else's.
    pub squash: Squash,
}

impl Export {
    /// Without squashing.
    pub fn new(name: impl Into<String>, file_system: Arc<dyn FileSystem>) -> Export {
        Export { name: name.into(), file_system, squash: Squash::None }
    }

    /// The file number of the place in the pseudo root where the volume is mounted: what its root directory would
    /// have if it were not mounted (RFC 8881 §5.8.2.23).
    pub(crate) fn mount_point(&self) -> u64 {
        let volume = self.file_system.volume().0;
        ((volume >> 64) as u64 ^ volume as u64) | MOUNT_POINTS
    }

    /// Who `caller` is on this volume.
    pub(crate) fn caller(&self, caller: &Caller) -> Caller {
        let squashed = match self.squash {
            Squash::None => false,
            Squash::Root => caller.uid == 0,
            Squash::All => true,
        };
        if squashed { nobody() } else { caller.clone() }
    }
}

/// The caller without any right but those of everybody.
pub(crate) fn nobody() -> Caller {
    Caller { uid: NOBODY, gid: NOBODY, groups: Arc::new([]) }
}

/// The file number of the pseudo root.
pub(crate) const PSEUDO_ROOT_NUMBER: u64 = 2;

/// A bit that all mount points have in their numbers, so that none has the pseudo root's.
const MOUNT_POINTS: u64 = 1 << 62;

/// What the pseudo root holds: all exports, in order of their names. Never changes; see [`ExportTable`].
pub(crate) struct Exports {
    exports: Vec<Arc<Export>>,
    changed: Timestamp,
    change: u64,
}

impl Exports {
    /// Checks the names. `change` is that of the exports before these.
    fn new(mut exports: Vec<Export>, change: u64, now: Timestamp) -> Result<Exports, ServerError> {
        exports.sort_by(|a, b| a.name.cmp(&b.name));
        for (index, export) in exports.iter().enumerate() {
            if Name::new(export.name.clone()).is_err() {
                return Err(ServerError::ExportName(export.name.clone()));
            }
            let twin = |other: &Export| {
                other.name == export.name || other.file_system.volume() == export.file_system.volume()
            };
            if exports[..index].iter().any(twin) {
                return Err(ServerError::DuplicateExport(export.name.clone()));
            }
        }
        let exports = exports.into_iter().map(Arc::new).collect();
        Ok(Exports { exports, changed: now, change: next_change(change, now) })
    }

    /// The export of a volume.
    pub fn of_volume(&self, volume: VolumeId) -> Option<&Arc<Export>> {
        self.exports.iter().find(|export| export.file_system.volume() == volume)
    }

    /// The export with this name.
    pub fn by_name(&self, name: &[u8]) -> Option<&Arc<Export>> {
        self.exports.iter().find(|export| export.name.as_bytes() == name)
    }

    /// In order of their names.
    pub fn as_slice(&self) -> &[Arc<Export>] {
        &self.exports
    }

    /// When the exports became what they are.
    pub fn changed(&self) -> Timestamp {
        self.changed
    }

    /// The pseudo root's `change`: grows with every replacement and over restarts.
    pub fn change(&self) -> u64 {
        self.change
    }
}

/// The exports of a server, replaceable while it serves. Every request sees those of its beginning to its end.
pub(crate) struct ExportTable(RwLock<Arc<Exports>>);

impl ExportTable {
    pub fn new(exports: Vec<Export>, now: Timestamp) -> Result<ExportTable, ServerError> {
        Ok(ExportTable(RwLock::new(Arc::new(Exports::new(exports, 0, now)?))))
    }

    /// The present ones.
    pub fn get(&self) -> Arc<Exports> {
        self.0.read().clone()
    }

    /// Puts others in their place.
    pub fn replace(&self, exports: Vec<Export>, now: Timestamp) -> Result<(), ServerError> {
        let mut current = self.0.write();
        *current = Arc::new(Exports::new(exports, current.change, now)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use environment::{Clock, SystemClock};
    use file_system::memory::MemoryFileSystem;

    use super::*;

    const NOW: Timestamp = Timestamp { seconds: 9, nanos: 0 };

    fn export(name: &str, volume: u128) -> Export {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Export::new(name, Arc::new(MemoryFileSystem::with(VolumeId(volume), clock)))
    }

    #[test]
    fn names_and_volumes_are_exported_once() {
        let new = |exports| ExportTable::new(exports, NOW).map(|_| ());
        assert!(new(vec![export("b", 1), export("a", 2)]).is_ok());
        assert!(matches!(new(vec![export("a", 1), export("a", 2)]), Err(ServerError::DuplicateExport(_))));
        assert!(matches!(new(vec![export("a", 1), export("b", 1)]), Err(ServerError::DuplicateExport(_))));
        for name in ["", ".", "a/b"] {
            assert!(matches!(new(vec![export(name, 1)]), Err(ServerError::ExportName(_))), "{name:?}");
        }
    }

    #[test]
    fn a_replacement_leaves_running_requests_their_exports_and_changes_the_pseudo_root() {
        let table = ExportTable::new(vec![export("b", 1), export("a", 2)], NOW).unwrap();
        let before = table.get();
        table.replace(vec![export("c", 1)], Timestamp { seconds: 3, nanos: 0 }).unwrap();
        let after = table.get();
        let names = |exports: &Exports| exports.as_slice().iter().map(|e| e.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&before), names(&after)), (vec!["a".into(), "b".into()], vec!["c".into()]));
        assert!(after.change() > before.change(), "although the clock went back");
        assert_eq!(after.of_volume(VolumeId(1)).unwrap().name, "c");
        assert!(after.by_name(b"a").is_none());
        assert!(table.replace(vec![export("", 1)], NOW).is_err());
        assert_eq!(names(&table.get()), ["c"], "nothing changed");
    }
}
