//! What the server says, as the error of a system call.

use fuser::Errno;
use nfs4::NfsStatus;
use nfs4_client::ClientError;

/// The result of a request of the kernel's.
pub(crate) type Answer<T> = Result<T, Errno>;

/// The error of a system call.
pub(crate) fn errno(error: &ClientError) -> Errno {
    match error {
        ClientError::Operation { status, .. } | ClientError::Refused { status } => of_status(*status),
        ClientError::Unreachable { .. } => Errno::ETIMEDOUT,
        ClientError::Closed => Errno::ENOTCONN,
        ClientError::TooLarge { .. } => Errno::E2BIG,
        _ => Errno::EIO,
    }
}

pub(crate) fn of_status(status: NfsStatus) -> Errno {
    match status {
        NfsStatus::Perm => Errno::EPERM,
        NfsStatus::NoEnt => Errno::ENOENT,
        NfsStatus::Nxio => Errno::ENXIO,
        NfsStatus::Access | NfsStatus::WrongSec | NfsStatus::ShareDenied => Errno::EACCES,
        NfsStatus::Exist => Errno::EEXIST,
        NfsStatus::Xdev => Errno::EXDEV,
        NfsStatus::NotDir => Errno::ENOTDIR,
        NfsStatus::IsDir => Errno::EISDIR,
        NfsStatus::Inval | NfsStatus::BadOwner | NfsStatus::BadName | NfsStatus::BadChar => Errno::EINVAL,
        NfsStatus::Fbig => Errno::EFBIG,
        NfsStatus::NoSpc => Errno::ENOSPC,
        NfsStatus::Rofs => Errno::EROFS,
        NfsStatus::Mlink => Errno::EMLINK,
        NfsStatus::NameTooLong => Errno::ENAMETOOLONG,
        NfsStatus::NotEmpty => Errno::ENOTEMPTY,
        NfsStatus::Dquot => Errno::EDQUOT,
        NfsStatus::Stale | NfsStatus::BadHandle | NfsStatus::FhExpired => Errno::ESTALE,
        NfsStatus::NotSupp | NfsStatus::AttrNotSupp | NfsStatus::UnionNotSupp | NfsStatus::OpIllegal => {
            Errno::EOPNOTSUPP
        }
        NfsStatus::BadType => Errno::EINVAL,
        NfsStatus::Denied | NfsStatus::Locked | NfsStatus::Delay | NfsStatus::Grace => Errno::EAGAIN,
        NfsStatus::Deadlock => Errno::EDEADLK,
        NfsStatus::FileOpen => Errno::EBUSY,
        NfsStatus::OpenMode => Errno::EBADF,
        NfsStatus::Symlink | NfsStatus::WrongType => Errno::EINVAL,
        NfsStatus::NoXattr => Errno::ENODATA,
        NfsStatus::Xattr2Big => Errno::E2BIG,
        NfsStatus::BadRange | NfsStatus::LockRange => Errno::EINVAL,
        NfsStatus::LockNotSupp => Errno::ENOLCK,
        NfsStatus::Moved => Errno::EREMOTE,
        _ => Errno::EIO,
    }
}
