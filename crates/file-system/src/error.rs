use thiserror::Error;

/// What an operation of a file system can end with. Servers map each to their protocol in one place.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FsError {
    /// The mode bits or ownership forbid it (EACCES).
    #[error("permission denied")]
    AccessDenied,
    /// Only the owner or the superuser may (EPERM).
    #[error("operation not permitted")]
    NotPermitted,
    /// No such entry (ENOENT).
    #[error("no such file or directory")]
    NotFound,
    /// The id names nothing any more (ESTALE).
    #[error("the file no longer exists")]
    Stale,
    /// The entry is there already (EEXIST).
    #[error("file exists")]
    Exists,
    /// A directory was needed (ENOTDIR).
    #[error("not a directory")]
    NotDirectory,
    /// A directory is not allowed here (EISDIR).
    #[error("is a directory")]
    IsDirectory,
    /// A symbolic link is not allowed here.
    #[error("is a symbolic link")]
    IsSymlink,
    /// Neither directory nor link is meant: another kind of file was needed.
    #[error("wrong kind of file")]
    WrongKind,
    /// The directory still has entries (ENOTEMPTY).
    #[error("directory not empty")]
    NotEmpty,
    /// A value that makes no sense here (EINVAL).
    #[error("invalid argument")]
    InvalidArgument,
    /// A name with bytes that no name may have.
    #[error("invalid name")]
    BadName,
    /// Over 255 bytes (ENAMETOOLONG).
    #[error("name too long")]
    NameTooLong,
    /// Beyond the largest file (EFBIG).
    #[error("file too large")]
    TooLarge,
    /// No more hard links can be made (EMLINK).
    #[error("too many links")]
    TooManyLinks,
    /// The two files are on different volumes (EXDEV).
    #[error("files are on different volumes")]
    CrossVolume,
    /// Nothing more can be stored (ENOSPC).
    #[error("no space left")]
    NoSpace,
    /// The volume accepts no changes (EROFS).
    #[error("the volume is read-only")]
    ReadOnly,
    /// The directory cookie is not one that this directory gave out.
    #[error("bad directory cookie")]
    BadCookie,
    /// No such extended attribute.
    #[error("no such extended attribute")]
    NoXattr,
    /// An extended attribute over the limit.
    #[error("extended attribute too large")]
    XattrTooLarge,
    /// Another transaction came in between. Nothing was done; run the whole transaction again, after a few
    /// failures with [`crate::Mode::Exclusive`].
    #[error("conflict with a concurrent transaction")]
    Conflict,
    /// The data cannot be had now (clouds unreachable, cache full). Nothing was done; asking again later helps.
    #[error("not available now: {0}")]
    Unavailable(String),
    /// Data or metadata is damaged, or a device failed. The text says what and where.
    #[error("input/output error: {0}")]
    Io(String),
}

/// Result of an operation of a file system.
pub type FsResult<T> = Result<T, FsError>;
