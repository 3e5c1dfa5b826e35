//! The volumes of a server and the directory above them.

use std::sync::Arc;

use file_system::{Caller, FileSystem, Name};
use ids::VolumeId;

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

/// All exports: the entries of the pseudo root, in order of their names.
pub(crate) struct Exports {
    exports: Vec<Export>,
}

impl Exports {
    /// Checks the names.
    pub fn new(mut exports: Vec<Export>) -> Result<Exports, ServerError> {
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
        Ok(Exports { exports })
    }

    /// The export of a volume.
    pub fn of_volume(&self, volume: VolumeId) -> Option<&Export> {
        self.exports.iter().find(|export| export.file_system.volume() == volume)
    }

    /// The export with this name.
    pub fn by_name(&self, name: &[u8]) -> Option<&Export> {
        self.exports.iter().find(|export| export.name.as_bytes() == name)
    }

    /// In order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.exports.iter()
    }
}
