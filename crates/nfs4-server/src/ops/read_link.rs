//! READLINK (RFC 8881 §18.24).

use nfs4::{LinkText, NfsStatus};

use crate::compound::Compound;
use crate::failure::Failure;

/// The target of the current filehandle; `NFS4ERR_WRONG_TYPE` if it is no link.
pub(super) async fn run(_cx: &mut Compound<'_>) -> Result<LinkText, Failure> {
    Err(NfsStatus::NotSupp.into())
}
