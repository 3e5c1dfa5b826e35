use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ids::{BlockIndex, Version};

use crate::{DataOpError, FileKey};

/// Why a block could not be loaded; the loader's own error, to be downcast by whoever supplied the loader.
pub type LoadError = Arc<dyn std::error::Error + Send + Sync>;

/// What can go wrong in the cache.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CacheError {
    /// The clouds did not give the block.
    #[error("reading block {block} version {version} of {file}: {cause}")]
    Load {
        /// Of which file.
        file: FileKey,
        /// Which block.
        block: BlockIndex,
        /// Which version.
        version: Version,
        /// What the loader said.
        #[source]
        cause: LoadError,
    },

    /// Dirty data could not be read back from the journal.
    #[error("reading dirty data of {file}: {cause}")]
    Payload {
        /// Of which file.
        file: FileKey,
        /// What the journal said.
        #[source]
        cause: Arc<journal::JournalError>,
    },

    /// Dirty data was to be read back before [`Cache::connect`](crate::Cache::connect).
    #[error("reading dirty data: no journal is connected yet")]
    NotConnected,

    /// The block plan and the resolved versions do not belong together: a mistake of the caller.
    #[error("a read of {needed} blocks was given {given} versions")]
    Unresolved {
        /// Blocks that had to be looked up.
        needed: usize,
        /// Versions given.
        given: usize,
    },

    /// A block is written back in part, and the caller gave no older content to complete it.
    #[error("block {block} of {file} is only partly dirty: its stored content is needed to complete it")]
    BaseNeeded {
        /// Of which file.
        file: FileKey,
        /// Which block.
        block: BlockIndex,
    },

    /// The journal holds a data record that this version cannot read. Run the version that wrote it, flush, and
    /// then upgrade.
    #[error("the journal holds a data record that cannot be read: {0}")]
    Replay(DataOpError),

    /// The disk tier's directory cannot be used.
    #[error("cache: {what} {}: {cause}", path.display())]
    Directory {
        /// What was being done.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        cause: Arc<io::Error>,
    },

    /// The configured sizes make no sense.
    #[error("cache: {0}")]
    Config(&'static str),
}
