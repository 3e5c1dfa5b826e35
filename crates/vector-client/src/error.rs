use nfs4::NfsStatus;
use nfs4_client::ClientError;

use crate::{Descriptor, Target};

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server said no.
    #[error("{target}: {}", message(*status))]
    Refused {
        /// To what.
        target: Target,
        /// Its status.
        status: NfsStatus,
    },
    /// The local file system said no.
    #[error("{target}: {error}")]
    Local {
        /// To what.
        target: Target,
        /// What it said.
        error: std::io::Error,
    },
    /// More symbolic links on the way than anybody should need.
    #[error("{0}: too many levels of symbolic links")]
    TooManyLinks(Target),
    /// The file is not open, or not so that this could be done.
    #[error("{0} is not open for this; open the file again")]
    NotOpen(Descriptor),
    /// A part of a request that makes no sense.
    #[error("{target}: {what}")]
    Invalid {
        /// For what.
        target: Target,
        /// What is wrong, and what to do.
        what: &'static str,
    },
    /// Data that was written, but not safely, was lost in a restart of the server: write it again.
    #[error("{0}: the server restarted and has lost data that was not safe yet; write it again")]
    DataLost(Target),
    /// What the server was asked to do all or nothing is more than it can do in one; nothing was done.
    #[error("a transaction of {needed} {unit} is too big: at most {limit} are granted; nothing was done")]
    TooBig {
        /// Operations or bytes.
        unit: &'static str,
        /// How much this transaction has.
        needed: u64,
        /// How much may be.
        limit: u64,
    },
    /// The server, or this kind of file, cannot do that.
    #[error("{0} cannot be done here")]
    Unsupported(&'static str),
    /// The connection, or the server, failed. If the step would have changed something, nobody knows whether it did.
    #[error("no answer from the server: {0}")]
    Connection(#[from] ClientError),
}

impl Error {
    /// The error number that the C library has for it (`errno`), as on Linux.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Refused { status, .. } => errno(*status),
            Error::Local { error, .. } => error.raw_os_error().unwrap_or(5),
            Error::TooManyLinks(_) => 40,
            Error::NotOpen(_) => 9,
            Error::Invalid { .. } => 22,
            Error::DataLost(_) | Error::Connection(_) => 5,
            Error::TooBig { .. } => 7,
            Error::Unsupported(_) => 95,
        }
    }

    /// The same, said of what the caller knows the file by.
    pub(crate) fn of(mut self, known_as: &Target) -> Error {
        if let Error::Refused { target, .. }
        | Error::Local { target, .. }
        | Error::Invalid { target, .. }
        | Error::TooManyLinks(target)
        | Error::DataLost(target) = &mut self
        {
            *target = known_as.clone();
        }
        self
    }

    /// Whether it says that there is no such file.
    pub fn is_not_found(&self) -> bool {
        self.errno() == 2
    }

    /// Whether nobody knows what became of the request: its answer was lost, or makes no sense.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Error::Connection(error) if is_unknown(error))
    }

    /// Whether it says that there is such a file already.
    pub fn is_exists(&self) -> bool {
        self.errno() == 17
    }
}

/// Whether nobody knows what became of the request.
pub(crate) fn is_unknown(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Unknown
            | ClientError::Malformed(_)
            | ClientError::MalformedAttributes(_)
            | ClientError::UnexpectedResult { .. }
    )
}

/// What came of a list of steps of which one failed: those before it are done, those after it were not begun. Only where a commit
/// or a close says that data was lost ([`Error::DataLost`]), further ones that followed it may be done: their files are closed, then.
#[derive(Debug)]
pub struct Failure<T> {
    /// The results of the steps before the failed one; their number is its place in the list.
    pub done: Vec<T>,
    /// Why the step after them failed.
    pub error: Error,
    /// How many steps from the failed one on may have been done, nobody knows: the answer of the server was lost. 0
    /// if the failed step is known to have failed, and nothing after it was begun.
    pub unknown: usize,
}

