use cache::CacheError;
use file_system::FsError;
use ids::{GatewayId, ObjectId};
use meta::MetaError;
use seal::OpenError;

use crate::row::BadRow;
use crate::volume::is_superseded;

/// What can go wrong with volumes, apart from what [`FsError`] tells the users of files.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The metadata store failed.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// A row does not decode.
    #[error("metadata: the row of {what} is damaged ({cause}); restore the store from a backup")]
    Damaged {
        /// Whose row.
        what: String,
        /// What is wrong.
        #[source]
        cause: BadRow,
    },
    /// A row is missing that another one refers to.
    #[error("metadata: the row of {what} is missing; run `kurma meta check`")]
    Missing {
        /// Whose row.
        what: String,
    },
    /// More versions of the blocks of one part of a file are shared than books are kept of.
    #[error(
        "too many versions of blocks of object {object} are shared already; copy the file in the place of cloning it"
    )]
    TooManyShares {
        /// Whose blocks.
        object: ObjectId,
    },
    /// The store was written by a newer version.
    #[error(
        "the metadata store has schema {found}, this version knows schemas up to {known}; run the newer version"
    )]
    NewerSchema {
        /// Its schema.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// The store was written by an older version.
    #[error(
        "the metadata store has schema {found}, this version knows schemas from {known} on; run the version that made it, copy \
         the files elsewhere, and start with empty folders and clouds"
    )]
    OlderSchema {
        /// Its schema.
        found: u32,
        /// The one that is known here.
        known: u32,
    },
    /// The store was made by another gateway.
    #[error(
        "the metadata store belongs to gateway {found}, this is gateway {own}; use the configuration and keys it was made with"
    )]
    OtherGateway {
        /// The store's.
        found: GatewayId,
        /// The configured one.
        own: GatewayId,
    },
    /// A key does not open.
    #[error("the {what} cannot be opened: {cause}")]
    Key {
        /// Which key.
        what: String,
        /// What is wrong.
        #[source]
        cause: OpenError,
    },
    /// The key of a file was destroyed.
    #[error("the key of object {object} was shredded: nothing of it can be read any more")]
    Shredded {
        /// Whose key.
        object: ObjectId,
    },
    /// Nothing at a path.
    #[error("there is no file or directory {0:?} in the volume")]
    NoFile(String),
    /// More files than are shredded at once.
    #[error("there are more than {files} files; shred them by parts, or the whole volume")]
    TooMuchToShred {
        /// How many there may be.
        files: usize,
    },
    /// A file whose fragments anybody can read.
    #[error(
        "object {object}, or what the clouds still have of it, is protected by integrity alone: clouds can read it without a key, so that destroying its key hides nothing. Remove it; or, if it has moved to another policy, wait until the garbage of the old one is collected"
    )]
    NotSealed {
        /// Which file.
        object: ObjectId,
    },
    /// A file that is sealed under the key of its volume.
    #[error(
        "object {object}, or what the clouds still have of it, is stored by caont-rs, which seals equal blocks under one key of the whole volume: a file alone cannot be shredded. Shred the volume; or, if it has moved to another policy, wait until the garbage of the old one is collected; or remove the file and trust the clouds to delete it"
    )]
    SharedKey {
        /// Which file.
        object: ObjectId,
    },
    /// A key that should have been destroyed.
    #[error("the key of epoch {epoch} is still there, and should not be")]
    OldKey {
        /// Of which epoch.
        epoch: u32,
    },
    /// A name that could not be removed after its file's key was destroyed.
    #[error("{name:?} could not be removed: {cause}; the keys are destroyed all the same, remove it by hand")]
    NotRemoved {
        /// Which name.
        name: String,
        /// What was wrong.
        cause: String,
    },
    /// No volume of that name or id.
    #[error("there is no volume {0:?}")]
    NoVolume(String),
    /// The name is taken.
    #[error("there is a volume {0:?} already")]
    VolumeExists(String),
    /// Not a name for a volume.
    #[error(
        "{0:?} is not a volume name: use 1 to 64 letters, digits, '-', '_' or '.', not beginning with '.'"
    )]
    BadVolumeName(String),
    /// A volume that still has files.
    #[error("the volume {0:?} is not empty; remove its files first or force it")]
    VolumeNotEmpty(String),
    /// No directory of that path.
    #[error(
        "there is no directory {0:?} in the volume; name one from the root of the volume, parts separated by '/'"
    )]
    NoDirectory(String),
    /// As many directories with policies of their own as there may be.
    #[error(
        "{0} directories of the volume have policies of their own, and no more can; let some follow the one above them"
    )]
    TooManyDirectories(usize),
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl From<VolumeError> for FsError {
    fn from(error: VolumeError) -> FsError {
        match error {
            VolumeError::Meta(MetaError::Conflict) => FsError::Conflict,
            // A block that others keep rewriting. What the clouds do not give is an error: a client that is asked to
            // come again would hang for as long as they are away.
            VolumeError::Cache(CacheError::Load { ref cause, .. }) if is_superseded(cause) => {
                FsError::Unavailable(error.to_string())
            }
            VolumeError::TooManyShares { .. } => FsError::NoSpace,
            // A clone or a cut of more than one record can describe.
            VolumeError::Meta(MetaError::TooLarge { .. }) => FsError::TooLarge,
            other => FsError::Io(other.to_string()),
        }
    }
}

/// For `?` in operations of file systems.
pub(crate) fn meta_error(error: MetaError) -> FsError {
    VolumeError::Meta(error).into()
}
