//! How operations end when they do not succeed; the one place where errors of the file system become statuses.

use file_system::{FileId, FsError};
use nfs4::{ClientId, NfsStatus};

use crate::compound::Wanted;
use crate::state::{Question, Refusal};

/// Why an operation did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// For the client. The operation has changed nothing.
    Status(NfsStatus),
    /// The transaction met another one: the compound has to be run again.
    Conflict,
    /// The transaction is of another volume: it has to be committed, and the operation called again.
    OtherVolume,
    /// This client is in the way, and its lease has expired: the compound has to be taken back, the client
    /// forgotten ([`crate::shared::Shared::evict`]), the compound run again.
    Expired(ClientId),
    /// Delegations of this file are in the way, and were recalled: the compound has to be taken back, and run again
    /// when they are returned ([`crate::shared::Shared::returned`]).
    Recalled(FileId),
    /// This client did not return a delegation for writing in time: the compound has to be taken back, the delegation
    /// revoked ([`crate::shared::Shared::revoke_writer`]), the compound run again.
    Overdue(ClientId),
    /// The holder of a delegation was asked for what it has changed: the compound has to be taken back, and run again
    /// when it has answered ([`crate::shared::Shared::answered`]).
    Asked(Question),
    /// This client has no durable record yet: the compound has to be taken back, the record written
    /// ([`crate::shared::Shared::record`]), the compound run again.
    Unrecorded(ClientId),
    /// What is to be read is not near: the compound has to be taken back, this and what else it reads fetched
    /// ([`crate::compound::Compound::fetch`]), the compound run again.
    Far(Wanted),
}

impl From<NfsStatus> for Failure {
    fn from(status: NfsStatus) -> Failure {
        Failure::Status(status)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Status(status) => Failure::Status(status),
            Refusal::Expired(client) => Failure::Expired(client),
            Refusal::Recalled(file) => Failure::Recalled(file),
            Refusal::Overdue(client) => Failure::Overdue(client),
            Refusal::Asked(question) => Failure::Asked(question),
            Refusal::Unrecorded(client) => Failure::Unrecorded(client),
        }
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::Status(match error {
            FsError::Conflict => return Failure::Conflict,
            FsError::AccessDenied => NfsStatus::Access,
            FsError::NotPermitted => NfsStatus::Perm,
            FsError::NotFound => NfsStatus::NoEnt,
            FsError::Stale => NfsStatus::Stale,
            FsError::Exists => NfsStatus::Exist,
            FsError::NotDirectory => NfsStatus::NotDir,
            FsError::IsDirectory => NfsStatus::IsDir,
            FsError::IsSymlink => NfsStatus::Symlink,
            FsError::WrongKind => NfsStatus::WrongType,
            FsError::NotEmpty => NfsStatus::NotEmpty,
            FsError::InvalidArgument => NfsStatus::Inval,
            FsError::BadName => NfsStatus::BadName,
            FsError::NameTooLong => NfsStatus::NameTooLong,
            FsError::TooLarge => NfsStatus::Fbig,
            FsError::TooManyLinks => NfsStatus::Mlink,
            FsError::CrossVolume => NfsStatus::Xdev,
            FsError::NoSpace => NfsStatus::NoSpc,
            FsError::ReadOnly => NfsStatus::Rofs,
            FsError::BadCookie => NfsStatus::BadCookie,
            FsError::NoXattr => NfsStatus::NoXattr,
            FsError::XattrTooLarge => NfsStatus::Xattr2Big,
            FsError::Unavailable(reason) => {
                tracing::debug!(reason, "asked the client to come again later");
                NfsStatus::Delay
            }
            FsError::Io(reason) => {
                tracing::error!(reason, "input/output error");
                NfsStatus::Io
            }
        })
    }
}
