//! SECINFO and SECINFO_NO_NAME (RFC 8881 §18.29, §18.45).

use nfs4::{NfsStatus, SecInfo, SecInfoArgs, SecInfoStyle};

use crate::compound::Compound;
use crate::failure::Failure;

/// The ways to authenticate for what the name leads to. Consumes the current filehandle.
pub(super) async fn of_name(_cx: &mut Compound<'_>, _args: &SecInfoArgs) -> Result<Vec<SecInfo>, Failure> {
    Err(NfsStatus::NotSupp.into())
}

/// The same for the current filehandle or its parent. Consumes the current filehandle.
pub(super) async fn without_name(_cx: &mut Compound<'_>, _style: SecInfoStyle) -> Result<Vec<SecInfo>, Failure> {
    Err(NfsStatus::NotSupp.into())
}
