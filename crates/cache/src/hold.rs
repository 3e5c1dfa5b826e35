use ids::VolumeId;
use journal::Lsn;

use crate::FileKey;
use crate::dirty::Dirty;
use crate::queue::Lane;

/// Why the dirty data of a file is kept from write-back, as a whole: also what becomes dirty meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Somebody will let it through: a flush waits for it.
    Waiting,
    /// It stays here until somebody decides otherwise: a flush does not wait for it.
    Kept,
}

impl Hold {
    pub(crate) fn lane(self) -> Lane {
        match self {
            Hold::Waiting => Lane::Waiting,
            Hold::Kept => Lane::Kept,
        }
    }
}

/// Dirty data that is kept from write-back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// Files on [`Hold::Waiting`].
    pub waiting_files: u64,
    /// Their dirty bytes.
    pub waiting_bytes: u64,
    /// Files on [`Hold::Kept`].
    pub kept_files: u64,
    /// Their dirty bytes.
    pub kept_bytes: u64,
}

impl Dirty {
    /// Keeps a file from write-back; one without dirty data is left alone.
    pub fn hold_back(&self, file: FileKey, hold: Hold) {
        self.change_hold(file, Some(hold), Lsn::ZERO);
    }

    /// Ends a hold; what records up to `up_to` brought may pass.
    pub fn let_through(&self, file: FileKey, up_to: Lsn) {
        self.change_hold(file, None, up_to);
    }

    /// What [`Dirty::let_through`] was told of the file.
    pub fn passes_up_to(&self, file: FileKey) -> Lsn {
        self.look_at(file, |dirty| dirty.passes_up_to).unwrap_or(Lsn::ZERO)
    }

    /// Whether somebody waits for dirty data of the file.
    pub fn is_waited_for(&self, file: FileKey) -> bool {
        let is_urgent = self.look_at(file, |dirty| {
            dirty.blocks.values().any(|state| state.bytes > 0 && state.urgent >= state.oldest)
        });
        is_urgent.unwrap_or(false)
    }

    /// What is kept from write-back of a volume. Looks at every file with dirty data.
    pub fn held_back(&self, volume: VolumeId) -> HeldBack {
        let mut held = HeldBack::default();
        self.for_each_file(|file, dirty| {
            let (files, bytes) = match dirty.hold {
                Some(Hold::Waiting) => (&mut held.waiting_files, &mut held.waiting_bytes),
                Some(Hold::Kept) => (&mut held.kept_files, &mut held.kept_bytes),
                None => return,
            };
            if file.volume == volume {
                *files += 1;
                *bytes += dirty.bytes;
            }
        });
        held
    }
}