impl<T> Failure<T> {
    /// The place of the failed step.
    pub fn index(&self) -> usize {
        self.done.len()
    }

    /// With other results.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Failure<U> {
        let Failure { done, error, unknown } = self;
        Failure { done: done.into_iter().map(change).collect(), error, unknown }
    }
}

impl<T> std::fmt::Display for Failure<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.unknown {
            0 => self.error.fmt(f),
            unknown => write!(f, "{} ({unknown} steps may have been done or not)", self.error),
        }
    }
}

impl<T: std::fmt::Debug> std::error::Error for Failure<T> {}

/// What comes of a vector call.
pub type VectorResult<T> = Result<Vec<T>, Failure<T>>;

/// Status, `errno` on Linux, and the words of the C library.
const ERRNOS: &[(NfsStatus, i32, &str)] = &[
    (NfsStatus::Perm, 1, "Operation not permitted"),
    (NfsStatus::NoEnt, 2, "No such file or directory"),
    (NfsStatus::Io, 5, "Input/output error"),
    (NfsStatus::Nxio, 6, "No such device or address"),
    (NfsStatus::Access, 13, "Permission denied"),
    (NfsStatus::Exist, 17, "File exists"),
    (NfsStatus::Xdev, 18, "Invalid cross-device link"),
    (NfsStatus::NotDir, 20, "Not a directory"),
    (NfsStatus::IsDir, 21, "Is a directory"),
    (NfsStatus::Inval, 22, "Invalid argument"),
    (NfsStatus::Fbig, 27, "File too large"),
    (NfsStatus::NoSpc, 28, "No space left on device"),
    (NfsStatus::Rofs, 30, "Read-only file system"),
    (NfsStatus::Mlink, 31, "Too many links"),
    (NfsStatus::NameTooLong, 36, "File name too long"),
    (NfsStatus::NotEmpty, 39, "Directory not empty"),
    (NfsStatus::Dquot, 122, "Disk quota exceeded"),
    (NfsStatus::Stale, 116, "Stale file handle"),
    (NfsStatus::FhExpired, 116, "Stale file handle"),
    (NfsStatus::BadHandle, 116, "Stale file handle"),
    (NfsStatus::NotSupp, 95, "Operation not supported"),
    (NfsStatus::OpIllegal, 95, "Operation not supported"),
    (NfsStatus::AttrNotSupp, 95, "Operation not supported"),
    (NfsStatus::Symlink, 40, "Too many levels of symbolic links"),
    (NfsStatus::BadName, 22, "Invalid argument"),
    (NfsStatus::BadChar, 84, "Invalid or incomplete multibyte or wide character"),
    (NfsStatus::BadOwner, 22, "Invalid argument"),
    (NfsStatus::WrongType, 22, "Invalid argument"),
    (NfsStatus::ShareDenied, 16, "Device or resource busy"),
    (NfsStatus::FileOpen, 16, "Device or resource busy"),
    (NfsStatus::Locked, 11, "Resource temporarily unavailable"),
    (NfsStatus::Denied, 11, "Resource temporarily unavailable"),
    (NfsStatus::Delay, 11, "Resource temporarily unavailable"),
    (NfsStatus::OpenMode, 9, "Bad file descriptor"),
    (NfsStatus::WrongSec, 1, "Operation not permitted"),
    (NfsStatus::NoXattr, 61, "No data available"),
    (NfsStatus::Xattr2Big, 7, "Argument list too long"),
];

fn errno(status: NfsStatus) -> i32 {
    ERRNOS.iter().find(|(known, ..)| *known == status).map_or(5, |(_, errno, _)| *errno)
}

fn message(status: NfsStatus) -> String {
    match ERRNOS.iter().find(|(known, ..)| *known == status) {
        Some((.., text)) => (*text).to_owned(),
        None => format!("the server says {}", status.name()),
    }
}
