use crate::Rival;

/// What went wrong with a backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// No cloud took it; what was tried last said why. Try again later.
    #[error("no cloud has taken the backup: {0}")]
    NoCloud(String),
    /// What is to be backed up cannot be read, or notes cannot be kept.
    #[error("{0}")]
    Source(String),
    /// Bytes that are not what they should be. Another cloud may have them right.
    #[error("damaged: {0}")]
    Damaged(&'static str),
    /// It was there a moment ago. Begin again, with an empty store.
    #[error("a part of the backup is gone that was there a moment ago")]
    Gone,
    /// Somebody else goes on with the same identity. Stop.
    #[error("{0}")]
    Rival(#[from] Rival),
    /// Made by a newer version. Use that.
    #[error("format {0} is newer than this version of Kurma")]
    Newer(u8),
}
