//! Errors as 4.0 knows them (RFC 7530 §13.2).

use nfs4::{NfsStatus, OpCode};

/// What the operation fails with in 4.0 when its body, which is that of all minor versions, fails with `status`.
pub(super) fn of_minor0(operation: OpCode, status: NfsStatus) -> NfsStatus {
    match (operation, status) {
        // There is but one error for what is no regular file (§16.16.5).
        (OpCode::Open, NfsStatus::WrongType) => NfsStatus::Symlink,
        (_, NfsStatus::WrongType) => NfsStatus::Inval,
        (OpCode::RestoreFh, NfsStatus::NoFileHandle) => NfsStatus::RestoreFh,
        (_, status) => status,
    }
}

/// Whether an operation of an owner that ends with `status` counts (RFC 7530 §9.1.7).
pub(super) fn counts(status: NfsStatus) -> bool {
    !matches!(
        status,
        NfsStatus::StaleClientId
            | NfsStatus::StaleStateId
            | NfsStatus::BadStateId
            | NfsStatus::BadSeqId
            | NfsStatus::BadXdr
            | NfsStatus::Resource
            | NfsStatus::NoFileHandle
            | NfsStatus::Moved
    )
}
