//! VERIFY and NVERIFY (RFC 8881 §18.31, §18.15).

use nfs4::{NfsStatus, VerifyArgs};

use crate::compound::Compound;
use crate::failure::Failure;

/// Whether the current filehandle has exactly these attribute values. An attribute that is not supported is
/// `NFS4ERR_ATTRNOTSUPP`, one that can only be set, and `rdattr_error`, `NFS4ERR_INVAL`.
pub(super) async fn same(_cx: &mut Compound<'_>, _args: &VerifyArgs) -> Result<bool, Failure> {
    Err(NfsStatus::NotSupp.into())
}
